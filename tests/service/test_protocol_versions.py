"""A ledger and those who ask it in another version of the protocol."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leasefs.core import protocol
from leasefs.core.protocol import CLIENT, LEDGER, MAJOR, MINOR, MOUNT, Speaker
from leasefs.testing.ledger_process import LedgerProcess

KEY = protocol.HEADER.lower()
NEWER = Speaker(CLIENT, MAJOR + 1, 0, "9.9.9")
OLDER = Speaker(MOUNT, MAJOR - 1, 7, "0.0.1")


def asked(serving: Any, method: str, path: str, spoken: str | None, body: object = None) -> Any:
    async def main() -> Any:
        async with serving() as ledger:
            headers = {} if spoken is None else {KEY: spoken}
            return await ledger.client.ask(method, path, body, headers=headers)

    return asyncio.run(main())


@pytest.mark.parametrize(
    "spoken",
    [
        None,
        protocol.ours(CLIENT).header,
        Speaker(CLIENT, MAJOR, MINOR + 5, "9.9.9").header,
        f"{MAJOR}.0",
    ],
)
def test_the_same_major_version_passes(serving: Any, spoken: str | None) -> None:
    reply = asked(serving, "GET", "/v1/leases", spoken)
    assert reply.status == 200
    assert reply.headers[KEY] == protocol.ours(LEDGER).header


@pytest.mark.parametrize(
    ("them", "upgrade", "to"),
    [(NEWER, "ledger", NEWER), (OLDER, "mount", protocol.ours(LEDGER))],
)
def test_another_one_is_refused_whatever_it_asks(
    serving: Any, them: Speaker, upgrade: str, to: Speaker
) -> None:
    for method, path in (("GET", "/v1/leases"), ("POST", "/v1/leases"), ("GET", "/v2/what")):
        reply = asked(serving, method, path, them.header)
        assert (reply.status, reply.code) == (400, "protocol")
        assert reply.headers[KEY] == protocol.ours(LEDGER).header
        error = reply.json["error"]
        assert error["details"]["upgrade"] == upgrade
        assert error["details"]["to"] == {"protocol": to.protocol, "leasefs": to.leasefs}
        assert f"upgrade the {upgrade} to leasefs {to.leasefs} or later" in error["message"]


def test_a_refused_request_changes_nothing(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            agent = await ledger.agent("ada")
            seq = ledger.writer.durable.seq
            body = {"key": "k", "globs": ["a"]}
            reply = await agent.ask("POST", "/v1/leases", body, headers={KEY: NEWER.header})
            assert reply.code == "protocol"
            assert ledger.writer.durable.seq == seq
            assert (await agent.ask("POST", "/v1/leases", body)).status == 201

    asyncio.run(main())


@pytest.mark.parametrize("path", sorted(protocol.ANY_VERSION - {"/v1/mount/stop"}))
@pytest.mark.parametrize("them", [NEWER, OLDER])
def test_what_says_who_one_is_is_told_to_every_version(
    serving: Any, path: str, them: Speaker
) -> None:
    assert asked(serving, "GET", path, them.header).status == 200


def test_a_version_that_cannot_be_read_is_an_invalid_request(serving: Any) -> None:
    reply = asked(serving, "GET", "/v1/leases", "one point oh")
    assert (reply.status, reply.code) == (400, "invalid")
    assert "MAJOR.MINOR" in reply.json["error"]["message"]


def test_a_field_that_was_added_since_is_named(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            agent = await ledger.agent("ada")
            body = {"key": "k", "globs": ["a"], "color": "green"}
            reply = await agent.ask("POST", "/v1/leases", body)
            assert reply.json["error"]["details"] == {"unknown_field": "color"}
            reply = await agent.ask("GET", "/v1/leases?color=green")
            assert reply.json["error"]["details"] == {"unknown_field": "color"}

    asyncio.run(main())


def test_what_is_refused_before_it_is_a_request_says_the_version_too(tmp_path: Any) -> None:
    with LedgerProcess(str(tmp_path)) as ledger, ledger.raw() as connection:
        connection.sendall(b"hello there\r\n\r\n")
        said = b""
        while piece := connection.recv(4096):
            said += piece
    assert f"\r\n{KEY}: {protocol.ours(LEDGER).header}\r\n".encode() in said
