"""Ways past a mount by what a process may do with memory, pipes and names of its own, or have the kernel do for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasefs.testing.intruder import URING

if TYPE_CHECKING:
    from leasefs.testing.bypass_scene import Scene

pytestmark = [pytest.mark.mount, pytest.mark.root]

# A shared mapping for reading of the first page of a file; libc's own calls, for what Python's mmap would refuse itself.
MAPPED = """
libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
fd = os.open(given[0], os.O_RDONLY)
page = libc.mmap(None, 4096, 1, 1, fd, 0)
"""
WRITABLE = "checked(libc.mprotect(ctypes.c_void_p({0}), 4096, 3)); ctypes.memmove({0}, b'new', 3)"


@pytest.mark.parametrize(
    "code",
    [
        WRITABLE.format("page"),
        "again = libc.mremap(ctypes.c_void_p(page), ctypes.c_size_t(0), ctypes.c_size_t(4096), 1)\n"
        + WRITABLE.format("again"),
        "fd = os.open(f'/proc/self/map_files/{page:x}-{page + 4096:x}', os.O_RDWR)",
    ],
    ids=["mprotect", "a second mapping by mremap", "map_files"],
)
def test_make_a_reading_mapping_writable(scene: Scene, code: str) -> None:
    how = scene.intruder.attempt(MAPPED + code, "theirs/f").how
    assert how in {"EACCES", "EPERM"}


@pytest.mark.parametrize(
    "code",
    [
        "os.pwrite(os.open('/proc/self/mem', os.O_RDWR), b'new', page)",
        """
data = ctypes.create_string_buffer(b"new")
here, there = (ctypes.c_uint64 * 2)(ctypes.addressof(data), 3), (ctypes.c_uint64 * 2)(page, 3)
checked(libc.process_vm_writev(os.getpid(), ctypes.byref(here), 1, ctypes.byref(there), 1, 0))
""",
    ],
    ids=["/proc/self/mem", "process_vm_writev"],
)
def test_write_to_it_as_a_debugger_does(scene: Scene, code: str) -> None:
    """One that may write to pages that their process may only read."""
    assert scene.intruder.attempt(MAPPED + code, "theirs/f").how in {"EIO", "EFAULT"}


def test_write_to_a_private_mapping_as_a_debugger_does(scene: Scene) -> None:
    """It stays in the process."""
    code = MAPPED.replace("1, 1, fd", "1, 2, fd") + (
        "os.pwrite(os.open('/proc/self/mem', os.O_RDWR), b'new', page)\n"
        "said = [ctypes.string_at(page, 4).decode(), os.read(fd, 4).decode()]"
    )
    assert scene.intruder.attempt(code, "theirs/f").said == ["new\n", "old\n"]


def test_write_into_its_page_in_a_pipe(scene: Scene) -> None:
    """A page that was spliced is the file's own: what is written to the pipe after it goes elsewhere."""
    code = """
fd = os.open("theirs/f", os.O_RDONLY)
out, into = os.pipe()
for _ in range(16):
    os.write(into, b"x" * 4096)
    os.read(out, 4096)
os.splice(fd, into, 1, offset_src=0)
os.write(into, b"new")
said = [os.read(out, 9).decode(), os.pread(fd, 9, 0).decode()]
"""
    assert scene.intruder.attempt(code).said == ["onew", "old\n"]


def test_take_its_pages_away(scene: Scene) -> None:
    """MADV_REMOVE punches a hole, through a mapping that may be written."""
    code = MAPPED + "checked(libc.madvise(ctypes.c_void_p(page), 4096, 9))"
    assert scene.intruder.attempt(code, "theirs/f").how == "EACCES"


@pytest.mark.parametrize("call", ["swapon(b'theirs/f', 0)", "acct(b'theirs/f')"])
def test_have_the_kernel_write_to_it(scene: Scene, call: str) -> None:
    assert scene.intruder.attempt(f"checked(libc.{call})").how == "EPERM"


def test_a_core_dump_beside_it(scene: Scene) -> None:
    """Where the kernel is told to put it into the working directory, it is refused as any file is."""
    code = """
import resource
resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))
os.chdir("theirs")
libc.prctl(4, 1, 0, 0, 0)  # dumpable, as it is not after setuid
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGABRT)
said = [os.WTERMSIG(os.waitpid(child, 0)[1]), sorted(os.listdir("."))]
"""
    assert scene.intruder.attempt(code).said == [6, ["d", "f", "g"]]


@pytest.mark.parametrize("name", ["git", "leasefs", "fusermount3"])
def test_the_name_of_another_program(scene: Scene, name: str) -> None:
    """By prctl(2) and by argv: no program may more than another."""
    code = "libc.prctl(15, given[0].encode(), 0, 0, 0); os.open('theirs/f', os.O_WRONLY)"
    assert scene.intruder.attempt(code, name).how == "EACCES"
    code = "os.execv('/bin/sh', [given[0], '-c', 'echo \"[\\\\\"$( (echo x >theirs/f) 2>/dev/null || echo refused)\\\\\", 0]\"'])"
    assert scene.intruder.attempt(code, name).how == "refused"


NAMED = (
    URING
    + """
buffers = [ctypes.create_string_buffer(name.encode()) for name in given]
one, other = map(ctypes.addressof, buffers)
"""
)
UNLINK, RENAME, EXCHANGE = (
    "uring(36, -100, one, 0, 0)",
    "uring(35, -100, one, 0xffffff9c, other)",
    ("uring(35, -100, one, 0xffffff9c, other, 2)"),
)
MKDIR, SYMLINK = "uring(37, -100, other, 0o755, 0)", "uring(38, -100, one, 0, other)"
LINK = "uring(39, -100, one, 0xffffff9c, other)"


@pytest.mark.parametrize(
    ("code", "one", "other"),
    [
        (UNLINK, "theirs/f", ""),
        (RENAME, "theirs/f", "mine/new"),
        (RENAME, "mine/g", "theirs/new"),
        (EXCHANGE, "theirs/f", "mine/g"),
        (MKDIR, "", "theirs/new"),
        (SYMLINK, "f", "theirs/new"),
        (LINK, "theirs/f", "mine/new"),
        (LINK, "mine/g", "theirs/new"),
    ],
)
def test_names_by_io_uring(scene: Scene, code: str, one: str, other: str) -> None:
    assert scene.intruder.attempt(NAMED + code, one, other).how == "EACCES"


def test_io_uring_changes_names_at_all(scene: Scene) -> None:
    """Allowed under the lease: so the refusals say something."""
    for code, one, other in (
        (MKDIR, "", "mine/made"),
        (SYMLINK, "f", "mine/made/link"),
        (LINK, "mine/g", "mine/made/g"),
        (RENAME, "mine/made/g", "mine/made/h"),
        (EXCHANGE, "mine/made/h", "mine/made/link"),
        (UNLINK, "mine/made/h", ""),
        (UNLINK, "mine/made/link", ""),
    ):
        assert scene.intruder.attempt(NAMED + code, one, other).how == "done", code
    assert scene.intruder.attempt("os.rmdir('mine/made')").how == "done"


def test_a_root_directory_of_ones_own(scene: Scene) -> None:
    """As root of a user namespace, by another name for every path."""
    code = "checked(libc.unshare(0x10000000)); os.chroot('theirs'); os.open('/f', os.O_WRONLY)"
    assert scene.intruder.attempt(code).how == "EACCES"


def test_have_every_open_wait_for_ones_word(scene: Scene) -> None:
    """fanotify(7) with permission events."""
    assert scene.intruder.attempt("checked(libc.fanotify_init(4, 0))").how == "EPERM"


def test_a_lease_of_the_kernels_own(scene: Scene) -> None:
    """Not covered: fcntl(2), F_SETLEASE; who opens the file meanwhile waits for `fs.lease-break-time` seconds at most."""
    code = "fd = os.open('theirs/f', os.O_RDONLY); fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK); tell('has it'); next(lines())"
    process = scene.intruder.stays("signal.signal(signal.SIGIO, signal.SIG_IGN)\n" + code)
    assert process.hear() == "has it"
    ask = "os.open('theirs/f', os.O_RDONLY | os.O_NONBLOCK)"
    assert scene.intruder.attempt(ask).how == "EAGAIN"
    process.go_on()
    assert process.outcome().how == "done"
    assert scene.intruder.attempt(ask).how == "done"
