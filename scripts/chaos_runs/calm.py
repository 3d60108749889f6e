"""After a storm: everything works again, everybody who waits is served, and the ledger knows what git knows."""

from __future__ import annotations

import contextlib
import glob
import os
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

from chaos_runs.world import DRAFT
from leasefs.client import api
from leasefs.client.blocking import Link
from leasefs.client.trees import tree_id
from leasefs.core.errors import LeasefsError
from leasefs.testing.chaos.history import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chaos_runs.storm import Storm
    from chaos_runs.world import World

Paths = frozenset[tuple[str, str]]
_WITHIN_S = 60.0


def calm(storm: Storm) -> Iterator[Violation]:
    """Bring everything back; yields what does not come."""
    if not storm.ledger.wait_for(_WITHIN_S):
        yield Violation("the ledger does not come back", (storm.ledger.said,))
    for agent in storm.agents.values():
        agent.finish()
        agent.tell_to_stop()
    for mount in storm.mounts.values():
        if not mount.wait_for(_WITHIN_S) or not _soon(mount.answers, 20.0):
            pid = mount.process.pid if mount.process is not None else 0
            yield Violation("a mount does not come back", (mount.name, mount.said, *where(pid)))
    for agent in storm.agents.values():
        if not agent.wait_for_end(_WITHIN_S):
            pid = agent.process.pid if agent.process is not None else 0
            yield Violation("an agent hangs", (agent.name, *where(pid)))
    yield from _probe(storm)
    if not _soon(lambda: not waiting(storm), 30.0):
        yield from (Violation("a lost waiter", (shown,)) for shown in waiting(storm))


def _probe(storm: Storm) -> Iterator[Violation]:
    probes = {name: agent.probe(_WITHIN_S) for name, agent in storm.agents.items()}
    for name, child in probes.items():
        try:
            code = child.wait(_WITHIN_S)
        except subprocess.TimeoutExpired:
            yield Violation("a mount cannot be used again", (f"{name} waits", *where(child.pid)))
            child.kill()
            continue
        if code:
            log = storm.world.at(f"log/agent-{name}.log")
            yield Violation(
                "a mount cannot be used again", (f"{name}: see its last acts, and {log}",)
            )


def waiting(storm: Storm) -> list[str]:
    """The claims in the queue."""
    try:
        waiters = Link(f"unix:{storm.ledger.socket}").send(api.queue())["waiters"]
    except LeasefsError as error:
        return [f"the queue cannot be read: {error.message}"]
    return [f"{one['lease']} of {one['agent']} for {one['globs']}" for one in waiters]


class Uncommitted(NamedTuple):
    """What differs from HEAD, what the ledger has intents of, and what rescues name."""

    dirty: Paths
    intents: Paths
    rescued: Paths

    def agree(self) -> bool:
        """Whether nothing is unknown, and nothing known that is not."""
        return self.intents <= self.dirty <= self.intents | self.rescued


def uncommitted(storm: Storm) -> Uncommitted:
    """As git and the ledger know it, once they agree or do not come to."""
    world, link = storm.world, Link(f"unix:{storm.ledger.socket}")
    until_s = time.monotonic() + 40.0
    while True:
        found = Uncommitted(
            frozenset(_dirty(world)),
            frozenset(_intents(world, link)),
            frozenset(_rescued(world, link)),
        )
        if found.agree() or time.monotonic() > until_s:
            return found
        time.sleep(0.3)


def _rescued(world: World, link: Link) -> Iterator[tuple[str, str]]:
    trees = {world.source(tree): tree for tree in world.trees()}
    for one in link.send(api.rescues("chaos"))["rescues"]:
        if one["root"] in trees:
            yield from ((trees[one["root"]], name) for name in one["names"])


def _dirty(world: World) -> Iterator[tuple[str, str]]:
    for tree in world.trees():
        world.git(tree, "update-index", "-q", "--refresh", check=False)
        names = world.git(tree, "diff", "--no-renames", "--name-only", "-z", "HEAD")
        names += world.git(tree, "ls-files", "-o", "--exclude-standard", "-z")
        for name in names.split(b"\0"):
            path = os.fsdecode(name)
            if path and not DRAFT.search(path):
                yield tree, path


def _intents(world: World, link: Link) -> Iterator[tuple[str, str]]:
    for tree in world.trees():
        fd = os.open(world.source(tree), os.O_RDONLY | os.O_DIRECTORY)
        try:
            call = api.intents("chaos", tree=tree_id(fd), state="dirty")
        finally:
            os.close(fd)
        for one in link.send(call)["intents"]:
            if not DRAFT.search(one["path"]):
                yield tree, one["path"]


def where(pid: int) -> list[str]:
    """Where the threads of a process that hangs are."""
    found = []
    for place in sorted(glob.glob(f"/proc/{pid}/task/*/stack")):
        with contextlib.suppress(OSError), open(place, encoding="ascii") as file:
            found.append(f"{place}: {' '.join(file.read().split()[1::2])}")
    return found


def _soon(condition: Callable[[], bool], within_s: float) -> bool:
    until_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > until_s:
            return False
        time.sleep(0.2)
    return True
