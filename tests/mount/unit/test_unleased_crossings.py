"""Claims of writes whose messages cross, get lost, or come after whoever waited for them has gone."""

from __future__ import annotations

import contextlib

import pytest
import trio

from leasefs.client import api
from leasefs.core import commands as cmd
from leasefs.core.answers import BLOCKERS_SHOWN
from leasefs.core.policy import Reason
from leasefs.mount.gate import Unobtained
from leasefs.mount.unleased_leases import HURRY_S
from leasefs.testing.core_ledger import CoreLedger
from leasefs.testing.mock_time import MockTime, on_mock_clock
from leasefs.testing.write_claims import Writer, refused, writer

SOON_S = 0.5
POLICIES = pytest.mark.parametrize("policy", ["claim", "claim+wait"])


@pytest.fixture
def ledger() -> CoreLedger:
    return CoreLedger(MockTime())


async def give_up_after(writing: Writer, path: bytes, within_s: float) -> None:
    """A program that is ended by a signal while it waits, or is refused before."""
    with trio.move_on_after(within_s):
        try:
            await writing.write(path)
        except Unobtained:
            return


@on_mock_clock
@POLICIES
async def test_a_claim_that_overtakes_the_release_of_its_ground_is_made_again(
    ledger: CoreLedger, policy: str
) -> None:
    """It renews what is about to be given back."""
    async with writer(ledger, "ada", policy, idle_s=2.0) as ada:
        await ada.write(b"f")
        ledger.request_takes_s = 1.0
        await trio.sleep(2.5)
        assert not ada.holds(b"f")
        assert ledger.state.leases
        ledger.request_takes_s = 0.0
        async with ada.writing(b"f"):
            await trio.sleep(5)
            assert ada.holds(b"f")
        await trio.sleep(3)
        assert not ledger.state.leases


@on_mock_clock
async def test_a_claim_that_left_the_queue_while_its_mount_was_cut_off_is_made_again(
    ledger: CoreLedger,
) -> None:
    """Whoever waits behind it would wait for ground that nobody holds."""
    async with (
        writer(ledger, "ada", wait_s=3600.0, ttl_s=600.0) as ada,
        writer(ledger, "bo", wait_s=3600.0, ttl_s=600.0) as bo,
        trio.open_nursery() as nursery,
    ):
        async with ada.writing(b"f"):
            nursery.start_soon(bo.write, b"f", 1.0)
            await trio.sleep(1)
            ledger.away = True
            ledger.cut_streams()
            await trio.sleep(120)
            ledger.tick()
            assert not ledger.state.waiters
            ledger.away = False
            await trio.sleep(10)
            assert len(ledger.state.waiters) == 1
        ended_s = trio.current_time()
        await trio.sleep(SOON_S)
        assert bo.holds(b"f"), ended_s


@on_mock_clock
async def test_a_claim_of_a_session_that_the_ledger_has_forgotten_is_made_again(
    ledger: CoreLedger,
) -> None:
    async with (
        writer(ledger, "ada", wait_s=3600.0) as ada,
        writer(ledger, "bo", wait_s=3600.0) as bo,
        trio.open_nursery() as nursery,
        ada.writing(b"f"),
    ):
        nursery.start_soon(bo.write, b"f", 1.0)
        await trio.sleep(1)
        ledger.do(cmd.EndSession(bo.lessee.session, "wiped"))
        await trio.sleep(10)
        assert len(ledger.state.waiters) == 1


@on_mock_clock
async def test_who_waits_is_told_that_an_operator_withdrew_its_claim(ledger: CoreLedger) -> None:
    async with (
        writer(ledger, "ada", wait_s=3600.0) as ada,
        writer(ledger, "bo", wait_s=3600.0) as bo,
        ada.writing(b"f"),
        trio.open_nursery() as nursery,
    ):

        async def withdraw() -> None:
            await trio.sleep(1)
            (waiter,) = ledger.state.waiters
            ledger.do(cmd.RevokeLease("cy", waiter))

        nursery.start_soon(withdraw)
        why = await refused(bo, b"f")
        assert trio.current_time() < 2
        assert "withdrawn by cy" in why.detail
        assert not ledger.state.waiters


@on_mock_clock
async def test_a_lease_whose_grant_was_told_at_the_second_attempt_goes_as_soon_as_any(
    ledger: CoreLedger,
) -> None:
    async with writer(ledger, "ada", ttl_s=600.0) as ada:
        ledger.lose_answers, ledger.lose_to = 1, "leases"
        await ada.write(b"f")
        await trio.sleep(3)
        assert not ledger.state.leases


@on_mock_clock
async def test_who_came_to_wait_before_the_second_attempt_is_not_forgotten(
    ledger: CoreLedger,
) -> None:
    async with (
        writer(ledger, "ada", ttl_s=600.0, idle_s=600.0) as ada,
        writer(ledger, "bo") as bo,
        trio.open_nursery() as nursery,
    ):
        ledger.lose_answers, ledger.lose_to = 1, "leases"
        nursery.start_soon(ada.write, b"f", 30.0)
        await trio.sleep(5)
        assert await bo.write(b"f") < 45


@on_mock_clock
@POLICIES
async def test_what_is_granted_to_a_write_that_gave_up_unheard_is_given_back(
    ledger: CoreLedger, policy: str
) -> None:
    async with writer(ledger, "ada", policy, ttl_s=600.0) as ada:
        ledger.lose_answers, ledger.lose_to = 1, "leases"
        await give_up_after(ada, b"f", 5)
        await trio.sleep(15)
        assert not ledger.state.leases


@on_mock_clock
async def test_a_claim_of_a_write_that_gave_up_unheard_leaves_the_queue(ledger: CoreLedger) -> None:
    async with (
        writer(ledger, "ada", ttl_s=600.0) as ada,
        writer(ledger, "bo", ttl_s=600.0) as bo,
        ada.writing(b"f"),
    ):
        ledger.lose_answers, ledger.lose_to = 1, "leases"
        await give_up_after(bo, b"f", 5)
        await trio.sleep(15)
        assert not ledger.state.waiters


@on_mock_clock
async def test_what_the_ledger_has_forgotten_by_now_is_not_asked_for_again(
    ledger: CoreLedger,
) -> None:
    async with writer(ledger, "ada") as ada:
        ledger.away = True
        ledger.cut_streams()
        for number in range(100):
            await give_up_after(ada, b"%d" % number, 0.1)
        await trio.sleep(100)
        ledger.away = False
        ledger.calls.clear()
        await trio.sleep(15)
        assert not ledger.calls_to("leases")
        assert not ledger.calls_to("batch")


@on_mock_clock
async def test_a_release_that_takes_long_holds_up_no_other(ledger: CoreLedger) -> None:
    async with (
        writer(ledger, "ada", idle_s=600.0, ttl_s=600.0) as ada,
        writer(ledger, "bo") as bo,
        writer(ledger, "cy") as cy,
        trio.open_nursery() as nursery,
    ):
        await ada.write(b"f")
        await ada.write(b"g")
        (first, _) = ada.lessee.view.leases
        ledger.lose_requests, ledger.lose_to = 1, first.lease_id
        nursery.start_soon(bo.write, b"f")
        await trio.sleep(1)
        asked_s = trio.current_time()
        assert await cy.write(b"g") - asked_s < HURRY_S + SOON_S
        nursery.cancel_scope.cancel()


@on_mock_clock
async def test_what_waits_for_a_commit_holds_up_no_other(ledger: CoreLedger) -> None:
    async with (
        writer(ledger, "ada", keeps=False, idle_s=600.0, ttl_s=600.0) as ada,
        writer(ledger, "bo", wait_s=3000.0) as bo,
        writer(ledger, "cy") as cy,
        trio.open_nursery() as nursery,
    ):
        await ada.write(b"f")
        ada.dirty.update(ada.lessee.view.by_token)
        nursery.start_soon(bo.write, b"f")
        await trio.sleep(5)
        async with ada.writing(b"g"):
            nursery.start_soon(cy.write, b"g", 5.0)
            await trio.sleep(0.6)
        await trio.sleep(2 * HURRY_S)
        assert cy.holds(b"g")
        nursery.cancel_scope.cancel()


@on_mock_clock
async def test_ground_that_is_on_its_way_back_is_no_reason_for_a_cycle(ledger: CoreLedger) -> None:
    async with (
        writer(ledger, "ada", wait_s=600.0) as ada,
        writer(ledger, "bo", idle_s=600.0, ttl_s=600.0, wait_s=600.0) as bo,
        trio.open_nursery() as nursery,
    ):
        await bo.write(b"b")
        async with ada.writing(b"a"):
            ledger.request_takes_s = 1.0
            nursery.start_soon(ada.write, b"b")
            await trio.sleep(1.5)
            assert not bo.holds(b"b")
            assert ledger.state.waiters
            ledger.request_takes_s = 0.0
            nursery.start_soon(bo.write, b"a")
            await trio.sleep(5)
        await trio.sleep(SOON_S)


@on_mock_clock
async def test_a_lost_request_while_others_wait_in_a_ring_is_made_again(
    ledger: CoreLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        writer(ledger, "ada", idle_s=600.0, ttl_s=600.0, wait_s=600.0) as ada,
        writer(ledger, "bo", idle_s=600.0, ttl_s=600.0, wait_s=600.0) as bo,
        trio.open_nursery() as nursery,
        ada.writing(b"a"),
        bo.writing(b"b"),
    ):
        await bo.write(b"c")
        nursery.start_soon(ada.write, b"b")
        await trio.sleep(1)
        let_go = bo.leases.let_idle_go

        async def and_break() -> int:
            ledger.lose_requests, ledger.lose_to = 1, "leases"
            return await let_go()

        monkeypatch.setattr(bo.leases, "let_idle_go", and_break)
        assert (await refused(bo, b"a")).reason is Reason.DEADLOCK
        nursery.cancel_scope.cancel()


@on_mock_clock
async def test_whoever_is_in_the_way_hears_of_it_however_many_they_are(ledger: CoreLedger) -> None:
    async with contextlib.AsyncExitStack() as mounts:
        for number in range(2 * BLOCKERS_SHOWN):
            mount = writer(ledger, f"agent-{number}", idle_s=600.0, ttl_s=600.0)
            holder = await mounts.enter_async_context(mount)
            await holder.write(b"d/%d" % number)
        last = await mounts.enter_async_context(writer(ledger, "last"))
        await last.lessee.claim(api.claim(["d/**"], key="all", wait=True))
        await trio.sleep(SOON_S)
        assert last.holds(b"d/0")
