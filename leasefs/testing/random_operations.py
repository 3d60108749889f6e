"""Random operations on a tree, the same for a mount and for a plain directory.

A step is made from dice and names only, so that it does the same on both sides; what it answers must not
depend on the moment (a time that is "now") nor on the place (an inode number).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import stat
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

NAMES = [
    "a",
    "b",
    "d",
    "d/a",
    "d/b",
    "d/e",
    "d/e/a",
    "x",
    "x/a",
    b"\xff\xfe".decode(errors="surrogateescape"),
]
# Where a walk has to go on its way: a slash at the end, up and down again, through a file, too long.
ODD_NAMES = [*NAMES, "a/", "d/", "d/../x", "a/a", "nothing/a", "n" * 256, ".", "d/..", "x//a"]
USERS = (0, 0, 0, 65534, 1234)
SHARED_GROUP = 4321
_SET_TIME_NS = 1000

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Side:
    """One of the two trees, with its open descriptors, each with the user who opened it."""

    root: bytes
    open: list[tuple[int, int]] = field(default_factory=list)

    def path(self, name: str) -> bytes:
        """Where a name is on this side."""
        return self.root + b"/" + os.fsencode(name)

    def close(self) -> None:
        """Close what is open."""
        while self.open:
            os.close(self.open.pop()[0])


Step = Callable[[Side], object]


def answer(step: Step, side: Side) -> object:
    """What a step answers: a value, or the name of an errno."""
    try:
        return step(side)
    except OSError as error:
        return errno.errorcode[error.errno or 0]


@contextmanager
def as_user(uid: int) -> Iterator[None]:
    """Be that user in the block; only root can."""
    if not uid:
        yield
        return
    os.setgroups([SHARED_GROUP])
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups([0])


def described(found: os.stat_result) -> object:
    """What of a file's attributes both sides have to agree on."""
    size = found.st_size if not stat.S_ISDIR(found.st_mode) else None
    # A time that was set is compared; one that is "now" differs between the sides.
    # Nor are the times of a FIFO: its data never reach the mount, and so no change of its times.
    timed = found.st_mtime_ns < _SET_TIME_NS and not stat.S_ISFIFO(found.st_mode)
    set_time = found.st_mtime_ns if timed else "now"
    return (found.st_mode, size, found.st_nlink, found.st_uid, found.st_gid, set_time)


def _rename(old: str, new: str, flags: int) -> Step:
    def call(side: Side) -> object:
        if _libc.renameat2(-100, side.path(old), -100, side.path(new), flags):
            raise OSError(ctypes.get_errno(), "renameat2")
        return None

    return call


def _held(at: int, call: Callable[[int], object]) -> Step:
    """A call by whoever opened the descriptor: whose write it is the mount is not told."""

    def step(side: Side) -> object:
        if not side.open:
            return None
        fd, uid = side.open[at % len(side.open)]
        with as_user(uid):
            return call(fd)

    return step


def _opened(name: str, flags: int, mode: int) -> Step:
    def call(side: Side) -> object:
        fd = os.open(side.path(name), flags | os.O_NONBLOCK, mode)
        side.open.append((fd, os.geteuid()))
        return None

    return call


def _closed(at: int) -> Step:
    return lambda side: os.close(side.open.pop(at % len(side.open))[0]) if side.open else None


def write(side: Side, name: str, data: bytes, flags: int) -> object:
    """Open, write, close."""
    fd = os.open(side.path(name), flags | os.O_NONBLOCK, 0o666)
    try:
        return os.write(fd, data)
    finally:
        os.close(fd)


def _read(side: Side, name: str) -> bytes:
    fd = os.open(side.path(name), os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


def _mapped(fd: int, at: int, data: bytes) -> object:
    size = os.fstat(fd).st_size
    if not stat.S_ISREG(os.fstat(fd).st_mode) or at + len(data) > size:
        return None
    try:
        mapping = mmap.mmap(fd, size)
    except PermissionError:
        return "EACCES"
    try:
        mapping[at : at + len(data)] = data
        mapping.flush()
        return mapping[:]
    finally:
        mapping.close()


def _locked(fd: int, kind: int) -> None:
    fcntl.flock(fd, kind | fcntl.LOCK_NB)


def _listed(fd: int) -> object:
    os.lseek(fd, 0, os.SEEK_SET)
    return sorted(os.listdir(fd))


_FLAGS = [
    os.O_RDONLY,
    os.O_WRONLY,
    os.O_RDWR,
    os.O_RDWR | os.O_APPEND,
    os.O_WRONLY | os.O_APPEND | os.O_CREAT,
    os.O_RDWR | os.O_TRUNC,
    os.O_RDONLY | os.O_TRUNC,
    os.O_RDWR | os.O_CREAT,
    os.O_RDWR | os.O_CREAT | os.O_EXCL,
    os.O_RDONLY | os.O_NOFOLLOW,
    os.O_RDONLY | os.O_DIRECTORY,
    os.O_WRONLY | os.O_SYNC,
    os.O_PATH | os.O_NOFOLLOW,
]
# A FIFO would be waited for.
_MAKE = os.O_CREAT | os.O_WRONLY | os.O_NONBLOCK
_MODES = [0o600, 0o644, 0o755, 0o400, 0o2775, 0o1777, 0o4755, 0, 0o666]


def chosen(dice: random.Random, uids: tuple[int, ...] = (0,)) -> Step:
    """One operation by one of the users, the same for both sides."""
    uid, named, held = dice.choice(uids), _by_name(dice), _by_descriptor(dice)
    at = dice.randrange(len(named) + len(held))
    return by(uid, named[at]) if at < len(named) else held[at - len(named)]


def by(uid: int, step: Step) -> Step:
    """The same, done by this user."""

    def call(side: Side) -> object:
        with as_user(uid):
            return step(side)

    return call


def _by_name(dice: random.Random) -> list[Step]:
    names = NAMES if dice.random() < 0.85 else ODD_NAMES
    one, two = dice.choice(names), dice.choice(names)
    data, at, size = dice.randbytes(dice.randrange(1, 9)), dice.randrange(9), dice.randrange(12)
    mode, uid, gid = dice.choice(_MODES), dice.choice([-1, *USERS]), dice.choice([-1, SHARED_GROUP])
    if uid == -1:
        gid = SHARED_GROUP  # who names nobody is not told apart from a write (docs/SEMANTICS.md)
    return [
        lambda s: write(s, one, data, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        lambda s: write(s, one, data, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        lambda s: write(s, one, data, os.O_WRONLY),
        lambda s: _read(s, one),
        lambda s: os.mkdir(s.path(one), mode | 0o500),
        lambda s: os.mkdir(s.path(one), mode | 0o500),
        lambda s: os.rmdir(s.path(one)),
        lambda s: os.unlink(s.path(one)),
        lambda s: os.link(s.path(one), s.path(two), follow_symlinks=False),
        lambda s: os.symlink(os.fsencode(one), s.path(two)),
        lambda s: os.readlink(s.path(one)),
        lambda s: os.mkfifo(s.path(one), mode),
        lambda s: os.mknod(s.path(one), stat.S_IFSOCK | mode),
        lambda s: os.truncate(s.path(one), size),
        lambda s: os.chmod(s.path(one), mode),
        lambda s: os.chown(s.path(one), uid, gid, follow_symlinks=False),
        lambda s: os.utime(s.path(one), ns=(at, size), follow_symlinks=False),
        lambda s: os.utime(s.path(one)),
        lambda s: os.access(s.path(one), at % 8, effective_ids=True),
        lambda s: described(os.lstat(s.path(one))),
        lambda s: described(os.stat(s.path(one))),
        lambda s: sorted(os.listdir(s.path(one))),
        lambda s: os.setxattr(s.path(one), "user.k", data, follow_symlinks=False),
        lambda s: os.getxattr(s.path(one), "user.k", follow_symlinks=False),
        lambda s: os.removexattr(s.path(one), "user.k", follow_symlinks=False),
        lambda s: os.listxattr(s.path(one), follow_symlinks=False),
        _rename(one, two, 0),
        _rename(one, two, 0),
        _rename(one, two, 1),
        _rename(one, two, 2),
        _opened(one, dice.choice(_FLAGS), mode),
        _opened(one, dice.choice(_FLAGS), mode),
    ]


def _by_descriptor(dice: random.Random) -> list[Step]:
    data, at, size = dice.randbytes(dice.randrange(1, 9)), dice.randrange(9), dice.randrange(12)
    mode, name = dice.choice(_MODES), dice.choice(["a", "b", "e"])
    whence = dice.choice([os.SEEK_SET, os.SEEK_CUR, os.SEEK_END])
    kind = dice.choice([fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_UN])
    return [
        _held(at, lambda fd: os.pwrite(fd, data, size)),
        _held(at, lambda fd: os.write(fd, data)),
        _held(at, lambda fd: os.pread(fd, 64, 0)),
        _held(at, lambda fd: os.read(fd, size)),
        _held(
            at, lambda fd: os.lseek(fd, size, whence) if stat.S_ISREG(os.fstat(fd).st_mode) else 0
        ),
        _held(at, lambda fd: described(os.fstat(fd))),
        _held(at, lambda fd: os.ftruncate(fd, size)),
        _held(at, lambda fd: os.fchmod(fd, mode)),
        _held(at, lambda fd: os.utime(fd, ns=(size, at))),
        _held(at, lambda fd: os.fsync(fd)),
        _held(at, lambda fd: _mapped(fd, size // 2, data)),
        _held(at, lambda fd: _locked(fd, kind)),
        _held(at, _listed),
        _held(at, lambda fd: described(os.stat(name, dir_fd=fd, follow_symlinks=False))),
        _held(at, lambda fd: os.mkdir(name, mode, dir_fd=fd)),
        _held(at, lambda fd: os.unlink(name, dir_fd=fd)),
        _held(at, lambda fd: os.close(os.open(name, _MAKE, mode, dir_fd=fd))),
        _closed(at),
    ]
