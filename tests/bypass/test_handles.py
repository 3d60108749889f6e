"""Handles, mappings and directories that were opened while the lease was held, and used after it was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasefs.testing.intruder import URING

if TYPE_CHECKING:
    from leasefs.testing.bypass_scene import Scene

pytestmark = [pytest.mark.mount, pytest.mark.root]

LATER = """
fd = os.open("mine/f", os.O_RDWR)
tell("open")
next(lines())
"""


def after_the_loss(scene: Scene, code: str, first: str = LATER) -> tuple[str, object]:
    """How `code` ends when the lease goes between `first` and it."""
    process = scene.intruder.stays(first + code)
    assert process.hear() == "open"
    scene.hold({"token": 2, "globs": ["one/f"]})
    process.go_on()
    return process.outcome()


@pytest.mark.parametrize(
    "write",
    [
        "os.write(fd, b'new')",
        "os.pwrite(fd, b'new', 0)",
        "os.writev(fd, [b'new'])",
        "os.pwritev(fd, [b'new'], 0, os.RWF_APPEND if hasattr(os, 'RWF_APPEND') else 0)",
        "os.ftruncate(fd, 0)",
        "os.posix_fallocate(fd, 0, 99)",
        "os.fchmod(fd, 0o600)",
        "os.utime(fd)",
        "os.setxattr(fd, 'user.x', b'1')",
    ],
)
def test_a_handle_kept_after_the_loss(scene: Scene, write: str) -> None:
    how, _ = after_the_loss(scene, write)
    assert how in {"ESTALE", "EACCES"}
    assert (scene.source / "mine/f").stat().st_size == 4


def test_a_handle_for_appending(scene: Scene) -> None:
    first = LATER.replace("os.O_RDWR", "os.O_WRONLY | os.O_APPEND")
    assert after_the_loss(scene, "os.write(fd, b'new')", first)[0] == "ESTALE"


@pytest.mark.parametrize("mode", [0x01 | 0x02, 0x10, 0x08, 0x20])
def test_holes_and_ranges_in_a_handle_kept(scene: Scene, mode: int) -> None:
    """fallocate(2): punched, zeroed, collapsed, inserted."""
    code = f"checked(libc.fallocate(fd, {mode}, ctypes.c_long(0), ctypes.c_long(4096)))"
    assert after_the_loss(scene, code)[0] in {"ESTALE", "ENOTSUP", "EINVAL"}


@pytest.mark.parametrize(
    "copy",
    [
        "os.copy_file_range(source, fd, 4)",
        "os.sendfile(fd, source, 0, 4)",
        "pipe = os.pipe(); os.splice(source, pipe[1], 4); os.splice(pipe[0], fd, 4)",
    ],
    ids=["copy_file_range", "sendfile", "splice"],
)
def test_the_kernel_copies_into_a_handle_kept(scene: Scene, copy: str) -> None:
    how, _ = after_the_loss(scene, f"source = os.open('one/g', os.O_RDONLY); {copy}")
    assert how in {"ESTALE", "EXDEV", "EINVAL"}


def test_io_uring_writes_to_a_handle_kept(scene: Scene) -> None:
    code = f"""{URING}
data = ctypes.create_string_buffer(b"new", 3)
uring(23, fd, ctypes.addressof(data), 3, 0)
"""
    assert after_the_loss(scene, code)[0] == "ESTALE"


def test_a_shared_mapping_kept(scene: Scene) -> None:
    first = """
fd = os.open("mine/g", os.O_RDWR)
view = mmap.mmap(fd, 4)
tell("open")
next(lines())
"""
    how, _ = after_the_loss(scene, "view[:3] = b'new'; view.flush()", first)
    assert how != "done"
    assert (scene.source / "mine/g").read_text() == "old\n"


def test_a_directory_descriptor_kept(scene: Scene) -> None:
    first = """
directory = os.open("mine", os.O_RDONLY)
tell("open")
next(lines())
"""
    code = """
said = [refused(lambda: os.open("f", os.O_WRONLY, dir_fd=directory)),
        refused(lambda: os.mkdir("new", dir_fd=directory)),
        refused(lambda: os.unlink("f", dir_fd=directory))]
"""
    assert after_the_loss(scene, code, first)[1] == ["EACCES"] * 3


def test_a_handle_handed_on_through_a_socket(scene: Scene) -> None:
    """SCM_RIGHTS, unix(7): whoever has it writes, as its giver could, and no longer."""
    first = """
ours, theirs = socket.socketpair()
if os.fork() == 0:
    socket.send_fds(ours, [b"x"], [os.open("mine/d/f", os.O_WRONLY)])
    os._exit(0)
os.wait()
fd = socket.recv_fds(theirs, 1, 1)[1][0]
os.write(fd, b"one\\n")
tell("open")
next(lines())
"""
    assert after_the_loss(scene, "os.write(fd, b'two')", first)[0] == "ESTALE"
    assert (scene.source / "mine/d/f").read_text() == "one\n"


def test_a_handle_taken_out_of_the_holders_process(scene: Scene) -> None:
    """pidfd_getfd(2), /proc/PID/fd: of the same user, they give what the holder has, and no longer."""
    first = """
child = os.fork()
if child == 0:
    os.open("mine/d/f", os.O_WRONLY)
    signal.pause()
while not any(os.path.basename(os.readlink(f"/proc/{child}/fd/{one}")) == "f" for one in os.listdir(f"/proc/{child}/fd")):
    pass
number = next(int(one) for one in os.listdir(f"/proc/{child}/fd") if os.readlink(f"/proc/{child}/fd/{one}").endswith("/d/f"))
fd = call(438, os.pidfd_open(child), number, 0)
os.write(fd, b"got\\n")
tell("open")
next(lines())
"""
    code = """
said = [refused(lambda: os.write(fd, b"x")), refused(lambda: os.open(f"/proc/{child}/fd/{number}", os.O_WRONLY))]
os.kill(child, signal.SIGKILL)
"""
    assert after_the_loss(scene, code, first)[1] == ["ESTALE", "EACCES"]


def test_a_handle_inherited_by_a_daemon_of_the_agents(scene: Scene) -> None:
    first = """
fd = os.open("mine/f", os.O_RDWR)
if os.fork():
    os._exit(0)
os.setsid()
tell("open")
next(lines())
"""
    code = "said = refused(lambda: os.write(fd, b'new'))"
    assert after_the_loss(scene, code, first)[1] == "ESTALE"
