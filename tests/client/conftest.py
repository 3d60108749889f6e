"""A lessee over the real rules of the ledger, on trio's mock clock."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest
import trio

from leasefs.client.ids import Credentials
from leasefs.client.lessee import Identity, Lessee
from leasefs.testing.core_ledger import CoreLedger, CoreLink
from leasefs.testing.mock_time import MockTime

OpenLessee = Callable[..., AbstractAsyncContextManager[Lessee]]


@pytest.fixture
def ledger() -> CoreLedger:
    return CoreLedger(MockTime())


@pytest.fixture
def lessee_of(ledger: CoreLedger) -> OpenLessee:
    @contextlib.asynccontextmanager
    async def open_lessee(
        agent: str = "agent-07", *, replace: bool = False
    ) -> AsyncIterator[Lessee]:
        credentials = Credentials(f"session-of-{agent}", f"secret-of-{agent}")
        identity = Identity(agent, "claude", "territory", "mount", "host", 1, "")
        link = CoreLink(ledger, *credentials)
        lessee = Lessee(identity, credentials, link, ledger.clock)
        await lessee.open(replace=replace)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lessee.run)
            yield lessee
            nursery.cancel_scope.cancel()

    return open_lessee
