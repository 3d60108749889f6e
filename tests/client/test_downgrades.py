"""Downgrade and upgrade: the writes stop before the ledger is asked, and no answer that is lost leaves two truths."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import pytest
import trio

from leasefs.client import api
from leasefs.core import commands as cmd
from leasefs.core.errors import Deadlock, InvalidRequest, LedgerUnavailable, UnknownLease
from leasefs.core.lease import Mode
from leasefs.testing.lessee_probe import KEYS, claim, held
from leasefs.testing.mock_time import on_mock_clock

if TYPE_CHECKING:
    from leasefs.client.lessee import Lessee
    from leasefs.testing.core_ledger import CoreLedger

OpenLessee = Callable[..., AbstractAsyncContextManager["Lessee"]]


def writes(lessee: Lessee, path: bytes = b"a") -> bool:
    return lessee.view.writable(path, lessee.now_s()) is not None


def mode(lessee: Lessee) -> Mode:
    (lease,) = lessee.view.leases
    return lease.mode


async def soon(holds: Callable[[], bool]) -> None:
    with trio.fail_after(120):
        while not holds():  # noqa: ASYNC110 - what is waited for tells nobody
            await trio.sleep(0.05)


async def share(lessee: Lessee) -> None:
    key = f"s{next(KEYS)}"
    await lessee.claim(api.claim(["a"], key=key, shared=True, ttl_s=1800.0))


async def upgrade(lessee: Lessee, lease: str, *, wait: bool = True) -> api.Body:
    call = api.claim(["a"], key=f"u{next(KEYS)}", ttl_s=1800.0, wait=wait, replaces=lease)
    return await lessee.claim(call)


@on_mock_clock
async def test_others_share_it_and_nobody_writes(ledger: CoreLedger, lessee_of: OpenLessee) -> None:
    moved: list[tuple[int, int]] = []
    async with lessee_of("ada") as ada, lessee_of("bo") as bo:
        lease = await claim(ada, "a", ttl_s=1800.0)
        ada.downgrades.moved = lambda old, new: moved.append((old, new))
        (before,) = ada.view.leases
        answer = await ada.downgrades.downgrade(lease, "k")
        assert (answer["mode"], held(ada)) == ("shared", [lease])
        assert ada.view.leases[0].token == answer["token"] > before.token
        assert moved == [(before.token, answer["token"])]
        assert not writes(ada)
        await share(bo)
        await trio.sleep(400)
        assert held(ada) == [lease]


@on_mock_clock
async def test_the_writes_stop_before_it_is_asked(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    told: list[bool] = []
    async with lessee_of("ada") as ada:
        lease = await claim(ada, "a", ttl_s=1800.0)

        async def before() -> None:
            told.append(writes(ada))
            assert not ledger.calls_to("/downgrade")

        ada.downgrades.before = before
        ledger.request_takes_s = 1.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ada.downgrades.downgrade, lease, "k")
            await trio.sleep(0.5)
            assert not writes(ada)
        assert told == [False]


@on_mock_clock
async def test_what_is_refused_is_written_on(ledger: CoreLedger, lessee_of: OpenLessee) -> None:
    async with lessee_of("ada") as ada, lessee_of("bo"):
        lease = await claim(ada, "a", "b", ttl_s=1800.0)
        await ada.delegations.delegate(lease, "d", {"globs": ["b"], "to": "bo"})
        token = ada.view.leases[0].token
        with pytest.raises(InvalidRequest, match="delegated"):
            await ada.downgrades.downgrade(lease, "k")
        assert writes(ada)
        assert ada.view.leases[0].token == token
        with pytest.raises(UnknownLease):
            await ada.downgrades.downgrade("L99", "k")


@pytest.mark.parametrize("streams_away", [False, True])
@on_mock_clock
async def test_a_lost_answer_is_settled(
    ledger: CoreLedger, lessee_of: OpenLessee, streams_away: bool
) -> None:
    """By the event, or by asking again; a heartbeat with the old token meanwhile loses nothing."""
    async with lessee_of("ada") as ada:
        lease = await claim(ada, "a", ttl_s=1800.0)
        ledger.streams_away = streams_away
        ledger.cut_streams()
        ledger.lose_answers, ledger.lose_to = 1, "/downgrade"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_ask_in_vain, ada, lease)
            await trio.sleep(0.5)
            assert ledger.state.leases[lease].claim.mode is Mode.SHARED
            await ada.renew_all()
        await soon(lambda: ada.view.leases[0].token == ledger.state.leases[lease].token)
        assert not ada.downgrades.in_doubt(lease)
        assert mode(ada) is Mode.SHARED
        await ada.renew_all()
        assert held(ada) == [lease]


async def _ask_in_vain(lessee: Lessee, lease: str) -> None:
    with pytest.raises(LedgerUnavailable, match="asked again"):
        await lessee.downgrades.downgrade(lease, "k")


@on_mock_clock
async def test_a_request_that_never_arrived_is_made_when_the_ledger_is_back(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of("ada") as ada:
        lease = await claim(ada, "a", ttl_s=1800.0)
        ledger.away = True
        await _ask_in_vain(ada, lease)
        await trio.sleep(20)
        assert not writes(ada)
        ledger.away = False
        await soon(lambda: ledger.state.leases[lease].claim.mode is Mode.SHARED)


@on_mock_clock
async def test_a_late_loss_of_the_old_token_is_not_one_of_the_lease(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """A heartbeat on its way while the token changes is answered with a loss that is none."""
    async with lessee_of("ada") as ada:
        lease = await claim(ada, "a", ttl_s=1800.0)
        await trio.sleep(1)
        async with trio.open_nursery() as nursery:
            ledger.request_takes_s = 0.5
            nursery.start_soon(ada.renew_all)
            await trio.sleep(0.1)
            ledger.request_takes_s = 0.0
            await ada.downgrades.downgrade(lease, "k")
        assert held(ada) == [lease]
        await ada.renew_all()
        assert held(ada) == [lease]


@on_mock_clock
async def test_one_that_is_over_meanwhile_is_lost(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of("ada") as ada:
        lease = await claim(ada, "a", ttl_s=1800.0)
        ledger.streams_away = True
        ledger.cut_streams()
        ledger.lose_answers, ledger.lose_to = 1, "/downgrade"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_ask_in_vain, ada, lease)
            await trio.sleep(0.5)
            ledger.do(cmd.RevokeLease("ops", lease))
            await trio.sleep(1)
        ledger.streams_away = False
        await soon(lambda: held(ada) == [])


@on_mock_clock
async def test_an_upgrade_takes_the_shared_leases_place(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of("ada") as ada:
        lease = await claim(ada, "a", ttl_s=1800.0)
        await ada.downgrades.downgrade(lease, "k")
        answer = await upgrade(ada, lease)
        assert held(ada) == [answer["lease"]]
        assert writes(ada)
        assert (ada.why_ended(lease) or "").startswith("upgraded")


@on_mock_clock
async def test_an_upgrade_waits_for_the_others_and_keeps_its_share_meanwhile(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of("ada") as ada, lessee_of("bo") as bo:
        lease = await claim(ada, "a", ttl_s=1800.0)
        await ada.downgrades.downgrade(lease, "k")
        await share(bo)
        answer = await upgrade(ada, lease)
        assert answer["state"] == "waiting"
        await trio.sleep(10)
        assert held(ada) == [lease]
        with pytest.raises(Deadlock):
            await upgrade(bo, bo.view.leases[0].lease_id)
        await bo.release(bo.view.leases[0].lease_id, "r")
        await soon(lambda: held(ada) == [answer["lease"]])
        assert writes(ada)
