"""Delegation as its giver lives it: closed before the ledger is asked, open again when it is known to be over."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import pytest
import trio
from msgspec.structs import replace

from leasefs.client import api
from leasefs.core import commands as cmd
from leasefs.core.errors import (
    ClaimConflict,
    Dirty,
    LedgerUnavailable,
    NotContained,
    UnknownLease,
)
from leasefs.testing.lessee_probe import claim, held
from leasefs.testing.mock_time import on_mock_clock

if TYPE_CHECKING:
    from leasefs.client.lessee import Lessee
    from leasefs.core.carving import Carved
    from leasefs.testing.core_ledger import CoreLedger

OpenLessee = Callable[..., AbstractAsyncContextManager["Lessee"]]
PART = "packages/core/table/**"
PATH = b"packages/core/table/x.py"
BESIDE = b"packages/core/y.py"


def writes(lessee: Lessee, path: bytes = PATH) -> bool:
    return lessee.view.writable(path, lessee.now_s()) is not None


async def delegate(
    lessee: Lessee, lease: str, to: str, *globs: str, key: str = "d1", **wishes: Any
) -> Any:
    return await lessee.delegations.delegate(
        lease, key, {"globs": list(globs or (PART,)), "to": to, **wishes}
    )


async def soon(holds: Callable[[], bool]) -> None:
    with trio.fail_after(120):
        while not holds():  # noqa: ASYNC110 - what is waited for tells nobody
            await trio.sleep(0.05)


@on_mock_clock
async def test_the_part_goes_and_comes_back(ledger: CoreLedger, lessee_of: OpenLessee) -> None:
    given: list[Carved] = []
    async with lessee_of("planner") as planner, lessee_of("worker") as worker:
        planner.delegations.given = given.append
        parent = await claim(planner, "packages/**")
        answer = await delegate(planner, parent, "worker", note="sort it")
        assert (answer["parent"], answer["agent"]) == (parent, "worker")
        assert not writes(planner)
        assert writes(planner, BESIDE)
        assert given == list(planner.view.carved)
        await soon(lambda: writes(worker))
        (received,) = worker.delegations.received
        await soon(lambda: worker.delegations.received[0].agent == "planner")
        assert received.parent == parent
        assert "by planner" in worker.delegations.received[0].words()
        assert "sort it" in received.words()
        await worker.release(answer["lease"], "r1")
        await soon(lambda: writes(planner))
        assert planner.view.carved == ()
        assert worker.delegations.received == []


@on_mock_clock
async def test_it_is_closed_before_the_ledger_is_asked(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """However long the request and its answer travel: while the child's writes may pass, the parent's do not."""
    async with lessee_of("planner") as planner, lessee_of("worker") as worker:
        parent = await claim(planner, "packages/**")
        ledger.request_takes_s = ledger.answer_takes_s = 1.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(delegate, planner, parent, "worker")
            await trio.sleep(0.5)
            assert not writes(planner)
            assert not any(lease.claim.parent for lease in ledger.state.leases.values())
        await soon(lambda: writes(worker))
        assert not writes(planner)


@pytest.mark.parametrize(
    ("to", "globs", "refusal"),
    [
        ("nobody", (PART,), "no live session"),
        ("worker", ("docs/**",), "docs"),
        ("planner", (PART,), "yourself"),
    ],
)
@on_mock_clock
async def test_what_is_refused_is_open_again(
    ledger: CoreLedger, lessee_of: OpenLessee, to: str, globs: tuple[str, ...], refusal: str
) -> None:
    async with lessee_of("planner") as planner, lessee_of("worker"):
        parent = await claim(planner, "packages/**")
        with pytest.raises(Exception, match=refusal):
            await delegate(planner, parent, to, *globs)
        assert planner.view.carved == ()
        assert writes(planner)


@on_mock_clock
async def test_a_lease_that_is_not_held_is_not_delegated(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of("planner") as planner:
        with pytest.raises(UnknownLease):
            await delegate(planner, "L99", "worker")
        assert planner.view.carved == ()


@on_mock_clock
async def test_a_lost_answer_leaves_it_closed_until_it_is_known(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """P6: asked again with the same key, it is one delegation."""
    async with lessee_of("planner") as planner, lessee_of("worker") as worker:
        parent = await claim(planner, "packages/**")
        ledger.streams_away = True
        ledger.cut_streams()
        ledger.lose_answers, ledger.lose_to = 1, "/delegate"
        with pytest.raises(LedgerUnavailable, match="asked again"):
            await delegate(planner, parent, "worker")
        assert not writes(planner)
        await soon(lambda: all(one.child for one in planner.view.carved))
        assert len(ledger.calls_to("/delegate")) == 2
        assert len([one for one in ledger.state.leases.values() if one.claim.parent]) == 1
        assert not writes(planner)
        ledger.streams_away = False
        await soon(lambda: writes(worker))
        await worker.release(planner.view.carved[0].child, "r1")
        await soon(lambda: writes(planner))


@on_mock_clock
async def test_the_news_of_the_grant_settles_a_lost_answer(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of("planner") as planner, lessee_of("worker"):
        parent = await claim(planner, "packages/**")
        ledger.lose_answers, ledger.lose_to = 1, "/delegate"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_ask_in_vain, planner, parent)
            await soon(lambda: bool(planner.view.carved and planner.view.carved[0].child))
            nursery.cancel_scope.cancel()
        assert len(ledger.calls_to("/delegate")) == 1
        assert not writes(planner)


async def _ask_in_vain(planner: Lessee, parent: str) -> None:
    with pytest.raises(LedgerUnavailable):
        await delegate(planner, parent, "worker")


@on_mock_clock
async def test_a_request_that_never_arrived_is_made_when_the_ledger_is_back(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of("planner") as planner, lessee_of("worker") as worker:
        parent = await claim(planner, "packages/**", ttl_s=1800.0)
        ledger.away = True
        with pytest.raises(LedgerUnavailable):
            await delegate(planner, parent, "worker")
        await trio.sleep(20)
        assert not writes(planner)
        assert writes(planner, BESIDE)
        ledger.away = False
        await soon(lambda: writes(worker))
        assert not writes(planner)


@on_mock_clock
async def test_a_request_that_is_refused_only_when_asked_again_is_open_again(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of("planner") as planner:
        parent = await claim(planner, "packages/**", ttl_s=1800.0)
        ledger.away = True
        with pytest.raises(LedgerUnavailable):
            await delegate(planner, parent, "nobody")
        ledger.away = False
        await soon(lambda: writes(planner))
        assert planner.view.carved == ()


@on_mock_clock
async def test_a_key_that_is_forgotten_opens_nothing(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """The ledger remembers a session's last 64 keys: asked again it may refuse what it has granted."""
    async with lessee_of("planner") as planner, lessee_of("worker") as worker:
        parent = await claim(planner, "packages/**", ttl_s=1800.0)
        ledger.streams_away = True
        ledger.cut_streams()
        ledger.lose_answers, ledger.lose_to = 1, "/delegate"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_ask_in_vain, planner, parent)
            await trio.sleep(5)
            session = replace(ledger.state.sessions[planner.session], answered=())
            sessions = ledger.state.sessions.set(planner.session, session)
            ledger.state = replace(ledger.state, sessions=sessions)
        await soon(lambda: all(one.child for one in planner.view.carved))
        assert len(ledger.calls_to("/delegate")) == 2
        assert not writes(planner)
        ledger.streams_away = False
        await soon(lambda: writes(worker))
        await worker.release(planner.view.carved[0].child, "r1")
        await soon(lambda: writes(planner))


@on_mock_clock
async def test_a_part_that_is_asked_for_twice_is_one(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """The second is refused only after its first answer was lost: what is known of the other stays."""
    async with lessee_of("planner") as planner, lessee_of("worker") as worker:
        parent = await claim(planner, "packages/**", ttl_s=1800.0)
        child = (await delegate(planner, parent, "worker"))["lease"]
        ledger.lose_answers, ledger.lose_to = 1, "/delegate"
        with pytest.raises(LedgerUnavailable):
            await delegate(planner, parent, "worker", key="d2")
        await soon(lambda: [one.child for one in planner.view.carved] == [child])
        assert not writes(planner)
        await soon(lambda: writes(worker))
        await worker.release(child, "r1")
        await soon(lambda: writes(planner))


@on_mock_clock
async def test_what_is_over_takes_nothing_with_it_that_is_asked_for_anew(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """The same part again, to the same agent, while the end of the last one is still being seen to."""
    async with lessee_of("planner") as planner, lessee_of("worker") as worker:
        parent = await claim(planner, "packages/**", ttl_s=1800.0)
        child = (await delegate(planner, parent, "worker"))["lease"]
        await soon(lambda: writes(worker))
        seen_to = trio.Event()

        async def before(globs: list[str]) -> None:
            seen_to.set()
            await trio.sleep(5)

        planner.guard_ground(before, before_leaving=_nothing)
        await worker.release(child, "r1")
        await seen_to.wait()
        again = (await delegate(planner, parent, "worker", key="d2"))["lease"]
        await trio.sleep(20)
        assert [one.child for one in planner.view.carved] == [again]
        assert writes(worker)
        assert not writes(planner)


@on_mock_clock
async def test_an_end_that_is_missed_is_found_after_the_break(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """The log may have forgotten what happened meanwhile: the ledger is asked."""
    async with lessee_of("planner") as planner, lessee_of("worker") as worker:
        parent = await claim(planner, "packages/**", ttl_s=1800.0)
        child = (await delegate(planner, parent, "worker"))["lease"]
        await soon(lambda: writes(worker))
        ledger.streams_away = True
        ledger.cut_streams()
        await worker.release(child, "r1")
        (end,) = [one for one in ledger.history if getattr(one.event, "returns_to", "")]
        ledger.history.remove(end)
        await trio.sleep(5)
        assert not writes(planner)
        ledger.streams_away = False
        await soon(lambda: writes(planner))


@on_mock_clock
async def test_what_the_child_delegated_on_stays_closed_when_the_child_is_over(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """Nested: the grandchild is carved out of our lease then, and there is no moment between."""
    async with (
        lessee_of("planner") as planner,
        lessee_of("worker") as worker,
        lessee_of("helper") as helper,
    ):
        parent = await claim(planner, "packages/**", ttl_s=1800.0)
        child = (await delegate(planner, parent, "worker"))["lease"]
        await soon(lambda: writes(worker))
        deep = (await delegate(worker, child, "helper", "packages/core/table/sort/**"))["lease"]
        await soon(lambda: writes(helper, b"packages/core/table/sort/z"))
        assert not writes(worker, b"packages/core/table/sort/z")
        await worker.release(child, "r1")
        await soon(lambda: writes(planner))
        assert not writes(planner, b"packages/core/table/sort/z")
        (left,) = planner.view.carved
        assert (left.child, left.agent) == (deep, "helper")
        await helper.release(deep, "r2")
        await soon(lambda: writes(planner, b"packages/core/table/sort/z"))


@on_mock_clock
async def test_all_of_it_delegated_on_is_known_by_the_new_holder(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with (
        lessee_of("planner") as planner,
        lessee_of("worker") as worker,
        lessee_of("helper") as helper,
    ):
        parent = await claim(planner, "packages/**", ttl_s=1800.0)
        child = (await delegate(planner, parent, "worker"))["lease"]
        await soon(lambda: writes(worker))
        deep = (await delegate(worker, child, "helper"))["lease"]
        await soon(lambda: writes(helper))
        await worker.release(child, "r1")
        await soon(lambda: [one.child for one in planner.view.carved] == [deep])
        assert not writes(planner)


@on_mock_clock
async def test_the_child_lapses_and_the_ground_is_back(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of("planner") as planner:
        parent = await claim(planner, "packages/**", ttl_s=1800.0)
        async with lessee_of("worker"):
            await delegate(planner, parent, "worker", ttl_s=20.0)
        await trio.sleep(25)
        ledger.tick()
        await soon(lambda: writes(planner))


@on_mock_clock
async def test_ground_is_made_ready_before_it_is_back(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """P9: what the child left uncommitted is kept before its giver can write over it."""
    ready: list[list[str]] = []
    async with lessee_of("planner") as planner, lessee_of("worker") as worker:

        async def before(globs: list[str]) -> None:
            assert not (planner.view.carved and writes(planner))
            await trio.sleep(1)
            ready.append(globs)

        parent = await claim(planner, "packages/**", ttl_s=1800.0)
        child = (await delegate(planner, parent, "worker"))["lease"]
        await soon(lambda: writes(worker))
        planner.guard_ground(before, before_leaving=_nothing)
        await worker.release(child, "r1")
        await soon(lambda: writes(planner))
        assert ready == [[PART]]


async def _nothing(lease_id: str) -> None:
    pass


@on_mock_clock
async def test_the_parent_is_revoked_and_so_is_the_part(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of("planner") as planner, lessee_of("worker") as worker:
        parent = await claim(planner, "packages/**", ttl_s=1800.0)
        await delegate(planner, parent, "worker")
        await soon(lambda: writes(worker))
        ledger.do(cmd.RevokeLease("ops", parent))
        await soon(lambda: not held(planner) and not held(worker))
        assert planner.view.carved == ()


@on_mock_clock
async def test_the_parent_is_released_and_the_part_stands_on_its_own(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """And its former giver gets none of it by a new claim."""
    async with lessee_of("planner") as planner, lessee_of("worker") as worker:
        parent = await claim(planner, "packages/**", ttl_s=1800.0)
        await delegate(planner, parent, "worker")
        await soon(lambda: writes(worker))
        await planner.release(parent, "r1")
        assert planner.view.carved == ()
        assert writes(worker)
        with pytest.raises(ClaimConflict):
            await claim(planner, "packages/**")
        await claim(planner, "packages/core/y.py")
        assert not writes(planner)


@on_mock_clock
async def test_uncommitted_work_there_is_the_ledgers_refusal(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of("planner") as planner, lessee_of("worker"):
        parent = await claim(planner, "packages/**", ttl_s=1800.0)
        (lease,) = planner.view.leases
        note = {
            "path": PATH.decode(),
            "kind": "modify",
            "lease": parent,
            "token": lease.token,
            "wall_s": 1.0,
        }
        await planner._send(api.report_intents("tree", [note], host="h", root="/r"))
        with pytest.raises(Dirty):
            await delegate(planner, parent, "worker")
        assert writes(planner)
        await delegate(planner, parent, "worker", key="d2", dirty="keep")
        assert not writes(planner)


@on_mock_clock
async def test_nobody_gets_a_part_of_what_came_from_it(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    """It would hold ground that it gave away, and may not write on."""
    async with lessee_of("planner") as planner, lessee_of("worker") as worker:
        parent = await claim(planner, "packages/**", ttl_s=1800.0)
        child = (await delegate(planner, parent, "worker"))["lease"]
        await soon(lambda: writes(worker))
        with pytest.raises(Exception, match="release it"):
            await delegate(worker, child, "planner", "packages/core/table/sort/**")
        assert writes(worker, b"packages/core/table/sort/z")


@on_mock_clock
async def test_more_than_the_lease_is_refused(ledger: CoreLedger, lessee_of: OpenLessee) -> None:
    async with lessee_of("planner") as planner, lessee_of("worker"):
        parent = await claim(planner, "packages/core/*")
        with pytest.raises(NotContained):
            await delegate(planner, parent, "worker", "packages/core/**")
