"""A ledger under a supervisor: on a socket that is passed to it, and telling how it does."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import api
from leasefs.client.address import Address
from leasefs.client.blocking import Link
from leasefs.client.supervisor import Supervisor
from leasefs.core.commands import StartLedger
from leasefs.core.state import State
from leasefs.service.watched import Watched
from leasefs.service.writer import LedgerWriter
from leasefs.store.memory import MemoryStore
from leasefs.testing.clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.slow

TIMEOUT_S = 30.0
# What systemd does between fork(2) and execve(2): the pid is known only there.
_START = """
import fcntl, os, sys
away = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 64) for fd in sys.argv[1].split(",")]
for place, fd in enumerate(away, 3):
    os.dup2(fd, place)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[2])
os.execv(sys.executable, [sys.executable, "-m", "leasefs.service", *sys.argv[3:]])
"""


class Place:
    def __init__(self, directory: Path) -> None:
        self.socket_path = str(directory / "ledger.sock")
        self.store = str(directory / "store")
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(self.socket_path)
        self.listening.listen(64)
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(str(directory / "notify"))
        self.notify.settimeout(TIMEOUT_S)
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(
        self, *options: str, others: Sequence[socket.socket] = (), watchdog_usec: int = 0
    ) -> subprocess.Popen[bytes]:
        """A ledger that is passed the Unix socket and those others."""
        environment = {**os.environ, "NOTIFY_SOCKET": str(self.notify.getsockname())}
        if watchdog_usec:
            environment["WATCHDOG_USEC"] = str(watchdog_usec)
        fds = [one.fileno() for one in (self.listening, *others)]
        command: Sequence[str] = [
            sys.executable,
            "-c",
            _START,
            ",".join(map(str, fds)),
            str(len(fds)),
            "--store",
            self.store,
            *options,
        ]
        process = subprocess.Popen(command, pass_fds=fds, env=environment, stderr=subprocess.PIPE)
        self.processes.append(process)
        return process

    def heard(self, wanted: str) -> str:
        """Listen until a message has this in it."""
        while True:
            said = self.notify.recv(4096).decode()
            if wanted in said:
                return said

    def seq(self) -> int:
        link = Link(Address(socket_path=self.socket_path).url, timeout_s=TIMEOUT_S)
        status: dict[str, Any] = link.send(api.status())
        return int(status["seq"])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    for process in made.processes:
        process.kill()
        process.communicate()
    made.listening.close()
    made.notify.close()


def test_it_serves_what_is_passed_and_says_when(place: Place) -> None:
    process = place.start(watchdog_usec=300_000)
    said = place.heard("READY=1")
    assert "STATUS=0 leases, 0 waiting, 0 sessions" in said
    assert place.seq() >= 1
    place.heard("WATCHDOG=1")
    process.send_signal(signal.SIGTERM)
    place.heard("STOPPING=1")
    assert process.wait(TIMEOUT_S) == 0


def test_who_connects_between_two_ledgers_waits_for_the_next(place: Place) -> None:
    first = place.start()
    place.heard("READY=1")
    before = place.seq()
    first.send_signal(signal.SIGTERM)
    assert first.wait(TIMEOUT_S) == 0
    assert Path(place.socket_path).is_socket()
    with socket.socket(socket.AF_UNIX) as early:
        early.settimeout(TIMEOUT_S)
        early.connect(place.socket_path)
        early.sendall(b"GET /healthz HTTP/1.1\r\nHost: ledger\r\n\r\n")
        place.start()
        assert early.recv(4096).startswith(b"HTTP/1.1 200 ")
    assert place.seq() > before


def test_an_idle_one_ends_well_and_leaves_its_socket(place: Place) -> None:
    first = place.start("--idle-s", "0.2")
    place.heard("READY=1")
    assert first.wait(TIMEOUT_S) == 0
    place.start()
    place.heard("READY=1")
    assert place.seq() >= 1


def test_a_ledger_that_is_killed_leaves_its_socket_to_the_next(place: Place) -> None:
    first = place.start()
    place.heard("READY=1")
    first.kill()
    first.wait(TIMEOUT_S)
    place.start()
    place.heard("READY=1")
    assert place.seq() >= 1


async def signs_of_life(writer: LedgerWriter, wait_for: int, place: Place) -> int:
    """How many of them come while the loop turns `wait_for` times."""
    place.notify.setblocking(False)
    watched = Watched(Supervisor(str(place.notify.getsockname()), 1e-3), writer, lambda: 0)
    running = asyncio.create_task(watched.run())
    for _ in range(wait_for):
        await asyncio.sleep(1e-3)
    running.cancel()
    said = []
    while True:
        try:
            said.append(place.notify.recv(4096))
        except BlockingIOError:
            return said.count(b"WATCHDOG=1")


def test_an_append_that_hangs_in_the_disk_ends_the_signs_of_life(place: Place) -> None:
    disk = threading.Event()

    class HungStore(MemoryStore):
        def append(self, expected_seq: int, data: Sequence[bytes]) -> int:
            disk.wait(TIMEOUT_S)
            return super().append(expected_seq, data)

    async def scenario() -> tuple[int, int]:
        writer = LedgerWriter(HungStore(), FakeClock(), State())
        before = await signs_of_life(writer, 50, place)
        appending = asyncio.create_task(writer.run())
        asked = writer.submit(StartLedger(server="x", boot_id="b", boottime_s=0.0))
        await asyncio.sleep(0.05)
        during = await signs_of_life(writer, 50, place)
        disk.set()
        await asked
        appending.cancel()
        writer.close()
        return before, during

    before, during = asyncio.run(scenario())
    assert before > 0
    assert during == 0


def test_two_sockets_are_one_too_many(place: Place) -> None:
    process = place.start(others=[place.listening])
    _, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert b"2 Unix sockets were passed" in said


def test_a_passed_socket_of_tcp_is_not_served_without_a_certificate(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as tcp:
        process = place.start(others=[tcp])
        _, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert b"over TCP a ledger speaks TLS only" in said


def test_what_does_not_listen_is_refused(place: Place) -> None:
    place.listening.close()
    place.listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    process = place.start()
    _, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert b"no socket" in said or b"is not a stream socket" in said
