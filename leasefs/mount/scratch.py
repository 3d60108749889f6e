"""The ground of a git working tree: what git ignores and does not track is scratch.

Asked inline, so it answers from memory; what has to be read first is fetched in a worker thread
(`gate.Wanting`). Nothing is declared scratch before it was confirmed within the last second that the
index and the ignore files are still those that were read: others change them beneath the mount. Whatever
cannot be read leaves the path tree, which needs a lease.

The git directory is writable without a lease, so nothing that stands there may turn tree into scratch
while the mount lives: `info/exclude` and the configuration are read once, when the mount begins, and a
path that was tracked then stays tracked, whatever becomes of the index. Where there was no git directory
then, one that is made later brings no excludes.
"""

from __future__ import annotations

import errno
import logging
import os
from typing import TYPE_CHECKING, NamedTuple

import trio

from leasefs.core.companions import IN_THE_MAKING, MADE_LONGER, target_in_the_making
from leasefs.core.policy import Place
from leasefs.mount.gate import Wanting
from leasefs.mount.ground import CONTROL_NAME, is_control
from leasefs.vcs.beneath import open_directory
from leasefs.vcs.errors import VcsError
from leasefs.vcs.excludes import Excludes, load_excludes
from leasefs.vcs.gitdir import GitDir, find_git
from leasefs.vcs.ignore import IgnoreRules
from leasefs.vcs.tracked import TrackedPaths, load_tracked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)

_TRUSTED_FOR_S = 1.0
_STAMPS = 1 << 14
# Where the index changes faster than it can be read (a rebase), a request is answered from what was
# read on its behalf, instead of reading for ever.
_GRACE_S = 0.05
# Looked up in its class, a member takes Python 3.11 longer than all that is done with it (`policy.Op`).
_TREE = Place.TREE
_SCRATCH = Place.SCRATCH

Stamp = tuple[int, int, int, int] | None


class _Read(NamedTuple):
    """What a worker thread read; `tracked` is None if the index could not be."""

    gitdir: GitDir | None
    tracked: TrackedPaths | None
    excludes: Excludes


class GitGround:
    """Implements `ground.Ground`. `root_fd` stays the caller's."""

    def __init__(self, root_fd: int, now_s: Callable[[], float]) -> None:
        self._root_fd = root_fd
        self._now_s = now_s
        self._gitdir: GitDir | None = None
        self._tracked: TrackedPaths | None = None
        self._tracked_first: TrackedPaths | None = None
        self._rules: IgnoreRules | None = None
        self._excludes: Excludes | None = None
        # Why a reload is due; empty when what was read is current.
        self._due: set[str] = {"all"}
        self._index_checked_s = 0.0
        # When each `.gitignore` was last looked at, and what it was when it was read.
        self._ignores: dict[bytes, tuple[float, Stamp]] = {}
        self._one_load = trio.Lock()
        self._read_for: tuple[trio.lowlevel.Task | None, float] = (None, 0.0)

    def close(self) -> None:
        """Close the git directory."""
        if self._gitdir is not None:
            self._gitdir.close()
            self._gitdir = None
        self._tracked = self._rules = None

    # -- answers -------------------------------------------------------------------------------

    def place(self, path: bytes, *, is_dir: bool) -> Place:
        """The kind of ground; see `Ground`."""
        place = self._place(path, is_dir=is_dir)
        if place is not _TREE or IN_THE_MAKING not in path:
            return place
        return _SCRATCH if self._becomes_scratch(path, is_dir=is_dir) else place

    def _place(self, path: bytes, *, is_dir: bool) -> Place:
        if path.startswith(CONTROL_NAME) and is_control(path):
            return Place.CONTROL
        if "all" in self._due and not self._just_read():
            raise Wanting(self.load)
        if self._gitdir is None:
            return _TREE
        if self._gitdir.owns(path):
            return Place.GIT
        if self._rules is None:
            self._try_again()
        if self._rules is None:
            return _TREE
        directory = path.rpartition(b"/")[0]
        if not self._rules.is_prepared(directory):
            raise Wanting(lambda: self._prepare(directory))
        self._confirm_ignores(directory)
        if not self._rules.is_scratch(path, is_dir) or self._was_tracked(path, is_dir=is_dir):
            return _TREE
        self._confirm_index()
        return _SCRATCH

    def is_tracked(self, path: bytes) -> bool:
        """Whether git tracks the path. Without readable git data, everything might be."""
        if self._due and not self._just_read():
            raise Wanting(self.load)
        if self._gitdir is None:
            return False
        if self._tracked is None or self._tracked.is_tracked(path):
            return True
        return self._was_tracked(path, is_dir=False)

    def is_scratch_tree(self, directory: bytes) -> bool:
        """Whether everything below the directory is scratch."""
        return self._is_scratch_tree(directory) or self._becomes_scratch(directory, is_dir=True)

    def _is_scratch_tree(self, directory: bytes) -> bool:
        return (
            self._rules is not None
            and self._rules.scratch_directory(directory)
            and not self._was_tracked(directory, is_dir=True)
        )

    def _becomes_scratch(self, path: bytes, *, is_dir: bool) -> bool:
        """Whether this belongs to a directory that is made to be renamed to a scratch one, not there yet."""
        goal = target_in_the_making(path)
        if goal is None or self._place(goal, is_dir=True) is not _SCRATCH:
            return False
        made = path[: len(goal) + MADE_LONGER]
        if path == made and not is_dir:
            return False
        if self.holds_tracked(made) or self._was_tracked(made, is_dir=True):
            return False
        return self._is_scratch_tree(goal) and not self._exists(goal)

    def _exists(self, path: bytes) -> bool:
        directory, _, name = path.rpartition(b"/")
        try:
            fd = open_directory(self._root_fd, directory)
        except OSError:
            return True  # in doubt it does, and nothing becomes scratch
        try:
            os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError as error:
            return error.errno != errno.ENOENT
        finally:
            os.close(fd)
        return True

    def _was_tracked(self, path: bytes, *, is_dir: bool) -> bool:
        first = self._tracked_first
        if first is None:
            return False
        return first.is_tracked(path) or (is_dir and first.has_tracked_below(path))

    def is_git_root(self, path: bytes) -> bool:
        """Whether the path is the git directory itself."""
        return path == b".git" and self._gitdir is not None

    def holds_tracked(self, directory: bytes) -> bool:
        """Whether something below the directory is tracked; without readable git data it may be."""
        tracked = self._tracked
        return tracked is None or tracked.has_tracked_below(directory)

    def doubt(self, directory: bytes) -> None:
        """Look at the index and the ignore files above at the next question, however new the last look is."""
        self._index_checked_s = float("-inf")
        for above in _with_ancestors(directory):
            if above in self._ignores:
                self._ignores[above] = (float("-inf"), self._ignores[above][1])

    # -- changes -------------------------------------------------------------------------------

    def changed(self, path: bytes) -> None:
        """A file changed through the mount: the index, an ignore file, or nothing of ours."""
        if b".git" not in path:
            return  # nearly always
        name = path.rpartition(b"/")[2]
        if name == b".gitignore":
            if self._rules is not None:
                self._rules.invalidate(path)
            self._forget_stamps(path.rpartition(b"/")[0])
        elif path == b".git/index":
            self._due.add("index")
        elif self._gitdir is None and (path == b".git" or path.startswith(b".git/")):
            self._due.add("all")

    def directory_changed(self, path: bytes) -> None:
        """A directory came, went or moved."""
        if self._rules is not None:
            self._rules.invalidate(path)
        self._forget_stamps(path)

    def _forget_stamps(self, directory: bytes) -> None:
        prefix = directory + b"/" if directory else b""
        for known in [d for d in self._ignores if d == directory or d.startswith(prefix)]:
            del self._ignores[known]

    # -- is what was read still current --------------------------------------------------------

    def _confirm_ignores(self, directory: bytes) -> None:
        """Raises `Wanting` if an ignore file above `directory` is not the one that was read."""
        now_s = self._now_s()
        old = {
            above: known[1]
            for above in _with_ancestors(directory)
            if (known := self._ignores.get(above)) is not None
            and now_s - known[0] >= _TRUSTED_FOR_S
        }
        stamps = _stamps(self._root_fd, next(iter(old))) if old else {}
        for above, stamp in old.items():
            if stamps[above] != stamp:
                self.changed(above + b"/.gitignore" if above else b".gitignore")
                raise Wanting(lambda: self._prepare(directory))
            self._ignores[above] = (now_s, stamp)

    def _try_again(self) -> None:
        """The index could not be read; perhaps it can by now. Raises `Wanting`."""
        now_s = self._now_s()
        if now_s - self._index_checked_s >= _TRUSTED_FOR_S:
            self._index_checked_s = now_s
            self._due.add("index")
        if self._due and not self._just_read():
            raise Wanting(self.load)

    def _confirm_index(self) -> None:
        """Raises `Wanting` if the index is not the one that was read."""
        now_s, gitdir, tracked = self._now_s(), self._gitdir, self._tracked
        if not self._due and now_s - self._index_checked_s >= _TRUSTED_FOR_S:
            self._index_checked_s = now_s
            if gitdir is not None and tracked is not None and not tracked.is_current(gitdir):
                self._due.add("index")
        if self._due and not self._just_read():
            raise Wanting(self.load)

    def _just_read(self) -> bool:
        task, until_s = self._read_for
        return self._now_s() < until_s and task is trio.lowlevel.current_task()

    # -- reading, in worker threads ------------------------------------------------------------

    async def load(self) -> None:
        """Read what is due. On failure nothing is scratch until the next change."""
        async with self._one_load:
            due, self._due = self._due, set()
            if due:
                await self._load_due(due)
            self._read_for = (trio.lowlevel.current_task(), self._now_s() + _GRACE_S)

    async def _load_due(self, due: set[str]) -> None:
        read = await trio.to_thread.run_sync(self._read, due)
        self._excludes = read.excludes
        if read.gitdir is not self._gitdir:
            self.close()
            self._gitdir = read.gitdir
        self._tracked = read.tracked
        if read.gitdir is None or read.tracked is None:
            self._rules = None
            return
        if self._tracked_first is None:
            self._tracked_first = read.tracked
        if self._rules is None:
            self._rules = IgnoreRules(self._root_fd, read.gitdir, read.tracked, read.excludes)
        else:
            self._rules.set_tracked(read.tracked)

    def _read(self, due: set[str]) -> _Read:
        gitdir, tracked = self._gitdir, None
        try:
            if "all" in due or self._rules is None:
                # One that vanished is kept: its name stays git's ground, and another may come.
                gitdir = find_git(self._root_fd) or gitdir
            if gitdir is not None:
                tracked = load_tracked(gitdir)
        except (VcsError, OSError) as error:
            log.warning("no path is scratch until git's data can be read: %s", error)
        excludes = self._excludes
        if excludes is None:
            excludes = load_excludes(self._root_fd, gitdir) if gitdir else Excludes()
        return _Read(gitdir, tracked, excludes)

    async def _prepare(self, directory: bytes) -> None:
        rules = self._rules
        if rules is None:
            return
        if len(self._ignores) > _STAMPS:
            self._ignores.clear()
            rules.invalidate(b".gitignore")
        now_s = self._now_s()
        stamps = await trio.to_thread.run_sync(self._read_rules, rules, directory)
        for above, stamp in stamps.items():
            self._ignores.setdefault(above, (now_s, stamp))
        if not rules.is_prepared(directory):
            # Directories came and went meanwhile, which makes everything read in between void. Nothing
            # can come in between here, on the loop's own thread.
            rules.prepare(directory)

    def _read_rules(self, rules: IgnoreRules, directory: bytes) -> dict[bytes, Stamp]:
        # Stamps first: a file that changes in between is then noticed, not missed.
        stamps = _stamps(self._root_fd, directory)
        rules.prepare(directory)
        return stamps


def _with_ancestors(directory: bytes) -> Iterator[bytes]:
    yield directory
    while directory:
        directory = directory.rpartition(b"/")[0]
        yield directory


def _stamps(root_fd: int, directory: bytes) -> dict[bytes, Stamp]:
    """Of the ignore files in a directory and above it, in one descent: paths may be a thousand directories deep."""
    stamps: dict[bytes, Stamp] = dict.fromkeys(_with_ancestors(directory))
    fd = None
    try:
        for above in reversed(list(stamps)):
            below = open_directory(root_fd if fd is None else fd, above.rpartition(b"/")[2])
            if fd is not None:
                os.close(fd)
            fd = below
            stamps[above] = _stamp(fd)
    except OSError:
        pass  # what cannot be reached has none
    finally:
        if fd is not None:
            os.close(fd)
    return stamps


def _stamp(directory_fd: int) -> Stamp:
    try:
        found = os.stat(b".gitignore", dir_fd=directory_fd, follow_symlinks=False)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
