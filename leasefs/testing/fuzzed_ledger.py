"""A real ledger as a target of `api_fuzz`: sessions to ask with, ids that exist, and a log that refused requests leave alone."""

from __future__ import annotations

import contextlib
import threading
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from leasefs.core import tokens
from leasefs.testing.ledger_process import SECRET, LedgerProcess
from leasefs.testing.unix_requests import unix_session

if TYPE_CHECKING:
    import random

    from schemathesis.core.transport import Response

    from leasefs.testing.api_fuzz import Case

AGENTS = ("ann", "bob", "cat")
IDENTITIES = {"fay": "agent", "olga": "observer", "opal": "operator"}
"""Identities by name, with their roles; `token_of` is each one's token."""
GLOBS = ("src/**", "src/a", "docs/*.md", "**", "src/*/x", "a[bc]d")
_IDS_KEPT = 24
_ISSUED = ("new-1", "new-2")
_TERRITORY = "t"
# Events that a refusal is, and those that time brings by itself.
_UNASKED: Final = frozenset(
    {
        *("claim-refused", "release-refused"),
        *("lapsed", "expired", "withdrawn", "revoked", "recall-ended", "granted", "session-ended"),
        "queued",  # what comes back after a recall
    }
)


class FuzzedLedger:
    """The target. `ledger` runs already, and was used by nobody else."""

    base_url = "http://ledger"

    def __init__(self, ledger: LedgerProcess) -> None:
        self._ledger = ledger
        # A ledger that nobody reads the log of would wait for that.
        threading.Thread(target=_drained, args=(ledger,), daemon=True).start()
        self.session = unix_session(ledger=ledger.socket_path)
        self.document = without_security(self._get("/openapi.json"))
        self._ids: list[str] = ["L1"]
        for name in AGENTS:
            ledger.open_session(f"session-{name}", name)
        for name, role in IDENTITIES.items():
            token = token_of(name)
            issued = {"token_id": tokens.id_of(token), "token_sha256": tokens.hashed(token)}
            answer = ledger.ask("POST", "/v1/agents", {"agent": name, "role": role, **issued})
            assert answer.status == 201, answer
        self._seq = self._get("/v1/status")["seq"]

    def season(self, case: Case, chance: random.Random) -> None:
        """As `api_fuzz.Target`."""
        asks_briefly(case)
        for name, value in case.path_parameters.items():
            # HTTP clients take dots out of a path (RFC 3986, 5.2.4): it would be another operation's.
            if chance.random() < 0.8 or not isinstance(value, str) or not value.strip("./"):
                case.path_parameters[name] = self._known(name, chance)
        season_body(case, self._ids, chance)
        if case.path == "/v1/agents" and isinstance(case.body, dict) and _is_positive(case):
            # Not the agents whose sessions the other requests need.
            case.body["agent"] = chance.choice(_ISSUED)
        if "territory" in case.query and chance.random() < 0.5:
            case.query["territory"] = _TERRITORY

    def headers(self, chance: random.Random) -> dict[str, str]:
        """As `api_fuzz.Target`: mostly an agent's session, else an identity, nobody, or who made a secret up."""
        if chance.random() < 0.1:
            return {}
        if chance.random() < 0.25:
            return {"Authorization": f"Bearer {token_of(chance.choice([*IDENTITIES, 'nobody']))}"}
        name = chance.choice(AGENTS)
        secret = SECRET if chance.random() < 0.9 else "z" * 40
        return {"Authorization": f"Leasefs session-{name}:{secret}"}

    def answered(self, case: Case, response: Response) -> None:
        """As `api_fuzz.Target`: events since the last request are those that it may have brought."""
        learn_ids(response, self._ids)
        # One at a time: a second one is told to wait for the first.
        assert response.status_code != 503 or case.path == "/v1/compactions", response.text
        page = self._get(f"/v1/events?after={self._seq}&limit=10000")
        self._seq = page["head"]
        types = {item["event"]["type"] for item in page["events"]}
        if response.status_code >= 400 and not case.path.endswith("/batch"):
            assert types <= _UNASKED, f"refused, and yet it brought {sorted(types - _UNASKED)}"
        if "session-ended" in types:
            self._open_again()

    def _open_again(self) -> None:
        """A fuzzed request ended or replaced a session of ours: the next ones need it."""
        known = {one["session"] for one in self._get("/v1/sessions")["sessions"]}
        for name in AGENTS:
            if f"session-{name}" not in known:
                # Another one of the name may have come in its place.
                opening = {
                    "harness": "h",
                    "territory": _TERRITORY,
                    "kind": "shell",
                    "replace": True,
                }
                ours = {"session": f"session-{name}", "secret": SECRET, "agent": name}
                answer = self._ledger.ask("POST", "/v1/sessions", {**opening, **ours})
                assert answer.status == 201, answer
        self._seq = self._get("/v1/status")["seq"]

    def _known(self, name: str, chance: random.Random) -> str:
        if name == "session":
            return f"session-{chance.choice(AGENTS)}"
        if name == "identity":
            return chance.choice([*IDENTITIES, *_ISSUED])
        return chance.choice(self._ids)

    def _get(self, path: str) -> Any:  # noqa: ANN401 - whatever the ledger says
        answer = self.session.get(self.base_url + path, timeout=20)
        assert answer.status_code == 200, answer.text
        return answer.json()


def _drained(ledger: LedgerProcess) -> None:
    stream = ledger.process.stderr
    with contextlib.suppress(ValueError):  # closed under it, at the end
        while stream is not None and stream.read1(65536):  # type: ignore[attr-defined]
            pass


def token_of(name: str) -> str:
    """What an identity of this name shows."""
    digest = sha256(name.encode()).hexdigest()
    return f"leasefs_{digest[:12]}_{digest}"


def without_security(document: dict[str, Any]) -> dict[str, Any]:
    """The description with no word of credentials, which the target sends itself."""
    document["components"].pop("securitySchemes", None)
    for item in document["paths"].values():
        for operation in item.values():
            operation.pop("security", None)
    return document


def asks_briefly(case: Case) -> None:
    """What would be answered late on purpose is asked for at once, and no stream is begun."""
    if "wait_s" in case.query:
        case.query["wait_s"] = 0.05
    if "follow" in case.query:
        case.query["follow"] = 0


def learn_ids(response: Response, ids: list[str]) -> None:
    """Keep the ids of leases that an answer names; the newest are enough."""
    if response.status_code not in {200, 201, 202}:
        return
    said = response.json() if response.text.startswith("{") else None
    if isinstance(said, dict) and isinstance(said.get("lease"), str):
        ids.append(said["lease"])
        del ids[:-_IDS_KEPT]


def season_body(
    case: Case, ids: list[str], chance: random.Random, territory: str = _TERRITORY
) -> None:
    """Let some fields of a body mean something."""
    body = case.body
    if not isinstance(body, dict) or not _is_positive(case):
        return
    meant: dict[str, Any] = {
        "territory": territory,
        "globs": chance.sample(GLOBS, chance.randint(1, 2)),
        "lease": chance.choice(ids),
        "to": chance.choice(AGENTS),
        "agent": chance.choice(AGENTS),
        "ttl_s": chance.choice([1.0, 30.0, 1800.0]),
        "replaces": "",
    }
    for name, value in meant.items():
        if name in body and chance.random() < 0.7:
            body[name] = value


def _is_positive(case: Case) -> bool:
    return case.meta is None or case.meta.generation.mode.is_positive
