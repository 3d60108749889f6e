"""What the lessee needs of a way to the ledger. `trio_http` is the real one, tests bring their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from leasefs.client.api import Body, Call
    from leasefs.client.sse import StreamEvent


class Transport(Protocol):
    """Carries Calls with the credentials of one session."""

    async def send(self, call: Call, *, timeout_s: float) -> Body:
        """Carry out one request.

        Raises:
            LedgerUnavailable: if it is not answered in time (plus the call's own patience).
            LeasefsError: what the ledger refused.
        """
        ...

    def stream(
        self, call: Call, *, silence_s: float
    ) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
        """The events of a stream, for as long as the context lasts.

        Both entering it and iterating raise as `send`; the iterator ends when the ledger ends the
        stream, and raises LedgerUnavailable after `silence_s` without a byte.
        """
        ...
