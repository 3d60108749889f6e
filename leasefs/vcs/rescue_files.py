"""What lies at a path of a tree, and its bytes as an object of git's, exactly as they are.

Files are opened here, by a descriptor of the root and through no link, and handed to `git hash-object` as descriptors:
no name reaches git, so a name may hold anything, and whatever is put in a file's place meanwhile is not followed.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.vcs.beneath import open_directory
from leasefs.vcs.errors import GitFailed, RescueFailed
from leasefs.vcs.plumbing import run_git

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from leasefs.vcs.gitdir import GitDir

# Above this, git writes a stream into a pack instead of mapping the whole file into memory.
BIG_FILE_BYTES = 64 << 20
# A change this soon after another may leave mtime as it was: ext4 counts in jiffies, others in up to two seconds.
UNSURE_NS = 2_000_000_000
ROUNDS = 5

_BATCH = 128
# Ground is closed until all is kept. Big files go to packs, whose compression is the former; `git gc` makes up for it.
_FAST = ("-c", "core.compression=0", "-c", "core.looseCompression=1")
_TIMEOUT_S = 3600.0
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_CHUNK_BYTES = 1 << 20


def look(root_fd: int, path: bytes) -> os.stat_result | None:
    """lstat(2) of `path`; None if nothing is there, also because a link or a file lies on the way.

    Raises:
        OSError: EACCES, EIO and the like.
    """
    try:
        with opened_parent(root_fd, path) as (parent_fd, name):
            return os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise


@contextmanager
def opened_parent(root_fd: int, path: bytes) -> Iterator[tuple[int, bytes]]:
    """A descriptor of the directory that `path` lies in, and its name there."""
    above, _, name = path.rpartition(b"/")
    parent_fd = open_directory(root_fd, above)
    try:
        yield parent_fd, name
    finally:
        os.close(parent_fd)


def outermost_absent(root_fd: int, path: bytes) -> bytes:
    """The outermost directory above `path` that is not there; b"" if all are."""
    end = path.find(b"/")
    while end > 0:
        found = look(root_fd, path[:end])
        if found is None:
            return path[:end]
        if not stat.S_ISDIR(found.st_mode):
            return b""
        end = path.find(b"/", end + 1)
    return b""


def open_file(root_fd: int, path: bytes) -> int:
    """Open a regular file for reading; the caller closes it.

    Raises:
        OSError: it is not there or not regular any more, EACCES, EIO and the like.
    """
    with opened_parent(root_fd, path) as (parent_fd, name):
        file_fd = os.open(name, _READ, dir_fd=parent_fd)
    if not stat.S_ISREG(os.fstat(file_fd).st_mode):
        os.close(file_fd)
        raise OSError(errno.ESTALE, "is not a regular file any more")
    return file_fd


def link_text(root_fd: int, path: bytes) -> bytes:
    """The text of a symbolic link; OSError as of readlink(2)."""
    with opened_parent(root_fd, path) as (parent_fd, name):
        return os.readlink(name, dir_fd=parent_fd)


@dataclass(frozen=True, slots=True)
class Blob:
    """A file's content as an object. `torn`: it changed while it was read, so two versions may be mixed."""

    id: str
    status: os.stat_result
    torn: bool = False


class Hasher:
    """Makes objects of files; with `variables` that lead to a quarantine it writes them, else it only names them."""

    def __init__(
        self, gitdir: GitDir, owner: os.stat_result, variables: Mapping[str, str] | None = None
    ) -> None:
        self._gitdir = gitdir
        self._owner = owner
        self._variables = dict(variables or {})
        self._arguments = [*_FAST, "-c", f"core.bigFileThreshold={BIG_FILE_BYTES}", "hash-object"]
        self._arguments += ["-w"] if variables else []

    def files(
        self, root_fd: int, paths: Sequence[bytes], problems: dict[bytes, str]
    ) -> dict[bytes, Blob]:
        """The content of each file. What cannot be read is added to `problems` instead, what is `torn` as well.

        Raises:
            RescueFailed: objects cannot be written (a full disk, a repository that is read-only).
        """
        blobs: dict[bytes, Blob] = {}
        for at in range(0, len(paths), _BATCH):
            self._batch(root_fd, paths[at : at + _BATCH], blobs, problems)
        return blobs

    def contents(self, contents: Sequence[bytes]) -> list[str]:
        """The objects of what is in memory. Raises as `files`."""
        ids: list[str] = []
        for at in range(0, len(contents), _BATCH):
            with ExitStack() as opened:
                files = []
                for content in contents[at : at + _BATCH]:
                    files.append(os.memfd_create("content", os.MFD_CLOEXEC))
                    opened.callback(os.close, files[-1])
                    os.write(files[-1], content)
                try:
                    ids += self._run_on(files)
                except GitFailed as error:
                    raise _unwritable(error) from error
        return ids

    def filtered(self, root_fd: int, path: bytes) -> str:
        """The object that git itself would make of a file, by its attributes. For a tree that no mount of ours covers.

        Raises:
            GitFailed: git cannot, or the path is no name that it takes.
            OSError: the file cannot be read.
        """
        file_fd = open_file(root_fd, path)
        try:
            arguments = [*self._arguments, f"--path={os.fsdecode(path)}", "--stdin"]
            said = run_git(
                self._gitdir,
                arguments,
                owner=self._owner,
                tree_fd=root_fd,
                stdin=file_fd,
                timeout_s=_TIMEOUT_S,
            )
        finally:
            os.close(file_fd)
        return said.decode().strip()

    def _batch(
        self,
        root_fd: int,
        paths: Sequence[bytes],
        blobs: dict[bytes, Blob],
        problems: dict[bytes, str],
    ) -> None:
        opened: dict[bytes, int] = {}
        try:
            for path in paths:
                try:
                    opened[path] = self._open(root_fd, path)
                except OSError as error:
                    problems[path] = f"it cannot be read: {error.strerror}"
            blobs |= self._settled(opened, problems)
        finally:
            for file_fd in opened.values():
                os.close(file_fd)

    def _open(self, root_fd: int, path: bytes) -> int:
        file_fd = open_file(root_fd, path)
        status = os.fstat(file_fd)
        if os.geteuid() or status.st_nlink == 1 or _may_read(self._owner, status):
            return file_fd
        os.close(file_fd)
        # Root can read what the repository's owner may not, and a hard link brings such a file into the tree.
        raise PermissionError(
            errno.EACCES, "it is a hard link to a file that the repository's owner may not read"
        )

    def _settled(
        self, opened: Mapping[bytes, int], problems: dict[bytes, str]
    ) -> dict[bytes, Blob]:
        """Read each file until it stayed the same while it was read."""
        blobs: dict[bytes, Blob] = {}
        waiting = dict(opened)
        for _ in range(ROUNDS):
            now_ns = _now_ns()
            before = {path: os.fstat(file_fd) for path, file_fd in waiting.items()}
            first = self._ids(waiting, before, problems)
            unsure = [path for path in first if before[path].st_ctime_ns > now_ns - UNSURE_NS]
            again = self._ids({path: waiting[path] for path in unsure}, before, problems)
            for path, id_ in (first | again).items():
                after = os.fstat(waiting[path])
                steady = id_ == first[path] and _stamp(after) == _stamp(before[path])
                blobs[path] = Blob(id_, after, torn=not steady)
            waiting = {
                path: file_fd
                for path, file_fd in waiting.items()
                if path not in problems and (path not in blobs or blobs[path].torn)
            }
            if not waiting:
                break
        problems |= dict.fromkeys(waiting, "it changed each time it was read")
        return blobs

    def _ids(
        self,
        opened: Mapping[bytes, int],
        before: Mapping[bytes, os.stat_result],
        problems: dict[bytes, str],
    ) -> dict[bytes, str]:
        if not opened:
            return {}
        try:
            return dict(zip(opened, self._run_on(list(opened.values())), strict=True))
        except GitFailed:
            return self._one_by_one(opened, before, problems)

    def _one_by_one(
        self,
        opened: Mapping[bytes, int],
        before: Mapping[bytes, os.stat_result],
        problems: dict[bytes, str],
    ) -> dict[bytes, str]:
        """Find out which file it was. What git may not open by itself, it can read from its standard input."""
        ids = {}
        for path, file_fd in opened.items():
            os.lseek(file_fd, 0, os.SEEK_SET)
            try:
                ids[path] = self._run(["--no-filters", "--stdin"], file_fd)
            except GitFailed as error:
                trouble = _reading_trouble(file_fd)
                if trouble:
                    problems[path] = f"it cannot be read: {trouble}"
                elif _stamp(os.fstat(file_fd)) == _stamp(before[path]):
                    raise _unwritable(error) from error
        return ids

    def _run_on(self, files: Sequence[int]) -> list[str]:
        names = "".join(f"/proc/self/fd/{fd}\n" for fd in files)
        return self._run(["--no-filters", "--stdin-paths"], names.encode(), files).split()

    def _run(self, arguments: list[str], stdin: bytes | int, pass_fds: Sequence[int] = ()) -> str:
        return (
            run_git(
                self._gitdir,
                [*self._arguments, *arguments],
                owner=self._owner,
                stdin=stdin,
                variables=self._variables,
                pass_fds=pass_fds,
                timeout_s=_TIMEOUT_S,
            )
            .decode()
            .strip()
        )


def _unwritable(error: GitFailed) -> RescueFailed:
    return RescueFailed(f"the repository takes no more objects, so nothing was kept: {error}")


def _may_read(owner: os.stat_result, status: os.stat_result) -> bool:
    if status.st_uid == owner.st_uid:
        return True
    mode = status.st_mode
    return bool(mode & (stat.S_IRGRP if status.st_gid == owner.st_gid else stat.S_IROTH))


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _now_ns() -> int:
    """The time by the clock that the kernel stamps files with."""
    fresh_fd = os.memfd_create("now", os.MFD_CLOEXEC)
    try:
        return os.fstat(fresh_fd).st_mtime_ns
    finally:
        os.close(fresh_fd)


def _reading_trouble(file_fd: int) -> str | None:
    """Why a file cannot be read to its end; None if it can."""
    os.lseek(file_fd, 0, os.SEEK_SET)
    try:
        while os.read(file_fd, _CHUNK_BYTES):
            pass
    except OSError as error:
        return error.strerror
    return None
