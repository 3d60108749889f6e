"""P1, P7: whatever comes together, no two trust the same ground, and it is its holder's again when nobody wants it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from leasefs.client.ids import new_key
from leasefs.core.errors import LeasefsError
from leasefs.core.lease import Mode
from leasefs.testing.lessee_probe import KEYS, claim, held
from leasefs.testing.mock_time import on_mock_clock
from leasefs.testing.yielding import Fleet, fleet

if TYPE_CHECKING:
    from leasefs.client.lessee import Lessee

ACTS = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from([0.0, 0.3, 5.0, 60.0])),
    st.tuples(st.just("give back"), st.just(0.0)),
    st.tuples(st.just("dirty"), st.just(0.0)),
    st.tuples(st.just("commit"), st.just(0.0)),
    st.tuples(st.just("open"), st.just(0.0)),
    st.tuples(st.just("close"), st.just(0.0)),
    st.tuples(st.just("cut"), st.just(0.0)),
    st.tuples(st.just("away"), st.sampled_from([0.2, 3.0])),
    st.tuples(st.just("restart"), st.just(0.0)),
    st.tuples(st.just("lose answers"), st.sampled_from([1.0, 2.0])),
    st.tuples(st.just("slow"), st.sampled_from([0.0, 0.2])),
    st.tuples(st.just("more time"), st.just(0.2)),
    st.tuples(st.just("wait"), st.sampled_from([0.01, 0.1, 1.0, 20.0])),
)


def trusts(lessee: Lessee) -> bool:
    return any(lease.mode is Mode.EXCLUSIVE for lease in lessee.view.trusted(lessee.now_s()))


async def act(at: Fleet, what: str, how_much: float, uses: list[int], asked: list[str]) -> None:  # noqa: C901 -- one arm for each act
    ledger = at.ledger
    match what:
        case "ask":
            asked.append(await at.asked(how_much))
        case "give back" if asked:
            await at.person.release(asked.pop(), f"key-{next(KEYS)}", dirty="keep")
        case "dirty" if trusts(at.holder):
            at.work.dirty.add(b"src/a")
        case "commit":
            at.work.dirty.clear()
        case "open" if trusts(at.holder):
            token = at.holder.view.leases[0].token
            uses.append(at.holder.writer_opened(token, b"src/a", 1))
        case "close" if uses:
            at.holder.writer_closed(uses.pop())
        case "cut":
            ledger.cut_streams()
        case "away":
            ledger.away = True
            ledger.cut_streams()
            await trio.sleep(how_much)
            ledger.away = False
        case "restart":
            ledger.restart()
        case "lose answers":
            ledger.lose_answers = int(how_much)
        case "slow":
            ledger.request_takes_s = ledger.answer_takes_s = how_much
        case "more time":
            for recall in at.holder.recalls:
                await at.holder.more_time(recall.lease_id, how_much, new_key())
        case "wait":
            await trio.sleep(how_much)


async def never_both(at: Fleet) -> None:
    """Looks whenever anything may have changed."""
    while True:
        assert not (trusts(at.holder) and trusts(at.person))
        async with trio.open_nursery() as nursery:
            for lessee in (at.holder, at.person):
                nursery.start_soon(_until_changed, lessee, nursery.cancel_scope)


async def _until_changed(lessee: Lessee, scope: trio.CancelScope) -> None:
    await lessee.changed()
    scope.cancel()


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(ACTS, max_size=25))
def test_recalls_in_any_order_with_any_faults(
    acts: list[tuple[str, float]],
) -> None:
    one_history(acts)


@on_mock_clock
async def one_history(acts: list[tuple[str, float]]) -> None:
    async with fleet() as at:
        await claim(at.holder, "src/**", ttl_s=3000)
        uses: list[int] = []
        asked: list[str] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(never_both, at)
            for what, how_much in acts:
                # The ledger was away, or there is nothing of the kind any more.
                with contextlib.suppress(LeasefsError):
                    await act(at, what, how_much, uses, asked)
            at.ledger.lose_answers = 0
            at.ledger.request_takes_s = at.ledger.answer_takes_s = 0.0
            await at.person.end()
            await trio.sleep(200)
            nursery.cancel_scope.cancel()
        assert len(held(at.holder)) == 1, [vars(one) for one in at.holder.recalls]
        assert trusts(at.holder)
        assert not at.ledger.state.waiters
