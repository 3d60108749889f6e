"""Ways to ask a ledger so that it overlooks who asks, what for, or that they are known no more."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from leasefs.core import tokens
from leasefs.testing.ledger_process import SECRET, LedgerProcess

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from pathlib import Path

NEW = "leasefs_" + "9" * 12 + "_" + "9" * 64
ISSUE = json.dumps(
    {
        "agent": "another",
        "role": "operator",
        "token_id": "9" * 12,
        "token_sha256": tokens.hashed(NEW),
    }
).encode()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[LedgerProcess]:
    tmp_path.chmod(0o700)
    with LedgerProcess(str(tmp_path), store=":memory:") as ledger:
        yield ledger
        assert ledger.stop() == 0


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *lines, "", ""]).encode("latin-1")


def read_until(connection: socket.socket, word: bytes) -> bytes:
    said = b""
    while word not in said and (more := connection.recv(65536)):
        said += more
    return said


def status(ledger: LedgerProcess, request: bytes) -> int:
    with ledger.raw() as connection:
        connection.sendall(request)
        return int(read_until(connection, b"\r\n").split()[1])


def test_a_request_kept_unfinished_until_after_the_revocation(ledger: LedgerProcess) -> None:
    """By who expects it: to issue themselves another identity. Who asks is looked at again once the body is there."""
    token = ledger.add_agent("eve", "operator")
    lines = (f"Authorization: Bearer {token}", f"Content-Length: {len(ISSUE)}")
    with ledger.raw() as connection:
        # The first of two, so that it is certain that the ledger has begun with the second.
        connection.sendall(head("GET", "/v1/status", lines[0]) + head("POST", "/v1/agents", *lines))
        assert b" 200 " in read_until(connection, b"\r\n")
        assert ledger.ask("POST", "/v1/agents/eve/revoke", {}).status == 200
        connection.sendall(ISSUE)
        assert b"HTTP/1.1 401" in read_until(connection, b"was revoked by")
    assert status(ledger, head("GET", "/v1/status", f"Authorization: Bearer {NEW}")) == 401


def test_a_stream_kept_open_past_the_revocation(ledger: LedgerProcess) -> None:
    """Also where the name is issued anew at once, and where there is always more to read."""
    token = ledger.add_agent("eve")
    with ledger.raw() as connection:
        connection.sendall(head("GET", "/v1/events?follow=1", f"Authorization: Bearer {token}"))
        read_until(connection, b"agent-added")
        assert ledger.ask("POST", "/v1/agents/eve/revoke", {}).status == 200
        ledger.add_agent("eve")
        ledger.open_session("session-ann", "ann")
        said = read_until(connection, b"\r\n0\r\n")
    assert b"agent-revoked" in said
    assert b"session-ann" not in said


def test_a_stream_by_a_token_that_was_replaced(ledger: LedgerProcess) -> None:
    token = ledger.add_agent("eve")
    with ledger.raw() as connection:
        connection.sendall(head("GET", "/v1/events?follow=1", f"Authorization: Bearer {token}"))
        read_until(connection, b"agent-added")
        other = {"token_id": "9" * 12, "token_sha256": tokens.hashed(NEW)}
        assert ledger.ask("POST", "/v1/agents/eve/rotate", other).status == 200
        ledger.open_session("session-ann", "ann")
        said = read_until(connection, b"\r\n0\r\n")
    assert b"session-ann" not in said


@pytest.mark.parametrize(
    "line",
    [
        "X-HTTP-Method-Override: POST",
        "X-Original-URL: /v1/agents",
        "X-Forwarded-For: 127.0.0.1",
        "Forwarded: for=127.0.0.1;proto=https",
        "X-Remote-User: root",
        "Cookie: token=x",
    ],
)
def test_a_header_that_other_servers_believe(ledger: LedgerProcess, line: str) -> None:
    """An observer stays one, at what was asked."""
    token = ledger.add_agent("olga", "observer")
    with ledger.raw() as connection:
        lines = (f"Authorization: Bearer {token}", line, "Connection: close")
        connection.sendall(head("GET", "/v1/whoami", *lines))
        said = read_until(connection, b"\0")
    assert b'"name":"olga","role":"observer"' in said


@pytest.mark.parametrize(
    "form",
    [
        "Authorization: Bearer {0}\r\nAuthorization: Bearer {1}",
        "X: a\r\n Authorization: Bearer {1}\r\nAuthorization: Bearer {0}",
        "Authorization: Bearer {0}, Bearer {1}",
        "Authorization: Bearer {0}\r\nProxy-Authorization: Bearer {1}",
        "Authorization : Bearer {1}",
        "Authorization: Bearer {0}\0{1}",
    ],
)
def test_two_names_in_one_request(ledger: LedgerProcess, form: str) -> None:
    """Refused, or the first counts alone."""
    lines = form.format(ledger.add_agent("olga", "observer"), ledger.add_agent("op", "operator"))
    asked = head("POST", "/v1/agents", lines, f"Content-Length: {len(ISSUE)}") + ISSUE
    assert status(ledger, asked) in {400, 401, 403}


def test_a_name_in_the_trailer_of_a_body(ledger: LedgerProcess) -> None:
    """What comes after the body is no header (RFC 9110, 6.5): who asks is known before."""
    observer, operator = ledger.add_agent("olga", "observer"), ledger.add_agent("op", "operator")
    chunked = f"Authorization: Bearer {observer}", "Transfer-Encoding: chunked"
    body = b"%x\r\n%b\r\n0\r\nAuthorization: Bearer %b\r\n\r\n"
    asked = head("POST", "/v1/agents", *chunked)
    assert status(ledger, asked + body % (len(ISSUE), ISSUE, operator.encode())) == 403


@pytest.mark.parametrize("protocol", ["websocket", "h2c", "TLS/1.0"])
def test_another_protocol_in_the_middle(ledger: LedgerProcess, protocol: str) -> None:
    """None is spoken: what follows is no request of anybody's."""
    seq = ledger.ask("GET", "/v1/status").json["seq"]
    first = head("GET", "/healthz", "Connection: Upgrade", f"Upgrade: {protocol}")
    with ledger.raw() as connection:
        connection.sendall(first + head("POST", "/v1/agents", f"Content-Length: {len(ISSUE)}"))
        connection.sendall(ISSUE)
        connection.shutdown(1)
        assert not re.search(rb"HTTP/1.1 (101|201|5)", read_until(connection, b"\0"))
    assert ledger.ask("GET", "/v1/status").json["seq"] == seq


def test_the_history_of_another_log(ledger: LedgerProcess) -> None:
    """A number that is not there yet is no place to wait at."""
    ledger.open_session("session-ann", "ann")
    for line in ("Last-Event-ID: 999999999999", "Last-Event-ID: 1e3", "Last-Event-ID: \xb2"):
        lines = (f"Authorization: Leasefs session-ann:{SECRET}", line)
        assert status(ledger, head("GET", "/v1/events?follow=1", *lines)) == 400
