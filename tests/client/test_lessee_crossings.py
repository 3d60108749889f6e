"""Messages of one lease that overtake each other: the answer, the news and the end of it come in any order."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trio

from leasefs.core.errors import InvalidRequest, LedgerUnavailable
from leasefs.testing.lessee_probe import claim, held
from leasefs.testing.mock_time import on_mock_clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from conftest import OpenLessee

    from leasefs.client.lessee import Lessee
    from leasefs.testing.core_ledger import CoreLedger


def hear_late(lessee: Lessee, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Hold back all news from now on; returns what lets through those of one type, as if the rest came later still."""
    hear, heard = lessee._events._heard, []
    monkeypatch.setattr(lessee._events, "_heard", lambda *news: heard.append(news))

    def let_through(type_: str) -> None:
        for news in heard:
            if news[0] == type_:
                hear(*news)

    return let_through


class Line(NamedTuple):
    """Three agents that want the same: one holds it, the two others wait in their order."""

    holder: Lessee
    lessee: Lessee
    third: Lessee
    first: str
    mine: str
    theirs: str


@contextlib.asynccontextmanager
async def line(lessee_of: OpenLessee) -> AsyncIterator[Line]:
    async with (
        lessee_of() as holder,
        lessee_of("agent-08") as lessee,
        lessee_of("agent-09") as third,
    ):
        first = await claim(holder, "a")
        mine = await claim(lessee, "a", wait=True, ttl_s=600)
        theirs = await claim(third, "a", wait=True)
        yield Line(holder, lessee, third, first, mine, theirs)


@on_mock_clock
@pytest.mark.parametrize("travels_s", [0.0, 5.0])
async def test_what_was_given_back_before_its_grant_was_heard_of_is_never_held(
    ledger: CoreLedger,
    lessee_of: OpenLessee,
    monkeypatch: pytest.MonkeyPatch,
    travels_s: float,
) -> None:
    """P1: it is granted to the next one by then."""
    async with line(lessee_of) as (holder, lessee, third, first, mine, theirs):
        hear = hear_late(lessee, monkeypatch)
        await holder.release(first, "first")
        assert mine in ledger.state.leases
        ledger.answer_takes_s = travels_s
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lessee.release, mine, "mine")
            await trio.sleep(1)
            hear("granted")
            await trio.sleep(1)
            assert held(third) == [theirs]
            assert lessee.view.writable(b"a", lessee.now_s()) is None


@on_mock_clock
async def test_an_old_answer_does_not_bring_back_what_was_given_back_meanwhile(
    ledger: CoreLedger, lessee_of: OpenLessee, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: whoever waits in another way may be told of the grant after somebody has withdrawn the claim."""
    async with line(lessee_of) as (holder, lessee, third, first, mine, theirs):
        hear_late(lessee, monkeypatch)
        ledger.answer_takes_s = 5.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lessee.waited, mine, 100.0)
            await trio.sleep(1)
            ledger.answer_takes_s = 0.0
            await holder.release(first, "first")
            await lessee.release(mine, "mine")
            await trio.sleep(1)
            assert held(third) == [theirs]
            await trio.sleep(5)
            assert lessee.view.writable(b"a", lessee.now_s()) is None


@on_mock_clock
async def test_a_withdrawal_that_the_ledger_did_not_hear_reaches_it_later(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """Else the ground would be kept for nobody once its turn has come."""
    async with lessee_of() as holder, lessee_of("agent-08") as lessee:
        first = await claim(holder, "a")
        mine = await claim(lessee, "a", wait=True, ttl_s=600)
        ledger.away = True
        ledger.cut_streams()
        with pytest.raises(LedgerUnavailable):
            await lessee.release(mine, "mine")
        ledger.away = False
        await trio.sleep(5)
        assert mine not in ledger.state.waiters
        await holder.release(first, "first")
        assert not ledger.state.leases


@on_mock_clock
@pytest.mark.parametrize("waits", [False, True])
async def test_a_release_whose_request_is_lost_is_told_again_though_nothing_else_breaks(
    ledger: CoreLedger, lessee_of: OpenLessee, *, waits: bool
) -> None:
    async with lessee_of() as holder, lessee_of("agent-08") as lessee:
        if waits:
            await claim(holder, "a", ttl_s=3600)
        mine = await claim(lessee, "a", wait=waits, ttl_s=3600)
        ledger.lose_requests, ledger.lose_to = 1, mine
        with pytest.raises(LedgerUnavailable):
            await lessee.release(mine, "mine")
        await trio.sleep(10)
        assert mine not in ledger.state.leases
        assert mine not in ledger.state.waiters


@on_mock_clock
async def test_what_is_refused_to_be_given_back_still_waits(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """A note is for the next holder, and who only waits has none to leave."""
    async with lessee_of() as holder, lessee_of("agent-08") as lessee:
        first = await claim(holder, "a")
        mine = await claim(lessee, "a", wait=True)
        with pytest.raises(InvalidRequest):
            await lessee.release(mine, "mine", note="mind the gap")
        await holder.release(first, "first")
        await trio.sleep(1)
        assert held(lessee) == [mine]


@on_mock_clock
async def test_delegations_that_are_heard_of_while_they_are_asked_for_again(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """The first one's answer is slow; the news of both, and the end of what they are parts of, come before it."""
    async with (
        lessee_of() as giver,
        lessee_of("agent-08") as worker,
        trio.open_nursery() as nursery,
    ):
        whole = await claim(giver, "a/**", ttl_s=3600)
        ledger.streams_away = True
        ledger.cut_streams()
        ledger.lose_answers, ledger.lose_to = 2, "delegate"
        for part in "a/1", "a/2":
            nursery.start_soon(_delegate_in_vain, giver, whole, part)
        await trio.sleep(1)
        ledger.answer_takes_s = 8.0
        await trio.sleep(10)
        assert len(ledger.calls_to("delegate")) == 3
        ledger.streams_away, ledger.answer_takes_s = False, 0.0
        await trio.sleep(2)
        nursery.start_soon(giver.release, whole, "whole")
        await trio.sleep(20)
        assert held(giver) == []
        assert len(held(worker)) == 2


async def _delegate_in_vain(giver: Lessee, whole: str, part: str) -> None:
    with pytest.raises(LedgerUnavailable):
        await giver.delegations.delegate(whole, part, {"globs": [part], "to": "agent-08"})


@on_mock_clock
@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_claim_that_overtakes_the_release_of_the_same_ground_is_a_new_one(
    ledger: CoreLedger, lessee_of: OpenLessee, *, is_lost: bool
) -> None:
    """What it finds held is about to end."""
    async with lessee_of() as lessee, trio.open_nursery() as nursery:
        former = await claim(lessee, "a", ttl_s=600)
        if is_lost:
            ledger.lose_requests, ledger.lose_to = 1, former
        ledger.request_takes_s = 1.0
        nursery.start_soon(_release, lessee, former)
        await trio.sleep(0.5)
        ledger.request_takes_s = 0.0
        latter = await claim(lessee, "a", ttl_s=600)
        if is_lost:  # the mount cannot know yet whether it was heard of
            await trio.sleep(15)
            latter = await claim(lessee, "a", ttl_s=600)
        assert held(lessee) == [latter] == list(ledger.state.leases)
        assert latter != former


async def _release(lessee: Lessee, lease_id: str) -> None:
    with contextlib.suppress(LedgerUnavailable):
        await lessee.release(lease_id, "the-release")
