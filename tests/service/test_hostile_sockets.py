"""The ledger among hostile clients: it answers others, says no 500, stays small, and gets its descriptors back."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.testing.eventually import eventually
from leasefs.testing.hostile_cases import ATTEMPTS, SMUGGLING
from leasefs.testing.hostile_sockets import Served, get, many, send_all_that_goes, until_eof
from leasefs.testing.ledger_process import LedgerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

MIB = 1 << 20
MOST_KIB = 64 * 1024
NO_LIMITS = ("--limit", "requests=0")


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerProcess]:
    directory = tmp_path_factory.mktemp("ledger")
    os.chmod(directory, 0o700)
    with LedgerProcess(str(directory), *NO_LIMITS, store=":memory:") as ledger:
        yield ledger
        assert ledger.stop() == 0


@pytest.fixture
def served(ledger: LedgerProcess) -> Served:
    return Served(ledger.socket_path, ledger.process.pid, "/openapi.json")


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_others_are_answered_and_nothing_grows(
    served: Served, attempt: Callable[[Served], None]
) -> None:
    with served.bounded(MOST_KIB):
        attempt(served)


@pytest.mark.parametrize("form", SMUGGLING.values(), ids=SMUGGLING.keys())
def test_nothing_is_smuggled_past_a_request(
    ledger: LedgerProcess, served: Served, form: Any
) -> None:
    """What may be two requests to somebody is never acted upon as two."""
    opening = (
        b'{"session":"session-smuggled","secret":"%b","agent":"s","harness":"h","territory":"t","kind":"shell"}'
        % (b"s" * 40)
    )
    second = b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (
        len(opening),
        opening,
    )
    seq = ledger.ask("GET", "/v1/status").json["seq"]
    with served.connect() as connection:
        send_all_that_goes(connection, b"POST /v1/leases HTTP/1.1\r\nHost: x\r\n" + form % second)
        connection.shutdown(1)
        answers = until_eof(connection)
    assert b"HTTP/1.1 5" not in answers
    assert ledger.ask("GET", "/v1/status").json["seq"] == seq, answers


# What may go on for ever though it is no body; and a piece of what goes on.
NO_BODY = {
    "many trailers": (b"0\r\n", b"ab: cd\r\n"),
    "a long trailer": (b"0\r\nX: ", b"x"),
    "much about a chunk": (b"1;", b"x"),
}


@pytest.mark.parametrize(("first", "more"), NO_BODY.values(), ids=NO_BODY.keys())
def test_what_is_no_body_is_bounded_as_the_head_is(
    served: Served, first: bytes, more: bytes
) -> None:
    """The parser keeps it, twenty times its size as many lines, and copies a long one again and again."""
    with served.bounded(MOST_KIB), served.connect() as connection:
        connection.sendall(get("/healthz", "Transfer-Encoding: chunked") + first)
        with pytest.raises(ConnectionError):
            connection.sendall(more * (32 * MIB // len(more)))


def test_trailers_that_are_short_are_passed_over(ledger: LedgerProcess) -> None:
    asked = get("/v1/status", "Transfer-Encoding: chunked")
    trailers = b"0\r\n" + b"Authorization: Bearer x\r\n" * 100 + b"\r\n"
    with ledger.raw() as connection:
        connection.sendall((asked + trailers) * 2)
        connection.sendall(get("/v1/status", "Connection: close"))
        assert until_eof(connection).count(b"HTTP/1.1 200") == 3


# What a server could think worth a line of its log.
WORTH_A_LINE = {
    "no HTTP": b"\0\r\n\r\n",
    "no version": b"GET /healthz\r\n\r\n",
    "a tunnel": b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a websocket": b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "HTTP/2": b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    "another name": b"GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n\r\n",
    "no such place": b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    "a body that ends too soon": b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
}


def test_no_stranger_fills_the_log(tmp_path: Path) -> None:
    """Whoever can connect could write it full, line by line."""
    os.chmod(tmp_path, 0o700)
    with LedgerProcess(str(tmp_path), store=":memory:") as ledger:
        for data in WORTH_A_LINE.values():
            for _ in range(3):
                with ledger.raw() as connection:
                    send_all_that_goes(connection, data)
                    connection.shutdown(1)
                    until_eof(connection)
        assert ledger.stop() == 0
        assert ledger.process.stderr is not None
        lines = ledger.process.stderr.read().decode().splitlines()
    assert [line for line in lines if "event=" not in line] == []


def test_without_descriptors_it_refuses_and_recovers(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o700)
    with LedgerProcess(str(tmp_path), *NO_LIMITS, store=":memory:") as ledger:
        served = Served(ledger.socket_path, ledger.process.pid, "/openapi.json")
        served.answers()
        most = served.descriptors() + 20
        resource.prlimit(served.pid, resource.RLIMIT_NOFILE, (most, most))
        with many(served, 200):
            with served.connect() as last:
                send_all_that_goes(last, get("/healthz"))
            assert ledger.process.poll() is None
        eventually(lambda: _is_answered(served), what="an answer when descriptors are back")
        assert ledger.stop() == 0


def _is_answered(served: Served) -> bool:
    try:
        return bool(served.answers())
    except (AssertionError, OSError):
        return False
