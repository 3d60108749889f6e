"""What a ledger lets in by TCP: TLS of today, those it knows, and no more of one address than it may have."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client.certificates import good_until_s
from leasefs.client.clock import BoottimeClock
from leasefs.service.app import ROUTES
from leasefs.service.listener import Listener
from leasefs.service.places import AddressTaken, UnsafePlace, Unservable, listening_socket
from leasefs.service.routes import Auth
from leasefs.service.tcp import TcpDoor, tcp_sockets
from leasefs.service.tcp_options import TcpOptions
from leasefs.service.tls import Tls, TlsFiles
from leasefs.testing.certificates import Authority
from leasefs.testing.eventually import eventually
from leasefs.testing.ledger_process import SECRET, LedgerProcess, free_port, tls_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from leasefs.testing.certificates import Leaf

pytestmark = pytest.mark.slow

TIMEOUT_S = 20.0
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Door:
    """A ledger by TLS, and ways to knock."""

    def __init__(self, directory: Path, *options: str, days: float | None = None) -> None:
        self.directory = str(directory)
        os.chmod(directory, 0o700)
        self.authority = Authority(self.directory)
        self.leaf = self.authority.leaf(days=days)
        self.port = free_port()
        self.ledger = LedgerProcess(
            self.directory, *tls_options(self.leaf, self.port), *options, store=":memory:"
        )

    def bare(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S)

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.authority.file)

    def shaken(self, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        bare = self.bare()
        try:
            return (context or self.context()).wrap_socket(bare, server_hostname="127.0.0.1")
        except OSError:
            bare.close()
            raise

    def ask(self, method: str, path: str, authorization: str = "", body: str | None = None) -> Any:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, context=self.context(), timeout=TIMEOUT_S
        )
        try:
            headers = {"Authorization": authorization} if authorization else {}
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            response.said = response.read()  # type: ignore[attr-defined]
            return response
        finally:
            connection.close()

    def answers(self) -> bool:
        return bool(self.ask("GET", "/healthz").status == 200)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    made = Door(tmp_path_factory.mktemp("door"))
    with made.ledger:
        yield made


def test_health_and_description_are_anybodys(door: Door) -> None:
    anybodys = [route.path for route in ROUTES if route.auth is Auth.ANYBODY]
    assert sorted(anybodys) == ["/healthz", "/openapi.json"]
    for path in anybodys:
        assert door.ask("GET", path).status == 200


def test_nothing_else_is(door: Door) -> None:
    """Nor is anything of a request read before it is known whose it is."""
    for route in ROUTES:
        if route.auth is not Auth.ANYBODY:
            path = route.path.replace("{", "").replace("}", "")
            reply = door.ask(route.method, path, body="not even JSON" * 1000)
            assert reply.status == 401, route
            assert "Bearer" in reply.headers["www-authenticate"]


def test_a_local_session_is_nobody_by_tcp(door: Door) -> None:
    credentials = door.ledger.open_session("session-local", "local")
    reply = door.ask("GET", "/v1/leases", f"Leasefs {credentials}")
    assert reply.status == 403
    assert b"was opened by a local user" in reply.said


def test_a_session_that_a_token_opened(door: Door) -> None:
    token = door.ledger.add_agent("ann")
    session = {"session": "session-ann", "secret": SECRET, "agent": "ann", "territory": "t"}
    body = json.dumps({**session, "harness": "h", "kind": "shell", "host": "h", "pid": 1})
    assert door.ask("POST", "/v1/sessions", "Bearer " + token[:-1] + "x", body).status == 401
    assert door.ask("POST", "/v1/sessions", f"Bearer {token}", body).status == 201
    known = f"Leasefs session-ann:{SECRET}"
    assert door.ask("GET", "/v1/leases", known).status == 200
    claim = '{"key":"k","globs":["a"]}'
    assert door.ask("POST", "/v1/leases", known, claim).status == 201
    assert door.ask("POST", "/v1/leases", f"Leasefs session-ann:{SECRET}x", claim).status == 403


# -- what is not TLS of today -------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        HEALTH,
        b"\x16\x03\x01\x02\x00" + b"\x00" * 600,
        b"\x80\x2e\x01\x00\x02" + b"\x00" * 41,  # SSL 2
        os.urandom(2000),
        b"",
    ],
    ids=["plain HTTP", "half a hello", "ssl 2", "noise", "nothing"],
)
def test_what_is_no_tls_is_not_answered(door: Door, sent: Any) -> None:
    with door.bare() as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        heard = b""
        with connection.makefile("rb") as file:
            heard = _to_the_end(file)
    assert b"HTTP" not in heard
    assert b"ok" not in heard
    assert door.answers()


def _to_the_end(file: Any) -> bytes:
    try:
        return bytes(file.read())
    except ConnectionResetError:
        return b""


def test_old_tls_is_refused(door: Door) -> None:
    context = door.context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        door.shaken(context)
    assert door.answers()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_todays_tls_is_served(door: Door, version: ssl.TLSVersion) -> None:
    context = door.context()
    context.minimum_version = context.maximum_version = version
    with door.shaken(context) as connection:
        connection.sendall(HEALTH)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")


def test_tls_to_the_unix_socket_is_no_http(door: Door) -> None:
    with door.ledger.raw() as bare:
        context = door.context()
        with pytest.raises(ssl.SSLError):
            context.wrap_socket(bare, server_hostname="127.0.0.1")
    assert door.ledger.ask("GET", "/v1/status").status == 200


# -- limits before anybody is known -------------------------------------------------------------


def test_connections_of_one_address_are_counted_before_they_speak(tmp_path: Path) -> None:
    door = Door(tmp_path, "--limit", "connections=3")
    with door.ledger:
        mute = [door.bare() for _ in range(3)]
        # The kernel accepts for the ledger; that it was let go shows at the first byte.
        with door.bare() as one_more:
            assert one_more.recv(1) == b""
        assert door.ledger.ask("GET", "/v1/status").status == 200  # local users are others
        for connection in mute:
            connection.close()
        eventually(lambda: _would_answer(door))


def _would_answer(door: Door) -> bool:
    try:
        return door.answers()
    except OSError:
        return False


def test_who_connects_again_and_again_is_slowed_down(tmp_path: Path) -> None:
    door = Door(tmp_path, "--limit", "connects=2")
    with door.ledger:
        # Eight at once, one more after half a second of waiting; the rest is cut.
        knocks = [door.bare() for _ in range(30)]
        for connection in knocks:
            connection.sendall(HEALTH)  # no TLS, so each is closed sooner or later
        cut = sum(_is_closed(connection) for connection in knocks)
        assert cut == 30
        eventually(lambda: _would_answer(door))


def _is_closed(connection: socket.socket) -> bool:
    with connection:
        try:
            return connection.recv(4096) == b"" or connection.recv(4096) == b""
        except ConnectionResetError:
            return True


def test_a_handshake_that_stalls_is_cut_off_and_holds_nobody_up(
    serving: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TcpDoor, "handshake_s", 0.3)
    os.chmod(tmp_path, 0o700)
    authority = Authority(str(tmp_path))
    tls = Tls(TlsFiles(*authority.leaf()))
    context = ssl.create_default_context(cafile=authority.file)

    async def main() -> None:
        tcp = tcp_sockets("127.0.0.1:0")
        port = tcp[0].getsockname()[1]
        async with serving() as ledger:
            with listening_socket(str(tmp_path / "s")) as unix:
                listener = Listener(ledger.app, unix, None, tcp, tls)
                await listener.start()
                try:
                    async with asyncio.timeout(TIMEOUT_S):
                        stalled = [await _stalled(port, sent) for sent in STALLED]
                        assert (await _healthy(port, context)).startswith(b"HTTP/1.1 200")
                        # Each is cut off, whatever it has said so far.
                        for reader, writer in stalled:
                            assert b"HTTP" not in await _rest(reader)
                            writer.close()
                        assert (await _healthy(port, context)).startswith(b"HTTP/1.1 200")
                finally:
                    await listener.stop(5.0)

    asyncio.run(main())


STALLED = (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01", b"GET / HT")


async def _stalled(port: int, sent: Any) -> Any:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    return reader, writer


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def _healthy(port: int, context: ssl.SSLContext) -> bytes:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="127.0.0.1"
    )
    writer.write(HEALTH)
    answer = await reader.read()
    writer.close()
    return answer


# -- certificates -------------------------------------------------------------------------------


def _shown(door: Door, authority: Authority) -> bool:
    context = ssl.create_default_context(cafile=authority.file)
    try:
        door.shaken(context).close()
    except ssl.SSLError:
        return False
    return True


def test_a_bad_certificate_does_not_replace_the_one_in_use(tmp_path: Path) -> None:
    door = Door(tmp_path)
    with door.ledger:
        kept = door.shaken()
        with open(door.leaf.certificate, "w") as file:
            file.write("broken")
        door.ledger.process.send_signal(signal.SIGHUP)
        renewed = Authority(door.directory, "renewed")
        assert _shown(door, door.authority)
        leaf = renewed.leaf()
        os.replace(leaf.key, door.leaf.key)
        os.replace(leaf.certificate, door.leaf.certificate)
        door.ledger.process.send_signal(signal.SIGHUP)
        eventually(lambda: _shown(door, renewed))
        with kept:
            kept.sendall(HEALTH)
            assert kept.recv(4096).startswith(b"HTTP/1.1 200")
        assert door.ledger.stop() == 0
        said = door.ledger.process.stderr.read()  # type: ignore[union-attr]
        assert b"the certificate was not read again" in said


class TestTheEndOfItsCertificate:
    def test_is_told_at_the_start_and_when_it_is_read_again(self, tmp_path: Path) -> None:
        door = Door(tmp_path, days=400)
        with door.ledger:
            for days in (13, -1):
                door.authority.leaf(days=days)
                door.ledger.process.send_signal(signal.SIGHUP)
                eventually(lambda days=days: _days_left(door) <= days)  # type: ignore[misc]
            assert door.ledger.stop() == 0
            said = door.ledger.process.stderr.read().decode()  # type: ignore[union-attr]
        told = [line for line in said.splitlines() if "the certificate in use" in line]
        assert [("has expired on" in line, "expires on" in line) for line in told] == [
            (False, True),
            (True, False),
        ]
        assert all(door.leaf.certificate in line for line in told)

    def test_is_told_at_the_start(self, tmp_path: Path) -> None:
        door = Door(tmp_path, days=2)
        with door.ledger:
            assert door.ledger.stop() == 0
            said = door.ledger.process.stderr.read().decode()  # type: ignore[union-attr]
        assert "expires on" in said

    def test_is_told_each_day_of_the_one_in_use(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        leaf = Authority(str(tmp_path)).leaf(days=15)
        tls = Tls(TlsFiles(leaf.certificate, leaf.key))
        os.unlink(leaf.certificate)  # what is in use counts, not what lies there by now
        now_s = BoottimeClock().wall_s()
        for day in (0, 2, 16):
            tls.tell_of_its_end(now_s + day * 86400.0)
        assert [one.levelname for one in caplog.records] == ["WARNING", "WARNING"]


def _days_left(door: Door) -> float:
    lax = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    lax.check_hostname, lax.verify_mode = False, ssl.CERT_NONE
    with door.shaken(lax) as connection:
        der = connection.getpeercert(binary_form=True)
    return (good_until_s(der or b"") - BoottimeClock().wall_s()) / 86400.0


def refused(directory: Path, *options: str) -> str:
    command = [
        *(sys.executable, "-m", "leasefs.service", "--store", ":memory:"),
        *("--socket", str(directory / "s"), *options),
    ]
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1, done.stderr
    assert b"Traceback" not in done.stderr
    return done.stderr.decode()


def unfit(leaf: Leaf, client_ca: str = "") -> str:
    options = TcpOptions(("127.0.0.1:0",), (), leaf.certificate, leaf.key, client_ca)
    with pytest.raises(Unservable) as caught:
        options.tls()
    return str(caught.value)


def test_keys_that_cannot_be_used(tmp_path: Path) -> None:
    authority = Authority(str(tmp_path))
    leaf, other = authority.leaf(), authority.leaf(label="other")
    os.chmod(leaf.key, 0o644)
    assert "mode 0644" in unfit(leaf)
    os.chmod(leaf.key, 0o600)
    assert "key values mismatch" in unfit(leaf._replace(key=other.key))
    assert "cannot be read" in unfit(leaf._replace(key=str(tmp_path / "none")))
    assert "TLS cannot use" in unfit(leaf._replace(certificate=leaf.key))
    prose = tmp_path / "prose"
    prose.write_text("no certificate")
    assert "in PEM format" in unfit(leaf._replace(certificate=str(prose)))
    assert "TLS cannot use" in unfit(leaf, client_ca=str(tmp_path / "none"))
    locked = str(tmp_path / "locked.key")
    command = ["openssl", "ec", "-aes256", "-passout", "pass:x", "-in", leaf.key, "-out", locked]
    subprocess.run(command, check=True, capture_output=True)
    os.chmod(locked, 0o600)
    assert "the key is encrypted" in unfit(leaf._replace(key=locked))


def test_there_is_no_tcp_without_a_certificate_and_none_for_nothing(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o700)
    leaf = Authority(str(tmp_path)).leaf()
    assert "TLS only" in refused(tmp_path, "--listen", "127.0.0.1:0")
    half = ("--listen", "127.0.0.1:0", "--tls-cert", leaf.certificate)
    assert "--tls-key" in refused(tmp_path, *half)
    assert "for TCP only" in refused(tmp_path, "--tls-cert", leaf.certificate)


@pytest.mark.parametrize("where", ["8470", "host", "::1:8470", "127.0.0.1:99999", "[::1]", ":x"])
def test_where_it_cannot_listen(where: str) -> None:
    with pytest.raises(Unservable, match="write HOST:PORT"):
        tcp_sockets(where)


def test_all_addresses_are_those_of_both_kinds() -> None:
    try:
        made = tcp_sockets(f":{free_port()}")
    except UnsafePlace:
        pytest.skip("somebody took the port meanwhile")
    hosts = {one.getsockname()[0] for one in made}
    for one in made:
        one.close()
    assert "0.0.0.0" in hosts
    assert hosts <= {"0.0.0.0", "::"}


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(AddressTaken, match=f"cannot listen at {place}: Address already in use"):
            tcp_sockets(place)
