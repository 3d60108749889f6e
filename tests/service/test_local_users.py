"""A real ledger that other users of its machine can connect to: the kernel says who they are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.testing.ledger_process import LedgerProcess, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.root
BO, CY = 54321, 54322


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[LedgerProcess]:
    place = tmp_path / "ledger"
    place.mkdir(mode=0o700)
    with LedgerProcess(str(place), store=":memory:") as ledger:
        while place != Path("/"):  # as a socket of systemd's can be reached
            place.chmod(place.stat().st_mode | 0o055)
            place = place.parent
        os.chmod(ledger.socket_path, 0o666)
        yield ledger


def _as(uid: int, ledger: LedgerProcess, *asked: Any) -> Reply:
    """What a process of that user is answered."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os.write(write_end, json.dumps(ledger.ask(*asked)).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    os.waitpid(pid, 0)
    with open(read_end, "rb") as pipe:
        return Reply(*json.loads(pipe.read()))


def test_another_user_is_nobody_until_an_operator_says_who(ledger: LedgerProcess) -> None:
    stranger = _as(BO, ledger, "GET", "/v1/status")
    assert stranger.status == 403
    assert f"(uid {BO})" in stranger.json["error"]["message"]
    body = {"agent": "bo", "user": str(BO), "role": "observer"}
    hashed = {"token_id": "0" * 12, "token_sha256": "0" * 64}
    assert ledger.ask("POST", "/v1/agents", {**body, **hashed}).status == 201
    assert _as(BO, ledger, "GET", "/v1/whoami").json["name"] == "bo"
    assert _as(BO, ledger, "POST", "/v1/freezes", {}).status == 403
    assert _as(CY, ledger, "GET", "/v1/status").status == 403
    ledger.ask("POST", "/v1/agents/bo/revoke", {})
    assert _as(BO, ledger, "GET", "/v1/status").status == 403


def test_a_secret_of_the_ledgers_own_user_is_no_use_to_another(ledger: LedgerProcess) -> None:
    credentials = ledger.open_session("session-ann", "ann")
    stolen = _as(BO, ledger, "DELETE", "/v1/sessions/session-ann", None, credentials)
    assert (stolen.status, stolen.json["error"]["code"]) == (403, "denied")
    assert ledger.ask("DELETE", "/v1/sessions/session-ann", None, credentials).status == 200


def test_an_operator_of_another_user_is_named_by_what_it_does(ledger: LedgerProcess) -> None:
    hashed = {"token_id": "0" * 12, "token_sha256": "0" * 64}
    body = {"agent": "cy", "user": str(CY), "role": "operator", **hashed}
    assert ledger.ask("POST", "/v1/agents", body).status == 201
    limits = {"max_leases": 3, "by": "root"}
    answer = _as(CY, ledger, "PUT", "/v1/admission?territory=t", limits)
    assert answer.json["admission"]["by"] == "cy (root)"
