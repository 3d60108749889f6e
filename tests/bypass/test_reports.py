"""Ways for an agent with an identity to have the ledger believe of others' work what is not so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.testing.ledger_process import SECRET, LedgerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TREE = {"tree": "t-1", "host": "h", "root": "/r"}
ANN, EVE = f"session-ann:{SECRET}", f"session-eve:{SECRET}"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[LedgerProcess]:
    """A ledger that ann holds `src/**` of, where she has changed `src/x`, and that eve has an identity of, too."""
    tmp_path.chmod(0o700)
    with LedgerProcess(str(tmp_path), store=":memory:") as ledger:
        for name in ("ann", "eve"):
            ledger.open_session(f"session-{name}", name)
            ledger.add_agent(name)  # the session is theirs from here on
        done(ledger, ANN, "POST", "/v1/leases", {"key": "k", "globs": ["src/**"], "ttl_s": 3600.0})
        done(ledger, ANN, "POST", "/v1/intents", {**TREE, "notes": [note(ledger, "src/x")]})
        yield ledger
        assert ledger.stop() == 0


def done(ledger: LedgerProcess, who: str, method: str, path: str, body: object = None) -> Any:
    reply = ledger.ask(method, path, body, who)
    assert reply.status < 300, reply
    return reply.json


def lease(ledger: LedgerProcess) -> Any:
    return next(one for one in done(ledger, ANN, "GET", "/v1/leases")["leases"])


def note(ledger: LedgerProcess, path: str) -> dict[str, Any]:
    held = lease(ledger)
    which = {"lease": held["lease"], "token": held["token"]}
    return {"path": path, "kind": "modify", "wall_s": 10.0, **which}


def intents(ledger: LedgerProcess, agent: str) -> list[str]:
    found = done(ledger, EVE, "GET", f"/v1/intents?agent={agent}")["intents"]
    return [one["path"] for one in found]


def rescue(ledger: LedgerProcess, **more: object) -> dict[str, Any]:
    held = lease(ledger)
    which = {"id": held["lease"], "lease": held["lease"], "token": held["token"], "agent": "ann"}
    where = {"ref": "refs/x", "commit": "c" * 40, "paths": 1, "names": ["src/x"]}
    return {"rescue": {**TREE, **which, **where, **more}, "contained": ["src/x"]}


def test_a_rescue_of_anothers_work_that_never_was(ledger: LedgerProcess) -> None:
    """It is in the list, as eve's word; ann's work is not taken for kept, and her gate still sees it."""
    assert done(ledger, EVE, "POST", "/v1/rescues", rescue(ledger))["ended"] == 0
    assert intents(ledger, "ann") == ["src/x"]
    (said,) = done(ledger, ANN, "GET", "/v1/rescues")["rescues"]
    assert said["by"] == "eve"
    released = ledger.ask("DELETE", f"/v1/leases/{lease(ledger)['lease']}?key=r", None, ANN)
    assert (released.status, released.json["error"]["code"]) == (409, "dirty")


def test_rescues_without_number(ledger: LedgerProcess) -> None:
    """What each later claim is answered with stays short."""
    for number in range(120):
        made_up = rescue(ledger, id=f"r-{number}", names=["src/" + "n" * 200] * 50, globs=["**"])
        done(ledger, EVE, "POST", "/v1/rescues", {**made_up, "contained": []})
    answer = done(ledger, ANN, "GET", f"/v1/leases/{lease(ledger)['lease']}")
    assert answer["inherits"]["rescues_count"] == 120
    assert len(json.dumps(answer)) < 150_000


def test_the_id_of_anothers_rescue(ledger: LedgerProcess) -> None:
    """Not covered: who reports it first has it. Ann's own snapshot is kept, but its report is refused, and logged."""
    done(ledger, EVE, "POST", "/v1/rescues", {**rescue(ledger, tree="t-9"), "contained": []})
    own = ledger.ask("POST", "/v1/rescues", rescue(ledger, commit="d" * 40), ANN)
    assert (own.status, own.json["error"]["code"]) == (400, "invalid")
    assert intents(ledger, "ann") == ["src/x"]


def test_dropping_anothers_rescue(ledger: LedgerProcess) -> None:
    """Not covered: the ledger forgets it, by eve. Its commit stays where it is, and the history has both."""
    done(ledger, ANN, "POST", "/v1/rescues", rescue(ledger))
    assert done(ledger, EVE, "DELETE", f"/v1/rescues/{lease(ledger)['lease']}")["dropped"]
    (said,) = done(ledger, ANN, "GET", "/v1/events?types=rescue-dropped")["events"]
    assert said["event"]["agent"] == "eve"
    assert said["event"]["rescue"]["commit"] == "c" * 40


def test_work_of_ones_own_under_anothers_lease(ledger: LedgerProcess) -> None:
    """It is eve's, and fenced; she is told that it was not hers to change."""
    body = {**TREE, "notes": [note(ledger, "src/y")]}
    answer = done(ledger, EVE, "POST", "/v1/intents", body)
    assert [one["path"] for one in answer["stale"]] == ["src/y"]
    assert (intents(ledger, "ann"), intents(ledger, "eve")) == (["src/x"], ["src/y"])


def test_work_in_anothers_name(ledger: LedgerProcess) -> None:
    """What eve has not found in a dead mount's journal she reports as her own, or not at all."""
    body = {**TREE, "notes": [note(ledger, "src/y")], "agent": "ann"}
    reply = ledger.ask("POST", "/v1/intents", body, EVE)
    assert (reply.status, reply.json["error"]["code"]) == (400, "invalid")


def test_work_in_anothers_name_as_if_her_mount_were_dead(ledger: LedgerProcess) -> None:
    """Not covered: whoever mounts a tree speaks for the dead. It is marked, and the history has who said so."""
    body = {**TREE, "notes": [note(ledger, "src/y")], "agent": "ann", "recovered": True}
    done(ledger, EVE, "POST", "/v1/intents", body)
    found = done(ledger, ANN, "GET", "/v1/intents")["intents"]
    assert {one["path"]: one["recovered"] for one in found} == {"src/x": False, "src/y": True}
    said = done(ledger, ANN, "GET", "/v1/events?types=intents-noted")["events"][-1]
    assert said["session"] == "session-eve"


def test_calling_anothers_work_clean(ledger: LedgerProcess) -> None:
    """Not covered: who settles a path speaks for all of its tree. The history has who did."""
    body = {"tree": TREE["tree"], "settled": [{"path": "src/x", "outcome": "clean"}]}
    done(ledger, EVE, "POST", "/v1/intents/settled", body)
    assert intents(ledger, "ann") == []
    said = done(ledger, ANN, "GET", "/v1/events?types=intents-settled")["events"][-1]
    assert said["event"]["agent"] == "eve"


def test_calling_anothers_work_clean_in_another_tree(ledger: LedgerProcess) -> None:
    """Trees are told apart: it is not the same path."""
    body = {"tree": "t-2", "settled": [{"path": "src/x", "outcome": "clean"}]}
    assert done(ledger, EVE, "POST", "/v1/intents/settled", body)["settled"] == 0
    assert intents(ledger, "ann") == ["src/x"]


def test_foreign_writes_that_never_were(ledger: LedgerProcess) -> None:
    """Not covered: each mount reports what it saw. Ann is told by whom."""
    change = {"path": "src/x", "what": "modified", "wall_s": 1.0}
    done(ledger, EVE, "POST", "/v1/foreign-writes", {"tree": "t-1", "changes": [change]})
    (said,) = done(ledger, ANN, "GET", "/v1/events?types=foreign-writes")["events"]
    assert said["event"]["agent"] == "eve"
