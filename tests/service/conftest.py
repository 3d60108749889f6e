"""A ledger in this process: memory store, fake clock, and every part within reach."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core.state import State
from leasefs.service.app import LedgerApp
from leasefs.service.context import Ledger
from leasefs.service.limits import Limiter, Limits
from leasefs.service.stream import StreamHub
from leasefs.service.timers import Timers
from leasefs.service.writer import LedgerWriter
from leasefs.store.memory import MemoryStore
from leasefs.testing.asgi import AsgiClient
from leasefs.testing.clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

SECRET = "x" * 40


@dataclass
class Running:
    store: Any
    clock: FakeClock
    writer: LedgerWriter
    hub: StreamHub
    timers: Timers
    app: LedgerApp

    @property
    def client(self) -> AsgiClient:
        """A caller without a session."""
        return AsgiClient(self.app)

    async def agent(self, name: str, **fields: object) -> AsgiClient:
        """A caller with an open session."""
        session = f"session-{name}"
        body = {
            "session": session,
            "secret": SECRET,
            "agent": name,
            "harness": "h",
            "territory": "t",
            "kind": "shell",
            "host": "here",
            "pid": 1,
            **fields,
        }
        reply = await self.client.ask("POST", "/v1/sessions", body)
        assert reply.status == 201, reply.body
        return AsgiClient(self.app, credentials=f"{session}:{SECRET}")


@contextlib.asynccontextmanager
async def serve(
    store: Any = None,
    state: State | None = None,
    limiter: Limiter | None = None,
    **hub: Any,
) -> AsyncIterator[Running]:
    store = store if store is not None else MemoryStore()
    clock = FakeClock()
    writer = LedgerWriter(store, clock, state or State())
    streams = StreamHub(store, writer, **hub)
    # As most tests ask faster than any client would.
    limiter = limiter or Limiter(Limits(requests=0))
    ledger = Ledger(writer, streams, clock.now_s(), "memory", os.geteuid(), limiter=limiter)
    running = Running(store, clock, writer, streams, Timers(writer), LedgerApp(ledger))
    task = asyncio.create_task(writer.run())
    try:
        yield running
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        writer.close()


@pytest.fixture
def serving() -> Any:
    return serve


@pytest.fixture
def until() -> Any:
    """Waits for a condition to come true."""

    async def until(condition: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110 -- conditions of tests come without an event
                await asyncio.sleep(0.005)

    return until
