"""P11: the state at any number can be replayed from the log, while the ledger goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasefs.core.commands import ClaimLease
from leasefs.core.errors import InvalidRequest
from leasefs.core.state import State, apply
from leasefs.service import snapshot
from leasefs.service.entries import record_of
from leasefs.service.history import PAGE, Abandoned, History, last_up_to
from leasefs.service.recovery import recover
from leasefs.service.snapshot import Saved
from leasefs.store.errors import StoreError
from leasefs.store.memory import MemoryStore
from leasefs.store.port import Snapshot
from leasefs.testing.command_histories import SESSIONS, decisions, histories, open_command


def fields(state: State) -> Any:
    return {name: getattr(state, name) for name in state.__struct_fields__}


def recorded(history: Any) -> tuple[MemoryStore, list[State]]:
    """A log of that history, and the state that the live ledger had after each of its events."""
    store, states = MemoryStore(), [State()]
    for before, decision in decisions(history):
        for event in decision.events:
            wall_s = 1000.0 + event.at_s
            store.append(event.seq - 1, [record_of(event, before, decision.state, wall_s).data])
            states.append(apply(states[-1], event))
        assert fields(states[-1]) == fields(decision.state)
    return store, states


async def forever() -> None:
    await asyncio.Event().wait()


OPENED = [(open_command(0), 0.0), (open_command(1), 0.0)]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories, st.lists(st.integers(0, 100), max_size=4), st.integers(0, 100))
def test_the_state_at_every_number_is_what_the_live_ledger_had(
    history: Any, saved_at: list[int], dropped: int
) -> None:
    """From whatever snapshots there are, and after old events were dropped."""
    store, states = recorded([*OPENED, *history])
    head = store.head()
    for seq in {seq % (head + 1) for seq in saved_at}:
        store.save_snapshot(Snapshot(seq, snapshot.written(Saved(states[seq], None))))
    kept = store.snapshots()
    if len(kept) > 1:
        upto_seq = kept[: len(kept) - 1][dropped % (len(kept) - 1)]
        store.drop(upto_seq, 1_000)
    past = History(store, breath_s=0.0)
    for seq in range(head + 1):
        if seq < store.base():
            with pytest.raises(InvalidRequest, match="states are known from"):
                past.replayed(seq)
        else:
            moment = past.replayed(seq)
            assert moment.seq == seq
            assert fields(moment.state) == fields(states[seq])
            assert seq == 0 or seq == store.base() or moment.wall_s == 1000.0 + moment.at_s
    assert fields(recover(store).state) == fields(states[-1])
    with pytest.raises(InvalidRequest, match=f"ends at {head}"):
        past.replayed(head + 1)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.0, 9.0), min_size=1, max_size=12), st.floats(-1.0, 120.0))
def test_the_last_event_up_to_a_time_is_found(passed: list[float], asked_s: float) -> None:
    store, states = recorded([(open_command(0), one) for one in passed])
    walls = [1000.0 + state.at_s for state in states[1:]]
    assert last_up_to(store, 1000.0 + asked_s) == sum(wall <= 1000.0 + asked_s for wall in walls)


def test_an_unreadable_snapshot_is_passed_over_as_long_as_there_are_events() -> None:
    """Of a log whose beginning was dropped an older snapshot serves; without any the ledger must not begin empty."""
    claims = [(ClaimLease(SESSIONS[0], str(n), (f"a/{n}",)), 1.0) for n in range(6)]
    store, states = recorded([*OPENED, *claims])
    for seq, data in ((4, None), (6, b"{}"), (8, b"\xff")):
        written = snapshot.written(Saved(states[seq], None)) if data is None else data
        store.save_snapshot(Snapshot(seq, written))
    store.drop(4, 100)
    assert fields(recover(store).state) == fields(states[-1])
    store.save_snapshot(Snapshot(4, b"{}"))
    with pytest.raises(StoreError, match="no state after them can be read"):
        recover(store)


def test_a_replay_that_nobody_waits_for_ends() -> None:
    claims = [(ClaimLease(SESSIONS[0], str(n), (f"a/{n}",)), 1.0) for n in range(300)]
    store, _ = recorded([*OPENED, *claims])
    with pytest.raises(Abandoned):
        History(store, breath_s=0.0).replayed(300, lambda: True)


def test_the_loop_goes_on_while_a_state_is_replayed() -> None:
    """Once for each page at least, whoever waits on it."""
    claims = [(ClaimLease(SESSIONS[0], str(n), (f"a/{n}",)), 1.0) for n in range(500)]
    store, _ = recorded([*OPENED, *claims])
    turns = 0

    async def turning() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def main() -> None:
        task = asyncio.create_task(turning())
        await asyncio.sleep(0)
        before = turns
        moment = await History(store).at(500)
        assert moment.seq == 500
        assert turns - before >= 500 // PAGE
        task.cancel()

    asyncio.run(main())


def test_the_route_tells_what_held(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            one = await ledger.agent("one")
            claimed = (await one.ask("POST", "/v1/leases", {"key": "k", "globs": ["a/**"]})).json
            token = claimed["token"]
            await one.ask("DELETE", f"/v1/leases/{claimed['lease']}?key=r")

            async def ask(path: str) -> Any:
                return await ledger.client.ask("GET", path, stay=forever)

            then = (await ask(f"/v1/history/{token}")).json
            assert then["seq"] == token
            assert [lease["lease"] for lease in then["leases"]] == [claimed["lease"]]
            assert [session["agent"] for session in then["sessions"]] == ["one"]
            assert (await ask(f"/v1/history/{token}?territory=other")).json["leases"] == []
            only = (await ask(f"/v1/history/{token}?parts=waiters")).json
            assert (only["leases"], only["sessions"]) == ([], [])
            assert (await ask(f"/v1/history/{token + 1}")).json["leases"] == []
            assert (await ask("/v1/history/0")).json["sessions"] == []
            for wrong in ("/v1/history/99", "/v1/history/x", "/v1/history/-1"):
                assert (await ask(wrong)).status == 400, wrong
            assert (await ask(f"/v1/history/{token}?parts=leases,trees")).status == 400
            extent = (await ask("/v1/history")).json
            assert extent["head"] == token + 1
            assert (extent["base"], extent["states_from"], extent["at"]) == (0, 0, None)
            assert (await ask("/v1/history?wall_s=1")).json["at"] == 0
            assert (await ask("/v1/history?wall_s=99999999999")).json["at"] == token + 1

    asyncio.run(main())


def test_events_and_states_after_old_ones_were_dropped(serving: Any) -> None:
    """Who asks for what is gone is given what there is, and told where that begins."""
    claims = [(ClaimLease(SESSIONS[0], str(n), (f"a/{n}",)), 1.0) for n in range(20)]
    store, states = recorded([*OPENED, *claims])
    for seq in (10, 15):
        store.save_snapshot(Snapshot(seq, snapshot.written(Saved(states[seq], None))))
    store.drop(10, 100)

    async def main() -> None:
        async with serving(store, states[-1]) as ledger:
            page = (await ledger.client.ask("GET", "/v1/events?after=3&limit=2")).json
            assert [event["seq"] for event in page["events"]] == [11, 12]
            assert (page["base"], page["next"]) == (10, 12)
            gone = await ledger.client.ask("GET", "/v1/history/9", stay=forever)
            assert gone.status == 400
            assert gone.json["error"]["details"]["states_from"] == 10

    asyncio.run(main())
