"""P4, P5: what must lapse lapses in time, what is renewed does not, and nothing looks at everything."""

from __future__ import annotations

import asyncio
from typing import Any

from leasefs.core.commands import Beat, ClaimLease, Heartbeat, OpenSession, ReleaseLease
from leasefs.core.renewal import KEEP_LAPSED_S
from leasefs.core.views import SESSION_TTL_S
from leasefs.service.timers import AT_ONCE, SPARE_ENTRIES, Timers
from leasefs.store.errors import StoreFull
from leasefs.store.memory import MemoryStore


def _open(name: str) -> Any:
    return OpenSession(f"session-{name}", "0" * 64, name, "h", "t", "shell", "host", 1)


def _claim(name: str, glob: str, ttl_s: float, key: str = "k", wait: bool = False) -> Any:
    return ClaimLease(f"session-{name}", key, (glob,), ttl_s=ttl_s, wait=wait)


def _beat(name: str, answer: Any) -> Any:
    return Heartbeat(f"session-{name}", (Beat(answer.lease, answer.token),))


async def _claimed(ledger: Any, *args: Any, **kwargs: Any) -> Any:
    return (await ledger.writer.submit(_claim(*args, **kwargs))).answer


def test_a_lease_lapses_at_its_deadline_and_not_before(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            await ledger.writer.submit(_open("a"))
            lease = await _claimed(ledger, "a", "src/**", 60.0)
            ledger.clock.advance(59.9)
            await ledger.timers.look()
            assert not ledger.writer.durable.leases[lease.lease].lapse_recorded
            ledger.clock.advance(0.1)
            await ledger.timers.look()
            assert ledger.writer.durable.leases[lease.lease].lapse_recorded

    asyncio.run(main())


def test_a_renewed_lease_lapses_at_its_new_deadline(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            await ledger.writer.submit(_open("a"))
            lease = await _claimed(ledger, "a", "src/**", 60.0)
            ledger.clock.advance(50.0)
            await ledger.writer.submit(_beat("a", lease))
            ledger.clock.advance(50.0)
            await ledger.timers.look()
            assert not ledger.writer.durable.leases[lease.lease].lapse_recorded
            ledger.clock.advance(10.0)
            await ledger.timers.look()
            assert ledger.writer.durable.leases[lease.lease].lapse_recorded

    asyncio.run(main())


def test_a_deadline_that_moves_earlier_is_met(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            await ledger.writer.submit(_open("a"))
            lease = await _claimed(ledger, "a", "src/**", 3600.0)
            ledger.timers._push(("lease", lease.lease), ledger.clock.now_s() + 5.0)
            assert ledger.timers._heap[0][0] == ledger.clock.now_s() + 5.0
            ledger.clock.advance(5.0)
            await ledger.timers.look()
            assert not ledger.writer.durable.leases[lease.lease].lapse_recorded
            ledger.clock.advance(3595.0)
            await ledger.timers.look()
            assert ledger.writer.durable.leases[lease.lease].lapse_recorded

    asyncio.run(main())


def test_a_waiter_gets_the_ground_when_the_lease_lapses(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            await ledger.writer.submit(_open("a"))
            await ledger.writer.submit(_open("b"))
            await _claimed(ledger, "a", "src/**", 10.0)
            waiter = await _claimed(ledger, "b", "src/x", 60.0, wait=True)
            assert waiter.state == "waiting"
            ledger.clock.advance(10.0)
            await ledger.timers.look()
            assert ledger.writer.durable.leases[waiter.lease].claim.agent == "b"

    asyncio.run(main())


def test_a_lapsed_lease_comes_back_and_lapses_again(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            await ledger.writer.submit(_open("a"))
            lease = await _claimed(ledger, "a", "src/**", 10.0)
            for _ in range(3):
                ledger.clock.advance(10.0)
                await ledger.timers.look()
                assert ledger.writer.durable.leases[lease.lease].lapse_recorded
                kept = (await ledger.writer.submit(_beat("a", lease))).answer
                assert kept.renewed[0].token == lease.token
                assert not ledger.writer.durable.leases[lease.lease].lapse_recorded

    asyncio.run(main())


def test_a_lapsed_lease_is_forgotten_after_long(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            await ledger.writer.submit(_open("a"))
            await _claimed(ledger, "a", "src/**", 10.0)
            ledger.clock.advance(10.0)
            await ledger.timers.look()
            ledger.clock.advance(KEEP_LAPSED_S + 1)
            await ledger.timers.look()
            assert len(ledger.writer.durable.leases) == 0
            ledger.clock.advance(KEEP_LAPSED_S + 1)
            await ledger.timers.look()
            assert len(ledger.writer.durable.sessions) == 0
            assert ledger.timers._due == {}

    asyncio.run(main())


def test_a_silent_session_leaves_the_queue_again_and_again(serving: Any) -> None:
    """It falls silent, comes back, and falls silent once more: each time its waiters go."""

    async def main() -> None:
        async with serving() as ledger:
            await ledger.writer.submit(_open("a"))
            await ledger.writer.submit(_open("b"))
            await _claimed(ledger, "a", "src/**", 24 * 3600.0)
            for round_ in range(3):
                await ledger.writer.submit(Heartbeat("session-b"))
                waiter = await _claimed(ledger, "b", "src/x", 60.0, key=f"k{round_}", wait=True)
                assert waiter.lease in ledger.writer.durable.waiters
                ledger.clock.advance(SESSION_TTL_S + 0.1)
                await ledger.timers.look()
                assert waiter.lease not in ledger.writer.durable.waiters

    asyncio.run(main())


def test_a_session_that_was_silent_before_it_queued_is_watched_again(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            await ledger.writer.submit(_open("a"))
            await ledger.writer.submit(_open("b"))
            await _claimed(ledger, "a", "src/**", 3600.0)
            ledger.clock.advance(SESSION_TTL_S * 3)
            await ledger.timers.look()
            waiting = await _claimed(ledger, "b", "src/x", 60.0, wait=True)
            assert waiting.state == "waiting"
            ledger.clock.advance(SESSION_TTL_S + 1)
            await ledger.timers.look()
            assert waiting.lease not in ledger.writer.durable.waiters

    asyncio.run(main())


def test_thousands_due_at_once_come_in_portions(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            await ledger.writer.submit(_open("a"))
            count = AT_ONCE * 2 + 10
            await asyncio.gather(
                *(
                    ledger.writer.submit(_claim("a", f"p{n}/**", 10.0, f"k{n}"))
                    for n in range(count)
                )
            )
            ledger.clock.advance(10.0)
            await ledger.timers.look()
            assert all(lease.lapse_recorded for lease in ledger.writer.durable.leases.values())
            assert len(ledger.timers._heap) == count + 1

    asyncio.run(main())


def test_what_ended_does_not_fill_the_heap(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            await ledger.writer.submit(_open("a"))
            kept = await _claimed(ledger, "a", "kept/**", 10.0)
            for number in range(2 * SPARE_ENTRIES):
                lease = await _claimed(ledger, "a", f"p{number}/**", 3600.0, key=f"k{number}")
                await ledger.writer.submit(ReleaseLease("session-a", f"r{number}", lease.lease))
            assert len(ledger.timers._heap) <= SPARE_ENTRIES + 10
            assert set(ledger.timers._due) == {("lease", kept.lease), ("session", "session-a")}
            ledger.clock.advance(10.0)
            await ledger.timers.look()
            assert ledger.writer.durable.leases[kept.lease].lapse_recorded

    asyncio.run(main())


def test_deadlines_of_a_recovered_state_are_known(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            await ledger.writer.submit(_open("a"))
            lease = await _claimed(ledger, "a", "src/**", 10.0)
            later = Timers(ledger.writer)
            ledger.clock.advance(10.0)
            await later.look()
            assert ledger.writer.durable.leases[lease.lease].lapse_recorded

    asyncio.run(main())


def test_a_store_that_fails_delays_deadlines_and_loses_none(serving: Any) -> None:
    class Failing(MemoryStore):
        error = None

        def append(self, after_seq: int, data: Any) -> Any:
            if self.error:
                raise self.error
            return super().append(after_seq, data)

    async def main() -> None:
        store = Failing()
        async with serving(store) as ledger:
            await ledger.writer.submit(_open("a"))
            lease = await _claimed(ledger, "a", "src/**", 10.0)
            ledger.clock.advance(10.0)
            store.error = StoreFull("/ledger")
            await ledger.timers.look()
            assert not ledger.writer.durable.leases[lease.lease].lapse_recorded
            store.error = None
            ledger.clock.advance(2.0)
            await ledger.timers.look()
            assert ledger.writer.durable.leases[lease.lease].lapse_recorded

    asyncio.run(main())


def test_the_loop_wakes_for_an_earlier_deadline(serving: Any, until: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            task = asyncio.create_task(ledger.timers.run())
            await ledger.writer.submit(_open("a"))
            lease = await _claimed(ledger, "a", "src/**", 1.0)
            ledger.clock.advance(1.0)
            await ledger.writer.submit(_open("b"))  # something happens, so the loop looks
            await until(lambda: ledger.writer.durable.leases[lease.lease].lapse_recorded)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
