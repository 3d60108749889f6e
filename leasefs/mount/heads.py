"""What HEAD names where a path lies, for the first change of each path.

Read on the loop's own thread, so nothing is read here that may wait for this very mount: a git directory that lies
elsewhere, or says that parts of it do (`commondir`, symbolic links), may lead back through the mountpoint. Each is
looked for in a worker thread (`gate.Wanting`), and kept open; then HEAD is two small files beneath a descriptor, by
names that no symbolic link is among.
"""

from __future__ import annotations

import logging
import os
import stat
from collections import OrderedDict, deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio

from leasefs.mount.gate import Wanting, once_fetched
from leasefs.mount.mountinfo import mounts
from leasefs.vcs.beneath import STEP, open_directory
from leasefs.vcs.errors import VcsError
from leasefs.vcs.gitdir import GitDir, find_git
from leasefs.vcs.head import head_commit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasefs.vcs.worktree import WorkTree

log = logging.getLogger(__name__)

_GITS_OWN = b"/.git/"
_MOST = 64
# The way there may be blocked, by the very request that waits for it: then nobody can tell.
_WITHIN_S = 2.0
_ROUNDS = 4


class _Repository(NamedTuple):
    """What was found at a `.git`: its attributes then, and the git directory, None if it is none that git would take.

    One whose files cannot be read on the loop is not kept open; of that there is only `head`.
    """

    dot_git: os.stat_result
    gitdir: GitDir | None
    head: str | None = None

    @property
    def is_out_of_reach(self) -> bool:
        """Whether HEAD cannot be read on the loop."""
        return self.head is not None

    @property
    def is_one(self) -> bool:
        """Whether git would take it for one."""
        return self.gitdir is not None or self.is_out_of_reach

    def is_still(self, found: os.stat_result) -> bool:
        """Whether `.git` is the same; of a directory that git works in, the times change all the time."""
        if not os.path.samestat(found, self.dot_git):
            return False
        if self.is_one and stat.S_ISDIR(found.st_mode):
            return True
        return (found.st_mtime_ns, found.st_ctime_ns) == (
            self.dot_git.st_mtime_ns,
            self.dot_git.st_ctime_ns,
        )


class Heads:
    """By directory. One without a repository of its own lies in that of the one above."""

    def __init__(self, tree: WorkTree) -> None:
        """None of the tree's repositories is read yet."""
        self._tree = tree
        self._heads: dict[bytes, str | None] = {}
        self._repositories: OrderedDict[bytes, _Repository] = OrderedDict()
        # Found by threads, and not taken in yet.
        self._found: deque[tuple[bytes, _Repository]] = deque()

    def forget(self) -> None:
        """Git did something."""
        self._heads.clear()

    def close(self) -> None:
        """Close what is kept open."""
        self._take_in()
        while self._repositories:
            _close(self._repositories.popitem()[1])

    def require(self, path: bytes) -> None:
        """Raises `Wanting` unless `of` can tell."""
        if _GITS_OWN not in path:
            self._in(_directory_of(path))

    def of(self, path: bytes) -> str | None:
        """The commit, "" if there is none, None if that cannot be told at once. A directory's path may end in a slash."""
        if _GITS_OWN in path:
            return ""  # what git keeps of a repository inside the tree is in no commit, whatever HEAD names
        with suppress(Wanting):
            return self._in(_directory_of(path))
        return None

    async def prepare(self, paths: Iterable[bytes]) -> None:
        """See to it that `of` can tell of these paths, where anybody can."""
        for path in paths:
            await once_fetched(partial(self.require, path), otherwise=None, rounds=_ROUNDS)

    def _in(self, directory: bytes) -> str | None:
        if directory in self._heads and not self._found:
            return self._heads[directory]  # nearly always
        self._take_in()
        way = []
        while directory not in self._heads:
            way.append(directory)
            if not directory:
                break
            directory = directory.rpartition(b"/")[0]
        below: list[bytes] = []
        for at, dot_git in _dot_gits(self._tree.root_fd, way).items():
            if dot_git is not None and not self._is_known(at, dot_git):
                raise Wanting(partial(self._look, way[len(below) :]))
            if self._is_read(at, dot_git):
                directory = at
                break
            below.append(at)
        head = self._heads[directory]
        self._heads.update(dict.fromkeys(below, head))
        return head

    def _is_known(self, directory: bytes, dot_git: os.stat_result) -> bool:
        known = self._repositories.get(directory)
        # Of one that cannot be read here, what was read is what `forget` does not know.
        return known is not None and known.is_still(dot_git) and not known.is_out_of_reach

    def _is_read(self, directory: bytes, dot_git: os.stat_result | None) -> bool:
        """Read HEAD if the directory has a repository of its own, or is the tree's root; whether it is so."""
        gitdir = None
        if dot_git is not None:
            self._repositories.move_to_end(directory)
            gitdir = self._repositories[directory].gitdir
        if gitdir is not None:
            self._heads[directory] = head_commit(gitdir)
        elif not directory:
            self._heads[directory] = "" if dot_git is None else None
        return gitdir is not None or not directory

    def _take_in(self) -> None:
        while self._found:
            directory, repository = self._found.popleft()
            before = self._repositories.pop(directory, None)
            if before is not None:
                _close(before)
            self._repositories[directory] = repository
            if repository.is_out_of_reach:
                self._heads[directory] = repository.head
            if len(self._repositories) > _MOST:
                _close(self._repositories.popitem(last=False)[1])

    async def _look(self, way: Sequence[bytes]) -> None:
        """Look for the repository of the first directory; each further one is above those before."""
        with trio.move_on_after(_WITHIN_S) as scope:
            await trio.to_thread.run_sync(self._find, way, abandon_on_cancel=True)
        if scope.cancelled_caught:
            log.warning("%s: its repository cannot be reached", os.fsdecode(way[0] or b"."))
            self._heads[way[0]] = None

    def _find(self, way: Sequence[bytes]) -> None:
        """In a thread, which may be blocked until the request is answered that waits for it."""
        for directory, dot_git in _dot_gits(self._tree.root_fd, way).items():
            if dot_git is None:
                continue
            repository = _repository(self._tree, directory, dot_git)
            self._found.append((directory, repository))
            if repository.is_one:
                return


def _directory_of(path: bytes) -> bytes:
    return path.rstrip(b"/").rpartition(b"/")[0]


def _close(repository: _Repository) -> None:
    if repository.gitdir is not None:
        repository.gitdir.close()


def _dot_gits(root_fd: int, directories: Sequence[bytes]) -> dict[bytes, os.stat_result | None]:
    """The attributes of each directory's `.git`, None where there is none, in one descent to the first, which is deepest."""
    found: dict[bytes, os.stat_result | None] = dict.fromkeys(directories)
    fd, at = root_fd, b""
    try:
        for name in [b"", *directories[0].split(b"/")] if directories else []:
            above, fd = fd, os.open(name or b".", STEP, dir_fd=fd)
            if above != root_fd:
                os.close(above)
            at = b"%b/%b" % (at, name) if at else name
            if at in found:
                with suppress(FileNotFoundError):
                    found[at] = os.stat(b".git", dir_fd=fd, follow_symlinks=False)
    except OSError:
        pass  # what is not there yet has none
    finally:
        if fd != root_fd:
            os.close(fd)
    return found


def _repository(tree: WorkTree, directory: bytes, dot_git: os.stat_result) -> _Repository:
    """Blocks: what `.git` of the directory is or leads to."""
    gitdir = _opened(tree, directory)
    if gitdir is None:
        return _Repository(dot_git, None)
    if _may_be_read_on_the_loop(gitdir, tree.root_fd):
        return _Repository(dot_git, gitdir)
    with gitdir:
        return _Repository(dot_git, None, head_commit(gitdir))


def _opened(tree: WorkTree, directory: bytes) -> GitDir | None:
    """Blocks: the git directory that `.git` is or leads to."""
    try:
        fd = open_directory(tree.root_fd, directory)
    except OSError:
        return None
    try:
        return find_git(fd, tree.around())
    except (VcsError, OSError):
        return None
    finally:
        os.close(fd)


def _may_be_read_on_the_loop(gitdir: GitDir, root_fd: int) -> bool:
    """Blocks: whether no mount of ours has to answer, unless it is what the tree itself lies on."""
    devices = {os.fstat(fd).st_dev for fd in (gitdir.fd, gitdir.common_fd)}
    devices.discard(os.fstat(root_fd).st_dev)
    ours = {mount.device for mount in mounts() if mount.is_leasefs}
    return ours.isdisjoint(f"{os.major(one)}:{os.minor(one)}" for one in devices)


def head_in(tree: WorkTree, directory: bytes) -> str | None:
    """What HEAD names for what lies in a directory, "" if nothing, None if that cannot be told. Blocks; runs no git."""
    # Read when first needed: a mount is to be usable before.
    from leasefs.vcs.reconcile import heads_of

    path = directory + b"/file" if directory else b"file"
    try:
        return heads_of(tree, [path])[path]
    except (VcsError, OSError):
        return None  # then only what is committed from now on can be told from what was there
