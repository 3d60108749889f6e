"""/v1/fresh, without sockets."""

from __future__ import annotations

import asyncio
from typing import Any

from leasefs.core.state import State
from leasefs.service import snapshot
from leasefs.service.snapshot import Saved

SUCCESS = {
    "territory": "t",
    "key": "lint",
    "content": "a" * 64,
    "command": "b" * 64,
    "globs": ["src/**", "\udcff"],
    "files": 2,
    "agent": "ada",
    "host": "here",
    "took_s": 1.5,
}


def test_recorded_asked_for_and_kept_in_a_snapshot(serving: Any) -> None:
    async def main() -> State:
        async with serving() as ledger:
            reply = await ledger.client.ask("POST", "/v1/fresh", SUCCESS)
            assert (reply.status, reply.json) == (201, {**SUCCESS, "ago_s": 0.0})
            ledger.clock.advance(5.0)
            for query in ("territory=t", "territory=t&key=lint"):
                reply = await ledger.client.ask("GET", f"/v1/fresh?{query}")
                assert reply.json == {"fresh": [{**SUCCESS, "ago_s": 5.0}]}
            for query in ("territory=u", "territory=t&key=types"):
                reply = await ledger.client.ask("GET", f"/v1/fresh?{query}")
                assert reply.json == {"fresh": []}
            events = await ledger.client.ask("GET", "/v1/events?territory=t&types=fresh-recorded")
            assert [one["event"]["fresh"]["key"] for one in events.json["events"]] == ["lint"]
            state = ledger.writer.durable
            assert isinstance(state, State)
            return state

    state = asyncio.run(main())
    read = snapshot.read(snapshot.written(Saved(state, None))).state
    assert read.fresh == state.fresh


def test_what_does_not_fit_is_refused(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            for wrong in ({"key": ""}, {"took_s": -1}, {"files": "2"}, {"who": "ada"}):
                reply = await ledger.client.ask("POST", "/v1/fresh", {**SUCCESS, **wrong})
                assert reply.status == 400, wrong
            assert (await ledger.client.ask("GET", "/v1/fresh")).status == 400

    asyncio.run(main())
