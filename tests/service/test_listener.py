"""How long a request may take to arrive, and what is bounded before any of it is understood."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.service import peer
from leasefs.service.listener import Listener
from leasefs.service.peer import HEAD_LIMIT_BYTES, LedgerProtocol
from leasefs.service.places import listening_socket

if TYPE_CHECKING:
    from pathlib import Path


@contextlib.asynccontextmanager
async def _listening(serving: Any, directory: Path) -> Any:
    os.chmod(directory, 0o700)
    path = str(directory / "s")
    async with serving() as ledger:
        with listening_socket(path) as listening:
            listener = Listener(ledger.app, listening)
            await listener.start()
            try:
                yield ledger, listener, path
            finally:
                await listener.stop(5.0)


async def _said(path: str, data: Any) -> Any:
    """Send, and read to the end."""
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(data)
        async with asyncio.timeout(20):
            return await reader.read()
    finally:
        writer.close()


BODY = json.dumps({"session": "session-1", "secret": "s" * 40, "agent": "a"}).encode()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /healthz HT",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n",
        b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n" + BODY,
        b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /hea",
    ],
)
def test_a_request_that_does_not_arrive_whole_is_given_up(
    serving: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: Any
) -> None:
    monkeypatch.setattr(LedgerProtocol, "arrival_timeout_s", 0.1)

    async def main() -> None:
        async with _listening(serving, tmp_path) as (ledger, _, path):
            answer = await _said(path, sent)
            assert b"HTTP/1.1 408" in answer
            assert b"no whole request came within 0.1 s" in answer
            assert ledger.writer.durable.seq == 0

    asyncio.run(main())


def test_a_connection_that_waits_for_its_answer_is_not_given_up(
    serving: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LedgerProtocol, "arrival_timeout_s", 0.1)

    async def main() -> None:
        async with _listening(serving, tmp_path) as (ledger, _, path):
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            await ann.ask("POST", "/v1/leases", {"key": "k", "globs": ["a"]})
            waits = await bob.ask("POST", "/v1/leases", {"key": "k", "globs": ["a"], "wait": True})
            ask = f"GET /v1/leases/{waits.json['lease']}?wait_s=0.5 HTTP/1.1\r\nConnection: close\r\n\r\n"
            answer = await _said(path, ask.encode())
            assert answer.startswith(b"HTTP/1.1 200")

    asyncio.run(main())


@pytest.mark.parametrize("count", [5, 100])
def test_who_takes_no_answer_is_cut_off(
    serving: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Any, count: int
) -> None:
    monkeypatch.setattr(LedgerProtocol, "stall_s", 0.1)

    async def main() -> None:
        async with _listening(serving, tmp_path) as (_, listener, path):
            with socket.socket(socket.AF_UNIX) as deaf:
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                deaf.connect(path)
                deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * count)
                await until(lambda: listener.connections)
                await until(lambda: not listener.connections)

    asyncio.run(main())


def test_what_follows_a_refused_body_is_passed_over_and_not_for_ever(
    serving: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that sends first and reads then hears why it was refused, and can go on; one that never ends is cut off."""
    monkeypatch.setattr(peer, "LINGER_S", 0.1)
    head = b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"

    async def main() -> None:
        async with _listening(serving, tmp_path) as (_, _, path):
            last = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            answers = await _said(path, head % 500_000 + b" " * 500_000 + last)
            assert answers.startswith(b"HTTP/1.1 401 ")
            assert answers.endswith(b"ok\n")
            answers = await _said(path, head % 10**10 + b" " * 100)
            assert answers.count(b"HTTP/1.1 ") == 1
            assert answers.startswith(b"HTTP/1.1 401 ")
            with pytest.raises(ConnectionError):
                await _said(path, head % 10**10 + b" " * (16 << 20))

    asyncio.run(main())


def test_a_flood_of_requests_on_one_connection_is_cut_off(serving: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with _listening(serving, tmp_path) as (_, _, path):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 5000)
            with contextlib.suppress(ConnectionError):
                said = await reader.read()
                assert said.count(b"HTTP/1.1 200 ") < 5000
            writer.close()
            answer = await _said(path, b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
            assert answer.endswith(b"ok\n")

    asyncio.run(main())


def test_the_head_is_bounded(serving: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with _listening(serving, tmp_path) as (_, _, path):
            answer = await _said(
                path, b"GET /healthz HTTP/1.1\r\nX: " + b"x" * (HEAD_LIMIT_BYTES + 10)
            )
            assert answer.startswith(b"HTTP/1.1 431")
            fits = b"x" * (HEAD_LIMIT_BYTES // 2)
            answer = await _said(
                path, b"GET /healthz HTTP/1.1\r\nConnection: close\r\nX: %b\r\n\r\n" % fits
            )
            assert answer.startswith(b"HTTP/1.1 200")

    asyncio.run(main())


def test_a_caller_that_leaves_during_a_long_poll_frees_it(
    serving: Any, tmp_path: Path, until: Any
) -> None:
    async def main() -> None:
        async with _listening(serving, tmp_path) as (ledger, listener, path):
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            await ann.ask("POST", "/v1/leases", {"key": "k", "globs": ["a"]})
            waits = await bob.ask("POST", "/v1/leases", {"key": "k", "globs": ["a"], "wait": True})
            _, writer = await asyncio.open_unix_connection(path)
            writer.write(
                f"GET /v1/leases/{waits.json['lease']}?wait_s=300 HTTP/1.1\r\n\r\n".encode()
            )
            await until(lambda: ledger.hub._waiting)
            writer.close()
            await until(lambda: not ledger.hub._waiting and not listener.connections)

    asyncio.run(main())


def test_a_stopped_listener_answers_what_was_asked_and_closes_the_rest(
    serving: Any, tmp_path: Path, until: Any
) -> None:
    async def main() -> None:
        async with _listening(serving, tmp_path) as (ledger, listener, path):
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            await ann.ask("POST", "/v1/leases", {"key": "k", "globs": ["a"]})
            waits = await bob.ask("POST", "/v1/leases", {"key": "k", "globs": ["a"], "wait": True})
            ask = f"GET /v1/leases/{waits.json['lease']}?wait_s=300 HTTP/1.1\r\n\r\n".encode()
            asking = asyncio.create_task(_said(path, ask))
            idle_reader, idle_writer = await asyncio.open_unix_connection(path)
            await until(lambda: ledger.hub._waiting and listener.connections == 2)
            async with asyncio.timeout(20):
                ledger.hub.close()
                await listener.stop(5.0)
                assert (await asking).startswith(b"HTTP/1.1 200")
                assert await idle_reader.read() == b""
            idle_writer.close()
            assert listener.connections == 0

    asyncio.run(main())


def test_one_connection_too_many_is_told_so(
    serving: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LedgerProtocol, "most_connections", 2)

    async def main() -> None:
        async with _listening(serving, tmp_path) as (_, _, path):
            others = [await asyncio.open_unix_connection(path) for _ in range(2)]
            answer = await _said(path, b"")
            assert answer.startswith(b"HTTP/1.1 503")
            assert b'"code":"unavailable"' in answer
            for _, writer in others:
                writer.close()

    asyncio.run(main())
