"""Trust, use and courtesy of one session against the real rules, on trio's mock clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

from leasefs.client import api
from leasefs.core.errors import (
    InvalidRequest,
    LedgerUnavailable,
)
from leasefs.core.lease import trust_margin_s
from leasefs.testing.lessee_probe import claim, expires_in_s, held, trusted_for_s
from leasefs.testing.mock_time import on_mock_clock

if TYPE_CHECKING:
    from conftest import OpenLessee

    from leasefs.testing.core_ledger import CoreLedger


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
