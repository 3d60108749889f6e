"""Ways to be heard by a ledger or a mount as somebody else, or to be taken for a ledger."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from leasefs.client.address import parse_url
from leasefs.testing.bypass_agent import leasefs
from leasefs.testing.intruder import AGENT_UID, Intruder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from leasefs.testing.agents import Agent

pytestmark = [pytest.mark.mount, pytest.mark.root]


@pytest.mark.parametrize(
    "address",
    [
        "unix:@ledger",
        "unix:\\0ledger",
        "unix:ledger.sock",
        "http://192.0.2.1:80",
        "http://ledger:80",
    ],
)
def test_an_address_that_anybody_can_take(agent: Agent, address: str) -> None:
    """An abstract name, a relative path, another host in clear: not spoken to."""
    done = leasefs("/", "leases", LEASEFS_LEDGER=address)
    assert done.returncode == 2, done


FAKE = """
path = given[0]
if len(given) > 1:
    os.symlink(path, given[1])
fake = socket.socket(socket.AF_UNIX)
fake.bind(path)
os.chmod(path, 0o666)
fake.listen()
tell("listens")
fake.settimeout(20)
try:
    connection, _ = fake.accept()
    connection.settimeout(20)
    said = connection.recv(65536).decode("latin-1")
except TimeoutError:
    said = "nobody came"
"""


@pytest.mark.parametrize("by_symlink", [False, True])
def test_another_users_ledger_where_the_client_looks(
    agent: Agent, place: Path, by_symlink: bool
) -> None:
    """It hears no secret: the kernel says whose process listens."""
    room = place / f"room-{by_symlink}"
    room.mkdir()
    os.chown(room, AGENT_UID, AGENT_UID)
    path = str(room / "real.sock")
    asked = str(room / "ledger.sock") if by_symlink else path
    fake = Intruder("/").stays(FAKE, path, *([asked] if by_symlink else []))
    assert fake.hear() == "listens"
    done = leasefs(
        str(place),
        "claim",
        "--agent",
        "eve",
        "x",
        LEASEFS_LEDGER=f"unix:{asked}",
    )
    assert done.returncode != 0
    outcome = _ended(fake, path)
    assert "secret" not in str(outcome.said), outcome


def _ended(fake: object, path: str) -> object:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as last:
        last.connect(path)
    return fake.outcome()  # type: ignore[attr-defined]


def test_another_users_control_socket(agent: Agent) -> None:
    path = parse_url(agent.about["control"]).socket_path
    code = "socket.socket(socket.AF_UNIX).connect(given[0])"
    assert Intruder("/").attempt(code, path).how == "EACCES"


def test_another_users_ledgers_socket(agent: Agent) -> None:
    path = parse_url(agent.about["ledger"]).socket_path
    code = "socket.socket(socket.AF_UNIX).connect(given[0])"
    assert Intruder("/").attempt(code, path).how == "EACCES"


REQUEST = """
connection = socket.socket(socket.AF_UNIX)
connection.connect(given[0])
connection.sendall(b"POST %b HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\n{}" % given[1].encode())
said = connection.recv(65536).decode()
"""


@pytest.mark.parametrize(
    "path", ["/v1/mount/stop", "/v1/leases", "/v1/mount/heartbeat", "/v1/leases/L1/revoke"]
)
def test_a_control_socket_that_somebody_left_open_to_all(
    agent: Agent, place: Path, path: str
) -> None:
    """Where modes do not hold them back, the kernel's word of who connects does."""
    real = parse_url(agent.about["control"]).socket_path
    os.chmod(real, 0o666)
    try:
        with _reachable(real, place) as link:
            said = Intruder("/").attempt(REQUEST, link, path).said
    finally:
        os.chmod(real, 0o600)
    assert said.startswith("HTTP/1.1 403 "), said


@pytest.mark.parametrize("path", ["/v1/sessions", "/v1/leases/L1/revoke", "/v1/batch"])
def test_a_ledgers_socket_that_somebody_left_open_to_all(
    agent: Agent, place: Path, path: str
) -> None:
    real = parse_url(agent.about["ledger"]).socket_path
    mode = os.stat(real).st_mode & 0o777
    os.chmod(real, 0o666)
    try:
        with _reachable(real, place) as link:
            said = Intruder("/").attempt(REQUEST, link, path).said
    finally:
        os.chmod(real, mode)
    assert re.match(r"HTTP/1.1 40[13] ", said), said


@contextlib.contextmanager
def _reachable(real: str, place: Path) -> Iterator[str]:
    """The socket by a mount of its directory where everybody can go."""
    room = place / "sockets"
    room.mkdir(exist_ok=True)
    directory = os.path.dirname(real)
    mode = os.stat(directory).st_mode & 0o777
    subprocess.run(["mount", "--bind", directory, room], check=True)
    os.chmod(directory, 0o755)
    try:
        yield str(room / os.path.basename(real))
    finally:
        os.chmod(directory, mode)
        subprocess.run(["umount", room], check=True)
