"""Ways to act as another agent at the ledger: names, sessions, secrets, leases, keys, and what the history gives away."""

from __future__ import annotations

import os
import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.testing.ledger_process import SECRET, LedgerProcess, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator

ANN, BOB = f"session-ann:{SECRET}", f"session-bob:{'b' * 40}"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ledger")


@pytest.fixture(scope="module")
def ledger(directory: Path) -> Iterator[LedgerProcess]:
    """A ledger that ann holds `src/**` of, and bob `docs/**`."""
    directory.chmod(0o700)
    with LedgerProcess(str(directory)) as ledger:
        ledger.open_session("session-ann", "ann")
        opened = ledger.ask("POST", "/v1/sessions", opening("bob", secret="b" * 40))
        assert opened.status == 201
        for who, glob in ((ANN, "src/**"), (BOB, "docs/**")):
            claim = {"key": "same-key", "globs": [glob], "ttl_s": 3600.0}
            assert ledger.ask("POST", "/v1/leases", claim, who).status == 201
        yield ledger
        assert ledger.stop() == 0


def opening(
    agent: str, *, session: str = "", secret: str = SECRET, **more: object
) -> dict[str, Any]:
    fields = {"harness": "h", "territory": "t", "kind": "shell", "host": "here", "pid": 1}
    return {
        "session": session or f"session-{agent}",
        "secret": secret,
        "agent": agent,
        **fields,
        **more,
    }


def lease_of(ledger: LedgerProcess, agent: str) -> dict[str, Any]:
    leases = ledger.ask("GET", "/v1/leases").json["leases"]
    return next(dict(lease) for lease in leases if lease["agent"] == agent)


def refusal(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json["error"]["code"]


def test_another_agents_name(ledger: LedgerProcess) -> None:
    """A second session of a name that is taken."""
    reply = ledger.ask("POST", "/v1/sessions", opening("ann", session="session-2", secret="2" * 40))
    assert refusal(reply) == (409, "agent-busy")


@pytest.mark.parametrize(
    "name", ["Ann", "ann ", " ann", "ann\n", "ann\u200b", "\u0430nn", "ann/../ann", "ann\0"]
)
def test_a_name_that_looks_like_anothers(ledger: LedgerProcess, name: str) -> None:
    """Refused, or another name to everybody: what ann holds stays hers."""
    reply = ledger.ask(
        "POST", "/v1/sessions", opening(name, session="session-like", secret="l" * 40)
    )
    if reply.status == 201:
        mine = f"session-like:{'l' * 40}"
        claim = {"key": "k", "globs": ["src/x"]}
        assert ledger.ask("POST", "/v1/leases", claim, mine).status == 409
        assert ledger.ask("DELETE", "/v1/sessions/session-like", None, mine).status == 200
    else:
        assert refusal(reply) == (400, "invalid")


def test_another_sessions_id_with_a_secret_of_ones_own(ledger: LedgerProcess) -> None:
    claim = {"key": "k", "globs": ["x"]}
    for secret in (
        "b" * 40,
        "",
        SECRET[:-1],
        SECRET + " x",
        SECRET.upper(),
        sha256(SECRET.encode()).hexdigest(),
    ):
        reply = ledger.ask("POST", "/v1/leases", claim, f"session-ann:{secret}")
        assert refusal(reply) in {(403, "denied"), (401, "denied")}, secret


def test_a_session_that_never_was(ledger: LedgerProcess) -> None:
    reply = ledger.ask("POST", "/v1/leases", {"key": "k", "globs": ["x"]}, f"session-none:{SECRET}")
    assert refusal(reply) == (401, "session-ended")


def test_opening_anothers_session_anew(ledger: LedgerProcess) -> None:
    """With its id and another secret: the one that it has stays the one."""
    reply = ledger.ask("POST", "/v1/sessions", opening("ann", secret="z" * 40))
    assert reply.status in {403, 409}
    assert ledger.ask("POST", "/v1/sessions/session-ann/heartbeat", {}, ANN).status == 200


def test_replacing_anothers_session(ledger: LedgerProcess) -> None:
    """Not covered on a ledger of one user: `--replace` is for whoever lost their secret, and asks nobody.

    What the former session held is rescued and free, and it is in the history. Identities say who may open which.
    """
    assert ledger.ask("POST", "/v1/sessions", opening("eve", secret="e" * 40)).status == 201
    taken = opening("eve", session="session-eve-2", secret="f" * 40, replace=True)
    assert ledger.ask("POST", "/v1/sessions", taken).status == 201
    reply = ledger.ask(
        "POST", "/v1/leases", {"key": "k", "globs": ["e"]}, f"session-eve:{'e' * 40}"
    )
    assert refusal(reply) == (401, "session-ended")
    ended = ledger.ask("GET", "/v1/events?types=session-ended&session=session-eve").json["events"]
    assert ended


def test_renewing_anothers_lease(ledger: LedgerProcess) -> None:
    lease = lease_of(ledger, "ann")
    beat = {"renew": [{"lease": lease["lease"], "token": lease["token"]}]}
    answer = ledger.ask("POST", "/v1/sessions/session-bob/heartbeat", beat, BOB).json
    assert answer["renewed"] == []
    assert answer["lost"][0]["lease"] == lease["lease"]


def test_dropping_anothers_lease(ledger: LedgerProcess) -> None:
    lease = lease_of(ledger, "ann")
    ledger.ask("POST", "/v1/sessions/session-bob/heartbeat", {"dropped": [lease["lease"]]}, BOB)
    assert lease_of(ledger, "ann")["token"] == lease["token"]


def test_a_heartbeat_for_another_session(ledger: LedgerProcess) -> None:
    assert refusal(ledger.ask("POST", "/v1/sessions/session-ann/heartbeat", {}, BOB)) == (
        403,
        "denied",
    )


def test_ending_another_session(ledger: LedgerProcess) -> None:
    assert refusal(ledger.ask("DELETE", "/v1/sessions/session-ann", None, BOB)) == (403, "denied")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "?key=k1", None),
        ("POST", "/downgrade", {"key": "k2"}),
        ("POST", "/delegate", {"key": "k3", "globs": ["src/x"], "to": "bob"}),
        ("POST", "/recall", {"within_s": 1.0}),
        ("POST", "/more-time", {"extra_s": 1.0}),
    ],
    ids=["release", "downgrade", "delegate", "recall", "more time"],
)
def test_acting_on_anothers_lease(ledger: LedgerProcess, method: str, path: str, body: Any) -> None:
    lease = lease_of(ledger, "ann")
    reply = ledger.ask(method, f"/v1/leases/{lease['lease']}{path}", body, BOB)
    assert refusal(reply)[0] in {403, 404, 409}, reply
    assert lease_of(ledger, "ann")["token"] == lease["token"]


def test_a_fencing_token_of_ones_own_making(ledger: LedgerProcess) -> None:
    lease = lease_of(ledger, "bob")
    for token in (lease["token"] + 1, lease["token"] - 1, 2**62):
        beat = {"renew": [{"lease": lease["lease"], "token": token}]}
        answer = ledger.ask("POST", "/v1/sessions/session-bob/heartbeat", beat, BOB).json
        assert answer["renewed"] == []
    assert lease_of(ledger, "bob")["token"] == lease["token"]


def test_anothers_idempotency_key(ledger: LedgerProcess) -> None:
    """A key counts for its session alone: the answer is about what one asked oneself."""
    claim = {"key": "same-key", "globs": ["docs/**"], "ttl_s": 3600.0}
    assert (
        ledger.ask("POST", "/v1/leases", claim, BOB).json["lease"]
        == lease_of(ledger, "bob")["lease"]
    )
    other = {"key": "same-key", "globs": ["src/**"], "ttl_s": 3600.0}
    assert refusal(ledger.ask("POST", "/v1/leases", other, BOB)) == (400, "key-reused")


def test_claiming_what_only_seems_free(ledger: LedgerProcess) -> None:
    """Overlap is exact, whatever the spelling."""
    for number, glob in enumerate(
        ("s*/**", "src/../src/x", "./src/x", "[s]rc/x", "src//x", "**/x", "sr\\c/x", "SRC/../src/x")
    ):
        reply = ledger.ask("POST", "/v1/leases", {"key": f"seems-{number}", "globs": [glob]}, BOB)
        assert reply.status in {400, 409}, (glob, reply)


def test_what_the_api_gives_away(ledger: LedgerProcess) -> None:
    """No secret, and not what it is compared with."""
    hashed = sha256(b"a token").hexdigest()
    identity = {"agent": "known", "token_id": "1f3a9c02b7de", "token_sha256": hashed}
    assert ledger.ask("POST", "/v1/agents", identity).status == 201
    told = [SECRET, sha256(SECRET.encode()).hexdigest(), "b" * 40, hashed]
    described = ledger.ask("GET", "/openapi.json").json["paths"]
    paths = [path for path, item in described.items() if "get" in item and "{" not in path]
    assert "/v1/events" in paths
    for path in paths:
        said = read(ledger, f"{path}?territory=t&path=src/x") + read(ledger, path)
        assert not [one for one in told if one in said], path
    with ledger.raw() as stream:
        stream.sendall(b"GET /v1/events?follow=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        said = ""
        while "granted" not in said:
            said += stream.recv(65536).decode()
    assert "session-opened" in said
    assert not [one for one in told if one in said]


def read(ledger: LedgerProcess, path: str) -> str:
    """Whatever comes back, and however."""
    with ledger.raw() as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        said = b""
        while more := connection.recv(65536):
            said += more
    return said.decode()


def test_what_the_store_gives_away(ledger: LedgerProcess, directory: Path) -> None:
    """Its files are its user's alone, and hold no secret in clear."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert path.stat().st_mode & 0o077 == 0, path
        assert SECRET.encode() not in path.read_bytes(), path


def test_what_proc_gives_away(ledger: LedgerProcess) -> None:
    pid = ledger.process.pid
    for name in ("cmdline", "environ"):
        assert SECRET.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()


def test_an_operators_act_without_a_session(ledger: LedgerProcess) -> None:
    """Not covered on a ledger of one user: its user is its operator. The act has their name."""
    eve = opening("mallory", secret="m" * 40)
    assert ledger.ask("POST", "/v1/sessions", eve).status == 201
    lease = ledger.ask(
        "POST", "/v1/leases", {"key": "k", "globs": ["m"]}, f"session-mallory:{'m' * 40}"
    ).json
    assert ledger.ask("POST", f"/v1/leases/{lease['lease']}/revoke", {"by": "ann"}).status == 200
    revoked = ledger.ask("GET", "/v1/events?types=revoked").json["events"][-1]["event"]
    assert re.search(rf"root|uid {os.geteuid()}", str(revoked))
