"""Foreign writes in tests: a tree with a git directory, an agent's mount over it, and what the ledger was told."""

from __future__ import annotations

import mmap
import os
import random
import shutil
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from leasefs.client import api
from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from leasefs.testing.agents import Agent


PROBE = "probe-of-the-test"


class Told(NamedTuple):
    """One foreign write as it stands in the ledger's history."""

    path: str
    what: str
    holder: str
    reporter: str


def told_of(agent: Agent) -> list[Told]:
    """All foreign writes in the history, oldest first, those of probes included."""
    found: list[Told] = []
    after = 0
    while True:
        page = agent.ledger.send(api.events(after=after, types=["foreign-writes"], limit=100))
        for one in page["events"]:
            event = one["event"]
            found += [
                Told(c["path"], c["what"], (c["holder"] or {}).get("lease", ""), event["agent"])
                for c in event["changes"]
            ]
        after = page["next"]
        if after >= page["head"]:
            return found


def events_lost(agent: Agent) -> bool:
    """Whether the ledger was told that the kernel dropped events."""
    page = agent.ledger.send(api.events(types=["foreign-writes"]))
    return any(one["event"]["events_lost"] for one in page["events"])


def until_covered(agent: Agent, source: str) -> None:
    """Return once this mount watches each directory of its tree: a file made there now is told of by it.

    It holds the probes meanwhile, so that no other mount of the tree tells of them; and nothing else, for what
    changes within a quarter of a second after a lease of another mount is put to that lease (docs/THREATS.md).
    """
    name = f"{PROBE}-{agent.about['agent']}"
    probes = {
        os.path.relpath(os.path.join(above, name), source)
        for above, _, _ in os.walk(source)
        if "/.git" not in above
    }
    lease = agent.claim(*probes)
    for probe in probes:
        Path(source, probe).write_text("")
    eventually(
        lambda: probes <= {one.path for one in told_of(agent)},
        what="the mount's knowledge of its tree",
    )
    agent.release(lease)


class ForeignChanges(threading.Thread):
    """Changes a tree beside all mounts, in a thread; `made` is what a report is to say of each path."""

    def __init__(self, source: str, count: int, seed: int, within_s: float) -> None:
        """`source` has files `theirs/D/fN`; every one is changed once, in one of some ways, in about `within_s`."""
        super().__init__(name="foreign changes")
        self._source = source
        self._random = random.Random(seed)  # noqa: S311 - no secrets
        self._count = count
        self._pause_s = within_s / count
        self.made: dict[str, str] = {}

    def run(self) -> None:
        """Make them all."""
        acts = (self._create, self._modify, self._remove, self._chmod, self._replace)
        for at in range(self._count):
            path = f"theirs/{at % 20}/f{at}"
            self.made.update(self._random.choice(acts)(path))
            self._pause()

    def _pause(self) -> None:
        # So that they come while the mount is at work, not all before it begins.
        threading.Event().wait(self._random.random() * 2 * self._pause_s)

    def _at(self, path: str) -> str:
        return os.path.join(self._source, path)

    def _create(self, path: str) -> dict[str, str]:
        Path(self._at(path + "-new")).write_text("theirs")
        return {path + "-new": "created"}

    def _modify(self, path: str) -> dict[str, str]:
        with open(self._at(path), "ab") as file:
            file.write(b"theirs")
        return {path: "modified"}

    def _remove(self, path: str) -> dict[str, str]:
        os.unlink(self._at(path))
        return {path: "deleted"}

    def _chmod(self, path: str) -> dict[str, str]:
        os.chmod(self._at(path), 0o711)  # noqa: S103 - a mode like any other
        return {path: "mode"}

    def _replace(self, path: str) -> dict[str, str]:
        draft = self._at(path + ".draft")
        Path(draft).write_text("theirs")
        os.rename(draft, self._at(path))
        return {path: "modified"}


def make_files(source: str, count: int) -> None:
    """The files that `ForeignChanges` changes, and a git directory."""
    for at in range(count):
        path = Path(source, f"theirs/{at % 20}/f{at}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("old")


class Writer:
    """An agent at work below `ours/` of its mount: in all the ways in which files are changed."""

    def __init__(self, root: str, seed: int) -> None:
        self._root = f"{root}/ours"
        self._random = random.Random(seed)  # noqa: S311 - no secrets
        self._open: list[IO[bytes]] = []
        os.makedirs(self._root, exist_ok=True)

    def write(self, count: int) -> None:
        """Make that many files, and do something with nearly each."""
        acts = (
            self._move,
            self._remove,
            self._save,
            self._append,
            self._link,
            self._map,
            self._keep_open,
            self._write_again,
            self._attributes,
            self._swap_file,
            self._overwrite_an_earlier_one,
            self._move_a_directory,
        )
        for at in range(count):
            directory = f"{self._root}/{at % 37}"
            os.makedirs(directory, exist_ok=True)
            path = f"{directory}/g{at}"
            Path(path).write_text("ours")
            self._random.choice(acts)(path)
        for file in self._open:
            file.close()

    def _move(self, path: str) -> None:
        os.rename(path, path + "-moved")

    def _remove(self, path: str) -> None:
        os.unlink(path)

    def _save(self, path: str) -> None:
        Path(path + ".tmp").write_text("ours, saved")
        os.replace(path + ".tmp", path)

    def _append(self, path: str) -> None:
        with open(path, "a", encoding="ascii") as file:
            file.write("more")
        os.chmod(path, 0o700)

    def _link(self, path: str) -> None:
        os.link(path, path + "-linked")
        with open(path + "-linked", "r+b") as linked, open(path, "r+b") as file:
            file.write(b"both")
            linked.seek(0)

    def _map(self, path: str) -> None:
        os.truncate(path, 8192)
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 8192) as mapped:
            mapped[4000:4100] = b"m" * 100

    def _keep_open(self, path: str) -> None:
        self._open.append(open(path, "r+b"))  # noqa: SIM115 - kept open
        if len(self._open) > 20:
            self._open.pop(0).close()

    def _write_again(self, path: str) -> None:
        for file in self._open[:3]:
            file.write(b"again")
            file.flush()

    def _attributes(self, path: str) -> None:
        os.utime(path, (1, 1))
        os.truncate(path, 1)
        os.setxattr(path, "user.ours", b"1")

    def _swap_file(self, path: str) -> None:
        directory, name = os.path.split(path)
        Path(f"{directory}/.{name}.swp").write_text("draft")
        if self._random.random() < 0.5:
            os.unlink(f"{directory}/.{name}.swp")

    def _overwrite_an_earlier_one(self, path: str) -> None:
        Path(os.path.dirname(path), "often").write_text(path)

    def _move_a_directory(self, path: str) -> None:
        os.makedirs(path + ".d/sub")
        Path(path + ".d/sub/file").write_text("ours")
        os.rename(path + ".d", path + ".e")
        Path(path + ".e/sub/more").write_text("ours")
        shutil.rmtree(path + ".e/sub")
