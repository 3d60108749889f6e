"""`leasefs claim`: parsing, printing and exit codes, with a ledger that answers from a list."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import api, blocking
from leasefs.core import errors
from leasefs.testing.fake_ledger import FRESH, LEASE, WAITING, FakeLedger

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("tree", "ledger")


def test_claim_prints_the_id_alone(here: Any, ledger: FakeLedger) -> None:
    ran = here("claim", "src/**")
    assert (ran.code, ran.out, ran.err) == (0, "L7\n", "")
    body = ledger.claimed()
    assert body["globs"] == ["src/**"]
    assert (body["ttl_s"], body["wait"], body["mode"]) == (1800.0, False, "exclusive")


def test_claim_passes_every_option_on(here: Any, ledger: FakeLedger) -> None:
    ran = here(
        *("claim", "--ttl", "10m", "--shared", "--priority", "-3", "--note", "why", "--wait=5m"),
        *("src/*.py", "lib/**"),
    )
    assert ran.code == 0
    body = ledger.claimed()
    assert body["globs"] == ["src/*.py", "lib/**"]
    assert (body["ttl_s"], body["mode"], body["priority"]) == (600.0, "shared", -3)
    assert (body["note"], body["wait"]) == ("why", True)


def test_claim_says_what_it_took_a_name_for(here: Any, ledger: FakeLedger) -> None:
    ran = here("claim", "src", "app/[slug]/page.tsx", "new.py")
    assert ledger.claimed()["globs"][0] == "src/**"
    assert ran.out == "L7\n"
    assert "'src' is taken for everything below the directory src/" in ran.err
    assert "'app/[slug]/page.tsx' is taken for the existing file" in ran.err
    assert "'new.py' is taken for the path new.py, which does not exist yet" in ran.err


def test_claim_is_silent_where_it_is_plain_and_with_q(here: Any) -> None:
    assert here("claim", "src/x.py").err == ""
    assert here("claim", "-q", "src").err == ""


def test_claim_json_tells_all(here: Any) -> None:
    ran = here("claim", "src", "--json")
    said = json.loads(ran.out)
    assert (said["lease"], said["token"], ran.err) == ("L7", 7, "")
    assert said["understood"] == ["everything below the directory src/"]


@pytest.mark.parametrize(
    ("arguments", "waits_s"),
    [
        (["--wait", "src/**"], None),
        (["src/**", "--wait"], None),
        (["--wait", "90s", "src/**"], 90.0),
        (["src/**", "--wait", "90"], 90.0),
        (["--wait=1h30m", "src/**"], 5400.0),
        (["--wait", "--ttl", "5m", "src/**"], None),
    ],
)
def test_wait_with_and_without_a_duration(
    here: Any,
    ledger: FakeLedger,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    waits_s: float | None,
) -> None:
    seen: list[float | None] = []

    def wait(link: Any, waiting: Any, *, timeout_s: float | None, on_change: Any) -> Any:
        seen.append(timeout_s)
        return LEASE

    monkeypatch.setattr("leasefs.client.waiting.wait_for_grant", wait)
    ledger.answers["POST /v1/leases"] = WAITING
    ran = here("claim", *arguments)
    assert (ran.code, ran.out) == (0, "L7\n")
    assert seen == [waits_s]
    assert ledger.claimed()["globs"] == ["src/**"]


def test_waiting_is_told_once_per_change(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["POST /v1/leases"] = WAITING
    ledger.answers["GET /v1/leases/L9"] = [
        WAITING,
        {**WAITING, "position": 1, "eta_s": None},
        {**LEASE, "lease": "L9"},
    ]
    ran = here("claim", "src/**", "--wait")
    assert (ran.code, ran.out) == (0, "L9\n")
    assert ran.err.splitlines() == [
        "leasefs: L9 waits: position 2, behind bo (L3), ETA 2m30s",
        "leasefs: L9 waits: position 1, behind bo (L3), ETA unknown",
    ]
    assert all(call.patience_s > 0 for call in ledger.sent("GET", "/v1/leases/L9"))


def test_an_interrupted_wait_withdraws_the_claim(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["POST /v1/leases"] = [WAITING, {**WAITING, "state": "ended"}]
    ledger.answers["GET /v1/leases/L9"] = KeyboardInterrupt()
    ran = here("claim", "src/**", "--wait", "-q")
    assert (ran.code, ran.out, ran.err) == (130, "", "")
    assert len(ledger.sent("DELETE", "/v1/leases/L9")) == 1


def test_a_claim_interrupted_before_its_answer_is_given_back(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["POST /v1/leases"] = [KeyboardInterrupt(), FRESH]
    ran = here("claim", "src/**")
    assert (ran.code, ran.out) == (130, "")
    first, second = ledger.sent("POST", "/v1/leases")
    assert first.body is not None
    assert second.body is not None
    assert first.body["key"] == second.body["key"]
    (left,) = ledger.sent("POST", "/v1/mount/leave")
    assert left.body == {"lease": "L7", "key": first.body["key"]}


def test_a_claim_waits_for_what_others_left_to_be_kept_and_its_undoing_does_not(
    here: Any, ledger: FakeLedger
) -> None:
    """P9: the mount answers when the rescues are made, which of large files takes a while."""
    ledger.answers["POST /v1/leases"] = [errors.LedgerUnavailable("nobody answers"), FRESH]
    assert here("claim", "src/**").code == 7
    made, asked_again = ledger.sent("POST", "/v1/leases")
    assert made.patience_s > 30
    assert asked_again.patience_s == 0


def test_a_claim_whose_answer_was_lost_is_given_back(here: Any, ledger: FakeLedger) -> None:
    """The ledger may have taken it; nobody knows of it."""
    ledger.answers["POST /v1/leases"] = [errors.LedgerUnavailable("too slow"), FRESH]
    assert here("claim", "src/**").code == 7
    assert len(ledger.sent("POST", "/v1/mount/leave")) == 1


def test_a_second_signal_does_not_stop_the_first_one_from_giving_back(
    here: Any, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.answers["POST /v1/leases"] = [WAITING, WAITING]
    ledger.answers["GET /v1/leases/L9"] = KeyboardInterrupt()
    send = ledger.send

    def hammered(link: blocking.Link, call: api.Call) -> dict[str, Any]:
        if call.method == "DELETE" or call.path.endswith("/leave"):
            os.kill(os.getpid(), signal.SIGINT)
        return send(link, call)

    monkeypatch.setattr(blocking.Link, "send", hammered)
    assert here("claim", "src/**", "--wait", "-q").code == 130
    assert len(ledger.sent("POST", "/v1/mount/leave")) == 1


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (errors.ClaimConflict("held by bo"), 3),
        (errors.Deadlock(["ada", "bo"]), 8),
        (errors.SessionEnded("S-ada"), 9),
        (errors.LedgerUnavailable("away"), 7),
    ],
)
def test_a_refused_claim_prints_no_id(
    here: Any, ledger: FakeLedger, failure: errors.LeasefsError, code: int
) -> None:
    ledger.answers["POST /v1/leases"] = failure
    ran = here("claim", "src/**")
    assert (ran.code, ran.out) == (code, "")
    assert failure.message in ran.err


def test_another_agents_name_in_a_mount_is_denied(here: Any, ledger: FakeLedger) -> None:
    ran = here("claim", "src/**", "--agent", "bo")
    assert (ran.code, ran.out) == (9, "")
    assert "is ada's, not bo's" in ran.err
    assert ledger.calls == []


def test_outside_any_mount_an_agent_must_be_named(
    here: Any, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch, own_world: Path
) -> None:
    monkeypatch.chdir(own_world)
    ran = here("claim", "src/**")
    assert ran.code == 10
    assert "not inside a leasefs mount" in ran.err
    assert ledger.calls == []


def test_an_absolute_path_leads_to_its_mount(
    here: Any, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch, own_world: Path, tree: Path
) -> None:
    monkeypatch.chdir(own_world)
    assert here("claim", f"{tree}/src/x.py").code == 0
    assert ledger.claimed()["globs"] == ["src/x.py"]
