"""Nobody is answered before their event is durable, and nothing that failed has happened."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from leasefs.core.commands import ClaimLease, OpenSession, ReleaseLease
from leasefs.core.errors import LedgerUnavailable
from leasefs.core.ledger import decide
from leasefs.service.entries import record_of
from leasefs.service.recovery import recover
from leasefs.store.errors import StoreFull, StoreUnavailable
from leasefs.store.memory import MemoryStore


class GatedStore(MemoryStore):
    """Holds every append until it is let through; may then fail it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)
        self.fail: Exception | None = None
        self.groups: list[int] = []

    def append(self, after_seq: int, data: Any) -> Any:
        self.begun.release()
        assert self.gate.acquire(timeout=20)
        if self.fail is not None:
            raise self.fail
        self.groups.append(len(data))
        return super().append(after_seq, data)


class FailingStore(MemoryStore):
    error: Exception | None = None

    def append(self, after_seq: int, data: Any) -> Any:
        if self.error is not None:
            raise self.error
        return super().append(after_seq, data)


def _open(name: str) -> Any:
    return OpenSession(f"session-{name}", "0" * 64, name, "h", "t", "shell", "host", 1)


def _claim(name: str, glob: str, key: str = "k") -> Any:
    return ClaimLease(f"session-{name}", key, (glob,))


async def _begun(store: Any) -> None:
    assert await asyncio.to_thread(store.begun.acquire, timeout=20)


async def _turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_an_answer_comes_only_after_the_append_returned(serving: Any) -> None:
    async def main() -> None:
        store = GatedStore()
        async with serving(store) as ledger:
            heard = []
            ledger.writer.listen(lambda records, state: heard.append(state.seq))
            answer = ledger.writer.submit(_open("a"))
            await _begun(store)
            await _turns()
            assert not answer.done()
            assert heard == []
            assert ledger.writer.durable.seq == 0
            store.gate.release()
            assert (await answer).error is None
            assert heard == [1]
            assert ledger.writer.durable.seq == 1

    asyncio.run(main())


def test_what_gathers_during_an_append_becomes_durable_in_one(serving: Any) -> None:
    async def main() -> None:
        store = GatedStore()
        async with serving(store) as ledger:
            first = ledger.writer.submit(_open("a"))
            await _begun(store)
            rest = [ledger.writer.submit(_open(f"b{number}")) for number in range(50)]
            store.gate.release(2)
            await asyncio.gather(first, *rest)
            assert store.groups == [1, 50]

    asyncio.run(main())


def test_a_request_that_changes_nothing_waits_for_what_it_saw(serving: Any) -> None:
    """A second claim under the same key would reveal the first, which is not durable yet."""

    async def main() -> None:
        store = GatedStore()
        async with serving(store) as ledger:
            opened = ledger.writer.submit(_open("a"))
            await _begun(store)
            again = ledger.writer.submit(_open("a"))
            await _turns()
            assert not again.done()
            store.gate.release()
            assert (await again).answer.session == (await opened).answer.session
            assert store.groups == [1]

    asyncio.run(main())


def test_a_full_disk_fails_the_group_and_nothing_else(serving: Any) -> None:
    async def main() -> None:
        store = FailingStore()
        async with serving(store) as ledger:
            await ledger.writer.submit(_open("a"))
            before = ledger.writer.durable
            store.error = StoreFull("/ledger")
            failing = [ledger.writer.submit(_claim("a", f"p{number}/**")) for number in range(3)]
            for result in await asyncio.gather(*failing, return_exceptions=True):
                assert isinstance(result, LedgerUnavailable)
                assert "no space left" in result.message
                assert "nothing was recorded" in result.message
            assert ledger.writer.durable is before
            store.error = None
            granted = await ledger.writer.submit(_claim("a", "p0/**"))
            assert granted.answer.state == "granted"
            assert recover(store).state.seq == ledger.writer.durable.seq == 2

    asyncio.run(main())


def test_what_gathered_behind_a_failed_group_is_decided_again(serving: Any) -> None:
    """B's claim was refused because of A's grant; the grant never happened, so B's stands."""

    async def main() -> None:
        store = GatedStore()
        async with serving(store) as ledger:
            opened = [ledger.writer.submit(_open("a")), ledger.writer.submit(_open("b"))]
            store.gate.release()
            await asyncio.gather(*opened)
            await _begun(store)
            grant = ledger.writer.submit(_claim("a", "src/**"))
            await _begun(store)
            other = ledger.writer.submit(_claim("b", "src/x"))
            store.fail = StoreUnavailable("/ledger", "I/O error", "check the disk")
            store.gate.release()
            with pytest.raises(LedgerUnavailable):
                await grant
            store.fail = None
            store.gate.release()
            decision = await other
            assert decision.error is None
            assert decision.answer.state == "granted"
            assert [claim.claim.agent for claim in ledger.writer.durable.leases.values()] == ["b"]

    asyncio.run(main())


def test_an_append_whose_outcome_is_unknown_says_so_and_is_settled_by_the_next(
    serving: Any,
) -> None:
    class Unsure(FailingStore):
        def append(self, after_seq: int, data: Any) -> Any:
            if self.error is not None:
                MemoryStore.append(self, after_seq, data)
            return super().append(after_seq, data)

    async def main() -> None:
        store = Unsure()
        async with serving(store) as ledger:
            await ledger.writer.submit(_open("a"))
            store.error = StoreUnavailable("/ledger", "I/O error", "restart", happened=None)
            with pytest.raises(LedgerUnavailable, match="not known"):
                await ledger.writer.submit(_claim("a", "src/**"))
            store.error = None
            again = await ledger.writer.submit(_claim("a", "src/**"))
            assert again.answer.state == "granted"
            assert len(ledger.writer.durable.leases) == 1
            assert ledger.writer.durable.seq == 2

    asyncio.run(main())


def test_another_servers_append_is_caught_up_with_and_all_is_decided_again(serving: Any) -> None:
    async def main() -> None:
        store = MemoryStore()
        async with serving(store) as ledger:
            await asyncio.gather(ledger.writer.submit(_open("a")), ledger.writer.submit(_open("b")))
            heard = []
            ledger.writer.listen(lambda records, state: heard.extend(r.seq for r in records))
            foreign = decide(ledger.writer.durable, _claim("b", "src/**"), 2000.0)
            for recorded in foreign.events:
                record = record_of(recorded, ledger.writer.durable, foreign.state, 0.0)
                store.append(recorded.seq - 1, [record.data])
            mine = ledger.writer.submit(_claim("a", "src/x"))
            free = ledger.writer.submit(_claim("a", "docs/**", "k2"))
            refused, granted = await asyncio.gather(mine, free)
            assert refused.error.code == "conflict"
            assert granted.answer.state == "granted"
            assert heard == list(range(3, store.head() + 1))
            assert recover(store).state.seq == ledger.writer.durable.seq

    asyncio.run(main())


def test_a_command_that_breaks_our_code_fails_alone(
    serving: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving() as ledger:
            broken = ledger.writer.submit(object())
            fine = ledger.writer.submit(_open("a"))
            with pytest.raises(KeyError):
                await broken
            assert (await fine).error is None

    asyncio.run(main())
    assert "deciding object failed" in caplog.text


def test_a_caller_that_gave_up_does_not_hurt_the_others(serving: Any) -> None:
    async def main() -> None:
        store = GatedStore()
        async with serving(store) as ledger:
            gone = ledger.writer.submit(_open("a"))
            stays = ledger.writer.submit(_open("b"))
            await _begun(store)
            gone.cancel()
            store.gate.release()
            assert (await stays).error is None
            assert len(ledger.writer.durable.sessions) == 2

    asyncio.run(main())


def test_many_at_once_keep_the_log_and_the_state_one(serving: Any) -> None:
    async def worker(ledger: Any, name: str) -> None:
        await ledger.writer.submit(_open(name))
        for number in range(30):
            granted = await ledger.writer.submit(_claim(name, "shared/**", f"c{number}"))
            if granted.error is None:
                await ledger.writer.submit(
                    ReleaseLease(f"session-{name}", f"r{number}", granted.answer.lease)
                )

    async def main() -> None:
        async with serving() as ledger:
            await asyncio.gather(*(worker(ledger, f"agent-{number}") for number in range(20)))
            again = recover(ledger.store).state
            assert again.seq == ledger.writer.durable.seq == ledger.store.head()
            assert again.sessions == ledger.writer.durable.sessions
            assert len(again.leases) == 0

    asyncio.run(main())
