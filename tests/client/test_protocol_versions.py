"""Both transports of ours against a ledger, or a mount, of another version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

# A mount has errors of its own for what is not there: they must not be taken for anything else.
import leasefs.mount.control_routes  # noqa: F401
from leasefs.client import api, blocking, trio_http
from leasefs.client.blocking import Link
from leasefs.client.ids import new_credentials
from leasefs.client.trio_http import TrioLink
from leasefs.core import protocol
from leasefs.core.errors import InvalidRequest, LedgerUnavailable, ProtocolMismatch, UnknownLease
from leasefs.core.protocol import CLIENT, LEDGER, MAJOR, MINOR, MOUNT, Speaker
from leasefs.testing.canned_server import canned_server, json_answer

if TYPE_CHECKING:
    from pathlib import Path

NEWER = Speaker(LEDGER, MAJOR + 1, 0, "9.9.9")
OLDER = Speaker(MOUNT, MAJOR - 1, 7, "0.0.1")


def by_command(path: str, call: api.Call) -> Any:
    return Link(f"unix:{path}").send(call)


def by_command_stream(path: str, call: api.Call) -> Any:
    return list(Link(f"unix:{path}").stream(call))


def by_mount(path: str, call: api.Call) -> Any:
    async def ask() -> Any:
        link = TrioLink(f"unix:{path}", new_credentials())
        try:
            return await link.send(call, timeout_s=5)
        finally:
            link.close()

    return trio.run(ask)


def by_mount_stream(path: str, call: api.Call) -> Any:
    async def ask() -> Any:
        link = TrioLink(f"unix:{path}", new_credentials())
        async with link.stream(call, silence_s=5) as events:
            return [event async for event in events]

    return trio.run(ask)


EVERY_WAY = pytest.mark.parametrize(
    ("ask", "side"),
    [
        (by_command, CLIENT),
        (by_mount, MOUNT),
        (by_command_stream, CLIENT),
        (by_mount_stream, MOUNT),
    ],
)
TO_SEND = pytest.mark.parametrize(("ask", "side"), [(by_command, CLIENT), (by_mount, MOUNT)])


def answer_of(speaker: Speaker | str, body: bytes = b"{}", status: bytes = b"200 OK") -> bytes:
    header = speaker if isinstance(speaker, str) else speaker.header
    head = f"\r\n{protocol.HEADER}: {header}\r\nContent-Type".encode("latin-1")
    return json_answer(body, status).replace(b"\r\nContent-Type", head, 1)


def refusal(code: str, details: str = "{}") -> bytes:
    return f'{{"error": {{"code": "{code}", "message": "m", "details": {details}}}}}'.encode()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s")


@EVERY_WAY
def test_every_request_says_what_we_speak(path: str, ask: Any, side: str) -> None:
    with canned_server(path, [answer_of(protocol.ours(LEDGER))]) as server:
        ask(path, api.leases())
    spoken = f"\r\n{protocol.HEADER}: {protocol.ours(side).header}\r\n"
    assert spoken.lower().encode() in server.requests[0].lower()


@EVERY_WAY
@pytest.mark.parametrize("minor", [0, MINOR, MINOR + 7])
def test_an_answer_of_another_minor_version_is_taken(
    path: str, ask: Any, side: str, minor: int
) -> None:
    with canned_server(path, [answer_of(Speaker(LEDGER, MAJOR, minor, "0.5"))]):
        ask(path, api.leases())


@EVERY_WAY
@pytest.mark.parametrize("status", [b"200 OK", b"404 Not Found"])
@pytest.mark.parametrize("them", [NEWER, OLDER])
def test_one_of_another_major_version_is_not(
    path: str, ask: Any, side: str, them: Speaker, status: bytes
) -> None:
    if them.side == side:
        them = them._replace(side=LEDGER)
    with (
        canned_server(path, [answer_of(them, refusal("conflict"), status)]),
        pytest.raises(ProtocolMismatch) as refused,
    ):
        ask(path, api.leases())
    older, newer = sorted((them, protocol.ours(side)), key=lambda speaker: speaker.major)
    assert refused.value.details["upgrade"] == older.side
    assert refused.value.details["to"] == {"protocol": newer.protocol, "leasefs": newer.leasefs}


@TO_SEND
def test_what_it_is_and_that_it_ends_is_asked_of_every_version(
    path: str, ask: Any, side: str
) -> None:
    with canned_server(path, [answer_of(NEWER)] * 2):
        assert ask(path, api.status()) == {}
        assert ask(path, api.stop_mount()) == {}


@TO_SEND
def test_what_an_older_one_does_not_know_is_not_the_askers_fault(
    path: str, ask: Any, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (blocking, trio_http):
        monkeypatch.setattr(module, "US", module.US._replace(minor=MINOR + 1))
    them = Speaker(LEDGER, MAJOR, MINOR, "0.0.9")
    for code, details in (
        ("not-found", "{}"),
        ("method-not-allowed", "{}"),
        ("wrong-method", "{}"),
        ("invalid", '{"unknown_field": "color"}'),
    ):
        said = refusal(code, details)
        with (
            canned_server(path + code, [answer_of(them, said, b"400 Bad Request")]),
            pytest.raises(ProtocolMismatch, match="does not know POST /v1/leases") as refused,
        ):
            ask(path + code, api.claim(["a"], key="k"))
        assert refused.value.details["upgrade"] == "ledger"


@TO_SEND
def test_other_refusals_of_an_older_one_stay_what_they_are(
    path: str, ask: Any, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (blocking, trio_http):
        monkeypatch.setattr(module, "US", module.US._replace(minor=MINOR + 1))
    for code, expected in (("unknown-lease", UnknownLease), ("invalid", InvalidRequest)):
        said = answer_of(Speaker(LEDGER, MAJOR, MINOR), refusal(code), b"404 Not Found")
        with canned_server(path + code, [said]), pytest.raises(expected) as refused:
            ask(path + code, api.lease("L1"))
        assert type(refused.value) is expected


@EVERY_WAY
def test_a_version_that_cannot_be_read_is_no_ledger_of_ours(path: str, ask: Any, side: str) -> None:
    with canned_server(path, [answer_of("latest")]), pytest.raises(LedgerUnavailable) as refused:
        ask(path, api.leases())
    assert not isinstance(refused.value, ProtocolMismatch)
