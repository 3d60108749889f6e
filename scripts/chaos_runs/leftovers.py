"""What a run has left behind that it should not have."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from leasefs.testing.chaos.history import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos_runs.world import World

_WITHIN_S = 15.0
# Locked or not, a lock's file stays where it is.
_LOCK_OF_THE_LEDGER = "ledger.lock"
# A git that an agent ran leaves its own behind when its mount dies under it: of the index, of HEAD, of its branch.
_LOCKS_OF_OURS = ("config.lock", "packed-refs.lock")


def leftovers(world: World) -> Iterator[Violation]:
    """Processes, mounts, sockets, locks, journals."""
    until_s = time.monotonic() + _WITHIN_S
    while (found := list(processes(world.root))) and time.monotonic() < until_s:
        time.sleep(0.1)
    for shown in [*found, *_mounts(world), *_files(world)]:
        yield Violation("left behind", (shown,))


def processes(root: str) -> Iterator[str]:
    """Those that were started in this run's environment."""
    mark = f"CHAOS_RUN={root}".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                ours = mark in file.read().split(b"\0")
            if ours:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    command = file.read().replace(b"\0", b" ").decode(errors="replace")
                yield f"process {entry}: {command}"
        except OSError:
            continue


def _mounts(world: World) -> Iterator[str]:
    disks = {world.journal_disk.place, world.store_disk.place}
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            place = line.split(" ")[4]
            if place.startswith(f"{world.root}/") and place not in disks:
                yield f"mount {line.strip()}"


def _files(world: World) -> Iterator[str]:
    for directory, wanted in (("r", ".sock"), ("r", ".json"), ("s", ".sock"), ("c", "")):
        for at, _, names in os.walk(world.at(directory)):
            found = (
                name for name in names if name.endswith(wanted) and name != _LOCK_OF_THE_LEDGER
            )
            yield from (f"file {at}/{name}" for name in found)
    for at, _, names in os.walk(world.at("s/leasefs/journals")):
        yield from (f"journal {at}/{name}" for name in names)
    for at, _, names in os.walk(os.path.join(world.source("shared"), ".git")):
        for name in names:
            if name in _LOCKS_OF_OURS or (name.endswith(".lock") and "refs/leasefs" in at):
                yield f"lock {at}/{name}"
