"""Named cases of the ledger's decisions; the random histories are in tests/model."""

from __future__ import annotations

from typing import Any

import pytest

from leasefs.core.answers import HeartbeatAnswer, LeaseAnswer
from leasefs.core.commands import (
    AnyCommand,
    Beat,
    ClaimLease,
    EndSession,
    Heartbeat,
    OpenSession,
    ReleaseLease,
    RevokeLease,
    StartLedger,
    Tick,
)
from leasefs.core.lease import MAX_GLOBS, Mode
from leasefs.core.ledger import Decision, State, decide
from leasefs.core.renewal import KEEP_LAPSED_S, RECLAIM_GRACE_S, lease_due_at_s, session_due_at_s
from leasefs.core.views import SESSION_TTL_S, lease_answer, leases, over_path, sessions, waiters


class Ledger:
    """Runs commands one after the other and keeps what happened."""

    def __init__(self) -> None:
        self.state = State()
        self.now_s = 1000.0
        self.happened: list[str] = []
        for agent in "abc":
            self.open(agent)

    def run(self, command: AnyCommand) -> Decision:
        decision = decide(self.state, command, self.now_s)
        self.state = decision.state
        self.happened = [type(recorded.event).__name__ for recorded in decision.events]
        return decision

    def open(self, agent: str, suffix: str = "", **more: Any) -> Decision:
        command = OpenSession(
            session=f"session-{agent}{suffix}",
            secret_sha256="0" * 64,
            agent=agent,
            harness="shell",
            territory="t",
            kind="mount",
            host="host",
            pid=1,
            **more,
        )
        return self.run(command)

    def claim(self, agent: str, *globs: str, key: str = "", **more: Any) -> LeaseAnswer:
        decision = self.run(
            ClaimLease(f"session-{agent}", key or f"key-{self.state.seq}", globs, **more)
        )
        if decision.error:
            raise decision.error
        assert isinstance(decision.answer, LeaseAnswer)
        return decision.answer

    def release(self, agent: str, lease: str, key: str = "") -> LeaseAnswer:
        decision = self.run(ReleaseLease(f"session-{agent}", key or f"key-{self.state.seq}", lease))
        if decision.error:
            raise decision.error
        assert isinstance(decision.answer, LeaseAnswer)
        return decision.answer

    def beat(self, agent: str, *granted: LeaseAnswer) -> HeartbeatAnswer:
        beats = tuple(Beat(item.lease, item.token) for item in granted)
        decision = self.run(Heartbeat(f"session-{agent}", beats))
        assert isinstance(decision.answer, HeartbeatAnswer)
        return decision.answer

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds
        due = [
            id_ for id_ in self.state.leases if (lease_due_at_s(self.state, id_) or 0) <= self.now_s
        ]
        self.run(Tick(tuple(due), tuple(self.state.sessions)))

    def look(self, lease: LeaseAnswer) -> LeaseAnswer:
        return lease_answer(self.state, lease.lease, self.now_s)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def refused(code: str) -> Any:
    from leasefs.core.errors import LeasefsError

    return pytest.raises(LeasefsError, check=lambda error: getattr(error, "code", "") == code)


def test_disjoint_claims_never_wait(ledger: Ledger) -> None:
    """P7: a disjoint claim never waits."""
    assert ledger.claim("a", "src/**", wait=True).state == "granted"
    assert ledger.claim("b", "src-app/**", wait=True).state == "granted"


def test_refusal_names_holder_globs_and_witness(ledger: Ledger) -> None:
    """P1: the refusal names a path that both match. P10: and who, until when, what next."""
    ledger.claim("a", "src/**/test_*.py", ttl_s=60)
    with refused("conflict") as caught:
        ledger.claim("b", "docs/**", "src/api/**")
    message = str(caught.value)
    for part in ("src/api/**", "src/**/test_*.py", "held by a", "L4", "60 s", "--wait"):
        assert part in message
    assert ledger.happened == ["ClaimRefused"]
    assert [lease.agent for lease in leases(ledger.state, "t", ledger.now_s)] == ["a"]


def test_shared_leases_overlap_and_exclude_a_writer(ledger: Ledger) -> None:
    """P1: many shared leases may overlap, none with an exclusive one."""
    assert ledger.claim("a", "src/**", mode=Mode.SHARED).state == "granted"
    assert ledger.claim("b", "src/x", mode=Mode.SHARED).state == "granted"
    with refused("conflict"):
        ledger.claim("c", "src/x")


def test_several_globs_are_granted_or_queued_whole(ledger: Ledger) -> None:
    """P6: a claim of several globs is granted whole or queued whole."""
    held = ledger.claim("a", "b/**")
    with refused("conflict"):
        ledger.claim("b", "a/**", "b/**", "c/**")
    assert ledger.claim("c", "a/**", "c/**").state == "granted"
    queued = ledger.claim("b", "b/x", "d/**", wait=True)
    assert queued.state == "waiting"
    assert over_path(ledger.state, "t", b"d/1", ledger.now_s)[0].state == "waiting"
    ledger.release("a", held.lease)
    assert ledger.look(queued).state == "granted"


def test_a_key_acts_once_and_answers_the_same(ledger: Ledger) -> None:
    """P6: sent twice, it acts once and answers the same."""
    first = ledger.claim("a", "x", key="k")
    again = ledger.claim("a", "x", key="k")
    assert ledger.happened == []
    assert (again.lease, again.token) == (first.lease, first.token)
    ledger.release("a", first.lease, key="r")
    assert ledger.release("a", first.lease, key="r").state == "ended"
    assert ledger.happened == []
    with refused("key-reused"):
        ledger.claim("a", "y", key="k")


def test_claiming_the_same_again_renews(ledger: Ledger) -> None:
    first = ledger.claim("a", "x", "y", ttl_s=60)
    ledger.pass_s(50)
    again = ledger.claim("a", "y", "x", ttl_s=120)
    assert (again.lease, again.token) == (first.lease, first.token)
    assert again.expires_in_s == 120


def test_a_shorter_ttl_never_moves_the_deadline_back(ledger: Ledger) -> None:
    """P3: the holder may not have heard of the shorter TTL."""
    first = ledger.claim("a", "x", ttl_s=600)
    ledger.claim("a", "x", ttl_s=10)
    ledger.beat("a", first)
    assert ledger.look(first).expires_in_s == 600


def test_waiters_are_served_in_order_and_by_the_release(ledger: Ledger) -> None:
    """P7: served in order of arrival; a release grants the next in the same decision."""
    held = ledger.claim("a", "x")
    second = ledger.claim("b", "x", wait=True)
    third = ledger.claim("c", "*", wait=True)
    assert (second.position, third.position) == (1, 2)
    assert [blocker.agent for blocker in third.waits_for] == ["a", "b"]
    ledger.release("a", held.lease)
    assert ledger.happened == ["Released", "Granted"]
    assert ledger.look(second).state == "granted"
    assert ledger.look(third).state == "waiting"


def test_a_long_queue_is_told_in_short_and_in_order(ledger: Ledger) -> None:
    ledger.claim("a", "x")
    for number in range(40):
        ledger.open(f"w{number}")
        ledger.claim(f"w{number}", "x", wait=True)
    last = ledger.claim("b", "x", wait=True)
    assert last.position == 41
    assert [blocker.agent for blocker in last.waits_for] == ["a", *(f"w{n}" for n in range(15))]
    with refused("conflict") as caught:
        ledger.claim("c", "x")
    assert "41 more in the way" in str(caught.value)


def test_nobody_barges_past_a_waiter(ledger: Ledger) -> None:
    """P7: nobody is overtaken by a later claim that conflicts with theirs."""
    ledger.claim("a", "x/1")
    ledger.claim("b", "x/*", wait=True)
    with refused("conflict") as caught:
        ledger.claim("c", "x/2")
    assert "waits for it before you" in str(caught.value)


def test_priority_is_worth_waiting_time(ledger: Ledger) -> None:
    """P7: order of priority, then arrival; waiting raises priority so that no one starves."""
    held = ledger.claim("a", "x")
    low = ledger.claim("b", "x", wait=True)
    high = ledger.claim("c", "x", wait=True, priority=1)
    assert [item.lease for item in waiters(ledger.state, "t", ledger.now_s)] == [
        high.lease,
        low.lease,
    ]
    ledger.release("c", high.lease)
    ledger.now_s += 301
    late = ledger.claim("c", "x", wait=True, priority=1)
    assert late.position == 2, "five minutes of waiting outweigh one level"
    ledger.release("a", held.lease)
    assert ledger.look(low).state == "granted"


def test_a_cycle_is_refused_at_claim_time_naming_it(ledger: Ledger) -> None:
    """P7: a cycle of waiters is refused at claim time, naming the cycle."""
    ledger.claim("a", "x")
    ledger.claim("b", "y")
    ledger.claim("c", "z")
    ledger.claim("a", "y", wait=True)
    ledger.claim("b", "z", wait=True)
    with refused("deadlock") as caught:
        ledger.claim("c", "x", wait=True)
    assert "c waits for a waits for b waits for c" in str(caught.value)


def test_two_upgraders_do_not_wait_for_each_other(ledger: Ledger) -> None:
    ledger.claim("a", "x", mode=Mode.SHARED)
    ledger.claim("b", "x", mode=Mode.SHARED)
    assert ledger.claim("a", "x", wait=True).state == "waiting"
    with refused("deadlock"):
        ledger.claim("b", "x", wait=True)


def test_lapsed_lease_comes_back_with_the_same_token(ledger: Ledger) -> None:
    """P5: a lapsed lease that nobody else has taken is given back with the same token."""
    held = ledger.claim("a", "x", ttl_s=10)
    ledger.pass_s(3600)
    assert ledger.happened == ["Lapsed"]
    assert ledger.look(held).state == "lapsed"
    answer = ledger.beat("a", held)
    assert [(item.lease, item.token) for item in answer.renewed] == [(held.lease, held.token)]
    assert ledger.look(held).state == "granted"


def test_taken_lease_is_fenced_and_says_by_whom(ledger: Ledger) -> None:
    """P5: once taken, the old holder is fenced. P1: tokens only grow."""
    held = ledger.claim("a", "x/**", ttl_s=10)
    ledger.pass_s(11)
    taken = ledger.claim("b", "x/1")
    assert taken.token > held.token
    lost = ledger.beat("a", held).lost
    assert lost[0].lease == held.lease
    assert "taken by b" in lost[0].reason


def test_lapse_hands_over_to_the_waiter(ledger: Ledger) -> None:
    """P4: an idle lease lapses after its TTL."""
    ledger.claim("a", "x", ttl_s=10)
    waiting = ledger.claim("b", "x", wait=True)
    ledger.pass_s(9.9)
    assert ledger.look(waiting).state == "waiting"
    ledger.pass_s(0.2)
    assert ledger.look(waiting).state == "granted"


def test_a_claim_sees_a_lapse_that_no_tick_has_seen(ledger: Ledger) -> None:
    held = ledger.claim("a", "x", ttl_s=10)
    ledger.now_s += 10
    assert ledger.claim("b", "x").state == "granted"
    assert ledger.happened == ["Expired", "Granted"]
    assert ledger.look(held).state == "ended"


@pytest.mark.parametrize("token", [0, 3, 99])
def test_a_heartbeat_must_name_its_term(ledger: Ledger, token: int) -> None:
    held = ledger.claim("a", "x")
    answer = ledger.run(Heartbeat("session-a", (Beat(held.lease, token),))).answer
    assert isinstance(answer, HeartbeatAnswer)
    assert "stale" in answer.lost[0].reason


def test_only_the_holder_renews_and_releases(ledger: Ledger) -> None:
    held = ledger.claim("a", "x")
    with refused("not-holder"):
        ledger.release("b", held.lease)
    assert "held by a" in ledger.beat("b", held).lost[0].reason
    with refused("unknown-lease"):
        ledger.release("a", "L999")


def test_a_revoked_lease_closes_its_ground_until_its_holder_has_dropped_it(ledger: Ledger) -> None:
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


def test_a_second_session_of_an_agent_is_refused_unless_asked_for(ledger: Ledger) -> None:
    held = ledger.claim("a", "x", ttl_s=600)
    busy = ledger.open("a", "-two")
    assert busy.error is not None
    assert busy.error.code == "agent-busy"
    assert ledger.open("a", "-two", replace=True).error is None
    with refused("conflict"):
        ledger.claim("b", "x")
    assert [item.session for item in sessions(ledger.state, "t", ledger.now_s)] == [
        "session-a-two",
        "session-b",
        "session-c",
    ]
    ledger.pass_s(601)
    assert ledger.look(held).state == "ended"


def test_a_dead_predecessor_leaves_its_ground_at_once(ledger: Ledger) -> None:
    ledger.claim("a", "x", ttl_s=600)
    assert ledger.open("a", "-two", predecessor_dead=True).error is None
    assert ledger.claim("b", "x").state == "granted"


def test_a_silent_session_leaves_the_queue_and_may_be_succeeded(ledger: Ledger) -> None:
    ledger.claim("a", "x", ttl_s=600)
    waiting = ledger.claim("b", "x", wait=True)
    ledger.pass_s(SESSION_TTL_S)
    assert ledger.look(waiting).state == "ended"
    assert ledger.open("b", "-two").error is None


def test_a_sessions_own_requests_are_signs_of_life(ledger: Ledger) -> None:
    for _ in range(5):
        held = ledger.claim("a", "x")
        ledger.pass_s(SESSION_TTL_S / 2)
        ledger.release("a", held.lease)
        ledger.pass_s(SESSION_TTL_S / 3)
    assert ledger.open("a", "-two").error is not None


def test_sessions_and_lapsed_leases_are_forgotten_after_long(ledger: Ledger) -> None:
    held = ledger.claim("a", "x", ttl_s=10)
    ledger.pass_s(11)
    ledger.pass_s(KEEP_LAPSED_S)
    ledger.pass_s(1)
    assert ledger.look(held).state == "ended"
    assert sessions(ledger.state, None, ledger.now_s) == []
    assert session_due_at_s(ledger.state, "session-a", ledger.now_s) is None


def test_ending_a_session_frees_everything(ledger: Ledger) -> None:
    ledger.claim("a", "x")
    ledger.claim("a", "y")
    waiting = ledger.claim("b", "x", "y", wait=True)
    ledger.run(EndSession("session-a"))
    assert ledger.look(waiting).state == "granted"
    with refused("session-ended"):
        ledger.claim("a", "z")


def test_a_restart_gives_holders_time_to_reclaim(ledger: Ledger) -> None:
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


def test_a_restart_does_not_revive_what_had_lapsed(ledger: Ledger) -> None:
    held = ledger.claim("a", "x", ttl_s=60)
    ledger.pass_s(61)
    ledger.run(StartLedger("s", "boot"))
    assert ledger.look(held).state == "lapsed"


def test_the_ledgers_time_never_goes_back(ledger: Ledger) -> None:
    ledger.claim("a", "x")
    at_s = ledger.state.at_s
    ledger.now_s -= 100
    ledger.claim("a", "y")
    assert ledger.state.at_s == at_s


def test_territories_never_meet(ledger: Ledger) -> None:
    ledger.claim("a", "x")
    command = OpenSession("session-other", "0" * 64, "a", "h", "u", "run", "host", 1)
    assert ledger.run(command).error is None
    decision = ledger.run(ClaimLease("session-other", "k", ("x",)))
    assert decision.error is None


def test_the_estimate_is_honest_when_unknown_and_learns(ledger: Ledger) -> None:
    held = ledger.claim("a", "x")
    waiting = ledger.claim("b", "x", wait=True)
    assert waiting.eta_s is None
    ledger.now_s += 40
    ledger.release("a", held.lease)
    queued = ledger.claim("a", "x", wait=True)
    assert queued.eta_s == 40


@pytest.mark.parametrize(
    ("globs", "more", "code"),
    [
        ((), {}, "invalid"),
        (("x",) * (MAX_GLOBS + 1), {}, "invalid"),
        (("",), {}, "bad-pattern"),
        (("../x",), {}, "bad-pattern"),
        (("/x",), {}, "bad-pattern"),
        (("a\0b",), {}, "bad-pattern"),
        (("!x",), {}, "bad-pattern"),
        (("x" * 10_000,), {}, "bad-pattern"),
        (("x",), {"ttl_s": 0}, "bad-ttl"),
        (("x",), {"ttl_s": -1}, "bad-ttl"),
        (("x",), {"ttl_s": 365 * 86400}, "bad-ttl"),
        (("x",), {"ttl_s": float("nan")}, "bad-ttl"),
        (("x",), {"priority": 1000}, "invalid"),
        (("x",), {"note": "n" * 5000}, "invalid"),
        (("x",), {"key": "k" * 200}, "invalid"),
    ],
)
def test_bad_claims_change_nothing(
    ledger: Ledger, globs: tuple[str, ...], more: dict[str, Any], code: str
) -> None:
    before = ledger.state
    with refused(code):
        ledger.claim("a", *globs, **more)
    assert ledger.state is before


@pytest.mark.parametrize(
    "wrong",
    [
        {"agent": ""},
        {"agent": "a b"},
        {"agent": "a\nb"},
        {"harness": "x" * 65},
        {"territory": ""},
        {"secret_sha256": "short"},
        {"session": "../../x"},
        {"kind": "ghost"},
        {"pid": -1},
    ],
)
def test_bad_sessions_are_refused(ledger: Ledger, wrong: dict[str, Any]) -> None:
    good: dict[str, Any] = {
        "session": "session-new",
        "secret_sha256": "0" * 64,
        "agent": "new",
        "harness": "h",
        "territory": "t",
        "kind": "run",
        "host": "h",
        "pid": 1,
    }
    decision = ledger.run(OpenSession(**{**good, **wrong}))
    assert decision.error is not None
    assert decision.error.code == "invalid"
    assert not decision.events


def test_a_stolen_session_id_is_of_no_use(ledger: Ledger) -> None:
    decision = ledger.run(OpenSession("session-a", "f" * 64, "a", "h", "t", "run", "h", 1))
    assert decision.error is not None
    assert decision.error.code == "denied"
