"""Calls and their answers, without a socket."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from leasefs.client import api
from leasefs.client.ids import Credentials, new_credentials
from leasefs.core.errors import (
    AgentBusy,
    ClaimConflict,
    LeasefsError,
    LedgerUnavailable,
    UnknownLease,
)


def test_a_claim_is_what_the_wire_expects() -> None:
    call = api.claim(["src/**"], key="k", ttl_s=10.0, wait=True, shared=True)
    assert (call.method, call.path, call.needs_session) == ("POST", "/v1/leases", True)
    assert call.body == {
        "key": "k",
        "globs": ["src/**"],
        "mode": "shared",
        "ttl_s": 10.0,
        "priority": 0,
        "wait": True,
        "note": "",
    }


def test_a_plain_release_says_no_more_than_it_ever_did() -> None:
    assert api.release("L1", key="k").path == "/v1/leases/L1?key=k"
    call = api.release("L1", key="k", require="pushed", dirty="force", note="a b")
    assert call.path == "/v1/leases/L1?key=k&require=pushed&dirty=force&note=a%20b"


def test_names_that_are_not_utf8_survive_queries_and_bodies() -> None:
    name = b"caf\xe9 &=/%".decode("utf-8", "surrogateescape")
    assert api.who("t", name).path == "/v1/who?territory=t&path=caf%E9%20%26%3D%2F%25"
    body = api.encode(api.claim([name], key="k"))
    assert body.isascii()
    assert json.loads(body)["globs"] == [name]


def test_a_lease_is_waited_for_as_long_as_asked() -> None:
    assert api.lease("L1", wait_s=20).path == "/v1/leases/L1?wait_s=20"
    assert api.lease("L1", wait_s=20).patience_s == 20
    assert api.lease("L1").path == "/v1/leases/L1"


@pytest.mark.parametrize(
    ("error", "cls"),
    [
        ({"code": "conflict", "message": "m", "details": {"blockers": []}}, ClaimConflict),
        ({"code": "agent-busy", "message": "m", "details": {}}, AgentBusy),
        ({"code": "unknown-lease", "message": "m"}, UnknownLease),
        ({"code": "of-a-newer-ledger", "message": "m"}, LeasefsError),
    ],
)
def test_a_refusal_comes_back_as_its_own_class(
    error: dict[str, object], cls: type[Exception]
) -> None:
    with pytest.raises(cls, match=r"^m$") as raised:
        api.answer(api.status(), 409, json.dumps({"error": error}).encode())
    assert type(raised.value) is cls


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"<html>"), (200, b"[]"), (502, b""), (500, b'{"error": "x"}'), (302, b"{}")],
)
def test_what_no_ledger_says_is_called_so(status: int, body: bytes) -> None:
    with pytest.raises(LedgerUnavailable, match="not one of a leasefs ledger"):
        api.answer(api.status(), status, body)


def test_credentials_are_fresh_and_do_not_show_their_secret() -> None:
    first, second = new_credentials(), new_credentials()
    assert first.session != second.session
    assert first.secret != second.secret
    assert len(bytes.fromhex(first.secret)) == 32
    assert first.secret not in f"{first!r} {first}"
    assert Credentials("S1", "x").authorization == "Leasefs S1:x"


def test_what_the_command_line_imports_stays_light() -> None:
    """`leasefs claim` should cost little more than a Python start."""
    code = (
        "import leasefs.client.blocking, leasefs.client.find, leasefs.client.understand, "
        "leasefs.client.embedded, leasefs.client.waiting, leasefs.client.names, sys; "
        "print(*sorted({'msgspec', 'trio', 'h11', 'http.client', 'urllib.parse', 'subprocess', "
        "'threading', 'hashlib', 'logging', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
