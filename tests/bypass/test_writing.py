"""Ways to bring bytes into a file that is not leased, each by a process of the files' own owner."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.intruder import URING, python

if TYPE_CHECKING:
    from pathlib import Path

    from leasefs.testing.bypass_scene import Scene

pytestmark = [pytest.mark.mount, pytest.mark.root]


@pytest.mark.parametrize(
    "flags",
    [
        "os.O_WRONLY",
        "os.O_RDWR | os.O_APPEND",
        "os.O_RDONLY | os.O_TRUNC",
        "os.O_WRONLY | os.O_DIRECT",
    ],
)
def test_open_for_writing(scene: Scene, flags: str) -> None:
    assert scene.intruder.attempt(f"os.open('theirs/f', {flags})").how == "EACCES"


def test_truncate_by_path(scene: Scene) -> None:
    assert scene.intruder.attempt("os.truncate('theirs/f', 0)").how == "EACCES"


def test_create_beside(scene: Scene) -> None:
    code = "os.open('theirs/new', os.O_CREAT | os.O_WRONLY, 0o644)"
    assert scene.intruder.attempt(code).how == "EACCES"


def test_reopen_a_descriptor_of_o_path_for_writing(scene: Scene) -> None:
    code = "fd = os.open('theirs/f', os.O_PATH); os.open(f'/proc/self/fd/{fd}', os.O_WRONLY)"
    assert scene.intruder.attempt(code).how == "EACCES"


def test_reopen_a_reading_descriptor_for_writing(scene: Scene) -> None:
    code = "fd = os.open('theirs/f', os.O_RDONLY); os.open(f'/dev/fd/{fd}', os.O_RDWR)"
    assert scene.intruder.attempt(code).how == "EACCES"


def test_write_through_a_reading_descriptor(scene: Scene) -> None:
    code = """
fd = os.open("theirs/f", os.O_RDONLY)
said = [refused(lambda: os.write(fd, b"x")), refused(lambda: os.ftruncate(fd, 0)),
        refused(lambda: os.posix_fallocate(fd, 0, 99)),
        refused(lambda: mmap.mmap(fd, 4, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE))]
"""
    assert scene.intruder.attempt(code).said == ["EBADF", "EINVAL", "EBADF", "EACCES"]


def test_make_a_private_mapping_shared(scene: Scene) -> None:
    """What is written to it stays in the process."""
    code = """
fd = os.open("theirs/f", os.O_RDONLY)
view = mmap.mmap(fd, 4, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
view[:3] = b"new"
said = refused(view.flush)
"""
    scene.intruder.attempt(code)
    assert (scene.source / "theirs/f").read_text() == "old\n"


@pytest.mark.parametrize(
    "copy",
    [
        "os.copy_file_range(source, target, 4)",
        "os.sendfile(target, source, 0, 4)",
        "pipe = os.pipe(); os.splice(source, pipe[1], 4); os.splice(pipe[0], target, 4)",
        "fcntl.ioctl(target, 0x40049409, source)  # FICLONE",
        "fcntl.ioctl(target, 0x4020940D, struct.pack('qQQQ', source, 0, 4, 0))  # FICLONERANGE",
    ],
    ids=["copy_file_range", "sendfile", "splice", "FICLONE", "FICLONERANGE"],
)
def test_let_the_kernel_copy_into_it(scene: Scene, copy: str) -> None:
    """With the only descriptor that there is: one for reading."""
    code = f"""
source, target = os.open("mine/f", os.O_RDONLY), os.open("theirs/f", os.O_RDONLY)
{copy}
"""
    assert scene.intruder.attempt(code).how in {"EBADF", "EINVAL", "ENOTSUP", "ENOTTY", "EXDEV"}


def test_dedupe_into_it(scene: Scene) -> None:
    """FIDEDUPERANGE asks for no descriptor for writing, only for ownership; it changes no byte by its nature."""
    code = """
source, target = os.open("mine/f", os.O_RDONLY), os.open("theirs/f", os.O_RDONLY)
fcntl.ioctl(source, 0xC0189436, bytearray(struct.pack("QQHHIqQQiI", 0, 4, 1, 0, 0, target, 0, 0, 0, 0)))
"""
    assert scene.intruder.attempt(code).how in {"ENOTSUP", "EINVAL", "ENOTTY", "EXDEV"}


def test_io_uring_opens_it(scene: Scene) -> None:
    """IORING_OP_OPENAT: the kernel does it, outside the caller's system calls."""
    code = f"""{URING}
path = ctypes.create_string_buffer(b"theirs/f")
uring(18, -100, ctypes.addressof(path), 0, 0, os.O_WRONLY)
"""
    assert scene.intruder.attempt(code).how == "EACCES"


def test_io_uring_works_at_all(scene: Scene) -> None:
    """Or the attempts by it would show nothing."""
    code = f"""{URING}
path = ctypes.create_string_buffer(b"mine/f")
fd = uring(18, -100, ctypes.addressof(path), 0, 0, os.O_WRONLY)
data = ctypes.create_string_buffer(b"new", 3)
said = uring(23, fd, ctypes.addressof(data), 3, 0)
"""
    assert scene.intruder.attempt(code) == ("done", 3)


def test_an_unnamed_file_that_gets_its_name(scene: Scene) -> None:
    code = """
fd = os.open("theirs", os.O_TMPFILE | os.O_WRONLY, 0o644)
checked(libc.linkat(-100, b"/proc/self/fd/%d" % fd, -100, b"theirs/new", 0x400))
"""
    assert scene.intruder.attempt(code).how in {"EACCES", "ENOTSUP"}


def test_ld_preload(scene: Scene, place: Path) -> None:
    """A library that tells programs that they may write, and asks the kernel itself."""
    shim, library = place / "shim.c", place / "shim.so"
    shim.write_text(
        "#define _GNU_SOURCE\n#include <unistd.h>\n#include <sys/syscall.h>\n"
        "int access(const char *p, int m) { return 0; }\n"
        "int faccessat(int d, const char *p, int m, int f) { return 0; }\n"
        "int open64(const char *p, int f, ...) { return syscall(SYS_openat, -100, p, f & ~01000, 0644); }\n"
        "int open(const char *p, int f, ...) { return syscall(SYS_openat, -100, p, f & ~01000, 0644); }\n"
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, shim], check=True)
    done = scene.intruder.shell(
        'LD_PRELOAD="$1" sh -c "test -w theirs/f && echo new > theirs/f"', str(library)
    )
    assert "ermission denied" in done.stderr


def test_a_program_without_a_c_library(scene: Scene, place: Path) -> None:
    source, program = place / "raw.c", place / "raw"
    source.write_text(
        "static long call(long n, long a, long b, long c) { long r;"
        ' __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory"); return r; }\n'
        'void _start(void) { long fd = call(2, (long)"theirs/f", 1, 0);'
        " call(60, fd < 0 ? -fd : 0, 0, 0); }\n"
    )
    subprocess.run(["gcc", "-nostdlib", "-static", "-o", program, source], check=True)
    assert scene.intruder.shell('"$1"', str(program)).returncode == 13


def test_no_tool_but_the_shell(scene: Scene) -> None:
    assert "ermission denied" in scene.intruder.shell(": > theirs/f").stderr
    assert (
        "ermission denied"
        in scene.intruder.shell(f"{python()} -c \"open('theirs/f', 'w')\"").stderr
    )
