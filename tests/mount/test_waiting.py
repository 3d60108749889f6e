"""A request that waits holds up nobody else, and lets its caller go when a signal asks for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.eventually import eventually
from leasefs.testing.mounted import Mounted, mounted

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mount, pytest.mark.root]

# A wait for the ledger is two seconds at most; whoever is let go is so long before.
LET_GO_WITHIN_S = 1.0


@pytest.fixture
def mount(place: Path, request: pytest.FixtureRequest) -> Iterator[Mounted]:
    base = place / "".join(c if c.isalnum() else "-" for c in request.node.name)
    for name in ("source/in", "mount"):
        (base / name).mkdir(parents=True)
    for name in ("f", "g", "in/f", "in/g"):
        (base / "source" / name).write_text("old\n")
    with mounted(str(base / "source"), str(base / "mount"), "--lease", "in/**") as child:
        yield child


def silent_ledger(mount: Mounted) -> None:
    """`in` has lapsed, and the ledger does not answer; the other ground is leased."""
    mount.tell("confirm", leases=[], after_s=60)
    mount.hold(
        {"token": 1, "globs": ["in/**"], "trusted_for_s": -1}, {"token": 2, "globs": ["f", "g"]}
    )


WAITING = {
    "open": "open('in/f', 'w')",
    "create": "open('in/new', 'w')",
    "unlink": "os.unlink('in/f')",
    "rename": "os.rename('in/f', 'in/h')",
    "mkdir": "os.mkdir('in/d')",
    "chmod": "os.chmod('in/f', 0o600)",
    "write": "os.write(fd, b'x')",
}


def waiting(mount: Mounted, call: str, before: str = "") -> subprocess.Popen[str]:
    """A process that waits in this call."""
    program = (
        f"import os, signal\n{before}\nfd = os.open('in/g', os.O_WRONLY)\n"
        f"print(flush=True); input()\nprint(flush=True)\n{call}\nprint('done')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=mount.root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout
    process.stdout.readline()
    silent_ledger(mount)
    asked = mount.report()["asked"]
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()
    eventually(lambda: mount.report()["asked"] > asked)
    return process


@pytest.mark.parametrize(
    ("call", "number"),
    [
        *(pytest.param(call, signal.SIGTERM, id=name) for name, call in WAITING.items()),
        pytest.param(WAITING["write"], signal.SIGKILL, id="killed"),
    ],
)
def test_a_signal_ends_the_wait(mount: Mounted, call: str, number: signal.Signals) -> None:
    process = waiting(mount, call)
    before_s = time.monotonic()
    process.send_signal(number)
    process.communicate(timeout=10)
    assert time.monotonic() - before_s < LET_GO_WITHIN_S
    assert process.returncode == -number
    assert sorted(os.listdir(mount.source + "/in")) == ["f", "g"]
    assert mount.report()["refusals"] == []


def test_ctrl_c_is_an_exception_of_the_program(mount: Mounted) -> None:
    process = waiting(mount, WAITING["open"])
    before_s = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=10)
    assert time.monotonic() - before_s < LET_GO_WITHIN_S
    assert "KeyboardInterrupt" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "before",
    [
        "",  # of no consequence by default
        "signal.signal(signal.SIGCHLD, lambda *_: None)",
        "signal.signal(signal.SIGALRM, lambda *_: None)",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])",
    ],
)
def test_other_signals_do_not(mount: Mounted, before: str) -> None:
    """From a plain directory nobody gets EINTR; the wait comes to its own end."""
    number = {"SIGALRM": signal.SIGALRM, "SIGTERM": signal.SIGTERM}.get(
        next((word for word in ("SIGALRM", "SIGTERM") if word in before), ""), signal.SIGCHLD
    )
    process = waiting(mount, WAITING["open"], before)
    for _ in range(3):
        process.send_signal(number)
    _, said = process.communicate(timeout=10)
    assert "Permission denied" in said
    assert "Interrupted" not in said


@pytest.mark.slow
def test_a_stopped_caller_goes_on(mount: Mounted) -> None:
    process = waiting(mount, WAITING["open"])
    process.send_signal(signal.SIGTSTP)
    process.send_signal(signal.SIGCONT)
    _, said = process.communicate(timeout=10)
    assert "Permission denied" in said


@pytest.mark.slow
def test_others_go_on_meanwhile(mount: Mounted) -> None:
    """Some dozen wait, in the same directory as well; only what the kernel itself serialises waits with them."""
    silent_ledger(mount)
    stop = threading.Event()

    def want() -> None:
        while not stop.is_set():
            with pytest.raises(PermissionError):
                os.open(f"{mount.root}/in/f", os.O_WRONLY)

    threads = [threading.Thread(target=want) for _ in range(30)]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: mount.report()["asked"] >= len(threads))
        before_s = time.monotonic()
        for at in range(50):
            Path(mount.root, "f").write_text(str(at))
            assert Path(mount.root, "f").read_text() == str(at)
            assert Path(mount.root, "in/g").read_text() == "old\n"
            assert sorted(os.listdir(mount.root + "/in")) == ["f", "g"]
        assert time.monotonic() - before_s < LET_GO_WITHIN_S
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_an_unmount_ends_the_waits(mount: Mounted) -> None:
    """SIGTERM to the daemon while somebody waits: nobody hangs, and the mount is gone."""
    process = waiting(mount, WAITING["open"])
    mount.process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=10)
    assert "Error" in said
    assert mount.process.wait(timeout=15) == 0


def test_a_thread_that_waits_is_let_go_with_its_process(mount: Mounted) -> None:
    """The signal is for the process; the caller that waits is one of its threads."""
    call = (
        "import threading\n"
        "t = [threading.Thread(target=lambda: os.open('in/f', os.O_WRONLY)) for _ in range(3)]\n"
        "[x.start() for x in t]; [x.join() for x in t]"
    )
    process = waiting(mount, call)
    before_s = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)
    assert time.monotonic() - before_s < LET_GO_WITHIN_S


def test_the_kernel_lets_go_of_whoever_is_killed_before_it_was_heard(mount: Mounted) -> None:
    """The daemon is stopped: requests that it did not read yet are taken back."""
    mount.process.send_signal(signal.SIGSTOP)
    try:
        process = subprocess.Popen(["cat", f"{mount.root}/in/g"], stdout=subprocess.DEVNULL)
        eventually(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "cat\n")
        process.kill()
        process.wait(timeout=5)
    finally:
        mount.process.send_signal(signal.SIGCONT)
    assert Path(mount.root, "in/g").read_text() == "old\n"


@pytest.mark.slow
def test_an_unmount_loses_no_acknowledged_byte(mount: Mounted) -> None:
    """SIGTERM in the middle of writes, through a descriptor and through a mapping."""
    program = (
        "import mmap, sys\n"
        "root = sys.argv[1]\n"
        "at = 0\n"
        "while True:\n"
        "    with open(root + '/in/f', 'r+b') as file:\n"
        "        file.truncate(4096)\n"
        "        with mmap.mmap(file.fileno(), 4096) as mapping: mapping[:8] = b'%08d' % at\n"
        "    with open(root + '/in/g', 'a') as file: file.write(f'{at}\\n')\n"
        "    print(at, flush=True)\n"
        "    at += 1\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, mount.root],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout
        for _ in range(50):
            process.stdout.readline()
        mount.process.send_signal(signal.SIGTERM)
        assert mount.process.wait(timeout=15) == 0
        told = process.communicate(timeout=10)[0].split()
    written = Path(mount.source, "in/g").read_text().split()[1:]
    assert written[: int(told[-1]) + 1] == [str(at) for at in range(int(told[-1]) + 1)]
    assert int(Path(mount.source, "in/f").read_bytes()[:8]) >= int(told[-1])
