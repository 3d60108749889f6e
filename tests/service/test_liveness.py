"""Only proof counts: a holder that may be asleep is not dead (P3)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from leasefs.client.process import process_identity
from leasefs.service.liveness import known_dead

if TYPE_CHECKING:
    from pathlib import Path

_UNSHARE = ["unshare", "--time", "--boottime=5000", "--", sys.executable, "-c"]


def _boot() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def _start_ticks(pid: int) -> str:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rsplit(b") ", 1)[1].split()[19].decode()


def _state(pid: int) -> bytes:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rsplit(b") ", 1)[1][:1]


def _named(pid: int, *, boot: str = "", namespace: str = "", start: str = "") -> str:
    namespace = namespace or str(os.stat("/proc/self/ns/pid").st_ino)
    return f"{boot or _boot()}:{namespace}:{pid}:{start or _start_ticks(pid)}"


def test_a_running_process_is_not_dead() -> None:
    assert not known_dead(_named(os.getpid()))


def test_a_process_that_ended_is_dead() -> None:
    process = subprocess.Popen(["sleep", "100"])
    name = _named(process.pid)
    assert not known_dead(name)
    process.kill()
    process.wait()
    assert known_dead(name)


def test_a_zombie_is_dead() -> None:
    process = subprocess.Popen(["sleep", "100"])
    name = _named(process.pid)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert known_dead(name)
    process.wait()


def test_a_process_whose_first_thread_ended_goes_on() -> None:
    """Its other threads may still write."""
    program = (
        "import ctypes, threading, time, sys\n"
        "def go():\n"
        "    print('on', flush=True)\n"
        "    sys.stdin.read()\n"
        "threading.Thread(target=go).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"on\n"
        deadline_s = time.monotonic() + 20
        while _state(process.pid) != b"Z":
            assert time.monotonic() < deadline_s
        assert not known_dead(_named(process.pid))
    finally:
        process.kill()
        process.communicate()


def test_a_stopped_process_is_not_dead() -> None:
    process = subprocess.Popen(["sleep", "100"])
    process.send_signal(19)
    assert not known_dead(_named(process.pid))
    process.kill()
    process.wait()


def test_the_same_pid_with_another_start_is_another_process() -> None:
    assert known_dead(_named(os.getpid(), start="1"))


def test_names_with_parentheses_and_spaces_are_read(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("boot\n")
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").touch()
    pid = os.getpid()
    (tmp_path / str(pid)).mkdir()
    fields = " ".join(str(number) for number in range(4, 22))
    (tmp_path / f"{pid}/stat").write_bytes(f"{pid} (a) R 1 (b c)) S {fields} 4242 0\n".encode())
    inode = os.stat(tmp_path / "self/ns/pid").st_ino
    assert not known_dead(f"boot:{inode}:{pid}:4242", str(tmp_path))
    assert known_dead(f"boot:{inode}:{pid}:4243", str(tmp_path))


def test_a_process_that_proc_hides_is_not_dead(tmp_path: Path) -> None:
    """As with hidepid=2: it is there, but it has no directory."""
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("boot\n")
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").touch()
    inode = os.stat(tmp_path / "self/ns/pid").st_ino
    assert not known_dead(f"boot:{inode}:{os.getpid()}:1", str(tmp_path))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "nonsense",
        "a:b:c:d",
        ":::",
        "a:1:2",
        "a:1:2:3:4",
        "a:1:-2:3",
        "a:1:\uff12:3",
        "a:1:2:" + "9" * 200,
    ],
)
def test_what_cannot_be_read_proves_nothing(name: str) -> None:
    assert not known_dead(name)


def test_another_boot_or_namespace_proves_nothing() -> None:
    assert not known_dead(_named(2**22 - 1, boot="other", start="1"))
    assert not known_dead(_named(2**22 - 1, namespace="1", start="1"))


def test_without_proc_nothing_is_proven(tmp_path: Path) -> None:
    assert not known_dead(_named(os.getpid(), start="1"), str(tmp_path))


@pytest.mark.root
def test_nothing_is_known_of_a_process_of_another_time_namespace() -> None:
    """There its start time reads differently, on whichever side of the two the ledger is."""
    ask = "import sys; from leasefs.service.liveness import known_dead; print(known_dead(sys.argv[1]))"
    told = _in_another_time_namespace(ask, process_identity(os.getpid()))
    assert told == "False\n"
    name = "import os; from leasefs.client.process import process_identity as of; "
    with subprocess.Popen(
        [*_UNSHARE, f"{name} print(of(os.getpid()), flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        named = process.stdout.readline().strip()
        assert named.split(":")[2] == str(process.pid)
        assert not known_dead(named)
        process.communicate("")


def _in_another_time_namespace(program: str, *arguments: str) -> str:
    return subprocess.run(
        [*_UNSHARE, program, *arguments], check=True, capture_output=True, text=True
    ).stdout
