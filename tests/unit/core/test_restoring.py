"""A ledger that was brought back from a backup believes no lease of it, and grants nothing for long enough (P1, P3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasefs.core.commands import (
    Beat,
    ClaimLease,
    ClaimRegions,
    Freeze,
    Heartbeat,
    Region,
    ReopenLedger,
    SetAdmission,
    Tick,
)
from leasefs.core.events import LedgerRestored, Recorded
from leasefs.core.globs import globs_of
from leasefs.core.lease import Mode
from leasefs.core.ledger import State, decide
from leasefs.core.records import Admission
from leasefs.core.state import apply
from leasefs.testing.command_histories import SESSIONS, decisions, histories, open_command

if TYPE_CHECKING:
    from leasefs.testing.ledger_driver import LedgerDriver

CLOSED_FOR_S = 600.0


def restored(state: State, now_s: float, seq: int = 5_000) -> State:
    event = LedgerRestored("root", state.seq, seq - 10, CLOSED_FOR_S)
    return apply(state, Recorded(seq, now_s, event))


@pytest.fixture
def after(ledger: LedgerDriver) -> LedgerDriver:
    """What the backup had: leases, a waiter, a freeze, and limits."""
    ledger.claim("a", "a/**")
    ledger.claim("b", "a/x", wait=True)
    ledger.answered(Freeze("olga", "f1", "t", ("frozen/**",), "why"))
    ledger.answered(SetAdmission("t", Admission(9)))
    ledger.state = restored(ledger.state, ledger.now_s)
    for agent in "abc":
        ledger.open(agent)
    return ledger


def test_nobody_of_the_backup_holds_or_waits_and_freezes_stay(after: LedgerDriver) -> None:
    assert [lease.claim.frozen_by for lease in after.state.leases.values()] == ["olga"]
    assert not after.state.waiters
    assert after.state.admission["t"].max_exclusive == 9
    assert set(after.state.sessions) == {"session-a", "session-b", "session-c"}


def test_what_the_mount_held_is_lost_by_its_next_heartbeat(after: LedgerDriver) -> None:
    answer = after.answered(Heartbeat("session-a", (Beat("L4", 4),)))
    assert [one.lease for one in answer.lost] == ["L4"]


def test_nothing_is_granted_until_the_time_is_over(after: LedgerDriver, refused: Any) -> None:
    with refused("conflict") as caught:
        after.claim("a", "other/**")
    assert "brought back from a backup" in str(caught.value)
    assert "leasefs ledger reopen" in str(caught.value)
    with refused("conflict"):
        after.answered(ClaimRegions("session-a", "k", (Region(("r/**",)),)))
    waits = after.claim("a", "other/**", wait=True)
    shared = after.claim("b", "shared/**", wait=True, mode=Mode.SHARED)
    assert (waits.state, shared.state) == ("waiting", "waiting")
    assert [one.kind for one in waits.waits_for] == ["closed"]
    frozen = after.answered(Freeze("olga", "f2", "t", ("z/**",), "why"))
    assert frozen.state == "waiting"
    after.now_s += CLOSED_FOR_S - 1
    after.run(Tick())
    assert after.happened == []
    after.now_s += 1
    after.run(Tick())
    assert after.happened == ["LedgerReopened", "Granted", "Granted", "Granted"]
    assert {after.look(one).state for one in (waits, shared, frozen)} == {"granted"}
    assert min(lease.token for lease in after.state.leases.values() if lease.token > 100) > 5_000


def test_an_operator_who_knows_better_opens_it(after: LedgerDriver) -> None:
    waits = after.claim("a", "other/**", wait=True)
    after.answered(ReopenLedger("olga"))
    assert after.look(waits).state == "granted"
    assert after.claim("b", "more/**").state == "granted"
    after.answered(ReopenLedger("olga"))
    assert after.happened == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories, histories, st.integers(0, 100))
def test_whatever_was_lost_nobody_writes_where_a_lost_lease_is_trusted(
    history: Any, later: Any, cut: int
) -> None:
    """The backup is any prefix of a history, its lost rest any rest; then anything happens for less than the closed time.

    No lease is granted while one of the lost past may still be trusted, and no number is given out again.
    """
    played = list(decisions([(open_command(0), 0.0), (open_command(1), 0.0), *history]))
    backup = played[cut % len(played)][0]
    last = played[-1][1].state
    state = restored(backup, max(last.at_s, backup.at_s), last.seq + 1)
    for number in range(3):
        state = decide(state, open_command(number), state.at_s).state
    reopens_at_s, now_s = state.closed_until_s, state.at_s
    for command, passed_s in [
        (ClaimLease(SESSIONS[0], "first", ("a/**",), wait=True), 0.0),
        *later,
    ]:
        now_s += passed_s
        decision = decide(state, command, now_s)
        for event in decision.events:
            assert event.seq > last.seq
        state = decision.state
        held = [lease for lease in state.leases.values() if not lease.claim.frozen_by]
        if held:
            assert now_s >= reopens_at_s
            assert min(lease.token for lease in held) > last.seq
        for lease in state.leases.values():
            assert globs_of(lease.claim.globs)
