"""What people, tools and git do to a working tree, at random: for tests that compare two views of one tree."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from leasefs.testing.mount_trees import environment

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence

NAMES = ("a", "b", "c", "A", ".gitignore", "x~", "\udcff", "\u200d")
TEXTS = ("a\n", "b\n", "x~\n", "*\n", "!a\n", "c/\n", "other", "")

# What any act may meet where others are at work in the same tree.
_MET = frozenset(
    {
        errno.ENOENT,
        errno.EEXIST,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.ENOTEMPTY,
        errno.ELOOP,
        errno.ESTALE,
        errno.EXDEV,
        errno.EINVAL,
        errno.EACCES,
    }
)


class TreeActs:
    """Acts on the tree at `root`, which may be any view of it; what was done is appended to `done`."""

    def __init__(self, root: str, chance: random.Random, done: list[str], outside: str) -> None:
        """`outside`: a directory beside the tree, on the same file system, for other names of files."""
        self.root = root
        self.outside = outside
        self._chance = chance
        self._done = done

    def full(self, path: str) -> str:
        """Where a path of the tree is in this view."""
        return os.path.join(self.root, path)

    def git(self, *arguments: str) -> bytes:
        """What git prints, whatever comes of it."""
        return subprocess.run(
            ["git", *arguments], cwd=self.root, env=environment(), capture_output=True, check=False
        ).stdout

    def step(self, acts: Sequence[Callable[[], None]]) -> None:
        """One of these acts; what it met on its way is no failure."""
        act = self._chance.choice(acts)
        self._done.append(act.__name__)
        try:
            act()
        except OSError as error:
            if error.errno not in _MET:
                raise
            self._done[-1] += f": {error.strerror}"

    def by_hand(self) -> list[Callable[[], None]]:
        """Acts of which git knows nothing."""
        often = [self.write, self.write, self.save, self.make, self.remove, self.move_tree]
        return [
            *often,
            *(self.rewrite, self.link, self.hard_link, self.write_outside, self.mode, self.touch),
            *(self.remove_tree, self.move, self.swap, self.copy, self.mapped),
        ]

    def with_git(self) -> list[Callable[[], None]]:
        """Acts of git."""
        return [self.commit, self.by_git, self.by_git, self.by_git, self.nest, self.commit_nested]

    # -- choosing ------------------------------------------------------------------------------

    def _walk(self) -> dict[str, bool]:
        found: dict[str, bool] = {}
        waiting = [""]
        while waiting:
            here = waiting.pop()
            for entry in os.scandir(self.full(here)):
                path = os.path.join(here, entry.name)
                if entry.name == ".git":
                    continue
                found[path] = entry.is_dir(follow_symlinks=False)
                if found[path]:
                    waiting.append(path)
        return found

    def _some(self, *, dirs: bool) -> str:
        paths = [path for path, is_dir in self._walk().items() if is_dir is dirs]
        if not paths:
            raise FileNotFoundError(errno.ENOENT, "nothing there yet")
        return self._chosen(self._chance.choice(sorted(paths)))

    def _new(self) -> str:
        above = self._some(dirs=True) if self._chance.random() < 0.7 else ""
        return self._chosen(os.path.join(above, self._chance.choice(NAMES)))

    def _chosen(self, path: str) -> str:
        self._done[-1] += f" {path!a}"
        return path

    # -- by hand -------------------------------------------------------------------------------

    def write(self) -> None:
        """A new file, or another content of an old one."""
        path = self._new() if self._chance.random() < 0.5 else self._some(dirs=False)
        with self._opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
            os.write(fd, self._chance.choice(TEXTS).encode())

    def rewrite(self) -> None:
        """Some bytes in the middle, the size stays."""
        with self._opened(self._some(dirs=False), os.O_RDWR) as fd:
            os.pwrite(fd, b"z" * os.fstat(fd).st_size, 0)

    def mapped(self) -> None:
        """The same through a mapping, whose pages come later."""
        with self._opened(self._some(dirs=False), os.O_RDWR) as fd:
            size = os.fstat(fd).st_size
            if size:
                with mmap.mmap(fd, size) as mapping:
                    mapping[:] = b"m" * size

    def save(self) -> None:
        """As editors do: beside, then over."""
        path = self._some(dirs=False)
        with self._opened(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
            os.write(fd, self._chance.choice(TEXTS).encode())
            os.fsync(fd)
        os.rename(self.full(path + ".tmp"), self.full(path))

    def make(self) -> None:
        """A directory."""
        os.mkdir(self.full(self._new()))

    def link(self) -> None:
        """A symlink, perhaps to itself or to a directory."""
        os.symlink(self._chance.choice(NAMES), self.full(self._new()))

    def hard_link(self) -> None:
        """One more name of a file in the tree."""
        os.link(self.full(self._some(dirs=False)), self.full(self._new()), follow_symlinks=False)

    def link_outside(self) -> None:
        """A name of a file beside the tree, of which no mount hears."""
        beside = os.path.join(self.outside, str(self._chance.randrange(10**9)))
        os.link(self.full(self._some(dirs=False)), beside, follow_symlinks=False)

    def write_outside(self) -> None:
        """Change a file by a name that is not in the tree."""
        names = sorted(os.listdir(self.outside))
        if names:
            name = self._chance.choice(names)
            with self._opened(os.path.join(self.outside, name), os.O_WRONLY | os.O_TRUNC) as fd:
                os.write(fd, self._chance.choice(TEXTS).encode())

    def mode(self) -> None:
        """Executable or not; directories too."""
        dirs = self._chance.random() < 0.2
        path = self._some(dirs=dirs)
        mode = self._chance.choice([0o700, 0o755] if dirs else [0o644, 0o755])
        os.chmod(self.full(path), mode)

    def touch(self) -> None:
        """Times only."""
        path = self._some(dirs=self._chance.random() < 0.3)
        os.utime(self.full(path), ns=(10**18, 10**18), follow_symlinks=False)

    def remove(self) -> None:
        """A file."""
        os.unlink(self.full(self._some(dirs=False)))

    def remove_tree(self) -> None:
        """A directory and all below."""
        shutil.rmtree(self.full(self._some(dirs=True)))

    def move(self) -> None:
        """A file, perhaps over another."""
        os.rename(self.full(self._some(dirs=False)), self.full(self._new()))

    def move_tree(self) -> None:
        """A directory, in the tree or out of it and in again."""
        path = self._some(dirs=True)
        if self._chance.random() < 0.2:
            beside = os.path.join(os.path.dirname(self.outside), "parked")
            os.rename(self.full(path), beside)
            os.rename(beside, self.full(path))
        else:
            os.rename(self.full(path), self.full(self._new()))

    def swap(self) -> None:
        """One directory goes and another takes its name."""
        one, other = self._some(dirs=True), self._some(dirs=True)
        if one.startswith(other) or other.startswith(one):
            return
        for old, new in ((one, "swap"), (other, one), ("swap", other)):
            os.rename(self.full(old), self.full(new))

    def copy(self) -> None:
        """A directory with all below, times included."""
        path, new = self._some(dirs=True), self._new()
        if not (new + "/").startswith(path + "/"):
            shutil.copytree(self.full(path), self.full(new), symlinks=True)

    @contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[int]:
        fd = os.open(self.full(path), flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        try:
            yield fd
        finally:
            os.close(fd)

    # -- by git --------------------------------------------------------------------------------

    def commit(self) -> None:
        """All there is."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")

    def by_git(self) -> None:
        """Any of the commands that change a working tree or its index."""
        path = self._some(dirs=self._chance.random() < 0.5)
        command = self._chance.choice(
            (
                ("add", "-A"),
                ("add", "-f", path),
                ("add", "-N", path),
                ("reset", "-q"),
                ("reset", "-q", "--hard"),
                ("stash", "-q"),
                ("stash", "-q", "-u"),
                ("stash", "pop", "-q"),
                ("checkout", "-q", "-f", "-B", "side", "main~1"),
                ("checkout", "-q", "-f", "main"),
                ("checkout", "-q", "--", path),
                ("merge", "-q", "--no-edit", "-X", "ours", "side"),
                ("rebase", "-q", "--autostash", "-X", "theirs", "side"),
                ("rebase", "--abort"),
                ("clean", "-q", "-fd"),
                ("mv", path, "b"),
                ("rm", "-q", "-rf", "--cached", path),
                ("rm", "-q", "-rf", path),
                ("status",),
                ("update-index", "-q", "--refresh"),
            )
        )
        self._done[-1] += f" {' '.join(command)!a}"
        self.git(*command)

    def nest(self) -> None:
        """A repository inside, or one no more."""
        path = self._some(dirs=True)
        inside = self.full(os.path.join(path, ".git"))
        if os.path.exists(inside):
            shutil.rmtree(inside)
        else:
            self.git("init", "-q", path)

    def commit_nested(self) -> None:
        """What a submodule stands at."""
        path = self._some(dirs=True)
        if os.path.isdir(self.full(os.path.join(path, ".git"))):
            self.git("-C", path, "commit", "-q", "--allow-empty", "-m", "x")
