"""The log of changes against git itself: with the hook, git must see what it sees without.

No mount here: a plain directory, whose changes the test reports as the mount does, and git asking through a
pair of FIFOs. Long random histories; a failure names its seed and what was done last.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from leasefs.mount.changes import ChangeLog
from leasefs.mount.fsmonitor import directories_below, finder
from leasefs.testing.mount_trees import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NAMES = ("a", "b", "c", "A", ".gitignore", "x~")
PLAIN = ("-c", "core.fsmonitor=", "-c", "core.untrackedCache=false")


class Watched:
    """A working tree in which every change is told to a log, and git asks that log."""

    def __init__(self, place: Path, seed: int) -> None:
        self.root = str(place / "tree")
        self.chance = random.Random(seed)
        self.done: list[str] = []
        # Whether git's last answer was "everything".
        self.everything = False
        os.mkdir(self.root)
        self.git("init", "-q", "-b", "main")
        self.asked, self.told = str(place / "asked"), str(place / "told")
        os.mkfifo(self.asked)
        os.mkfifo(self.told)
        self._fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        self.log = ChangeLog("ab", finder(self._fd))
        self.log.cover()
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()
        self.git("config", "core.fsmonitor", f'echo "$2" >{self.asked}; cat {self.told} #')
        self.git("config", "core.untrackedCache", "true")

    def _answer(self) -> None:
        while True:
            with open(self.asked, "rb") as asked:
                token = asked.read().strip()
            if token == b"the end":
                return
            directories = directories_below(self._fd, b"", most=1000)
            answer = self.log.answer(self.log.number_of(token), directories)
            self.everything = answer.endswith(b"\0/\0")
            with open(self.told, "wb") as told:
                told.write(answer)

    def close(self) -> None:
        with open(self.asked, "wb") as asked:
            asked.write(b"the end")
        self._thread.join()
        os.close(self._fd)

    def git(self, *arguments: str, plain: bool = False) -> tuple[bytes, set[bytes]]:
        """What git prints, and the lines that it complains with."""
        more = {"GIT_OPTIONAL_LOCKS": "0"} if plain else {}
        done = subprocess.run(
            ["git", *(PLAIN if plain else ()), *arguments],
            cwd=self.root,
            env={**environment(), **more},
            capture_output=True,
            check=False,
        )
        return done.stdout, set(done.stderr.splitlines())

    # -- the tree ------------------------------------------------------------------------------

    def full(self, path: str) -> str:
        return os.path.join(self.root, path)

    def walk(self) -> dict[str, tuple[object, ...]]:
        found: dict[str, tuple[object, ...]] = {}
        waiting = [""]
        while waiting:
            here = waiting.pop()
            for entry in os.scandir(self.full(here)):
                path = os.path.join(here, entry.name)
                if path == ".git":
                    continue
                stat = entry.stat(follow_symlinks=False)
                is_dir = entry.is_dir(follow_symlinks=False)
                times = () if is_dir else (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
                found[path] = (is_dir, stat.st_ino, *times)
                if is_dir:
                    waiting.append(path)
        return found

    def some(self, *, dirs: bool) -> str:
        paths = [path for path, (is_dir, *_) in self.walk().items() if is_dir is dirs]
        return self.chance.choice(sorted(paths)) if paths else ""

    def new(self) -> str:
        above = self.some(dirs=True) if self.chance.random() < 0.7 else ""
        return os.path.join(above, self.chance.choice(NAMES))

    def reported(self, act: Callable[[], object]) -> None:
        """Do something that may change any number of files, and tell each as the mount would."""
        before = self.walk()
        act()
        after = self.walk()
        for path in before.keys() | after.keys():
            if before.get(path) != after.get(path):
                is_dir = [here[path][0] for here in (before, after) if path in here]
                for kind in is_dir:
                    tell = self.log.directory_changed if kind else self.log.changed
                    tell(os.fsencode(path))

    # -- what happens --------------------------------------------------------------------------

    def write(self) -> None:
        path = self.new() if self.chance.random() < 0.5 else self.some(dirs=False)
        text = self.chance.choice(["a\n", "b\n", "x~\n", "*\n", "!a\n", "c/\n", "other", ""])

        def act() -> None:
            if path and not os.path.islink(self.full(path)) and not os.path.isdir(self.full(path)):
                with open(self.full(path), "w") as file:
                    file.write(text)

        self.reported(act)

    def make(self) -> None:
        path = self.new()
        if not os.path.lexists(self.full(path)):
            self.reported(lambda: os.mkdir(self.full(path)))

    def link(self) -> None:
        path = self.new()
        if not os.path.lexists(self.full(path)):
            self.reported(lambda: os.symlink(self.chance.choice(NAMES), self.full(path)))

    def mode(self) -> None:
        path = self.some(dirs=False)
        if path and not os.path.islink(self.full(path)):
            mode = self.chance.choice([0o644, 0o755])
            self.reported(lambda: os.chmod(self.full(path), mode))

    def remove(self) -> None:
        path = self.some(dirs=False)
        if path:
            self.reported(lambda: os.unlink(self.full(path)))

    def remove_tree(self) -> None:
        path = self.some(dirs=True)
        if path:
            self.reported(lambda: shutil.rmtree(self.full(path)))

    def move_file(self) -> None:
        old, new = self.some(dirs=False), self.new()
        if old and not os.path.isdir(self.full(new)):
            self.reported(lambda: os.rename(self.full(old), self.full(new)))

    def move_tree(self) -> None:
        """Told by its two names alone."""
        old, new = self.some(dirs=True), self.new()
        if not old or (new + "/").startswith(old + "/") or os.path.lexists(self.full(new)):
            return
        os.rename(self.full(old), self.full(new))
        self.log.tree_changed(os.fsencode(old))
        self.log.tree_changed(os.fsencode(new))

    def replace_tree(self) -> None:
        """One directory goes and another takes its name, between two looks of git."""
        old = self.some(dirs=True)
        other = self.some(dirs=True)
        if not old or (other + "/").startswith(old + "/") or (old + "/").startswith(other + "/"):
            return
        for source, goal in ((old, "swap"), (other, old), ("swap", other)):
            os.rename(self.full(source), self.full(goal))
            for path in (source, goal):
                self.log.tree_changed(os.fsencode(path))

    def nest(self) -> None:
        path = self.some(dirs=True)
        if not path:
            return
        inside = os.path.join(path, ".git")
        if os.path.exists(self.full(inside)):
            shutil.rmtree(self.full(inside))
        else:
            self.git("init", "-q", path)
        self.log.changed(os.fsencode(inside))

    def blind(self) -> None:
        """Changes that nobody tells, as while no mount was there or events were lost."""
        log, self.log = self.log, ChangeLog("cd")
        try:
            for _ in range(self.chance.randrange(1, 4)):
                self.chance.choice([self.write, self.make, self.remove, self.remove_tree])()
        finally:
            self.log = log
        self.log.everything()

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")

    def by_git(self) -> None:
        commands = (
            ("add", "-A"),
            ("add", self.some(dirs=True) or "."),
            ("reset", "-q"),
            ("reset", "-q", "--hard"),
            ("stash", "-q"),
            ("stash", "-q", "-u"),
            ("stash", "pop", "-q"),
            ("checkout", "-q", "-f", "main~1"),
            ("checkout", "-q", "-f", "main"),
            ("checkout", "-q", "."),
            ("clean", "-q", "-fd"),
            ("rm", "-q", "-rf", "--cached", self.some(dirs=False) or "."),
            ("rm", "-q", "-rf", self.some(dirs=False) or "."),
        )
        command = self.chance.choice(commands)
        self.done.append(str(command))
        self.reported(lambda: self.git(*command))

    def step(self) -> None:
        acts = [self.write, self.write, self.write, self.make, self.make, self.link, self.mode]
        acts += [self.remove, self.remove_tree, self.move_file, self.move_tree, self.move_tree]
        acts += [self.replace_tree, self.nest, self.blind, self.commit, self.by_git, self.by_git]
        act = self.chance.choice(acts)
        self.done.append(act.__name__)
        act()

    def check(self) -> None:
        status = ("status", "--porcelain=v2", "-z")
        (seen, complaints), (true, allowed) = self.git(*status), self.git(*status, plain=True)
        if self.everything and has_too_much(seen, true):
            seen = self.git(*status)[0]
        assert seen == true, self.done[-12:]
        # What it does not read again (a .gitignore that is a link) it does not complain of again.
        assert complaints <= allowed


def has_too_much(seen: bytes, true: bytes) -> bool:
    """Whether a status lists untracked directories in which there is nothing to list any more, and else the same.

    Git by itself, with its lists of untracked files, goes on with that for ever, since the directory above looks as
    before. After "everything" it does so once; the next answer has each list read.
    """
    lines, listed = true.split(b"\0"), seen.split(b"\0")
    too_much = [line for line in listed if line not in lines]
    directories = all(line.startswith(b"? ") and line.endswith(b"/") for line in too_much)
    return bool(too_much) and directories and [x for x in listed if x not in too_much] == lines


@pytest.fixture
def watched(tmp_path: Path, seed: int) -> Iterator[Watched]:
    tree = Watched(tmp_path, seed)
    yield tree
    tree.close()


def run(tree: Watched, steps: int) -> None:
    for _ in range(steps):
        for _ in range(tree.chance.choice([1, 1, 1, 2, 5])):
            tree.step()
        tree.check()


def make_files(tree: Watched, *paths: str) -> None:
    def act() -> None:
        for path in paths:
            os.makedirs(os.path.dirname(tree.full(path)), exist_ok=True)
            with open(tree.full(path), "w") as file:
                file.write(path)

    tree.reported(act)


@pytest.mark.parametrize("seed", [0])
def test_directories_that_change_places(watched: Watched) -> None:
    """Git remembers what is untracked in each directory below, too, and reads none of it anew."""
    make_files(watched, "a/s/d/t", "b/s/d/t")
    watched.commit()
    make_files(watched, "a/s/d/u1", "b/s/d/u2")
    for _ in range(3):
        watched.check()
    for source, goal in (("a", "swap"), ("b", "a"), ("swap", "b")):
        os.rename(watched.full(source), watched.full(goal))
        watched.log.tree_changed(source.encode())
        watched.log.tree_changed(goal.encode())
    watched.check()
    assert b"? a/s/d/u2\0? b/s/d/u1\0" in watched.git("status", "--porcelain=v2", "-z")[0]


@pytest.mark.parametrize("seed", [0])
def test_a_directory_in_place_of_a_tracked_file(watched: Watched) -> None:
    make_files(watched, "a", "d/b")
    watched.commit()
    for _ in range(3):
        watched.check()
    os.unlink(watched.full("a"))
    watched.log.changed(b"a")
    os.rename(watched.full("d"), watched.full("a"))
    watched.log.tree_changed(b"d")
    watched.log.tree_changed(b"a")
    watched.check()
    watched.commit()
    watched.check()


@pytest.mark.parametrize("seed", [0])
def test_after_a_blind_time_git_first_does_something_else(watched: Watched) -> None:
    """On "everything" git drops what it knows of tracked files, but not its lists of untracked ones."""
    make_files(watched, "a/t", "b/t")
    watched.commit()
    for _ in range(3):
        watched.check()
    with open(watched.full("a/unseen"), "w"):
        watched.log.everything()
    make_files(watched, "b/new")
    watched.git("add", "b/new")
    watched.check()
    assert b"? a/unseen\0" in watched.git("status", "--porcelain=v2", "-z")[0]


def make_repository(tree: Watched) -> None:
    tree.reported(lambda: os.makedirs(tree.full("d/x~/x~")))
    tree.git("init", "-q", "d/x~/x~")
    tree.log.changed(b"d/x~/x~/.git")


def end_repository(tree: Watched) -> None:
    shutil.rmtree(tree.full("d/x~/x~/.git"))
    tree.log.changed(b"d/x~/x~/.git")


def make_untracked(tree: Watched) -> None:
    make_files(tree, "d/x~/x~/untracked")


def end_untracked(tree: Watched) -> None:
    os.unlink(tree.full("d/x~/x~/untracked"))
    tree.log.changed(b"d/x~/x~/untracked")


@pytest.mark.parametrize("seed", [0])
@pytest.mark.parametrize("blind", [False, True])
@pytest.mark.parametrize(
    ("make", "end"), [(make_repository, end_repository), (make_untracked, end_untracked)]
)
def test_an_untracked_directory_with_nothing_left_to_list(
    watched: Watched, make: Callable[[Watched], None], end: Callable[[Watched], None], blind: bool
) -> None:
    make_files(watched, "d/tracked")
    watched.commit()
    make(watched)
    for path in ("d", "d/x~", "d/x~/x~"):
        os.utime(watched.full(path), (1, 1))  # long ago, or git looks again by itself
    for _ in range(3):
        watched.check()
    assert b"? d/x~/\0" in watched.git("status", "--porcelain=v2", "-z")[0]
    end(watched)
    if blind:
        watched.log.everything()
    watched.check()
    assert watched.git("status", "--porcelain=v2", "-z")[0] == b""


@pytest.mark.parametrize("seed", range(2))
def test_git_sees_all_that_changed(watched: Watched) -> None:
    run(watched, 60)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 110))
def test_git_sees_all_that_changed_for_long(watched: Watched) -> None:
    run(watched, 500)
