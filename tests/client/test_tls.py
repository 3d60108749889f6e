"""Both transports over TLS: whom they believe, what they show, and what they say when they do not."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
import threading
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import trio

from leasefs.client import api, tls
from leasefs.client.blocking import Link
from leasefs.client.ids import Credentials, new_credentials
from leasefs.client.trio_http import TrioLink
from leasefs.core.errors import Denied, InvalidRequest, LeasefsError, LedgerUnavailable
from leasefs.testing.certificates import Authority, self_signed
from leasefs.testing.eventually import eventually
from leasefs.testing.ledger_process import LedgerProcess, free_port, tls_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from leasefs.testing.certificates import Leaf

pytestmark = pytest.mark.slow

TIMEOUT_S = 20.0
CLIENT_FILES = ("LEASEFS_CLIENT_CERT_FILE", "LEASEFS_CLIENT_KEY_FILE")
CREDENTIALS = Credentials("S0", "secret")


def ask_blocking(url: str, call: api.Call, *, timeout_s: float = TIMEOUT_S) -> api.Body:
    return Link(url, CREDENTIALS, timeout_s=timeout_s).send(call)


def ask_trio(url: str, call: api.Call, *, timeout_s: float = TIMEOUT_S) -> api.Body:
    async def ask() -> api.Body:
        link = TrioLink(url, CREDENTIALS)
        try:
            return await link.send(call, timeout_s=timeout_s)
        finally:
            link.close()

    return trio.run(ask)


BOTH = (ask_blocking, ask_trio)
both = pytest.mark.parametrize("ask", BOTH, ids=["blocking", "trio"])


class World:
    """A ledger by TLS, its authority, and a token that is where a client finds it."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = str(directory)
        self.authority = Authority(self.directory)
        self.port = free_port()
        self.monkeypatch = monkeypatch
        monkeypatch.setenv("XDG_CONFIG_HOME", f"{directory}/config")
        monkeypatch.setenv("XDG_STATE_HOME", f"{directory}/state")
        monkeypatch.setenv("LEASEFS_CONFIG_SYSTEM", "")
        monkeypatch.setenv("LEASEFS_CA_FILE", self.authority.file)
        monkeypatch.delenv("LEASEFS_TOKEN_FILE", raising=False)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def ledger(self, *names: str, options: tuple[str, ...] = ()) -> LedgerProcess:
        leaf = self.authority.leaf(*names)
        return LedgerProcess(self.directory, *tls_options(leaf, self.port), *options)

    def show(self, leaf: Leaf | None) -> None:
        for variable, path in zip(CLIENT_FILES, leaf or ("", ""), strict=True):
            if path:
                self.monkeypatch.setenv(variable, path)
            else:
                self.monkeypatch.delenv(variable, raising=False)

    def give(self, token: str) -> str:
        path = os.path.join(self.directory, "token")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(token + "\n")
        self.monkeypatch.setenv("LEASEFS_TOKEN_FILE", path)
        return path


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


@pytest.fixture
def served(world: World) -> Iterator[LedgerProcess]:
    with world.ledger() as ledger:
        world.give(ledger.add_agent("ann"))
        yield ledger


# -- whom the client believes -------------------------------------------------------------------


def _stranger(world: World) -> str:
    other = Authority(world.directory, "other")
    world.monkeypatch.setenv("LEASEFS_CA_FILE", other.file)
    return "no authority that is trusted here has signed its certificate"


def _system_store(world: World) -> str:
    world.monkeypatch.delenv("LEASEFS_CA_FILE")
    return "name its file in LEASEFS_CA_FILE"


def _trusted(world: World) -> str:
    return ""


BELIEVED = {
    "good": (_trusted, {}, ""),
    "another authority": (_stranger, {}, "unknown-authority"),
    "the system's authorities": (_system_store, {}, "unknown-authority"),
    "another host": (_trusted, {"names": ("ledger.example", "127.0.0.2")}, "wrong-host"),
    "expired": (_trusted, {"expired": True}, "certificate"),
}


@pytest.mark.parametrize("case", BELIEVED.values(), ids=BELIEVED.keys())
def test_who_is_believed(world: World, case: Any) -> None:
    prepare, kind, reason = case
    words = prepare(world)
    leaf = world.authority.leaf(*kind.get("names", ()), expired=kind.get("expired", False))
    with LedgerProcess(world.directory, *tls_options(leaf, world.port)) as ledger:
        world.give(ledger.add_agent("ann"))
        for ask in BOTH:
            if not reason:
                assert ask(world.url, api.status())["protocol"] == "1.0"
                continue
            with pytest.raises(LedgerUnavailable, match="no safe connection to the led") as caught:
                ask(world.url, api.status())
            assert caught.value.details["tls"] == reason
            assert words in caught.value.message


def test_who_vouches_for_itself_is_not_believed(world: World) -> None:
    leaf = self_signed(world.directory)
    with LedgerProcess(world.directory, *tls_options(leaf, world.port)):
        for ask in BOTH:
            with pytest.raises(LedgerUnavailable) as caught:
                ask(world.url, api.status())
            assert caught.value.details["tls"] == "unknown-authority"


@both
def test_by_name_as_well_as_by_address(world: World, served: LedgerProcess, ask: Any) -> None:
    assert ask(f"https://localhost:{world.port}", api.status())["protocol"] == "1.0"


# -- what is no TLS, or none that is good enough ------------------------------------------------


@contextlib.contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that treats each connection so."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    serve(connection)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join(TIMEOUT_S)


def plain_http(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


def hangs_up(connection: socket.socket) -> None:
    connection.recv(65536)


def only_tls_1_1(world: World) -> Callable[[socket.socket], None]:
    leaf = world.authority.leaf()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.load_cert_chain(leaf.certificate, leaf.key)

    def serve(connection: socket.socket) -> None:
        context.wrap_socket(connection, server_side=True).close()

    return serve


@both
@pytest.mark.parametrize("kind", ["plain", "old", "gone"])
def test_what_is_no_tls_gets_no_secret(world: World, ask: Any, kind: str) -> None:
    world.give("leasefs_0123456789ab_" + "5" * 64)
    serve = {"plain": plain_http, "old": only_tls_1_1(world), "gone": hangs_up}[kind]
    words = {"plain": "does not speak TLS", "old": "no TLS of version 1.2 or later", "gone": "clos"}
    heard: list[bytes] = []

    def overheard(connection: socket.socket) -> None:
        heard.append(connection.recv(65536, socket.MSG_PEEK))
        serve(connection)

    with listening(overheard) as url, pytest.raises(LedgerUnavailable, match=words[kind]):
        ask(url, api.heartbeat("S0"))
    assert heard
    assert not any(b"secret" in said or b"leasefs_" in said for said in heard)


@both
def test_a_handshake_that_stalls_is_given_up(
    world: World, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasefs.client.trio_way.CONNECT_TIMEOUT_S", 0.2)
    silent = threading.Event()
    with listening(lambda _: bool(silent.wait(TIMEOUT_S)) and None) as url:
        with pytest.raises(LedgerUnavailable, match="in time"):
            ask(url, api.status(), timeout_s=0.2 if ask is ask_blocking else TIMEOUT_S)
        silent.set()


@both
def test_nobody_listens(world: World, ask: Any) -> None:
    with pytest.raises(LedgerUnavailable, match="no ledger listens there"):
        ask(world.url, api.status())


@both
def test_a_host_that_nobody_knows(world: World, ask: Any) -> None:
    with pytest.raises(LedgerUnavailable, match=r"cannot reach the ledger at https://no\.invalid"):
        ask("https://no.invalid:8470", api.status())


# -- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["LEASEFS_CA_FILE", "LEASEFS_CLIENT_CERT_FILE"])
@pytest.mark.parametrize("content", [None, "", "not a certificate"], ids=str)
def test_files_that_are_no_certificates(world: World, variable: str, content: str | None) -> None:
    path = os.path.join(world.directory, "x.pem")
    if content is not None:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(content)
    world.monkeypatch.setenv(variable, path)
    with pytest.raises(LeasefsError, match=rf"{path} cannot be (used|read)"):
        tls.client_context()


def test_a_key_that_others_can_read_is_not_shown(world: World) -> None:
    leaf = world.authority.leaf()
    os.chmod(leaf.key, 0o644)
    world.monkeypatch.setenv("LEASEFS_CLIENT_CERT_FILE", leaf.certificate)
    world.monkeypatch.setenv("LEASEFS_CLIENT_KEY_FILE", leaf.key)
    with pytest.raises(Denied, match="mode 0644"):
        tls.client_context()


def test_a_relative_path_is_refused(world: World) -> None:
    world.monkeypatch.setenv("LEASEFS_CA_FILE", "ca.pem")
    with pytest.raises(InvalidRequest, match=r"LEASEFS_CA_FILE: .*must be"):
        tls.client_context()


def opening(credentials: Credentials) -> api.Call:
    return api.open_session(
        session=credentials.session,
        secret=credentials.secret,
        agent="ann",
        harness="h",
        territory="t",
        kind="shell",
        host="h",
        pid=1,
        process="",
    )


# -- who the client is --------------------------------------------------------------------------


@both
def test_without_a_token_it_says_where_to_put_one(
    world: World, served: LedgerProcess, ask: Any
) -> None:
    world.monkeypatch.delenv("LEASEFS_TOKEN_FILE")
    with pytest.raises(Denied, match=rf"config/leasefs/tokens/127.0.0.1:{world.port}, mode 0600"):
        ask(world.url, opening(CREDENTIALS))


@both
def test_a_token_that_is_unknown_is_denied(world: World, served: LedgerProcess, ask: Any) -> None:
    world.give("leasefs_0123456789ab_" + "5" * 64)
    with pytest.raises(Denied, match="knows no such token"):
        ask(world.url, opening(CREDENTIALS))


def test_a_session_outlives_its_token(world: World, served: LedgerProcess) -> None:
    credentials = new_credentials()
    link = Link(world.url, credentials, timeout_s=TIMEOUT_S)
    link.send(opening(credentials))
    served.ask("POST", "/v1/agents/ann/rotate", {"token_id": "0" * 12, "token_sha256": "0" * 64})
    assert link.send(api.leases())["leases"] == []
    assert link.send(api.claim(["a"], key="k"))["state"] == "granted"


def test_a_token_that_was_renewed_is_read_again(world: World, served: LedgerProcess) -> None:
    link = Link(world.url, timeout_s=TIMEOUT_S)
    assert link.send(api.status())
    served.ask("POST", "/v1/agents/ann/revoke", {})
    world.give(served.add_agent("bob"))
    assert link.send(api.status())


def test_a_certificate_is_shown_where_it_is_asked_for(world: World) -> None:
    clients = Authority(world.directory, "clients")
    none_or_wrong = [None, world.authority.leaf("ann", label="ann")]
    right = clients.leaf("ann", label="ann")
    with world.ledger(options=("--tls-client-ca", clients.file)) as ledger:
        world.give(ledger.add_agent("ann"))
        for ask in BOTH:
            for leaf in none_or_wrong:
                world.show(leaf)
                with pytest.raises(LedgerUnavailable, match="in LEASEFS_CLIENT_CERT_FILE"):
                    ask(world.url, api.status())
            world.show(right)
            assert ask(world.url, api.status())["protocol"] == "1.0"


# -- streams, renewed certificates, restarts ----------------------------------------------------


def test_a_stream_goes_on_while_the_certificate_is_renewed(
    world: World, served: LedgerProcess
) -> None:
    with contextlib.closing(_events(world)) as events:
        _renew_meanwhile(world, served, events)


def _events(world: World) -> Any:
    return Link(world.url, timeout_s=TIMEOUT_S).stream(api.follow(after=0))


def _renew_meanwhile(world: World, served: LedgerProcess, events: Any) -> None:
    assert next(events).type == "ledger-started"
    renewed = Authority(world.directory, "renewed")
    fresh, leaf = renewed.leaf(), world.authority.leaf()
    os.replace(fresh.key, leaf.key)
    os.replace(fresh.certificate, leaf.certificate)
    served.process.send_signal(signal.SIGHUP)
    world.monkeypatch.setenv("LEASEFS_CA_FILE", renewed.file)

    def believed() -> bool:
        try:
            return bool(Link(world.url, timeout_s=TIMEOUT_S).send(api.status()))
        except LedgerUnavailable:
            return False

    eventually(believed)
    served.add_agent("later")
    while next(events).type != "agent-added":
        pass
