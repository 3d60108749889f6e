"""P3 against the ledger's own rules: whatever is delayed or lost, the holder stops believing first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from leasefs.client.trust import Trust
from leasefs.core import commands as cmd
from leasefs.core.errors import LeasefsError
from leasefs.core.events import Granted
from leasefs.core.ledger import State, decide

TTLS = st.sampled_from([1.0, 2.0, 10.0, 30.0, 1800.0])
DELAY = st.one_of(st.just(0.0), st.floats(0, 3), st.floats(0, 4000))
LOST = None


@dataclass
class World:
    """One holder, its rival, one ledger. The two clocks differ by an offset and by 100 ppm in rate."""

    ttl_s: float
    now_s: float = 0.0
    ledger_ahead_s: float = 12_345.0
    state: State = field(default_factory=State)
    trust: Trust = field(default_factory=Trust)
    in_flight: list[tuple[float, int, float, dict[str, Any]]] = field(default_factory=list)
    number: int = 0
    # Claims of ours that wait, and when each was sent; how long news of a grant travels.
    waiting: dict[str, float] = field(default_factory=dict)
    news_take_s: float = 0.0

    def ledger_now_s(self) -> float:
        return self.ledger_ahead_s + self.now_s * 1.0001

    def do(self, command: cmd.AnyCommand) -> dict[str, Any] | None:
        decision = decide(self.state, command, self.ledger_now_s())
        self.state = decision.state
        for recorded in decision.events:
            event = recorded.event
            if isinstance(event, Granted) and event.claim.id in self.waiting:
                news = {"heard": msgspec.to_builtins(event.claim), "token": recorded.seq}
                self.ask(self.waiting.pop(event.claim.id), news, self.news_take_s)
        if isinstance(decision.error, LeasefsError):
            return None
        answer: dict[str, Any] = msgspec.to_builtins(decision.answer)
        return answer

    def open(self) -> None:
        for agent in ("a", "b"):
            self.do(
                cmd.OpenSession(f"session-{agent}", "0" * 64, agent, "h", "t", "mount", "host", 1)
            )

    def ask(self, sent_s: float, answer: dict[str, Any] | None, delay_s: float | None) -> None:
        if answer is not None and delay_s is not LOST:
            self.number += 1
            self.in_flight.append((self.now_s + delay_s, self.number, sent_s, answer))

    def arrive(self) -> None:
        due = sorted(item for item in self.in_flight if item[0] <= self.now_s)
        self.in_flight = [item for item in self.in_flight if item[0] > self.now_s]
        for _, _, sent_s, answer in due:
            if "renewed" in answer:
                self.trust.renewed(answer["renewed"], sent_s)
                for loss in answer["lost"]:
                    self.trust.lost(loss["lease"], loss["reason"])
            elif "heard" in answer:
                claim = answer["heard"]
                self.trust.confirmed(claim, answer["token"], claim["ttl_s"], sent_s)
            elif answer["state"] == "granted":
                self.trust.granted(answer, sent_s)

    def pass_time(self, seconds: float) -> None:
        """In steps, so that the promise is looked at in between."""
        for part in (0.0, 0.01, 0.3, 0.69):
            self.now_s += seconds * part
            self.arrive()
            self.check()

    def check(self) -> None:
        for lease in self.trust.view.trusted(self.now_s):
            known = self.state.leases.get(lease.lease_id)
            assert known is not None
            assert known.token == lease.token
            assert self.ledger_now_s() < known.expires_at_s


STEP = st.tuples(
    st.sampled_from(
        ["claim", "claim again", "same key", "beat", "rival", "tick", "restart", "wait"]
    ),
    DELAY,
    st.one_of(st.just(LOST), DELAY),
    DELAY,
)


def rival(world: World, *, ttl_s: float) -> None:
    key = f"r{world.now_s}-{world.state.seq}"
    world.do(cmd.ClaimLease("session-b", key, ("**",), ttl_s=ttl_s))


def step(world: World, what: str, travels_s: float, answer_s: float | None) -> None:
    sent_s = world.now_s
    held = world.trust.view.leases
    world.pass_time(travels_s)
    match what:
        case "claim" | "claim again" | "same key":
            key = "k" if what == "same key" else f"k{world.number}-{sent_s}"
            ttl_s = world.ttl_s if what != "claim again" else 1.5
            command = cmd.ClaimLease("session-a", key, ("a",), ttl_s=ttl_s)
            world.ask(sent_s, world.do(command), answer_s)
        case "beat":
            beats = tuple(cmd.Beat(lease.lease_id, lease.token) for lease in held)
            world.ask(sent_s, world.do(cmd.Heartbeat("session-a", beats)), answer_s)
        case "rival":
            rival(world, ttl_s=1.0)
        case "tick":
            world.do(cmd.Tick(tuple(world.state.leases), ()))
        case "restart":
            world.do(cmd.StartLedger("server", "boot"))
    world.check()


@settings(max_examples=400, deadline=None)
@given(TTLS, st.lists(STEP, min_size=2, max_size=14))
def test_the_mounts_trust_always_ends_before_the_ledgers_expiry(
    ttl_s: float, steps: list[tuple[str, float, float | None, float]]
) -> None:
    """P3: suspend, a slow reply, a lost ledger, or a skewed clock never produces two writers."""
    world = World(ttl_s)
    world.open()
    for what, travels_s, answer_s, pause_s in steps:
        step(world, what, travels_s, answer_s)
        world.pass_time(pause_s)


@settings(max_examples=400, deadline=None)
@given(TTLS, DELAY, DELAY, DELAY, st.lists(DELAY, min_size=1, max_size=4))
def test_news_of_a_grant_is_trusted_no_longer_than_the_claim_proves(
    ttl_s: float, travels_s: float, waits_s: float, news_take_s: float, pauses_s: list[float]
) -> None:
    """P3: however late the claim, the grant, or the news of it; it was granted after the claim was sent."""
    world = World(ttl_s, news_take_s=news_take_s)
    world.open()
    rival(world, ttl_s=10_000.0)
    sent_s = world.now_s
    world.pass_time(travels_s)
    answer = world.do(cmd.ClaimLease("session-a", "k", ("a",), ttl_s=ttl_s, wait=True))
    assert answer is not None
    assert answer["state"] == "waiting"
    world.waiting[answer["lease"]] = sent_s
    world.pass_time(waits_s)
    (held,) = world.state.leases
    world.do(cmd.ReleaseLease("session-b", "e", held))
    world.check()
    for pause_s in (news_take_s, *pauses_s):
        world.pass_time(pause_s)
    assert not world.in_flight or world.now_s < world.in_flight[0][0]
