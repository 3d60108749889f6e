"""Claims that writes make, and their leases' way back, against the ledger's real rules on trio's mock clock."""

from __future__ import annotations

import pytest
import trio

from leasefs.client import api
from leasefs.core.commands import SetAdmission
from leasefs.core.globs import literal_glob
from leasefs.core.policy import Op, Reason, Refused, Target
from leasefs.core.records import Admission
from leasefs.mount.gate import Unobtained, Unsettled
from leasefs.mount.unleased_claims import BACK_WITHIN_S
from leasefs.mount.unleased_leases import HURRY_S, TURN_S
from leasefs.testing.core_ledger import CoreLedger
from leasefs.testing.mock_time import MockTime, on_mock_clock
from leasefs.testing.write_claims import Writer, refused, writer

# What is heard travels at once here; the heartbeat that confirms a grant may be a retry.
SOON_S = 0.5


@pytest.fixture
def ledger() -> CoreLedger:
    return CoreLedger(MockTime())


@on_mock_clock
async def test_a_lease_goes_soon_after_its_last_use(ledger: CoreLedger) -> None:
    async with writer(ledger, "ada", idle_s=2.0) as ada:
        async with ada.writing(b"f"):
            await trio.sleep(100)
            assert ada.holds(b"f")
        await trio.sleep(1.9)
        assert ada.holds(b"f")
        await trio.sleep(0.2)
        assert not ada.holds(b"f")
        assert not ledger.state.leases


@on_mock_clock
async def test_who_waits_before_the_grant_has_been_heard_of_counts_as_well(
    ledger: CoreLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The news that somebody waits may overtake the answer that brings the lease."""
    async with (
        writer(ledger, "ada", idle_s=600.0) as ada,
        writer(ledger, "bo", idle_s=600.0) as bo,
        trio.open_nursery() as nursery,
    ):
        ask = ada.lessee.claim

        async def slowly(call: api.Call) -> api.Body:
            answer = await ask(call)
            nursery.start_soon(bo.write, b"f")
            await trio.sleep(SOON_S)
            return answer

        monkeypatch.setattr(ada.lessee, "claim", slowly)
        async with ada.writing(b"f"):
            assert not bo.holds(b"f")
        ended_s = trio.current_time()
        assert await bo.write(b"f") - ended_s < HURRY_S + SOON_S


@on_mock_clock
async def test_it_goes_at_once_where_others_wait(ledger: CoreLedger) -> None:
    """However long it would be kept else; and so does the next one's, who waited itself."""
    async with (
        writer(ledger, "ada", idle_s=600.0) as ada,
        writer(ledger, "bo", idle_s=600.0) as bo,
        writer(ledger, "cy", idle_s=600.0) as cy,
        trio.open_nursery() as nursery,
    ):
        async with ada.writing(b"f"):
            nursery.start_soon(bo.write, b"f", 10.0)
            await trio.sleep(1)
            nursery.start_soon(cy.write, b"f", 10.0)
            await trio.sleep(5)
            assert ada.holds(b"f")
        ended_s = trio.current_time()
        assert await cy.write(b"f") - ended_s < 10.0 + 2 * (HURRY_S + SOON_S)


async def told_to_look_again(ada: Writer, thread: int) -> None:
    """A thread gets its lease, and something else is at the name than it had found."""
    obtaining = ada.claims.begin(thread)
    await obtaining.obtain(Unsettled(Refused(Reason.NOT_LEASED, Op.OPEN, b"f"), [Target(b"f")]))
    obtaining.over(again=True)


@on_mock_clock
async def test_who_looks_again_finds_its_ground_still_held(ledger: CoreLedger) -> None:
    """Else the next in the queue would replace what the thread is about to write."""
    async with (
        writer(ledger, "ada", idle_s=0.0) as ada,
        writer(ledger, "bo") as bo,
        trio.open_nursery() as nursery,
    ):
        await told_to_look_again(ada, 7)
        nursery.start_soon(bo.write, b"f")
        await trio.sleep(BACK_WITHIN_S / 2)
        ada.claims.came_back(8)
        await trio.sleep(BACK_WITHIN_S / 4)
        assert ada.holds(b"f")
        ada.claims.came_back(7)
        await trio.sleep(SOON_S)
        assert not ada.holds(b"f")


@on_mock_clock
async def test_who_never_comes_back_does_not_keep_it(ledger: CoreLedger) -> None:
    async with writer(ledger, "ada", idle_s=0.0) as ada, writer(ledger, "bo") as bo:
        began_s = trio.current_time()
        await told_to_look_again(ada, 7)
        assert await bo.write(b"f") - began_s < BACK_WITHIN_S + SOON_S
        ada.claims.came_back(7)
        assert await ada.write(b"f") >= began_s


@on_mock_clock
async def test_what_was_idle_already_goes_when_somebody_wants_it(ledger: CoreLedger) -> None:
    async with (
        writer(ledger, "ada", idle_s=600.0, ttl_s=600.0) as ada,
        writer(ledger, "bo") as bo,
    ):
        await ada.write(b"f")
        await trio.sleep(100)
        assert ada.holds(b"f")
        asked_s = trio.current_time()
        assert await bo.write(b"f") - asked_s < SOON_S


@on_mock_clock
async def test_who_goes_on_and_on_has_had_its_turn(ledger: CoreLedger) -> None:
    """Writes that follow each other closely are no reason to let others wait for ever (P7)."""
    async with (
        writer(ledger, "ada") as ada,
        writer(ledger, "bo") as bo,
        trio.open_nursery() as nursery,
    ):

        async def busy() -> None:
            while True:
                await ada.write(b"f", 0.02)
                await trio.sleep(0.02)

        nursery.start_soon(busy)
        await trio.sleep(1)
        asked_s = trio.current_time()
        assert await bo.write(b"f") - asked_s < TURN_S + SOON_S
        nursery.cancel_scope.cancel()


@on_mock_clock
async def test_many_first_writes_cost_few_requests(ledger: CoreLedger) -> None:
    ledger.request_takes_s = 0.05
    async with writer(ledger, "ada") as ada:
        ledger.calls.clear()
        async with trio.open_nursery() as nursery:
            for number in range(1000):
                nursery.start_soon(ada.write, b"d/%d" % number)
        assert len(ledger.calls_to("leases") + ledger.calls_to("batch")) <= 8
        assert len(ledger.state.leases) == 1000
        await trio.sleep(10)
        assert not ledger.state.leases


@on_mock_clock
async def test_writers_of_one_path_share_one_claim(ledger: CoreLedger) -> None:
    ledger.request_takes_s = 0.05
    async with writer(ledger, "ada") as ada, trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ada.write, b"f")
        await trio.sleep(1)
        assert len(ledger.calls_to("leases")) == 1


@on_mock_clock
async def test_who_gives_up_waiting_leaves_the_queue(ledger: CoreLedger) -> None:
    async with writer(ledger, "ada") as ada, writer(ledger, "bo") as bo, ada.writing(b"f"):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bo.write, b"f")
            nursery.start_soon(bo.write, b"f")
            with trio.move_on_after(5):
                await bo.write(b"f")
            assert len(ledger.state.waiters) == 1, "others of the same mount still wait"
            nursery.cancel_scope.cancel()
        await trio.sleep(SOON_S)
        assert not ledger.state.waiters


@on_mock_clock
async def test_who_waited_as_long_as_may_be_is_told_for_whom(ledger: CoreLedger) -> None:
    async with (
        writer(ledger, "ada") as ada,
        writer(ledger, "bo", wait_s=30.0) as bo,
        ada.writing(b"f"),
    ):
        began_s = trio.current_time()
        said = await refused(bo, b"f")
        assert trio.current_time() - began_s == pytest.approx(30, abs=2)
        assert (said.reason, said.path) == (Reason.WAITED, b"f")
        (lease,) = ledger.state.leases.values()
        assert f"waited 30 s for ada (claude), who holds f as {lease.claim.id}" in said.detail
        await trio.sleep(SOON_S)
        assert not ledger.state.waiters


@on_mock_clock
async def test_without_wait_it_is_refused_at_once_and_names_the_holder(ledger: CoreLedger) -> None:
    async with writer(ledger, "ada") as ada, writer(ledger, "bo", "claim") as bo:
        async with ada.writing(b"f"):
            said = await refused(bo, b"f")
        assert said.reason is Reason.HELD
        assert "held by ada (claude)" in said.detail


@on_mock_clock
async def test_two_that_wait_for_each_others_idle_ground_both_go_on(ledger: CoreLedger) -> None:
    async with (
        writer(ledger, "ada", idle_s=600.0) as ada,
        writer(ledger, "bo", idle_s=600.0) as bo,
    ):
        await ada.write(b"a")
        await bo.write(b"b")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ada.write, b"b", 1.0)
            nursery.start_soon(bo.write, b"a", 1.0)
        assert trio.current_time() < 10


@on_mock_clock
async def test_who_would_wait_for_ever_is_refused_at_once_and_told_the_cycle(
    ledger: CoreLedger,
) -> None:
    """Each holds what it writes while it asks for the other's: one of them has to give way (P7)."""
    async with (
        writer(ledger, "ada", wait_s=600.0) as ada,
        writer(ledger, "bo", wait_s=600.0) as bo,
        trio.open_nursery() as nursery,
        ada.writing(b"a"),
    ):
        async with bo.writing(b"b"):
            nursery.start_soon(ada.write, b"b")
            await trio.sleep(1)
            said = await refused(bo, b"a")
            assert trio.current_time() < 5
            assert said.reason is Reason.DEADLOCK
            assert "bo waits for ada waits for bo" in said.detail
        await trio.sleep(1)
        assert not ledger.state.waiters, "the other one got what it waited for"


@on_mock_clock
async def test_what_was_claimed_by_name_is_not_given_back(ledger: CoreLedger) -> None:
    async with writer(ledger, "ada") as ada:
        await ada.write(b"f")
        answer = await ada.lessee.claim(api.claim(["f"], key="by-name", ttl_s=1000))
        ada.leases.taken_over(answer["lease"])
        await trio.sleep(100)
        assert ada.holds(b"f")


@on_mock_clock
async def test_work_that_is_not_to_be_left_lapses_with_its_lease(ledger: CoreLedger) -> None:
    async with (
        writer(ledger, "ada", keeps=False, ttl_s=30.0) as ada,
        writer(ledger, "bo") as bo,
    ):
        async with ada.writing(b"f"):
            (token,) = ada.lessee.view.by_token
            ada.dirty.add(token)
        last_s = trio.current_time()
        await trio.sleep(10)
        assert ada.holds(b"f")
        ticking = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_ticks, ledger)
            began_s = await bo.write(b"f")
            nursery.cancel_scope.cancel()
        assert ticking < began_s <= last_s + 45
        assert "taken by bo" in next(iter(ada.lessee.view.lost.values()))


async def _ticks(ledger: CoreLedger) -> None:
    while True:
        await trio.sleep(0.5)
        ledger.tick()


@on_mock_clock
async def test_once_it_is_committed_it_is_given_back(ledger: CoreLedger) -> None:
    async with writer(ledger, "ada", keeps=False, ttl_s=600.0) as ada:
        async with ada.writing(b"f"):
            ada.dirty.update(ada.lessee.view.by_token)
        await trio.sleep(50)
        assert ada.holds(b"f")
        ada.dirty.clear()
        await trio.sleep(2)
        assert not ada.holds(b"f")


@on_mock_clock
async def test_while_the_ledger_is_away_a_write_waits_for_it(ledger: CoreLedger) -> None:
    async with writer(ledger, "ada") as ada, trio.open_nursery() as nursery:
        ledger.away = True
        nursery.start_soon(ada.write, b"f", 1.0)
        await trio.sleep(20)
        assert not ada.holds(b"f"), "P12: nothing new is granted"
        ledger.away = False
        await trio.sleep(3)


@on_mock_clock
async def test_without_wait_it_is_refused_for_that(ledger: CoreLedger) -> None:
    async with writer(ledger, "ada", "claim") as ada:
        ledger.away = True
        assert (await refused(ada, b"f")).reason is Reason.UNCLAIMED


@on_mock_clock
async def test_wait_alone_claims_nothing_and_waits_for_any_lease(ledger: CoreLedger) -> None:
    async with writer(ledger, "ada", "wait", wait_s=30.0) as ada:
        said = await refused(ada, b"f")
        assert said.reason is Reason.WAITED
        assert "waited 30 s for a lease over it; claim it: leasefs claim f" in said.detail
        assert not ledger.calls_to("leases")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ada.write, b"f")
            await trio.sleep(10)
            await ada.lessee.claim(api.claim([literal_glob(b"f").text], key="k", ttl_s=60))


@on_mock_clock
async def test_a_writer_that_nobody_can_help_is_refused_as_before(ledger: CoreLedger) -> None:
    async with writer(ledger, "ada") as ada:
        root = Refused(Reason.NOT_LEASED, Op.CHMOD, b"")
        lost = Refused(Reason.LOST, Op.WRITE, b"f")
        for one, targets in ((root, [Target(b"")]), (lost, [])):
            with pytest.raises(Unobtained) as caught:
                await ada.claims.begin(1).obtain(Unsettled(one, targets))
            assert caught.value.refused is one


@on_mock_clock
async def test_where_the_share_of_files_is_capped_it_is_said(ledger: CoreLedger) -> None:
    ledger.do(SetAdmission("territory", Admission(max_share=0.5)))
    for agent, share, granted in (("ada", 0.4, True), ("bo", 0.6, False)):
        async with writer(ledger, agent) as ada:
            ada.share = share
            await ada.write(agent.encode())
            made = Refused(Reason.NOT_LEASED, Op.MKDIR, b"d")
            obtaining = ada.claims.begin(1)
            if granted:
                await obtaining.obtain(Unsettled(made, [Target(b"d")]))
                assert ada.holds(b"d/x")
            else:
                with pytest.raises(Unobtained) as caught:
                    await obtaining.obtain(Unsettled(made, [Target(b"d")]))
                assert "claim covers 60.0% of the files" in caught.value.refused.detail


@on_mock_clock
@pytest.mark.parametrize("policy", ["claim", "claim+wait"])
async def test_a_cap_on_leases_is_met_by_giving_back_what_is_idle(
    ledger: CoreLedger, policy: str
) -> None:
    ledger.do(SetAdmission("territory", Admission(max_leases=1)))
    async with writer(ledger, "ada", policy, idle_s=600.0) as ada:
        for path in (b"a", b"b", b"c"):
            await ada.write(path)
        assert not ada.holds(b"b")
        assert trio.current_time() < 5


@on_mock_clock
async def test_where_nothing_is_idle_a_write_waits_for_the_agents_own_others(
    ledger: CoreLedger,
) -> None:
    ledger.do(SetAdmission("territory", Admission(max_leases=1)))
    async with writer(ledger, "ada", idle_s=600.0, wait_s=60.0) as ada:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ada.write, b"a", 10.0)
            await trio.sleep(1)
            began_s = await ada.write(b"b")
        assert 10 <= began_s < 12
        async with ada.writing(b"c"):
            why = await refused(ada, b"d")
        assert "this territory lets one agent have 1" in why.detail
    async with writer(ledger, "bo", "claim", idle_s=600.0) as bo, bo.writing(b"x"):
        assert "lets one agent have 1" in (await refused(bo, b"y")).detail
