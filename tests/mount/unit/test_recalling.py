"""When a mount yields what is recalled, against the real rules of the ledger, on trio's mock clock (P7)."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import trio

from leasefs.client import api
from leasefs.client.ids import Credentials
from leasefs.client.lessee import Identity, Lessee
from leasefs.client.recalls import Recall, Stage
from leasefs.core import commands as cmd
from leasefs.core.errors import LedgerUnavailable
from leasefs.mount.recall_words import recall_facts, recall_line
from leasefs.mount.recalling import LONGEST_MARGIN_S, Recalling
from leasefs.testing.core_ledger import CoreLedger, CoreLink
from leasefs.testing.lessee_probe import KEYS, claim, held
from leasefs.testing.mock_time import MockTime, on_mock_clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from leasefs.core.held import HeldLease


@dataclass
class FakeWork:
    """Uncommitted paths that a test sets; `unpushed` stand in the way of a release only."""

    ledger: CoreLedger
    dirty: set[bytes] = field(default_factory=set)
    unpushed: set[bytes] = field(default_factory=set)
    rescues: list[str] = field(default_factory=list)
    rescue_takes_s: float = 0.0
    rescue_fails: bool = False
    taken_up: list[str] = field(default_factory=list)

    @property
    def intents(self) -> FakeWork:
        return self

    def dirty_of(self, _token: int) -> list[bytes]:
        return sorted(self.dirty)

    async def keep_and_end(self, lease: HeldLease, _reason: str) -> str:
        await trio.sleep(self.rescue_takes_s)
        if not self.dirty or self.rescue_fails:
            return ""
        self.dirty.clear()
        self.rescues.append(lease.lease_id)
        return lease.lease_id

    async def flush(self) -> None:
        if self.ledger.away:
            raise LedgerUnavailable("nobody listens")

    async def head(self) -> str:
        return "f" * 40

    def rescue_of(self, _lease_id: str) -> str:
        return ""

    async def take_up(self, rescue: str, _lease: HeldLease) -> tuple[Any, Any]:
        self.taken_up.append(rescue)
        return (b"src/a",), ()


@dataclass
class FakeGate:
    """What must be done before a release."""

    work: FakeWork
    require: str = "committed"
    under_git: bool = True

    async def is_under_git(self) -> bool:
        return self.under_git

    async def in_the_way(self, _lease: HeldLease) -> list[bytes]:
        await trio.sleep(0.05)
        return sorted(self.work.dirty | self.work.unpushed)


class SilentHook:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float]] = []

    async def run(self, recall: Recall, left_s: float) -> None:
        self.told.append((recall.lease_id, left_s))


@dataclass
class Fleet:
    """A ledger, a holder whose mount yields, and a person without one."""

    ledger: CoreLedger
    holder: Lessee
    person: Lessee
    work: FakeWork
    gate: FakeGate
    hook: SilentHook
    left: list[str]

    async def asked(self, within_s: float, priority: int = 20) -> str:
        """The person claims the holder's ground."""
        call = api.claim(
            ["src/**"],
            key=f"key-{next(KEYS)}",
            ttl_s=600.0,
            priority=priority,
            wait=True,
            recall_within_s=within_s,
        )
        return str((await self.person.claim(call))["lease"])

    async def until_granted(self) -> float:
        """When the person has it, on the one clock."""
        while not held(self.person):
            await self.person.changed()
        return self.person.now_s()

    async def until_back(self) -> str:
        """The lease that the ground comes back with."""
        while not held(self.holder):
            await self.holder.changed()
        return held(self.holder)[0]

    def revoked(self) -> bool:
        """Whether the ledger had to end it."""
        return any(type(one.event).__name__ == "Revoked" for one in self.ledger.history)


@contextlib.asynccontextmanager
async def fleet() -> AsyncIterator[Fleet]:
    ledger = CoreLedger(MockTime())
    people = []
    for agent in ("loop", "person"):
        credentials = Credentials(f"session-of-{agent}", "secret")
        identity = Identity(agent, "test", "territory", "mount", "host", 1, "")
        people.append(Lessee(identity, credentials, CoreLink(ledger, *credentials), ledger.clock))
        await people[-1].open()
    work = FakeWork(ledger)
    gate, hook = FakeGate(work), SilentHook()
    recalling = Recalling(people[0], work, gate, hook)  # type: ignore[arg-type]
    left: list[str] = []

    async def leave(lease_id: str) -> None:
        await recalling.yielded(lease_id)
        left.append(lease_id)

    people[0].guard_ground(adopt, leave)
    async with trio.open_nursery() as nursery:
        for task in (people[0].run, people[1].run, recalling.run, lambda: ticking(ledger)):
            nursery.start_soon(task)
        yield Fleet(ledger, people[0], people[1], work, gate, hook, left)
        nursery.cancel_scope.cancel()


async def adopt(_globs: list[str]) -> None:
    pass


async def ticking(ledger: CoreLedger) -> None:
    while True:
        await trio.sleep(0.5)
        ledger.tick()


@on_mock_clock
async def test_what_is_done_is_yielded_at_once() -> None:
    async with fleet() as at:
        await claim(at.holder, "src/**", ttl_s=600)
        asked_at_s = at.holder.now_s()
        await at.asked(within_s=600)
        assert await at.until_granted() - asked_at_s < 0.5
        assert at.work.rescues == []
        (lease,) = at.ledger.state.leases.values()
        assert lease.inherited[0].commit == "f" * 40


@on_mock_clock
async def test_an_open_write_handle_and_uncommitted_work_are_waited_for() -> None:
    async with fleet() as at:
        await claim(at.holder, "src/**", ttl_s=600)
        use = at.holder.writer_opened(at.holder.view.leases[0].token, b"src/a", 1)
        at.work.dirty = {b"src/a"}
        await at.asked(within_s=600)
        await trio.sleep(100)
        assert held(at.person) == []
        at.holder.writer_closed(use)
        await trio.sleep(100)
        assert held(at.person) == []
        at.work.dirty.clear()
        committed_at_s = at.holder.now_s()
        assert await at.until_granted() - committed_at_s < 0.5
        assert at.work.rescues == []


@on_mock_clock
async def test_where_releases_need_a_push_one_is_waited_for() -> None:
    async with fleet() as at:
        await claim(at.holder, "src/**", ttl_s=600)
        at.gate.require, at.work.unpushed = "pushed", {b"src/a"}
        await at.asked(within_s=600)
        await trio.sleep(100)
        assert held(at.person) == []
        at.work.unpushed.clear()
        pushed_at_s = at.holder.now_s()
        assert await at.until_granted() - pushed_at_s < 2


@pytest.mark.parametrize("require", ["none", "committed"])
@on_mock_clock
async def test_where_nothing_can_or_must_be_committed_it_is_rescued_and_yielded_at_once(
    require: str,
) -> None:
    async with fleet() as at:
        lease_id = await claim(at.holder, "src/**", ttl_s=600)
        at.gate.require, at.gate.under_git, at.work.dirty = require, False, {b"src/a"}
        asked_at_s = at.holder.now_s()
        await at.asked(within_s=600)
        assert await at.until_granted() - asked_at_s < 0.5
        assert at.work.rescues == [lease_id]


@pytest.mark.parametrize("within_s", [1.0, 10.0, 600.0])
@pytest.mark.parametrize("takes_s", [0.0, 0.05])
@on_mock_clock
async def test_by_the_deadline_what_is_uncommitted_is_rescued_and_nothing_has_to_be_revoked(
    within_s: float, takes_s: float
) -> None:
    async with fleet() as at:
        lease_id = await claim(at.holder, "src/**", ttl_s=600)
        at.holder.writer_opened(at.holder.view.leases[0].token, b"src/a", 1)
        at.work.dirty = {b"src/a"}
        at.ledger.request_takes_s = at.ledger.answer_takes_s = takes_s
        await at.asked(within_s)
        deadline_s = at.ledger.state.leases[lease_id].recall.deadline_s  # type: ignore[union-attr]
        granted_at_s = await at.until_granted()
        assert deadline_s - LONGEST_MARGIN_S - 0.3 * within_s < granted_at_s
        assert granted_at_s <= deadline_s + 3 * takes_s
        assert at.work.rescues == [lease_id]
        assert not at.revoked()


@on_mock_clock
async def test_more_time_is_used() -> None:
    async with fleet() as at:
        lease_id = await claim(at.holder, "src/**", ttl_s=600)
        at.work.dirty = {b"src/a"}
        await at.asked(within_s=60)
        await trio.sleep(50)
        await at.holder.more_time(lease_id, 60)
        await trio.sleep(60)
        assert held(at.holder) == [lease_id]
        await at.until_granted()
        assert not at.revoked()


@on_mock_clock
async def test_a_recall_that_turns_cold_is_obeyed_at_once() -> None:
    async with fleet() as at:
        lease_id = await claim(at.holder, "src/**", ttl_s=600)
        at.work.dirty = {b"src/a"}
        await at.asked(within_s=600)
        await trio.sleep(10)
        assert held(at.holder) == [lease_id]
        at.ledger.do(cmd.RecallLease(lease_id, 0.0, "stop it", by="ann"))
        await trio.sleep(0.5)
        assert held(at.holder) == []
        assert held(at.person) != []
        assert [lease for lease, _ in at.hook.told] == [lease_id, lease_id]
        assert at.hook.told[1][1] == 0.0


@on_mock_clock
async def test_with_the_ledger_away_writes_stop_in_time_and_it_is_told_afterwards() -> None:
    async with fleet() as at:
        lease_id = await claim(at.holder, "src/**", ttl_s=600)
        at.work.dirty = {b"src/a"}
        await at.asked(within_s=60)
        await trio.sleep(1)
        at.ledger.away = True
        at.ledger.cut_streams()
        await trio.sleep(56)
        assert held(at.holder) == []
        at.ledger.away = False
        await at.until_granted()
        assert at.work.rescues == [lease_id]
        (waiter,) = at.ledger.state.waiters.values()
        assert waiter.resumes == lease_id


@on_mock_clock
async def test_what_cannot_be_rescued_stays_the_agents_and_is_no_reason_to_hold_the_ground() -> (
    None
):
    async with fleet() as at:
        await claim(at.holder, "src/**", ttl_s=600)
        at.work.dirty, at.work.rescue_fails = {b"src/a"}, True
        await at.asked(within_s=0)
        await at.until_granted()
        assert at.work.dirty == {b"src/a"}


@on_mock_clock
async def test_a_rescue_that_takes_longer_than_the_deadline_is_made_before_the_ground_opens() -> (
    None
):
    """P9: the ledger revokes meanwhile, and hears that the lease is dropped only after it."""
    async with fleet() as at:
        lease_id = await claim(at.holder, "src/**", ttl_s=600)
        at.work.dirty, at.work.rescue_takes_s = {b"src/a"}, 20.0
        await at.asked(within_s=10)
        granted_at_s = await at.until_granted()
        assert granted_at_s >= 20
        assert at.revoked()
        assert at.left == [lease_id] == at.work.rescues


@on_mock_clock
async def test_ground_comes_back_and_its_work_is_taken_up() -> None:
    async with fleet() as at:
        lease_id = await claim(at.holder, "src/**", ttl_s=600)
        at.work.dirty = {b"src/a"}
        mine = await at.asked(within_s=0)
        await at.until_granted()
        recall = at.holder.recalls.of(lease_id)
        assert recall is not None
        line = recall_line(recall, at.holder.now_s())
        assert line.startswith(f"{lease_id} src/** recalled by person: person claimed src/**")
        assert f"leasefs rescue show {lease_id}" in line
        await at.person.release(mine, f"key-{next(KEYS)}")
        again = await at.until_back()
        await trio.sleep(0.1)
        assert at.work.taken_up == [lease_id]
        assert recall_facts(recall, at.holder.now_s())["in_tree"] == ["src/a"]
        assert recall_line(recall, 0.0).endswith(
            f"it is back, as {again}; what was uncommitted lies in the tree as it was (src/a)"
        )


@on_mock_clock
async def test_what_was_stopped_for_nothing_is_claimed_again_by_its_mount() -> None:
    async with fleet() as at:
        lease_id = await claim(at.holder, "src/**", ttl_s=600)
        at.work.dirty, at.work.rescue_takes_s = {b"src/a"}, 1.0
        mine = await at.asked(within_s=0)
        await trio.sleep(0.5)
        assert held(at.holder) == []
        await at.person.release(mine, f"key-{next(KEYS)}")
        again = await at.until_back()
        assert again != lease_id
        assert at.holder.recalls.latest(lease_id) == again
        await trio.sleep(0.1)
        assert at.work.taken_up == [lease_id]


@on_mock_clock
async def test_a_recalled_lease_that_came_back_can_be_recalled_again() -> None:
    async with fleet() as at:
        first = await claim(at.holder, "src/**", ttl_s=600)
        for _ in range(5):
            mine = await at.asked(within_s=0)
            await at.until_granted()
            await at.person.release(mine, f"key-{next(KEYS)}")
            again = await at.until_back()
        stages = [one.stage for one in at.holder.recalls]
        assert stages[-1] is Stage.BACK
        assert at.holder.recalls.first(again) == first
        assert at.holder.recalls.latest(first) == again
