"""Grants, releases and whole sessions: slow, lost and late answers, ledgers that begin anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from leasefs.core import commands as cmd
from leasefs.core.errors import (
    AgentBusy,
    ClaimConflict,
    LeaseLost,
    LedgerUnavailable,
    UnknownLease,
)
from leasefs.core.lease import trust_margin_s
from leasefs.testing.lessee_probe import claim, expires_in_s, held, trusted_for_s
from leasefs.testing.mock_time import on_mock_clock

if TYPE_CHECKING:
    from conftest import OpenLessee

    from leasefs.testing.core_ledger import CoreLedger


@on_mock_clock
async def test_a_waiter_is_pushed_its_lease_and_trusts_it_from_when_it_claimed(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """P3: it was granted after that, so nobody has to be asked."""
    async with lessee_of() as holder, lessee_of("agent-08") as lessee:
        first = await claim(holder, "a", ttl_s=600)
        claimed_at_s = lessee.now_s()
        ledger.request_takes_s = 2.0
        waiter = await claim(lessee, "a", ttl_s=40, wait=True)
        await trio.sleep(8)
        ledger.answer_takes_s = 100.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(holder.release, first, "r")
            await trio.sleep(2.1)
            assert held(lessee) == [waiter]
            (lease,) = lessee.view.leases
            assert lease.trusted_until_s == pytest.approx(claimed_at_s + 40 - trust_margin_s(40))
            assert lease.token == ledger.state.leases[waiter].token
            nursery.cancel_scope.cancel()


@on_mock_clock
async def test_a_waiter_that_claimed_long_ago_trusts_its_lease_from_a_heartbeat_of_its_own(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """P3: what its claim proves is soon over."""
    async with lessee_of() as holder, lessee_of("agent-08") as lessee:
        first = await claim(holder, "a", ttl_s=600)
        waiter = await claim(lessee, "a", ttl_s=40, wait=True)
        assert held(lessee) == []
        await trio.sleep(15)
        ledger.answer_takes_s = 1.0
        released_at_s = lessee.now_s()
        await holder.release(first, "r")
        while not held(lessee):
            await lessee.changed()
        assert held(lessee) == [waiter]
        (lease,) = lessee.view.leases
        assert lease.trusted_until_s == pytest.approx(released_at_s + 40 - trust_margin_s(40))
        assert lease.token == ledger.state.leases[waiter].token


@on_mock_clock
async def test_a_caller_that_waits_finds_its_lease_in_the_view(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    ledger.streams_away = True
    async with lessee_of() as holder, lessee_of("agent-08") as lessee:
        first = await claim(holder, "a", ttl_s=600)
        waiter = await claim(lessee, "a", ttl_s=10, wait=True)
        async with trio.open_nursery() as nursery:

            async def release_later() -> None:
                await trio.sleep(15)
                await holder.release(first, "r")

            nursery.start_soon(release_later)
            answer = await lessee.waited(waiter, 20)
        assert answer["state"] == "granted"
        assert lessee.view.writable(b"a", lessee.now_s()) is not None
        assert expires_in_s(ledger) > trusted_for_s(lessee)


@on_mock_clock
async def test_a_release_is_out_of_the_view_before_the_ledger_hears_of_it(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        lease_id = await claim(lessee, "a")
        token = lessee.view.leases[0].token
        ledger.request_takes_s = 5
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lessee.release, lease_id, "r")
            await trio.sleep(0.1)
            assert held(lessee) == []
            assert lessee.view.lost == {token: "released"}
            assert lease_id in ledger.state.leases
        assert lease_id not in ledger.state.leases


@on_mock_clock
async def test_a_release_while_the_ledger_is_away_reaches_it_later(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        lease_id = await claim(lessee, "a", ttl_s=3600)
        ledger.away = True
        ledger.cut_streams()
        with pytest.raises(LedgerUnavailable, match="nothing is written under"):
            await lessee.release(lease_id, "r")
        assert held(lessee) == []
        ledger.away = False
        await trio.sleep(3)
        assert ledger.state.leases.get(lease_id) is None


@on_mock_clock
async def test_an_answer_that_comes_after_the_end_does_not_bring_the_lease_back(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        ledger.answer_takes_s = 5.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(claim, lessee, "a")
            await trio.sleep(1)
            ledger.answer_takes_s = 0.0
            (lease_id,) = ledger.state.leases
            await lessee.release(lease_id, "r")
        assert held(lessee) == []


@on_mock_clock
async def test_a_revoked_lease_is_dropped_and_its_ground_opens_at_once(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee, lessee_of("agent-08") as other:
        lease_id = await claim(lessee, "a", ttl_s=3600)
        token = lessee.view.leases[0].token
        waiter = await claim(other, "a", wait=True)
        ledger.do(cmd.RevokeLease("operator", lease_id))
        await lessee.changed()
        assert lessee.view.lost == {token: "revoked by operator"}
        await trio.sleep(0.1)
        assert held(other) == [waiter]


@on_mock_clock
async def test_a_replaced_session_loses_everything_and_does_not_fight(
    ledger: CoreLedger, lessee_of: OpenLessee, caplog: pytest.LogCaptureFixture
) -> None:
    async with lessee_of() as lessee:
        await claim(lessee, "a", ttl_s=60)
        ledger.do(
            cmd.OpenSession(
                "another-session",
                "0" * 64,
                "agent-07",
                "codex",
                "territory",
                "mount",
                "h",
                2,
                replace=True,
            )
        )
        await trio.sleep(0.5)
        assert held(lessee) == []
        await trio.sleep(10)
        assert list(ledger.state.sessions) == ["another-session"]
        assert len(ledger.calls_to("/sessions")) < 20
        await trio.sleep(3600)
        assert len([one for one in caplog.messages if "is over" in one]) == 1


@on_mock_clock
async def test_a_ledger_without_memory_gets_the_session_again(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        await claim(lessee, "a")
        ledger.do(cmd.EndSession(lessee.session, "wiped"))
        await trio.sleep(1)
        assert held(lessee) == []
        assert list(ledger.state.sessions) == [lessee.session]
        assert await claim(lessee, "a")


@on_mock_clock
async def test_a_second_session_of_the_agent_is_refused(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    ledger.do(
        cmd.OpenSession(
            "another-session", "0" * 64, "agent-07", "codex", "territory", "mount", "h", 2
        )
    )
    with pytest.raises(AgentBusy):
        async with lessee_of():
            raise AssertionError("it must not open")
    async with lessee_of(replace=True) as lessee:
        assert list(ledger.state.sessions) == [lessee.session]


@on_mock_clock
async def test_the_end_frees_everything_at_once_and_never_hangs(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee, lessee_of("agent-08") as other:
        await claim(lessee, "a", ttl_s=3600)
        with pytest.raises(ClaimConflict):
            await claim(other, "a")
        await lessee.end()
        assert await claim(other, "a")
        ledger.request_takes_s = 1000
        before_s = lessee.now_s()
        await other.end(within_s=2.0)
        assert lessee.now_s() - before_s == pytest.approx(2.0)


@on_mock_clock
async def test_a_running_command_keeps_its_lease(ledger: CoreLedger, lessee_of: OpenLessee) -> None:
    async with lessee_of() as lessee:
        lease_id = await claim(lessee, "a", ttl_s=10)
        _, use = lessee.use(lease_id, 42, "make docs")
        await trio.sleep(95 * 60)
        assert lessee.view.writable(b"a", lessee.now_s()) is not None
        assert ledger.state.leases[lease_id].kept_by == ("42 make docs",)
        lessee.stop_using(use)
        await trio.sleep(60)
        assert lessee.view.writable(b"a", lessee.now_s()) is None
        with pytest.raises(UnknownLease):
            lessee.use("L999", 42, "make docs")


@on_mock_clock
async def test_renewing_all_renews_idle_leases_too(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        lease_id = await claim(lessee, "a", ttl_s=10)
        await trio.sleep(60)
        answer = await lessee.renew_all()
        assert [renewed["lease"] for renewed in answer["renewed"]] == [lease_id]
        assert trusted_for_s(lessee) > 9
        ledger.away = True
        with pytest.raises(LedgerUnavailable):
            await lessee.renew_all()


@on_mock_clock
async def test_a_log_that_begins_anew_is_not_believed(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """Tokens only grow. A handle opened under token 3 of one log must not pass under token 3 of another."""
    async with lessee_of() as lessee:
        for _ in range(10):
            ledger.do(cmd.StartLedger("test", "boot"))
        await claim(lessee, "a", "b")
        ledger.wipe()
        await trio.sleep(30)
        assert held(lessee) == []
        with pytest.raises(LeaseLost, match="not the log that the mount began with"):
            await claim(lessee, "other")
        assert held(lessee) == []
        for _ in range(10):
            ledger.do(cmd.StartLedger("test", "boot"))
        assert await claim(lessee, "later")


@on_mock_clock
async def test_a_grant_whose_event_overtakes_its_answer_costs_no_heartbeat(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        await trio.sleep(1)
        ledger.calls.clear()
        ledger.answer_takes_s = 1.0
        await claim(lessee, "a")
        await trio.sleep(1)
        assert ledger.calls_to("/heartbeat") == []


@on_mock_clock
async def test_a_grant_whose_answer_is_lost_is_taken_over_from_its_event(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        await trio.sleep(1)
        ledger.lose_answers = 1
        with pytest.raises(LedgerUnavailable):
            await claim(lessee, "a", ttl_s=60)
        await trio.sleep(1)
        assert held(lessee) == list(ledger.state.leases)
        assert expires_in_s(ledger) > trusted_for_s(lessee) > 50
