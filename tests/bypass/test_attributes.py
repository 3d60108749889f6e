"""Ways to change what is not leased without a byte of it: modes, owners, times, attributes, flags, locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from leasefs.testing.bypass_scene import Scene

pytestmark = [pytest.mark.mount, pytest.mark.root]


@pytest.mark.parametrize(
    "code",
    [
        "os.chmod('theirs/f', 0)",
        "os.chown('theirs/f', -1, os.getgid())",
        "os.utime('theirs/f')",
        "os.utime('theirs/f', ns=(0, 0))",
        "os.chmod('theirs', 0o700)",
        "os.chmod(f'/proc/self/fd/{os.open(\"theirs/f\", os.O_PATH)}', 0)",
        "os.fchmod(os.open('theirs/f', os.O_RDONLY), 0)",
        "os.fchown(os.open('theirs/f', os.O_RDONLY), -1, os.getgid())",
        "call(452, -100, b'theirs/f', 0, 0)  # fchmodat2",
    ],
)
def test_modes_owners_and_times(scene: Scene, code: str) -> None:
    assert scene.intruder.attempt(code).how == "EACCES"


@pytest.mark.parametrize(
    "code",
    [
        "os.setxattr('theirs/f', 'user.x', b'1')",
        "os.setxattr(os.open('theirs/f', os.O_RDONLY), 'user.x', b'1')",
        "os.setxattr('theirs/f', 'system.posix_acl_access', struct.pack('<IHHIHHIHHI', 2, 1, 7, 2**32 - 1, 4, 7, 2**32 - 1, 32, 7, 2**32 - 1))",
        "os.setxattr('theirs', 'system.posix_acl_default', struct.pack('<IHHIHHIHHI', 2, 1, 7, 2**32 - 1, 4, 7, 2**32 - 1, 32, 7, 2**32 - 1))",
        "os.removexattr('theirs/f', 'user.kept')",
    ],
    ids=["user", "by descriptor", "ACL", "default ACL", "remove"],
)
def test_extended_attributes(scene: Scene, code: str) -> None:
    assert scene.intruder.attempt(code).how == "EACCES"


@pytest.mark.parametrize(
    "code",
    [
        "fcntl.ioctl(fd, 0x40086602, struct.pack('l', 0x40))  # FS_IOC_SETFLAGS, no dump",
        "fcntl.ioctl(fd, 0x401C5820, bytes(28))  # FS_IOC_FSSETXATTR",
        "fcntl.ioctl(fd, 0x40087602, struct.pack('l', 7))  # FS_IOC_SETVERSION",
        "call(469, -100, b'theirs/f', bytes(24), 24, 0)  # file_setattr",
        "fcntl.ioctl(fd, 0x40305839, bytes(48))  # XFS_IOC_ZERO_RANGE",
    ],
    ids=["SETFLAGS", "FSSETXATTR", "SETVERSION", "file_setattr", "ZERO_RANGE"],
)
def test_flags_by_ioctl(scene: Scene, code: str) -> None:
    how, _ = scene.intruder.attempt("fd = os.open('theirs/f', os.O_RDONLY)\n" + code)
    assert how in {"ENOTTY", "ENOSYS", "ENOTSUP", "EACCES", "EPERM", "EINVAL"}


def test_times_by_reading(scene: Scene) -> None:
    """A read leaves no trace that a tool would look at: the times of changes stay."""
    code = "said = [os.stat('theirs/f').st_mtime_ns, open('theirs/f').read(), os.stat('theirs/f').st_mtime_ns]"
    before, _, after = scene.intruder.attempt(code).said
    assert before == after


def test_locks_of_files_that_others_hold(scene: Scene) -> None:
    """Not covered: who may read a file may lock it, flock(2), and others who ask for the lock wait."""
    code = "fd = os.open('theirs/f', os.O_RDONLY); fcntl.flock(fd, fcntl.LOCK_EX); tell('locked'); next(lines())"
    process = scene.intruder.stays(code)
    assert process.hear() == "locked"
    ask = "fcntl.flock(os.open('theirs/f', os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    assert scene.intruder.attempt(ask).how == "EAGAIN"
    process.go_on()
    assert process.outcome().how == "done"
