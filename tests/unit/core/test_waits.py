"""Cycles of waiters, case by case (P7); that none is missed and none invented is shown in tests/model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
from hypothesis import given

from leasefs.core import queue, waits
from leasefs.core.commands import Beat, Heartbeat, RecallLease, StartLedger
from leasefs.core.draft import Draft
from leasefs.core.events import Granted, Queued
from leasefs.core.lease import Mode
from leasefs.core.queue import is_blocked
from leasefs.core.records import Claim
from leasefs.core.waits import cycle_through
from leasefs.testing.ledger_driver import LedgerDriver
from leasefs.testing.naive_queue import GLOBS, Sight

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.core.ledger import State


def test_a_cycle_through_an_earlier_waiter_counts(ledger: LedgerDriver, refused: Any) -> None:
    """Who is before in the queue will hold it."""
    ledger.claim("a", "x")
    ledger.claim("b", "x", wait=True)
    ledger.claim("c", "y")
    ledger.claim("b", "y", wait=True)
    with refused("deadlock") as caught:
        ledger.claim("c", "x", wait=True)
    assert "c waits for b waits for c" in str(caught.value)


def test_a_claim_before_others_counts_as_well(ledger: LedgerDriver, refused: Any) -> None:
    """By its priority it would stand before somebody whom its maker waits for."""
    ledger.claim("a", "x")
    ledger.claim("b", "y")
    ledger.claim("b", "x", wait=True)
    ledger.claim("c", "y", wait=True)
    with refused("deadlock"):
        ledger.claim("c", "x", wait=True, priority=1)
    assert ledger.claim("c", "x", wait=True, priority=-1).state == "waiting"


def test_what_ends_by_itself_is_no_reason_to_refuse(ledger: LedgerDriver) -> None:
    held = ledger.claim("a", "x")
    ledger.claim("b", "y")
    ledger.claim("a", "y", wait=True)
    ledger.answered(RecallLease(held.lease, 60, by="olga"))
    assert ledger.claim("b", "x", wait=True).state == "waiting"


def test_a_lapse_that_claims_counted_on_is_not_undone_by_a_restart(ledger: LedgerDriver) -> None:
    """A lapsed lease is nobody's reason to wait; brought back, it would have closed a cycle."""
    held = ledger.claim("a", "x", ttl_s=10)
    ledger.claim("b", "y")
    ledger.claim("c", "z")
    ledger.claim("b", "x", "z", wait=True)
    ledger.now_s += 11  # and no timer has looked
    assert ledger.claim("a", "y", wait=True).state == "waiting"
    ledger.run(StartLedger("s", "boot"))
    assert cycle_through(ledger.state, "session-a", ledger.now_s) is None
    lost = ledger.run(Heartbeat("session-a", (Beat(held.lease, held.token),)))
    assert "a waiter that you wait for needs it" in str(lost.answer)


def test_a_lapse_that_nobody_counted_on_is_forgiven_at_a_restart(ledger: LedgerDriver) -> None:
    """P3: holders could not renew while no server ran."""
    held = ledger.claim("a", "x", ttl_s=10)
    ledger.now_s += 3600
    ledger.run(StartLedger("s", "boot"))
    assert ledger.look(held).state == "granted"


def test_long_queues_are_searched_in_the_order_of_their_length(ledger: LedgerDriver) -> None:
    """Each of a line of waiters is before the next: that is seen once, not for each of them."""
    ledger.claim("a", "hot")
    for number in range(300):
        ledger.open(f"w{number}")
        ledger.claim(f"w{number}", "hot", wait=True)
    ledger.claim("w299", "y")
    ledger.claim("b", "z")
    counted = Counting(ledger.state)
    with counted:
        assert ledger.claim("a", "z", wait=True).state == "waiting"
    assert counted.looks < 3_000


class Counting:
    """Counts how often waiters are compared by place: the work of looking through queues."""

    def __init__(self, state: State) -> None:
        self.looks = 0

    def __enter__(self) -> None:
        self._real: Callable[..., Any] = queue.rank

        def rank(claim: Any) -> Any:
            self.looks += 1
            return self._real(claim)

        queue.rank = waits.rank = rank

    def __exit__(self, *_: object) -> None:
        queue.rank = waits.rank = self._real


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.lists(st.sampled_from(GLOBS), min_size=1, max_size=2),
            st.sampled_from(Mode),
            st.integers(-1, 1),
        ),
        max_size=12,
    )
)
def test_every_session_on_a_cycle_is_found(claims: list[Any]) -> None:
    """Against the model, in queues that were never checked: the search is right also where the rules let nothing wrong in."""
    ledger = LedgerDriver()
    state = ledger.state
    for number, (agent, globs, mode, priority) in enumerate(claims):
        state = forced(state, agent, tuple(globs), mode, priority, number)
    stuck = Sight(state, ledger.now_s).stuck()
    on_cycles = {
        session
        for session in state.sessions
        if cycle_through(state, session, ledger.now_s) is not None
    }
    assert on_cycles <= stuck
    assert bool(on_cycles) == bool(stuck)


def forced(
    state: State, agent: str, globs: tuple[str, ...], mode: Mode, priority: int, number: int
) -> State:
    """The state with a claim that is granted if nothing stops it, and else waits, whatever comes of that."""
    draft = Draft(state, 1000.0)
    claim = Claim(
        f"L{draft.next_seq}", "t", f"session-{agent}", agent, "h", tuple(dict.fromkeys(globs)), mode,
        60.0, priority, 1000.0 + number, draft.next_seq,
    )  # fmt: skip
    if is_blocked(state, claim, 1000.0):
        draft.emit(Queued(claim, ()))
    else:
        draft.emit(Granted(claim))
    return draft.state
