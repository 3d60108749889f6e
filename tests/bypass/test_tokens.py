"""Ways to use a token for what it was not issued for: another name, a greater role, a time after its end, another's session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core import tokens
from leasefs.testing.ledger_process import LedgerProcess
from leasefs.testing.unix_requests import unix_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import requests

ROLES = {"ann": "agent", "bob": "agent", "olga": "observer"}
IDS = {name: f"{number:012x}" for number, name in enumerate(ROLES, 1)}
TOKENS = {name: f"leasefs_{id_}_{'5' * 64}" for name, id_ in IDS.items()}


class Asked:
    """A ledger with identities, and requests under their tokens."""

    def __init__(self, ledger: LedgerProcess) -> None:
        self._session = unix_session(ledger=ledger.socket_path)
        for name, role in ROLES.items():
            issued = {"agent": name, "role": role, **token(name)}
            assert self.ask("POST", "/v1/agents", "", issued) == 201

    def ask(self, method: str, path: str, authorization: str, body: object = None) -> int:
        """The status of the answer."""
        headers = {"Authorization": authorization} if authorization else {}
        answer: requests.Response = self._session.request(
            method, f"http://ledger{path}", json=body, headers=headers, timeout=20
        )
        return answer.status_code

    def close(self) -> None:
        self._session.close()


def token(name: str) -> dict[str, str]:
    return {"token_id": IDS[name], "token_sha256": tokens.hashed(TOKENS[name])}


def bearer(name: str) -> str:
    return f"Bearer {TOKENS[name]}"


def opening(agent: str, session: str) -> dict[str, Any]:
    fields = {"harness": "h", "territory": "t", "kind": "shell", "host": "here", "pid": 1}
    return {"session": session, "secret": f"{session}-" + "s" * 40, "agent": agent, **fields}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    directory: Path = tmp_path_factory.mktemp("ledger")
    directory.chmod(0o700)
    with LedgerProcess(str(directory), store=":memory:") as ledger:
        asked = Asked(ledger)
        yield asked
        asked.close()


def test_a_session_under_another_name_than_the_tokens(asked: Asked) -> None:
    assert asked.ask("POST", "/v1/sessions", bearer("bob"), opening("ann", "session-as-ann")) == 403


def test_replacing_anothers_session_by_a_token(asked: Asked) -> None:
    assert asked.ask("POST", "/v1/sessions", bearer("ann"), opening("ann", "session-ann")) == 201
    taken = {**opening("ann", "session-ann-2"), "replace": True}
    assert asked.ask("POST", "/v1/sessions", bearer("bob"), taken) == 403


def test_an_observers_token_for_more_than_reading(asked: Asked) -> None:
    assert asked.ask("GET", "/v1/leases", bearer("olga")) == 200
    assert asked.ask("POST", "/v1/sessions", bearer("olga"), opening("olga", "session-olga")) == 403


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        (
            "POST",
            "/v1/agents",
            {"agent": "new", "role": "operator", "token_id": "9" * 12, "token_sha256": "9" * 64},
        ),
        ("POST", "/v1/agents/bob/rotate", {"token_id": "8" * 12, "token_sha256": "8" * 64}),
        ("POST", "/v1/agents/bob/revoke", {}),
        ("POST", "/v1/leases/L1/revoke", {}),
        ("POST", "/v1/freezes", {"key": "k", "territory": "t", "globs": ["**"], "reason": "r"}),
        ("PUT", "/v1/admission?territory=t", {"max_exclusive": 0}),
        ("POST", "/v1/leases/L1/hold", {"hold_s": 1.0}),
    ],
    ids=lambda value: value if isinstance(value, str) and "/" in value else "",
)
def test_an_agents_token_for_an_operators_act(
    asked: Asked, method: str, path: str, body: Any
) -> None:
    assert asked.ask(method, path, bearer("ann"), body) == 403


@pytest.mark.parametrize(
    "sent",
    [
        "Bearer " + TOKENS["ann"][:-1] + "6",
        "Bearer leasefs_" + "f" * 12 + "_" + "5" * 64,
        "Bearer " + TOKENS["ann"].upper(),
        "Bearer " + IDS["ann"],
        "Bearer " + tokens.hashed(TOKENS["ann"]),
        "Bearer",
        "Basic " + TOKENS["ann"],
        f"Leasefs ann:{TOKENS['ann']}",
        "Bearer " + "x" * 5000,
    ],
)
def test_a_token_that_is_almost_one(asked: Asked, sent: str) -> None:
    assert asked.ask("GET", "/v1/leases", sent) == 401


def test_a_revoked_token_and_its_sessions(asked: Asked) -> None:
    opened = opening("bob", "session-bob")
    assert asked.ask("POST", "/v1/sessions", bearer("bob"), opened) == 201
    session = f"Leasefs session-bob:{opened['secret']}"
    assert asked.ask("POST", "/v1/leases", session, {"key": "k", "globs": ["b"]}) == 201
    assert asked.ask("POST", "/v1/agents/bob/revoke", "", {}) == 200
    assert asked.ask("POST", "/v1/sessions", bearer("bob"), opening("bob", "session-bob-2")) == 401
    assert asked.ask("POST", "/v1/leases", session, {"key": "k2", "globs": ["c"]}) in {401, 403}
