"""Git's status through mounts, with the hook and without it, over random histories: never a difference.

Things happen through a mount, through another one of the same tree, and beneath them; daemons are killed and
come again. After each step the hook's answer is compared with a status that looks at everything.
A failure names its seed and what was done last.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.mount_trees import environment
from leasefs.testing.mounted import mounted
from leasefs.testing.tree_acts import TreeActs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from leasefs.testing.mounted import Mounted

pytestmark = [pytest.mark.mount, pytest.mark.root]

STATUS = ("status", "--porcelain=v2", "-z")
PLAIN = ("-c", "core.fsmonitor=", "-c", "core.untrackedCache=false")


Done = subprocess.CompletedProcess[bytes]


def git(root: str, *arguments: str, plain: bool = False) -> Done:
    # A status without the hook would take the hook's token out of the index.
    more = {"GIT_OPTIONAL_LOCKS": "0"} if plain else {}
    return subprocess.run(
        ["git", *(PLAIN if plain else ()), *arguments],
        cwd=root,
        env={**environment(), **more},
        capture_output=True,
        check=False,
    )


class Mount:
    """A mount that may die and come again."""

    def __init__(self, source: str, root: str, *flags: str) -> None:
        self.source, self.root, self._flags = source, root, flags
        self._life = ExitStack()
        self._child: Mounted | None = None

    def start(self) -> None:
        flags = ("--lease", "**", "--fsmonitor", *self._flags)
        child = mounted(self.source, self.root, *flags, ends_well=False)
        self._child = self._life.enter_context(child)

    def end(self, number: int) -> int:
        assert self._child is not None
        self._child.process.send_signal(number)
        code = self._child.process.wait(timeout=20)
        self._life.close()
        return code


class History:
    """A tree, its mounts, and everybody who changes it."""

    def __init__(self, place: Path, seed: int, mounts: int, flags: tuple[str, ...]) -> None:
        """Without `mounts` there is one in place."""
        self.chance = random.Random(seed)
        self.done: list[str] = []
        self.source = str(place / "tree")
        outside = str(place / "outside")
        for path in (self.source, outside):
            os.mkdir(path)
        self._plant()
        self.config = self._config()
        self._beneath_fd = os.open(self.source, os.O_PATH | os.O_DIRECTORY)
        roots = [str(place / f"mount{number}") for number in range(mounts)] or [self.source]
        for root in roots:
            os.makedirs(root, exist_ok=True)
        self.mounts = [Mount(self.source, root, *flags) for root in roots]
        self.in_place = not mounts
        self.through = [self._acts(root) for root in roots]
        self.beneath = self._acts(
            f"/proc/self/fd/{self._beneath_fd}" if self.in_place else self.source
        )

    def _plant(self) -> None:
        git(self.source, "init", "-q", "-b", "main")
        for path in ("a/a", "a/b/c", "b/a/a", "b/A", "c"):
            full = os.path.join(self.source, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(path)
        for _ in range(2):
            git(self.source, "add", "-A")
            git(self.source, "commit", "-q", "--allow-empty", "-m", "x")

    def _acts(self, root: str) -> TreeActs:
        outside = os.path.join(os.path.dirname(self.source), "outside")
        return TreeActs(root, self.chance, self.done, outside)

    def _config(self) -> bytes:
        with open(os.path.join(self.source, ".git/config"), "rb") as file:
            return file.read()

    @contextmanager
    def mounted(self) -> Iterator[None]:
        try:
            for mount in self.mounts:
                mount.start()
            yield
        finally:
            codes = [mount.end(signal.SIGTERM) for mount in self.mounts]
            os.close(self._beneath_fd)
        assert not any(codes)
        assert self._config() == self.config

    # -- what happens --------------------------------------------------------------------------

    def step(self) -> None:
        choice = self.chance.random()
        if choice < 0.5:
            self.act_through()
        elif choice < 0.9:
            self.act_beneath()
        elif choice < 0.97:
            self.act_meanwhile()
        else:
            self.die_and_come_again()

    def act_through(self) -> None:
        at = self.chance.randrange(len(self.through))
        self.done.append(f"[{at}]")
        acts = self.through[at]
        acts.step(acts.by_hand() + acts.with_git())

    def act_beneath(self) -> None:
        self.done.append("[beneath]")
        git_too = [] if self.in_place else self.beneath.with_git()
        self.beneath.step(self.beneath.by_hand() + git_too)

    def act_meanwhile(self) -> None:
        """Others go on while git looks."""
        self.done.append("[meanwhile]")
        over = threading.Event()

        def look() -> None:
            while not over.is_set():
                git(self.mounts[0].root, *STATUS)

        looking = threading.Thread(target=look)
        looking.start()
        try:
            for _ in range(10):
                self.chance.choice([self.act_through, self.act_beneath])()
        finally:
            over.set()
            looking.join()

    def die_and_come_again(self) -> None:
        mount = self.chance.choice(self.mounts)
        number = self.chance.choice([signal.SIGKILL, signal.SIGTERM])
        self.done.append(f"[{number.name}]")
        mount.end(number)
        if len(self.mounts) == 1:
            self.beneath.step([self.beneath.link_outside])
        for _ in range(self.chance.randrange(4)):
            self.act_beneath()
        if self.chance.random() < 0.5:
            git(self.source, *STATUS)
        mount.start()

    # -- what must hold ------------------------------------------------------------------------

    def check(self) -> None:
        if not self.in_place:
            # What git cannot write it does not learn from either.
            assert not os.path.exists(os.path.join(self.source, ".git/index.lock")), self.done[-30:]
        for mount in self.mounts:
            seen = git(mount.root, *STATUS)
            true = git(mount.root, *STATUS, plain=True)
            self._agree(seen, true)
            # What it does not read again (a .gitignore that is a link) it does not complain of again.
            complaints = set(seen.stderr.splitlines()) - set(true.stderr.splitlines())
            assert not complaints, self.done[-30:]
            if not self.in_place:
                self._agree(true, git(self.source, *STATUS, plain=True))

    def _agree(self, one: Done, other: Done) -> None:
        assert one.stdout == other.stdout, (one, other, self.done[-30:])

    def run(self, steps: int) -> None:
        for _ in range(steps):
            for _ in range(self.chance.choice([1, 1, 1, 2, 5])):
                self.step()
            self.done.append("=")
            self.check()


LAYOUTS = {
    "in place": lambda place, seed: History(place, seed, 0, ()),
    "in place with redirects": lambda place, seed: History(place, seed, 0, ("--redirects",)),
    "beside": lambda place, seed: History(place, seed, 1, ()),
    "two mounts": lambda place, seed: History(place, seed, 2, ()),
}


@pytest.fixture
def history(tmp_path: Path, layout: str, seed: int) -> Iterator[History]:
    make: Callable[[Path, int], History] = LAYOUTS[layout]
    history = make(tmp_path, seed)
    with history.mounted():
        yield history


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_status_is_never_wrong(history: History) -> None:
    history.run(15)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 103))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_status_is_never_wrong_for_long(history: History) -> None:
    history.run(300)
