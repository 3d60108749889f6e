"""What a holder hears of recalls, and what it knows of ground that comes back (P7), on trio's mock clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from leasefs.client import api
from leasefs.client.ids import new_key
from leasefs.client.recalls import Stage
from leasefs.core import commands as cmd
from leasefs.core.errors import InvalidRequest
from leasefs.testing.lessee_probe import KEYS, claim, held
from leasefs.testing.mock_time import on_mock_clock

if TYPE_CHECKING:
    from conftest import OpenLessee

    from leasefs.client.lessee import Lessee
    from leasefs.client.recalls import Recall
    from leasefs.testing.core_ledger import CoreLedger


async def urgent(lessee: Lessee, *globs: str, within_s: float = 60.0, ttl_s: float = 600.0) -> str:
    """A waiting claim of higher priority that recalls what is in its way."""
    call = api.claim(
        globs,
        key=f"key-{next(KEYS)}",
        ttl_s=ttl_s,
        priority=20,
        wait=True,
        recall_within_s=within_s,
    )
    lease_id: str = (await lessee.claim(call))["lease"]
    return lease_id


async def settled(lessee: Lessee, lease_id: str, *stages: Stage) -> Recall:
    """The recall of the lease, once it has come so far."""
    while (recall := lessee.recalls.of(lease_id)) is None or recall.stage not in stages:
        await lessee.changed()
    return recall


@on_mock_clock
async def test_a_holder_hears_by_when_it_must_yield_and_never_thinks_it_has_longer(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as holder, lessee_of("ada") as ada:
        lease_id = await claim(holder, "src/**", ttl_s=600)
        ledger.request_takes_s, ledger.answer_takes_s = 1.0, 2.0
        await urgent(ada, "src/a", within_s=60)
        await trio.sleep(10)
        recall = await settled(holder, lease_id, Stage.ASKED)
        deadline_s = ledger.state.leases[lease_id].recall.deadline_s  # type: ignore[union-attr]
        assert deadline_s - 1.5 < recall.until_s <= deadline_s
        assert (recall.by, recall.may_ask_for_s, recall.cold) == ("ada", 60.0, False)
        assert recall.globs == ("src/**",)
        assert holder.view.writable(b"src/a", holder.now_s()) is not None


@on_mock_clock
async def test_a_cold_recall_stops_writes_the_moment_it_is_heard(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as holder, lessee_of("ada") as ada:
        lease_id = await claim(holder, "src/**", ttl_s=600)
        token = holder.view.leases[0].token
        await urgent(ada, "src/a", within_s=0)
        recall = await settled(holder, lease_id, Stage.STOPPED)
        assert held(holder) == []
        assert holder.view.lost[token].startswith("recalled by ada: ada claimed src/a")
        assert recall.held is not None
        assert holder.recalls.away(b"src/other") is recall
        assert holder.recalls.away(b"docs/a") is None
        # Nobody else may write before the holder has said that it is done.
        assert held(ada) == []


@on_mock_clock
async def test_a_holder_whose_stream_is_broken_hears_it_by_its_heartbeat(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as holder, lessee_of("ada") as ada:
        lease_id = await claim(holder, "src/**", ttl_s=30)
        holder.writer_opened(holder.view.leases[0].token, b"src/a", 1)
        ledger.streams_away = True
        ledger.cut_streams()
        await trio.sleep(1)
        await urgent(ada, "src/a", within_s=0)
        asked_at_s = holder.now_s()
        await settled(holder, lease_id, Stage.STOPPED)
        assert holder.now_s() - asked_at_s <= 10.0
        assert held(holder) == []


@on_mock_clock
async def test_ground_that_was_yielded_comes_back_when_the_other_is_done(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as holder, lessee_of("ada") as ada:
        lease_id = await claim(holder, "src/**", ttl_s=600)
        recalling = await urgent(ada, "src/a")
        recall = await settled(holder, lease_id, Stage.ASKED)
        holder.recalls.stop(recall)
        await holder.release(lease_id, "r", again=True, commit="c" * 40)
        await settled(holder, lease_id, Stage.WAITING)
        again = recall.again
        assert holder.recalls.latest(lease_id) == again
        assert holder.recalls.first(again) == lease_id
        assert holder.recalls.away(b"src/b") is recall
        while not held(ada):
            await ada.changed()
        assert ledger.state.leases[recalling].inherited[0].commit == "c" * 40
        await ada.release(recalling, "r")
        await settled(holder, lease_id, Stage.BACK)
        while not held(holder):
            await holder.changed()
        assert held(holder) == [again]
        assert holder.recalls.away(b"src/b") is None
        await holder.release(again, "r2")
        await trio.sleep(0.1)
        assert list(holder.recalls) == []


@on_mock_clock
async def test_a_recall_that_nobody_asks_for_any_more_leaves_all_as_it_was(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as holder, lessee_of("ada") as ada:
        lease_id = await claim(holder, "src/**", ttl_s=600)
        waiter = await urgent(ada, "src/a")
        await settled(holder, lease_id, Stage.ASKED)
        await ada.release(waiter, "r")
        while list(holder.recalls):
            await holder.changed()
        assert held(holder) == [lease_id]


@on_mock_clock
async def test_an_answer_that_comes_after_the_end_of_a_recall_does_not_bring_it_back(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as holder, lessee_of("ada") as ada:
        lease_id = await claim(holder, "src/**", ttl_s=600)
        ledger.answer_takes_s = 3.0
        asked = ledger.do(
            cmd.ClaimLease(ada.session, "k", ("src/a",), priority=20, wait=True, recall_within_s=60)
        )
        await settled(holder, lease_id, Stage.ASKED)
        await trio.sleep(1)
        ledger.do(cmd.ReleaseLease(ada.session, "k2", asked["lease"]))
        await trio.sleep(10)
        assert list(holder.recalls) == []
        assert held(holder) == [lease_id]


@on_mock_clock
async def test_what_was_stopped_for_a_recall_that_ended_comes_back_at_once(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as holder, lessee_of("ada") as ada:
        lease_id = await claim(holder, "src/**", ttl_s=600)
        waiter = await urgent(ada, "src/a", within_s=0)
        recall = await settled(holder, lease_id, Stage.STOPPED)
        await ada.release(waiter, "r")
        await trio.sleep(0.1)
        assert held(holder) == []
        await holder.release(lease_id, "r", again=True)
        await settled(holder, lease_id, Stage.BACK)
        assert held(holder) == [recall.again]


@on_mock_clock
async def test_why_ground_does_not_come_back_is_told(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """Waiting for it, its holder would close a cycle: who recalled it waits for something else that it holds."""
    async with lessee_of() as holder, lessee_of("ada") as ada:
        lease_id = await claim(holder, "src/**", ttl_s=600)
        await claim(holder, "docs/**", ttl_s=600)
        await claim(ada, "docs/**", wait=True)
        await urgent(ada, "src/a", within_s=600)
        recall = await settled(holder, lease_id, Stage.ASKED)
        holder.recalls.stop(recall)
        await holder.release(lease_id, "r", again=True)
        await settled(holder, lease_id, Stage.OVER)
        assert recall.why_not.startswith(f"{lease_id} does not come back: ")
        assert not any(one.resumes == lease_id for one in ledger.state.waiters.values())


@on_mock_clock
async def test_a_holder_that_does_not_yield_is_revoked_and_its_ground_still_comes_back(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as holder, lessee_of("ada") as ada:
        lease_id = await claim(holder, "src/**", ttl_s=600)
        recalling = await urgent(ada, "src/a", within_s=5)
        await settled(holder, lease_id, Stage.ASKED)
        await trio.sleep(6)
        ledger.tick()
        await settled(holder, lease_id, Stage.WAITING)
        assert held(holder) == []
        await trio.sleep(0.1)
        assert held(ada) == [recalling]
        await ada.release(recalling, "r")
        await settled(holder, lease_id, Stage.BACK)


@on_mock_clock
async def test_what_its_holder_releases_by_its_own_wish_does_not_come_back(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as holder, lessee_of("ada") as ada:
        lease_id = await claim(holder, "src/**", ttl_s=600)
        recalling = await urgent(ada, "src/a")
        recall = await settled(holder, lease_id, Stage.ASKED)
        await holder.release(lease_id, "r")
        await trio.sleep(0.1)
        assert recall.stage is Stage.OVER
        assert held(ada) == [recalling]
        assert not ledger.state.waiters


@on_mock_clock
async def test_more_time_moves_the_deadline_once(ledger: CoreLedger, lessee_of: OpenLessee) -> None:
    async with lessee_of() as holder, lessee_of("ada") as ada:
        lease_id = await claim(holder, "src/**", ttl_s=600)
        await urgent(ada, "src/a", within_s=60)
        recall = await settled(holder, lease_id, Stage.ASKED)
        before_s = recall.until_s
        await holder.more_time(lease_id, 30, new_key())
        assert recall.until_s == pytest.approx(before_s + 30, abs=0.1)
        await trio.sleep(1)
        assert recall.until_s == pytest.approx(before_s + 30, abs=0.1)
        assert recall.may_ask_for_s == 0.0
        with pytest.raises(InvalidRequest, match="more time already"):
            await holder.more_time(lease_id, 30, new_key())


@on_mock_clock
async def test_a_session_that_is_over_waits_for_nothing(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as holder, lessee_of("ada") as ada:
        lease_id = await claim(holder, "src/**", ttl_s=600)
        await urgent(ada, "src/a")
        recall = await settled(holder, lease_id, Stage.ASKED)
        ledger.do(cmd.EndSession(holder.session, "wiped"))
        while recall.stage is not Stage.OVER:
            await holder.changed()
        assert list(holder.recalls) == []


@on_mock_clock
async def test_what_was_stopped_and_is_not_wanted_back_is_forgotten(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as holder, lessee_of("ada") as ada:
        lease_id = await claim(holder, "src/**", ttl_s=600)
        await urgent(ada, "src/a", within_s=0)
        recall = await settled(holder, lease_id, Stage.STOPPED)
        await holder.release(lease_id, "r")
        await claim(holder, "docs/**", ttl_s=600)
        await trio.sleep(0.1)
        assert recall.stage is Stage.OVER
        assert list(holder.recalls) == []
        assert holder.recalls.away(b"src/a") is None
