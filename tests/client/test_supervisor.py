"""What a supervisor is told, over a real datagram socket."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from leasefs.client.supervisor import Supervisor, supervisor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=["path", "abstract"])
def heard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    name = str(tmp_path / "notify") if request.param == "path" else f"@leasefs-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name.replace("@", "\0", 1))
        listening.setblocking(False)
        yield name, listening


def test_it_hears_all_that_is_said(heard: tuple[str, socket.socket]) -> None:
    name, listening = heard
    told = Supervisor(name)
    told.ready("2 leases\nheld")
    told.alive()
    told.stopping()
    said = [listening.recv(4096).decode() for _ in range(3)]
    assert said == ["READY=1\nSTATUS=2 leases held", "WATCHDOG=1", "STOPPING=1"]


def test_a_status_is_said_once(heard: tuple[str, socket.socket]) -> None:
    name, listening = heard
    told = Supervisor(name)
    for text in ("a", "a", "b", "a"):
        told.status(text)
    assert [listening.recv(99) for _ in range(3)] == [b"STATUS=a", b"STATUS=b", b"STATUS=a"]
    with pytest.raises(BlockingIOError):
        listening.recv(99)


def test_children_do_not_hear_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/notify")
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    found = supervisor()
    assert found.listens
    assert found.watchdog_s == 30.0
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} & set(os.environ)


@pytest.mark.parametrize(
    ("address", "usec", "pid", "expected"),
    [
        ("/run/notify", "2500000", "", 2.5),
        ("/run/notify", "2500000", "1", None),
        ("/run/notify", "", "", None),
        ("/run/notify", "0", "", None),
        ("/run/notify", "soon", "", None),
        ("", "2500000", "", None),
        ("relative", "2500000", "", None),
    ],
)
def test_the_watchdog_of_another_is_not_ours(
    monkeypatch: pytest.MonkeyPatch, address: str, usec: str, pid: str, expected: float | None
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.setenv("WATCHDOG_PID", pid)
    assert supervisor().watchdog_s == expected


def test_a_supervisor_that_is_gone_stops_nobody(tmp_path: Path) -> None:
    told = Supervisor(str(tmp_path / "gone"))
    told.ready("x")
    told.alive()


def test_without_one_nothing_is_said() -> None:
    told = Supervisor()
    assert not told.listens
    told.ready("x")
