"""When a mount yields what is recalled, against the real rules of the ledger, on trio's mock clock (P7)."""

from __future__ import annotations

import pytest
import trio

from leasefs.client.ids import new_key
from leasefs.client.recalls import Stage
from leasefs.core import commands as cmd
from leasefs.mount.giving_back import GivingBack
from leasefs.mount.recall_words import recall_facts, recall_line
from leasefs.mount.recalling import LONGEST_MARGIN_S
from leasefs.testing.lessee_probe import KEYS, claim, held
from leasefs.testing.mock_time import on_mock_clock
from leasefs.testing.yielding import fleet


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
        await at.holder.more_time(lease_id, 60, new_key())
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
async def test_what_was_stopped_for_nothing_comes_back_at_once() -> None:
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


@on_mock_clock
async def test_each_recall_is_told_to_the_hook_once() -> None:
    async with fleet() as at:
        lease_id = await claim(at.holder, "src/**", ttl_s=600)
        at.work.dirty = {b"src/a"}
        for _ in range(2):
            mine = await at.asked(within_s=600)
            await trio.sleep(10)
            await at.holder.renew_all()
            await at.person.release(mine, f"key-{next(KEYS)}")
            await trio.sleep(1)
        assert at.hook.told == [(lease_id, pytest.approx(600, abs=1))] * 2


@on_mock_clock
async def test_ground_that_nobody_knows_of_does_not_come_back() -> None:
    """A claim whose maker died before it heard of the grant is given back, also if it was recalled meanwhile."""
    async with fleet() as at, trio.open_nursery() as nursery:
        lease_id = await claim(at.holder, "src/**", ttl_s=600)
        giving_back = GivingBack(at.holder)
        giving_back.made(lease_id)
        nursery.start_soon(giving_back.run)
        await at.asked(within_s=0)
        await at.until_granted()
        assert len(at.ledger.state.waiters) == 1
        giving_back.unheard(lease_id)
        await trio.sleep(5)
        assert not at.ledger.state.waiters
        nursery.cancel_scope.cancel()
