"""Bytes on the socket that no client of ours would send: answered 4xx, and the next caller is served."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

import pytest

from leasefs.testing.ledger_process import LedgerProcess

RAW = {
    "not http": b"hello there\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100,
    "no path": b"GET  HTTP/1.1\r\n\r\n",
    "bad version": b"GET / HTTP/9.9\r\n\r\n",
    "not ascii path": b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "nul in path": b"GET /a\0b HTTP/1.1\r\nHost: x\r\n\r\n",
    "nul in header": b"GET / HTTP/1.1\r\nHost: x\0y\r\n\r\n",
    "header without colon": b"GET / HTTP/1.1\r\nHost\r\n\r\n",
    "negative length": b"POST /v1/leases HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "length of words": b"POST /v1/leases HTTP/1.1\r\nContent-Length: lots\r\n\r\n",
    "length beyond 64 bits": b"POST /v1/leases HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "two lengths": b"POST /v1/leases HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length and chunks": b"POST /v1/leases HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad chunk": b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "connect": b"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "absolute target": b"GET http://other/v1/nope HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "options star": b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "giant header": b"GET /healthz HTTP/1.1\r\nX: " + b"x" * (2 << 20),
    "many headers": b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 200_000,
    "giant path": b"GET /" + b"x" * (2 << 20),
    "giant body": b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n"
    + b"x" * (2 << 20),
    "giant chunks": b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"100000\r\n" + b"x" * (1 << 20) + b"\r\n100000\r\n" + b"x" * (1 << 20),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("ledger")
    os.chmod(directory, 0o700)
    with LedgerProcess(str(directory), store=":memory:") as ledger:
        yield ledger
        assert ledger.stop() == 0


@pytest.mark.parametrize("data", RAW.values(), ids=RAW.keys())
def test_raw_nonsense_is_4xx_and_the_next_request_is_served(
    shared: LedgerProcess, data: Any
) -> None:
    with shared.raw() as connection:
        # It may answer and close while we are still sending.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(data)
        answer = _until_eof(connection)
    assert answer.startswith(b"HTTP/1.1 4"), answer[:200]
    assert b'"error"' in answer
    status = shared.ask("GET", "/v1/status")
    assert (status.status, status.json["seq"]) == (200, 1)


def test_half_a_request_that_breaks_off_leaves_nothing(shared: LedgerProcess) -> None:
    body = json.dumps({"session": "session-1", "secret": "s" * 40}).encode()
    whole = b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )
    for cut in (1, 10, 40, len(whole) - len(body), len(whole) - 1):
        with shared.raw() as connection:
            connection.sendall(whole[:cut])
    assert shared.ask("GET", "/v1/status").json["seq"] == 1


def test_pipelined_requests_are_answered_in_order(shared: LedgerProcess) -> None:
    with shared.raw() as connection:
        paths = [b"/healthz", b"/nope", b"/v1/status", b"/v1/leases"] * 5
        connection.sendall(
            b"".join(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path for path in paths)
            + b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        answers = _until_eof(connection)
    statuses = [part[:3] for part in answers.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"404", b"200", b"200"] * 5 + [b"404"]
    assert b"/last" in answers.split(b"HTTP/1.1 ")[-1]


def test_a_request_byte_by_byte_is_a_request(shared: LedgerProcess) -> None:
    with shared.raw() as connection:
        for byte in b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":
            connection.sendall(bytes([byte]))
        assert _until_eof(connection).endswith(b"ok\n")


def test_expect_100_continue(shared: LedgerProcess) -> None:
    with shared.raw() as connection:
        connection.sendall(
            b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n"
            b"Connection: close\r\n\r\n"
        )
        assert _until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 100")
        connection.sendall(b"{}")
        assert _until_eof(connection).startswith(b"HTTP/1.1 400")


def test_who_is_not_known_is_not_asked_for_the_body(shared: LedgerProcess) -> None:
    with shared.raw() as connection:
        connection.sendall(
            b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n"
            b"Connection: close\r\n\r\n"
        )
        assert _until_eof(connection).startswith(b"HTTP/1.1 401")


def _until(connection: Any, end: bytes) -> Any:
    data = b""
    while end not in data:
        more = connection.recv(65536)
        assert more, data
        data += more
    return data


def _until_eof(connection: Any) -> Any:
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(1 << 20):
            data += more
    return data
