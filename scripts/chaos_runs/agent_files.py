"""What an agent does to files by system calls of its own."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

from leasefs.testing.chaos.acts import NO, OK, UNSURE

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from leasefs.testing.chaos.acts import ActRecorder

_REFUSALS = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.ESTALE,
        errno.ENOSPC,
        errno.ENOENT,
        errno.EBUSY,
        errno.EXDEV,
        errno.EROFS,
        errno.EAGAIN,
        errno.EDEADLK,
    }
)
# Opening changes nothing where it fails: whatever the reason, what was to follow was not done.
_HANDLES = 4


def outcome_of(error: OSError) -> str:
    """Whether the call is known not to have been made."""
    return NO if error.errno in _REFUSALS else UNSURE


class Files:
    """Writes below `place`; every line is used once. `is_dead` says that the last act met a dead mount."""

    def __init__(self, record: ActRecorder, dice: random.Random, place: str, tree: str) -> None:
        self._record = record
        self._dice = dice
        self._place = place
        self._tree = tree
        self._handles: list[tuple[int, str]] = []
        self.is_dead = False

    def let_go(self) -> None:
        """Close what is open."""
        for fd, _ in self._handles:
            with contextlib.suppress(OSError):
                os.close(fd)
        self._handles.clear()

    def append(self, path: str) -> bool:
        """Open, write a line, close."""
        with self._act("append", path) as act:
            with act.only_opening():
                fd = os.open(self._at(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                act.write(fd)
            finally:
                self._close(fd)
        return act.outcome == OK

    def by_handle(self, path: str) -> None:
        """Write through a handle that stays open for a while, or open one."""
        if len(self._handles) < _HANDLES and self._dice.random() < 0.4:
            with contextlib.suppress(OSError):
                fd = os.open(self._at(path), os.O_WRONLY | os.O_APPEND)
                self._handles.append((fd, path))
        if not self._handles:
            return
        fd, where = handle = self._dice.choice(self._handles)
        with self._act("handle", where) as act:
            act.write(fd)
        if act.outcome != OK or self._dice.random() < 0.2:
            self._handles.remove(handle)
            self._close(fd)

    def save(self, path: str) -> None:
        """As most editors do: a new file with what was read and a line more, renamed onto the old one."""
        name = os.path.basename(path)
        draft = f"{name}.tmp.{os.getpid()}"
        with self._act("save", path) as act, self._directory(path, act) as at:
            try:
                with act.only_opening():
                    before = _read(name, at)
                    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=at)
                    try:
                        os.write(fd, before + act.line.encode() + b"\n")
                    finally:
                        self._close(fd)
                os.rename(draft, name, src_dir_fd=at, dst_dir_fd=at)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(draft, dir_fd=at)
                raise

    def reset(self, path: str) -> None:
        """Begin the file anew."""
        with self._act("reset", path) as act:
            with act.only_opening():
                # The directory may be gone with the mount; a refusal comes before anything is cut off.
                fd = os.open(self._at(path), os.O_WRONLY | os.O_CREAT)
            try:
                os.ftruncate(fd, 0)
                act.write(fd, outcome=UNSURE)
            finally:
                self._close(fd)

    def unlink(self, path: str) -> None:
        """Remove the file."""
        with self._act("unlink", path, has_line=False):
            os.unlink(self._at(path))

    def rename(self, old: str, new: str) -> None:
        """Give the file another name, over what has it."""
        with self._act("rename", new, has_line=False, other=old):
            os.rename(self._at(old), self._at(new))

    def count(self, path: str) -> None:
        """Read a number and write the next one, through one handle: it is dead when its lease is not held any more."""
        try:
            fd = os.open(self._at(path), os.O_RDWR)
        except OSError:
            return
        try:
            value = int(os.pread(fd, 12, 0)) + 1
            with self._act("count", path, has_line=False, value=value):
                os.pwrite(fd, b"%012d" % value, 0)
        except OSError:
            return
        finally:
            self._close(fd)

    def _at(self, path: str) -> str:
        return os.path.join(self._place, path)

    @staticmethod
    def _close(fd: int) -> None:
        with contextlib.suppress(OSError):
            os.close(fd)

    @contextlib.contextmanager
    def _directory(self, path: str, act: _Act) -> Iterator[int]:
        """Of this mount and no other: when it dies, what was read through it is of no use."""
        with act.only_opening():
            at = os.open(os.path.dirname(self._at(path)), os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield at
        finally:
            self._close(at)

    @contextlib.contextmanager
    def _act(
        self, what: str, path: str, *, has_line: bool = True, **facts: object
    ) -> Iterator[_Act]:
        act = _Act(self._dice)
        facts |= {"tree": self._tree, "path": path}
        if has_line:
            act.line = f"L{os.getpid()}.{self._dice.randrange(10**12)}"
            facts["line"] = act.line
        number = self._record.begin(what, **facts)
        try:
            yield act
        except OSError as error:
            act.outcome = act.refused or outcome_of(error)
            self.is_dead = error.errno == errno.ENOTCONN
            told = errno.errorcode.get(error.errno or 0, str(error))
            self._record.end(number, act.outcome, told=told)
        else:
            act.outcome = OK
            self.is_dead = False
            self._record.end(number, OK)


class _Act:
    def __init__(self, dice: random.Random) -> None:
        self.line = ""
        self.outcome = UNSURE
        self.refused = ""
        self._dice = dice

    def write(self, fd: int, outcome: str = "") -> None:
        """Write the line, and sync it now and then. `outcome` is that of a failure, if not the error's own."""
        self.refused = outcome
        os.write(fd, self.line.encode() + b"\n")
        if self._dice.random() < 0.1:
            with contextlib.suppress(OSError):  # it is written all the same
                os.fsync(fd)

    @contextlib.contextmanager
    def only_opening(self) -> Iterator[None]:
        """Whatever fails in here, nothing was changed."""
        self.refused = NO
        yield
        self.refused = ""


def _read(name: str, at: int) -> bytes:
    try:
        fd = os.open(name, os.O_RDONLY, dir_fd=at)
    except FileNotFoundError:
        return b""
    with open(fd, "rb") as file:
        return file.read()
