"""A lease on `**` must equal a plain directory: the same operations, the same answers.

Random operations over a tiny set of names, run side by side on a mount and on a plain directory; after
each one the answers agree (errno or value), and at the end the trees do. Every failure found is kept
below by its seed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leasefs.testing.mount_trees import snapshot
from leasefs.testing.mounted import mounted

pytestmark = [pytest.mark.mount, pytest.mark.root]

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
STEPS = 400
libc = ctypes.CDLL(None, use_errno=True)


class Side:
    """One of the two trees, with its open descriptors."""

    def __init__(self, root: Path) -> None:
        self.root = os.fsencode(root)
        self.open: list[int] = []

    def path(self, name: str) -> bytes:
        return self.root + b"/" + os.fsencode(name)

    def close(self) -> None:
        for fd in self.open:
            os.close(fd)


Step = Callable[[Side], object]


def rename(old: str, new: str, flags: int) -> Step:
    def call(side: Side) -> object:
        if libc.renameat2(-100, side.path(old), -100, side.path(new), flags):
            raise OSError(ctypes.get_errno(), "renameat2")
        return None

    return call


def on_descriptor(at: int, call: Callable[[int], object]) -> Step:
    return lambda side: call(side.open[at % len(side.open)]) if side.open else None


def opened(name: str, flags: int) -> Step:
    def call(side: Side) -> object:
        side.open.append(os.open(side.path(name), flags, 0o640))
        return None

    return call


def described(found: os.stat_result) -> object:
    size = found.st_size if not stat.S_ISDIR(found.st_mode) else None
    links = found.st_nlink if size is not None else None
    # A time that was set is compared; one that is "now" differs between the sides.
    # Nor are the times of a FIFO: its data never reach the mount, and so no change of its times.
    timed = found.st_mtime_ns < 1000 and not stat.S_ISFIFO(found.st_mode)
    set_time = found.st_mtime_ns if timed else "now"
    return (found.st_mode, size, links, found.st_uid, found.st_gid, set_time)


def write(side: Side, name: str, data: bytes, flags: int) -> object:
    fd = os.open(side.path(name), flags | os.O_NONBLOCK, 0o666)
    try:
        return os.write(fd, data)
    finally:
        os.close(fd)


def read(side: Side, name: str) -> bytes:
    fd = os.open(side.path(name), os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


def chosen(dice: random.Random) -> Step:
    """One operation, the same for both sides."""
    one, two, data = dice.choice(NAMES), dice.choice(NAMES), dice.randbytes(dice.randrange(1, 9))
    at, size = dice.randrange(9), dice.randrange(12)
    flags = dice.choice(
        [
            os.O_RDONLY,
            os.O_WRONLY,
            os.O_RDWR,
            os.O_RDWR | os.O_APPEND,
            os.O_RDWR | os.O_TRUNC,
            os.O_RDWR | os.O_CREAT,
            os.O_RDWR | os.O_CREAT | os.O_EXCL,
        ]
    )
    mode = dice.choice([0o600, 0o644, 0o755, 0o400])
    steps: list[Step] = [
        lambda s: write(s, one, data, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        lambda s: write(s, one, data, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        lambda s: write(s, one, data, os.O_WRONLY),
        lambda s: read(s, one),
        lambda s: os.mkdir(s.path(one), mode),
        lambda s: os.rmdir(s.path(one)),
        lambda s: os.unlink(s.path(one)),
        lambda s: os.link(s.path(one), s.path(two), follow_symlinks=False),
        lambda s: os.symlink(os.fsencode(one), s.path(two)),
        lambda s: os.readlink(s.path(one)),
        lambda s: os.mkfifo(s.path(one), mode),
        lambda s: os.truncate(s.path(one), size),
        lambda s: os.chmod(s.path(one), mode),
        lambda s: os.utime(s.path(one), ns=(at, size), follow_symlinks=False),
        lambda s: described(os.lstat(s.path(one))),
        lambda s: sorted(os.listdir(s.path(one))),
        lambda s: sorted((e.name, e.is_dir(follow_symlinks=False)) for e in os.scandir(s.root)),
        lambda s: os.setxattr(s.path(one), "user.k", data, follow_symlinks=False),
        lambda s: os.getxattr(s.path(one), "user.k", follow_symlinks=False),
        rename(one, two, 0),
        rename(one, two, 0),
        rename(one, two, 1),
        rename(one, two, 2),
        opened(one, flags | os.O_NONBLOCK),
        on_descriptor(at, lambda fd: os.pwrite(fd, data, size)),
        on_descriptor(at, lambda fd: os.write(fd, data)),
        on_descriptor(at, lambda fd: os.pread(fd, 64, 0)),
        on_descriptor(at, lambda fd: described(os.fstat(fd))),
        on_descriptor(at, lambda fd: os.ftruncate(fd, size)),
        on_descriptor(at, lambda fd: os.fchmod(fd, mode)),
        on_descriptor(at, lambda fd: os.fsync(fd)),
    ]
    return dice.choice(steps)


def answer(step: Step, side: Side) -> object:
    """What a step answers: a value, or the name of an errno."""
    try:
        return step(side)
    except OSError as error:
        return errno.errorcode[error.errno or 0]


@pytest.fixture(scope="module", params=["separate", "in place"])
def sides(request: pytest.FixtureRequest, place: Path) -> Iterator[tuple[Path, Path]]:
    base = place / request.param.replace(" ", "-")
    for name in ("plain", "source", "mount"):
        (base / name).mkdir(parents=True)
    root = base / ("mount" if request.param == "separate" else "source")
    with mounted(str(base / "source"), str(root), "--lease", "**"):
        yield base / "plain", root


@pytest.mark.parametrize("seed", range(12))
def test_the_same_operations_have_the_same_answers(sides: tuple[Path, Path], seed: int) -> None:
    dice = random.Random(seed)
    plain, mount = (Side(root / str(seed)) for root in sides)
    for side in (plain, mount):
        os.mkdir(side.root)
    try:
        for _ in range(STEPS):
            step = chosen(dice)
            expected, found = answer(step, plain), answer(step, mount)
            assert found == expected
        assert contents(mount) == contents(plain)
    finally:
        plain.close()
        mount.close()


def contents(side: Side) -> dict[str, tuple[object, ...]]:
    """The tree without its times, which differ, and without what hangs on the file system."""
    found = snapshot(Path(os.fsdecode(side.root)))
    return {name: (*entry[:4], *entry[5:]) for name, entry in found.items()}
