"""A follower gets every event once, in order, from wherever it begins."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import threading
from typing import Any

import pytest

from leasefs.core.commands import ClaimLease, OpenSession, ReleaseLease
from leasefs.service.stream import ANSWER_BYTES, StreamClosed, Wanted
from leasefs.store.memory import MemoryStore


def _open(name: str) -> Any:
    return OpenSession(f"session-{name}", "0" * 64, name, "h", "t", "shell", "host", 1)


def _claim(name: str, glob: str, key: str) -> Any:
    return ClaimLease(f"session-{name}", key, (glob,))


_numbers = itertools.count()


async def _pairs(ledger: Any, name: str, count: int) -> None:
    for number in itertools.islice(_numbers, count):
        granted = await ledger.writer.submit(_claim(name, f"{name}/**", f"c{number}"))
        await ledger.writer.submit(
            ReleaseLease(f"session-{name}", f"r{number}", granted.answer.lease)
        )


async def _collect(follower: Any, upto: int) -> Any:
    seqs = []
    while not seqs or seqs[-1] < upto:
        seqs += [record.seq for record in await follower.next()]
    return seqs


@pytest.mark.parametrize("after", [0, 1, 7, 20, 41])
def test_from_any_number_on_nothing_is_missed_and_nothing_comes_twice(
    serving: Any, after: int
) -> None:
    async def main() -> None:
        async with serving() as ledger:
            await ledger.writer.submit(_open("a"))
            await _pairs(ledger, "a", 20)
            follower = ledger.hub.follow(Wanted(), after)
            going_on = asyncio.create_task(_pairs(ledger, "a", 60))
            async with asyncio.timeout(20):
                seqs = await _collect(follower, 41 + 60)
            await going_on
            assert seqs == list(range(after + 1, seqs[-1] + 1))

    asyncio.run(main())


def test_events_that_come_while_the_store_is_read_are_neither_lost_nor_doubled(
    serving: Any,
) -> None:
    class SlowReads(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.let_read = threading.Semaphore(0)

        def read(self, after_seq: int, limit: int) -> Any:
            found = super().read(after_seq, limit)
            assert self.let_read.acquire(timeout=20)
            return found

    async def main() -> None:
        store = SlowReads()
        async with serving(store) as ledger:
            await ledger.writer.submit(_open("a"))
            await _pairs(ledger, "a", 5)
            follower = ledger.hub.follow(Wanted(), 0)
            reading = asyncio.create_task(_collect(follower, 31))
            await asyncio.sleep(0)
            await _pairs(ledger, "a", 5)  # durable while the first page is on its way
            store.let_read.release(50)
            await _pairs(ledger, "a", 5)
            async with asyncio.timeout(20):
                assert await reading == list(range(1, 32))

    asyncio.run(main())


def test_a_follower_that_lags_reads_what_it_missed_from_the_store(serving: Any) -> None:
    async def main() -> None:
        async with serving(buffered_events=4) as ledger:
            await ledger.writer.submit(_open("a"))
            follower = ledger.hub.follow(Wanted(), 0)
            assert [record.seq for record in await follower.next()] == [1]
            await _pairs(ledger, "a", 50)
            assert len(follower._buffer) <= 4
            async with asyncio.timeout(20):
                assert await _collect(follower, 101) == list(range(2, 102))

    asyncio.run(main())


def test_many_followers_at_random_speeds_all_see_the_same_log(serving: Any) -> None:
    async def slow(follower: Any, upto: int, chance: random.Random) -> Any:
        seqs = []
        while not seqs or seqs[-1] < upto:
            seqs += [record.seq for record in await follower.next()]
            for _ in range(chance.randrange(12)):
                await asyncio.sleep(0)
        return seqs

    async def main() -> None:
        async with serving(buffered_events=7) as ledger:
            names = [f"agent-{number}" for number in range(5)]
            for name in names:
                await ledger.writer.submit(_open(name))
            total = 5 + 5 * 2 * 40
            starts = [0, 0, 3, 5, 2, 4]
            followers = [ledger.hub.follow(Wanted(), after) for after in starts]
            reading = [
                asyncio.create_task(slow(follower, total, random.Random(number)))
                for number, follower in enumerate(followers)
            ]
            await asyncio.gather(*(_pairs(ledger, name, 40) for name in names))
            async with asyncio.timeout(30):
                for after, task in zip(starts, reading, strict=True):
                    assert await task == list(range(after + 1, total + 1))

    asyncio.run(main())


def test_only_what_is_wanted_comes_from_the_store_as_from_the_buffer(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            for name in ("a", "b"):
                await ledger.writer.submit(_open(name))
                await _pairs(ledger, name, 3)
            wanted = Wanted(session="session-b", types=frozenset({"granted", "released"}))
            follower = ledger.hub.follow(wanted, 0)
            first = await follower.next()
            assert [record.type for record in first] == ["granted", "released"] * 3
            assert {record.session for record in first} == {"session-b"}
            await _pairs(ledger, "a", 3)
            await _pairs(ledger, "b", 1)
            assert [record.type for record in await follower.next()] == ["granted", "released"]
            assert follower.position == ledger.hub.head
            ledger.hub.leave(follower)
            assert ledger.hub._of_session == {}

    asyncio.run(main())


def test_giving_up_while_waiting_loses_nothing(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            await ledger.writer.submit(_open("a"))
            follower = ledger.hub.follow(Wanted(), 0)
            assert len(await follower.next()) == 1
            seqs = []
            going_on = asyncio.create_task(_pairs(ledger, "a", 100))
            while not seqs or seqs[-1] < 201:
                try:
                    async with asyncio.timeout(0.0005):
                        seqs += [record.seq for record in await follower.next()]
                except TimeoutError:
                    continue
            await going_on
            assert seqs == list(range(2, 202))

    asyncio.run(main())


def test_the_streams_end_when_the_server_stops(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            await ledger.writer.submit(_open("a"))
            follower = ledger.hub.follow(Wanted(), 1)
            waiting = asyncio.create_task(follower.next())
            long_poll = asyncio.create_task(ledger.hub.until("L1", lambda state: False, 300.0))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            ledger.hub.close()
            with pytest.raises(StreamClosed):
                await waiting
            async with asyncio.timeout(5):
                await long_poll

    asyncio.run(main())


async def _streamed(ledger: Any, path: str, headers: Any = (), upto: int = 1) -> Any:
    """Ask for a stream and read it until `upto` events have come, then leave."""
    text, gone = [], asyncio.Event()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200
            assert (b"content-type", b"text/event-stream; charset=utf-8") in message["headers"]
        text.append(message.get("body", b"").decode())
        if "".join(text).count("\ndata: ") >= upto:
            gone.set()

    asked = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        if asked:
            return asked.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    scope = ledger.client._scope("GET", path, dict(headers))
    async with asyncio.timeout(20):
        await ledger.app(scope, receive, send)
    blocks = [block.split("\n") for block in "".join(text).split("\n\n") if "data: " in block]
    return [
        (int(id_.removeprefix("id: ")), kind.removeprefix("event: "), json.loads(data[6:]))
        for id_, kind, data in blocks
    ]


def test_server_sent_events_resume_from_after_and_from_last_event_id(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            agent = await ledger.agent("a")
            await agent.ask("POST", "/v1/leases", {"key": "k", "globs": ["src/**"]})
            await agent.ask("DELETE", "/v1/leases/L2?key=r")
            whole = await _streamed(ledger, "/v1/events?follow=1", upto=3)
            assert [(seq, kind) for seq, kind, _ in whole] == [
                (1, "session-opened"),
                (2, "granted"),
                (3, "released"),
            ]
            assert whole[1][2]["event"]["claim"]["globs"] == ["src/**"]
            accept = {"accept": "text/event-stream"}
            assert await _streamed(ledger, "/v1/events?after=2", accept) == whole[2:]
            resumed = await _streamed(
                ledger, "/v1/events?follow=1&after=0", {"last-event-id": "1"}, upto=2
            )
            assert resumed == whole[1:]
            assert ledger.hub._of_all == set()

    asyncio.run(main())


def test_a_stream_from_beyond_the_end_is_refused(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            for path, headers in (
                ("/v1/events?follow=1&after=5", {}),
                ("/v1/events?follow=1", {"last-event-id": "7"}),
                ("/v1/events?follow=1", {"last-event-id": "x"}),
                ("/v1/events?follow=1", {"last-event-id": "-1"}),
                ("/v1/events?follow=1", {"last-event-id": "9" * 40}),
            ):
                reply = await ledger.client.ask("GET", path, headers=headers)
                assert (reply.status, reply.code) == (400, "invalid")

    asyncio.run(main())


def test_a_client_that_takes_nothing_is_cut_off(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ledger.app._stall_s = 0.02
            await ledger.writer.submit(_open("a"))
            cut = asyncio.Event()

            async def send(message: Any) -> None:
                if message["type"] == "http.response.body":
                    await asyncio.Event().wait()

            async def receive() -> Any:
                await asyncio.Event().wait()

            scope = ledger.client._scope("GET", "/v1/events?follow=1", {})
            connection = scope["state"]["connection"]
            scope["state"]["connection"] = type(connection)(connection.uid, 1, cut.set)
            asked = [{"type": "http.request", "body": b""}]
            async with asyncio.timeout(10):
                await ledger.app(scope, lambda: _first(asked, receive), send)
            assert cut.is_set()
            assert ledger.hub._of_all == set()

    async def _first(asked: Any, receive: Any) -> Any:
        return asked.pop() if asked else await receive()

    asyncio.run(main())


def test_pages_of_the_history(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            agent = await ledger.agent("a")
            await _pairs(ledger, "a", 30)
            page = (await agent.ask("GET", "/v1/events?after=10&limit=5")).json
            assert [item["seq"] for item in page["events"]] == [11, 12, 13, 14, 15]
            assert (page["head"], page["next"]) == (61, 15)
            rare = (await agent.ask("GET", "/v1/events?types=session-opened&limit=5")).json
            assert [item["seq"] for item in rare["events"]] == [1]
            assert rare["next"] == 61
            assert (await agent.ask("GET", "/v1/events?after=99")).json["events"] == []
            assert (await agent.ask("GET", "/v1/events?types=nonsense")).code == "invalid"

    asyncio.run(main())


def test_a_page_is_no_longer_than_one_answer_may_be(serving: Any) -> None:
    """What a reader does not take is kept for it: so much at a time, and `next` says where to go on."""

    async def main() -> None:
        async with serving() as ledger:
            agent = await ledger.agent("ann")
            refusal = {
                "path": "p" * 16_000,
                "op": "open",
                "reason": "r",
                "errno": "EACCES",
                "pid": 1,
                "program": "p",
                "wall_s": 1.0,
            }
            for _ in range(5):
                body = {"refusals": [refusal] * 40}
                assert (await agent.ask("POST", "/v1/refusals", body)).status == 200
            after, pages = 0, []
            while after < ledger.writer.durable.seq:
                reply = await agent.ask("GET", f"/v1/events?after={after}&limit=10000")
                assert len(reply.body) < 3 * ANSWER_BYTES
                pages.append([item["seq"] for item in reply.json["events"]])
                after = reply.json["next"]
            assert len(pages) > 1
            assert [seq for page in pages for seq in page] == list(range(1, after + 1))

    asyncio.run(main())
