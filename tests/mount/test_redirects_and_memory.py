"""What a caller means to do is read from its memory, whose lock somebody may hold who waits for us."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.eventually import eventually
from leasefs.testing.mounted import mounted
from leasefs.testing.redirected import fill, until_redirected

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.mount,
    pytest.mark.root,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls"),
]

MMAP, STAT = "9", "262"
# One thread puts another mapping over one, whose pages the kernel then writes back with the memory's lock held
# (fuse_vma_close), in more requests than it sends at once; another one looks for a file in the redirect.
MAPS_AND_LOOKS = """
import ctypes, mmap, os, sys, threading, time
STEP, PAGES = 2 * mmap.PAGESIZE, 64
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
fd = os.open("mapped", os.O_RDWR)
os.ftruncate(fd, STEP * PAGES)
at = libc.mmap(None, ctypes.c_size_t(STEP * PAGES), 3, mmap.MAP_SHARED, fd, 0)
for page in range(PAGES):
    ctypes.memset(at + STEP * page, 1, 1)
print("ready", flush=True)
sys.stdin.readline()
flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10  # MAP_FIXED
over = ctypes.c_void_p(at), ctypes.c_size_t(STEP * PAGES), 3, flags, -1, 0
mapping = threading.Thread(target=libc.mmap, args=over)
mapping.start()
while not open(f"/proc/self/task/{mapping.native_id}/syscall").read().startswith("9 "):
    time.sleep(0.01)
os.stat("build/7")
mapping.join()
print("done", flush=True)
"""


@pytest.fixture
def source(place: Path) -> Path:
    source = place / "source"
    source.mkdir()
    (source / ".gitignore").write_text("build/\n")
    (source / "mapped").touch()
    fill(source / "build")
    subprocess.run(["git", "init", "-q", source], check=True)
    return source


@contextlib.contextmanager
def running(program: str, directory: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def calls_of(pid: int) -> set[str]:
    """The system calls that the threads of a process wait in, by number."""
    tasks = Path(f"/proc/{pid}/task")
    return {(tasks / task / "syscall").read_text().split()[0] for task in os.listdir(tasks)}


def test_memory_that_waits_for_us_is_not_waited_for(source: Path) -> None:
    with (
        mounted(str(source), str(source), "--redirects", "--lease", "mapped") as mount,
        running(MAPS_AND_LOOKS, mount.root) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        until_redirected(mount, "build")
        mount.process.send_signal(signal.SIGSTOP)
        try:
            process.stdin.write("go\n")
            process.stdin.flush()
            eventually(lambda: {MMAP, STAT} <= calls_of(process.pid), what="both calls")
        finally:
            mount.process.send_signal(signal.SIGCONT)
        try:
            assert process.communicate(timeout=10)[0] == "done\n"
        except subprocess.TimeoutExpired:
            mount.process.kill()  # it waits for the caller's memory, as the caller does for it
            raise
