"""Heartbeats, lapse, loss, revocation, restarts of the ledger, case by case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core.answers import HeartbeatAnswer
from leasefs.core.commands import (
    Beat,
    ClaimLease,
    Heartbeat,
    OpenSession,
    RevokeLease,
    StartLedger,
)
from leasefs.core.renewal import RECLAIM_GRACE_S

if TYPE_CHECKING:
    from leasefs.testing.ledger_driver import LedgerDriver


def test_lapsed_lease_comes_back_with_the_same_token(ledger: LedgerDriver) -> None:
    """P5: a lapsed lease that nobody else has taken is given back with the same token."""
    held = ledger.claim("a", "x", ttl_s=10)
    ledger.pass_s(3600)
    assert ledger.happened == ["Lapsed"]
    assert ledger.look(held).state == "lapsed"
    answer = ledger.beat("a", held)
    assert [(item.lease, item.token) for item in answer.renewed] == [(held.lease, held.token)]
    assert ledger.look(held).state == "granted"


def test_taken_lease_is_fenced_and_says_by_whom(ledger: LedgerDriver) -> None:
    """P5: once taken, the old holder is fenced. P1: tokens only grow."""
    held = ledger.claim("a", "x/**", ttl_s=10)
    ledger.pass_s(11)
    taken = ledger.claim("b", "x/1")
    assert taken.token > held.token
    lost = ledger.beat("a", held).lost
    assert lost[0].lease == held.lease
    assert "taken by b" in lost[0].reason


def test_lapse_hands_over_to_the_waiter(ledger: LedgerDriver) -> None:
    """P4: an idle lease lapses after its TTL."""
    ledger.claim("a", "x", ttl_s=10)
    waiting = ledger.claim("b", "x", wait=True)
    ledger.pass_s(9.9)
    assert ledger.look(waiting).state == "waiting"
    ledger.pass_s(0.2)
    assert ledger.look(waiting).state == "granted"


def test_a_claim_sees_a_lapse_that_no_tick_has_seen(ledger: LedgerDriver) -> None:
    held = ledger.claim("a", "x", ttl_s=10)
    ledger.now_s += 10
    assert ledger.claim("b", "x").state == "granted"
    assert ledger.happened == ["Expired", "Granted"]
    assert ledger.look(held).state == "ended"


@pytest.mark.parametrize("token", [0, 3, 99])
def test_a_heartbeat_must_name_its_term(ledger: LedgerDriver, token: int) -> None:
    held = ledger.claim("a", "x")
    answer = ledger.run(Heartbeat("session-a", (Beat(held.lease, token),))).answer
    assert isinstance(answer, HeartbeatAnswer)
    assert "stale" in answer.lost[0].reason


def test_only_the_holder_renews_and_releases(ledger: LedgerDriver, refused: Any) -> None:
    held = ledger.claim("a", "x")
    with refused("not-holder"):
        ledger.release("b", held.lease)
    assert "held by a" in ledger.beat("b", held).lost[0].reason
    with refused("unknown-lease"):
        ledger.release("a", "L999")


def test_a_revoked_lease_closes_its_ground_until_its_holder_has_dropped_it(
    ledger: LedgerDriver,
) -> None:
    """P3: the holder may trust it until then."""
    held = ledger.claim("a", "x", ttl_s=600)
    waiting = ledger.claim("b", "x", wait=True)
    ledger.run(RevokeLease("root", held.lease))
    assert ledger.look(held).state == "revoked"
    assert ledger.look(waiting).state == "waiting"
    assert "revoked by root" in ledger.beat("a", held).lost[0].reason
    assert ledger.look(waiting).state == "waiting"
    ledger.run(Heartbeat("session-a", (), (held.lease,)))
    assert ledger.look(waiting).state == "granted"


def test_a_restart_gives_holders_time_to_reclaim(ledger: LedgerDriver) -> None:
    """P3: expiry comes late. Holders could not renew while no ledger ran."""
    held = ledger.claim("a", "x", ttl_s=60)
    waiting = ledger.claim("b", "x", wait=True)
    ledger.now_s += 500
    ledger.run(StartLedger("s", "boot"))
    ledger.pass_s(RECLAIM_GRACE_S - 1)
    assert ledger.look(waiting).state == "waiting"
    assert ledger.beat("a", held).renewed
    ledger.pass_s(59)
    assert ledger.look(held).state == "granted"


def test_a_restart_does_not_revive_what_had_lapsed(ledger: LedgerDriver) -> None:
    held = ledger.claim("a", "x", ttl_s=60)
    ledger.pass_s(61)
    ledger.run(StartLedger("s", "boot"))
    assert ledger.look(held).state == "lapsed"


def test_the_ledgers_time_never_goes_back(ledger: LedgerDriver) -> None:
    ledger.claim("a", "x")
    at_s = ledger.state.at_s
    ledger.now_s -= 100
    ledger.claim("a", "y")
    assert ledger.state.at_s == at_s


def test_territories_never_meet(ledger: LedgerDriver) -> None:
    ledger.claim("a", "x")
    command = OpenSession("session-other", "0" * 64, "a", "h", "u", "run", "host", 1)
    assert ledger.run(command).error is None
    decision = ledger.run(ClaimLease("session-other", "k", ("x",)))
    assert decision.error is None


def test_the_estimate_is_honest_when_unknown_and_learns(ledger: LedgerDriver) -> None:
    held = ledger.claim("a", "x")
    waiting = ledger.claim("b", "x", wait=True)
    assert waiting.eta_s is None
    ledger.now_s += 40
    ledger.release("a", held.lease)
    queued = ledger.claim("a", "x", wait=True)
    assert queued.eta_s == 40
