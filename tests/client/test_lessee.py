"""One session against the real rules, with slow, lost and late answers. Time is trio's mock clock."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest
import trio

from leasefs.client import api
from leasefs.core import commands as cmd
from leasefs.core.errors import (
    AgentBusy,
    ClaimConflict,
    InvalidRequest,
    LeaseLost,
    LedgerUnavailable,
    UnknownLease,
)
from leasefs.core.lease import trust_margin_s
from leasefs.core.policy import Op, Reason, RefusalRecord
from leasefs.testing.mock_time import on_mock_clock

if TYPE_CHECKING:
    from conftest import OpenLessee

    from leasefs.client.lessee import Lessee
    from leasefs.testing.core_ledger import CoreLedger

KEYS = iter(range(10**9))


async def claim(lessee: Lessee, *globs: str, ttl_s: float = 30.0, wait: bool = False) -> Any:
    key = f"key-{next(KEYS)}"
    answer = await lessee.claim(api.claim(globs, key=key, ttl_s=ttl_s, wait=wait))
    return answer["lease"]


def held(lessee: Lessee) -> list[str]:
    return [lease.lease_id for lease in lessee.view.leases]


def trusted_for_s(lessee: Lessee) -> float:
    (lease,) = lessee.view.leases
    return lease.trusted_until_s - lessee.now_s()


def expires_in_s(ledger: CoreLedger) -> float:
    (lease,) = ledger.state.leases.values()
    return lease.expires_at_s - ledger.clock.now_s()


@on_mock_clock
async def test_a_grant_is_trusted_from_when_it_was_asked_for(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """P3: time the request was *sent* + TTL - margin; a slow answer does not extend trust."""
    async with lessee_of() as lessee:
        ledger.request_takes_s, ledger.answer_takes_s = 1.0, 3.0
        await claim(lessee, "src/**")
        assert trusted_for_s(lessee) == pytest.approx(30 - trust_margin_s(30) - 4)
        assert expires_in_s(ledger) == pytest.approx(30 - 3)
        assert lessee.view.writable(b"src/x", lessee.now_s()) is not None


@on_mock_clock
async def test_a_slow_heartbeat_does_not_extend_trust(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        await claim(lessee, "src/**")
        lessee.wrote(lessee.view.leases[0].token)
        ledger.answer_takes_s = 4.0
        await trio.sleep(10.5)
        before_s = trusted_for_s(lessee)
        await trio.sleep(4.0)
        assert trusted_for_s(lessee) == pytest.approx(30 - trust_margin_s(30) - 4.5, abs=0.1)
        assert before_s == pytest.approx(30 - trust_margin_s(30) - 10.5, abs=0.1)


@on_mock_clock
async def test_an_idle_lease_lapses_and_a_used_one_is_kept(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """P4: a lease lives as long as it is used, however long that is; an idle one lapses."""
    async with lessee_of() as lessee:
        await claim(lessee, "idle", ttl_s=10)
        await claim(lessee, "used", ttl_s=10)
        used = lessee.view.leases[1].token
        use = lessee.writer_opened(used, b"used", 1)
        await trio.sleep(600)
        assert lessee.view.writable(b"used", lessee.now_s()) is not None
        assert lessee.view.writable(b"idle", lessee.now_s()) is None
        assert lessee.view.lapsed(b"idle", lessee.now_s()) is not None
        lessee.writer_closed(use)
        closed_at_s = lessee.now_s()
        await trio.sleep(60)
        lapsed_at_s = lessee.view.by_token[used].trusted_until_s
        assert 10 - 1 < lapsed_at_s - closed_at_s <= 10 + 10 / 3


@on_mock_clock
async def test_what_keeps_a_lease_alive_is_visible_in_the_ledger(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        await claim(lessee, "src/**", ttl_s=10)
        token = lessee.view.leases[0].token
        for number in range(7):
            lessee.writer_opened(token, b"src/caf\xe9%d" % number, 1)
        await trio.sleep(5)
        (lease,) = ledger.state.leases.values()
        assert len(lease.kept_by) == 5
        assert lease.kept_by[0].startswith("1 ")
        assert lease.kept_by[0].endswith("src/caf\udce90")
        assert lease.kept_by[4] == "and 3 more"


@on_mock_clock
async def test_no_use_and_no_number_of_leases_makes_a_heartbeat_too_large(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """One line that the ledger does not take would end all leases that are renewed with it."""
    async with lessee_of() as lessee:
        for number in range(250):
            await claim(lessee, f"d{number}/**", ttl_s=3000)
            lessee.use(held(lessee)[-1], 1, "\udcff" * 100_000)
            for _ in range(5):
                lessee.writer_opened(lessee.view.leases[-1].token, b"\xff" * 4096, 1)
        ledger.calls.clear()
        assert len((await lessee.renew_all())["renewed"]) == 250
        sizes = [len(api.encode(call)) for call in ledger.calls_to("/heartbeat")]
        assert max(sizes) < 1 << 20
        lines = [line for lease in ledger.state.leases.values() for line in lease.kept_by]
        assert max(map(len, lines)) <= 250
        assert len(lines) == 250 * 5


@on_mock_clock
async def test_renewing_all_says_so_if_the_ledger_does_not_take_it(
    ledger: CoreLedger, lessee_of: OpenLessee, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lessee_of() as lessee:
        await claim(lessee, "a", ttl_s=30)

        def refuse(command: object) -> Any:
            raise InvalidRequest("the body does not fit")

        monkeypatch.setattr(ledger, "do", refuse)
        with pytest.raises(InvalidRequest, match="does not fit"):
            await lessee.renew_all()


@on_mock_clock
async def test_heartbeats_are_few(ledger: CoreLedger, lessee_of: OpenLessee) -> None:
    """One every 20 s for the session, one every third of a TTL for leases in use, all in one."""
    async with lessee_of() as lessee:
        for glob in ("a", "b", "c"):
            await claim(lessee, glob, ttl_s=1800)
        await trio.sleep(1)
        ledger.calls.clear()
        for _ in range(590):
            for lease in lessee.view.leases:
                lessee.wrote(lease.token)
            await trio.sleep(1)
        beats = [call.body["renew"] for call in ledger.calls_to("/heartbeat") if call.body]
        assert len(beats) == pytest.approx(590 / 20, abs=2)
        assert not any(beats)
        await trio.sleep(20)
        beats = [call.body["renew"] for call in ledger.calls_to("/heartbeat") if call.body]
        assert [len(renew) for renew in beats if renew] == [3]


@on_mock_clock
async def test_a_write_after_long_idleness_renews_at_once(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        await claim(lessee, "a", ttl_s=60)
        await trio.sleep(50)
        lessee.wrote(lessee.view.leases[0].token)
        await trio.sleep(0.1)
        assert trusted_for_s(lessee) > 50


@on_mock_clock
async def test_a_lost_answer_leaves_trust_as_it_was_and_is_made_up_for(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        await claim(lessee, "a", ttl_s=30)
        lessee.writer_opened(lessee.view.leases[0].token, b"a", 1)
        await trio.sleep(1)
        ledger.lose_answers = 1
        await trio.sleep(11)
        assert ledger.lose_answers == 0
        assert trusted_for_s(lessee) == pytest.approx(30 - 1.5 - 12, abs=0.1)
        await trio.sleep(10)
        assert trusted_for_s(lessee) > 20
        assert expires_in_s(ledger) > trusted_for_s(lessee)


@on_mock_clock
async def test_a_heartbeat_sent_before_a_suspend_and_answered_after_it(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """P3: suspend never produces two writers."""
    async with lessee_of() as lessee:
        await claim(lessee, "a", ttl_s=30)
        lessee.wrote(lessee.view.leases[0].token)
        ledger.answer_takes_s = 4.9
        await trio.sleep(10.1)
        suspended_at_s = lessee.now_s()
        autojump = trio.lowlevel.current_clock()
        autojump.jump(100)  # type: ignore[attr-defined]
        await trio.lowlevel.checkpoint()
        assert lessee.now_s() - suspended_at_s >= 100
        assert lessee.view.writable(b"a", lessee.now_s()) is None


@on_mock_clock
async def test_courtesy_a_lapsed_lease_that_nobody_took_comes_back_with_its_token(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """P5."""
    async with lessee_of() as lessee:
        await claim(lessee, "a", ttl_s=10)
        token = lessee.view.leases[0].token
        await trio.sleep(60)
        ledger.tick()
        assert lessee.view.writable(b"a", lessee.now_s()) is None
        await lessee.revalidate()
        lease = lessee.view.writable(b"a", lessee.now_s())
        assert lease is not None
        assert lease.token == token


@on_mock_clock
async def test_once_taken_the_old_holder_is_fenced(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """P5."""
    ledger.streams_away = True
    async with lessee_of() as lessee, lessee_of("agent-08") as other:
        await claim(lessee, "a", ttl_s=10)
        token = lessee.view.leases[0].token
        await trio.sleep(60)
        await claim(other, "**", ttl_s=1800)
        await lessee.revalidate()
        assert held(lessee) == []
        assert lessee.view.lost == {token: "lapsed, then taken by agent-08"}


@on_mock_clock
async def test_revalidation_is_shared_bounded_and_asks_only_for_lapsed_leases(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        lapsed = await claim(lessee, "a", ttl_s=10)
        await trio.sleep(60)
        await claim(lessee, "b", ttl_s=600)
        await trio.sleep(1)
        ledger.calls.clear()
        ledger.answer_takes_s = 0.1
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(lessee.revalidate)
        renewed = [call.body["renew"] for call in ledger.calls_to("/heartbeat") if call.body]
        assert [[beat["lease"] for beat in renew] for renew in renewed] == [[lapsed]]
        ledger.away = True
        started_s = lessee.now_s()
        await trio.sleep(12)
        started_s = lessee.now_s()
        await lessee.revalidate()
        assert lessee.now_s() - started_s <= 2.0


@on_mock_clock
async def test_the_ledger_away_writes_go_on_inside_trust_and_nothing_new_is_granted(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """P12."""
    async with lessee_of() as lessee:
        await claim(lessee, "a", ttl_s=30)
        use = lessee.writer_opened(lessee.view.leases[0].token, b"a", 1)
        ledger.away = True
        ledger.cut_streams()
        await trio.sleep(25)
        assert lessee.view.writable(b"a", lessee.now_s()) is not None
        reachable = lessee.ledger_reachable
        assert not reachable
        with pytest.raises(LedgerUnavailable):
            await claim(lessee, "b")
        await trio.sleep(25)
        assert lessee.view.writable(b"a", lessee.now_s()) is None
        ledger.away = False
        ledger.restart()
        await trio.sleep(3)
        assert lessee.view.writable(b"a", lessee.now_s()) is not None
        assert lessee.ledger_reachable
        lessee.writer_closed(use)


@on_mock_clock
async def test_a_ledger_that_restarts_hears_of_used_leases_at_once(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        await claim(lessee, "a", ttl_s=60)
        lessee.writer_opened(lessee.view.leases[0].token, b"a", 1)
        await trio.sleep(25)
        ledger.calls.clear()
        ledger.restart()
        await trio.sleep(1)
        assert ledger.calls_to("/heartbeat")
        assert await claim(lessee, "b")


@on_mock_clock
async def test_a_waiter_is_pushed_its_lease_and_trusts_it_from_a_heartbeat_of_its_own(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """P3: a grant that is only heard of proves nothing about when."""
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
    ledger: CoreLedger, lessee_of: OpenLessee
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


def refusal(number: int, path: bytes = b"") -> RefusalRecord:
    return RefusalRecord(
        Op.WRITE,
        path or b"caf\xe9%d" % number,
        Reason.NOT_LEASED,
        errno.EACCES,
        7,
        "vim",
        1.7e9,
        None,
    )


@on_mock_clock
async def test_refusals_are_reported_at_most_once_a_second(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        for number in range(3):
            lessee.refused(refusal(number))
            await trio.sleep(0.2)
        await trio.sleep(2)
        reports = [call.body["refusals"] for call in ledger.calls_to("/refusals") if call.body]
        assert [len(report) for report in reports] == [1, 2]
        assert reports[0][0] == {
            "path": "caf\udce90",
            "op": "write",
            "reason": Reason.NOT_LEASED.value,
            "errno": "EACCES",
            "pid": 7,
            "program": "vim",
            "wall_s": 1.7e9,
        }


@on_mock_clock
async def test_too_many_refusals_are_dropped_and_counted(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        ledger.away = True
        for number in range(1500):
            lessee.refused(refusal(number))
        await trio.sleep(3)
        ledger.away = False
        await trio.sleep(20)
        told = [
            one
            for call in ledger.calls_to("/refusals")
            if call.body
            for one in call.body["refusals"]
        ]
        assert told[0]["reason"] == "500 earlier refusals were dropped while the ledger was away"
        assert len(told) == 1001
        assert told[-1]["path"] == "caf\udce91499"


@on_mock_clock
async def test_refusals_of_long_paths_fit_into_their_requests(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        for number in range(400):
            lessee.refused(refusal(number, b"\xff" * 4096))
        await trio.sleep(60)
        calls = ledger.calls_to("/refusals")
        assert sum(len(call.body["refusals"]) for call in calls if call.body) == 400
        assert max(len(api.encode(call)) for call in calls) < 1 << 20


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
