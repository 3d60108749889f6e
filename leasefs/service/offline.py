"""A ledger's file answers as its server would, as far as that is reading: for backups and ledgers that are stopped."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from leasefs.client import api
from leasefs.core.errors import InvalidRequest
from leasefs.service.app import LedgerApp
from leasefs.service.context import Ledger
from leasefs.service.exchange import Connection
from leasefs.service.recovery import recover
from leasefs.service.stream import StreamHub
from leasefs.service.writer import LedgerWriter
from leasefs.store.sqlite_reading import ReadOnlyStore

if TYPE_CHECKING:
    from leasefs.service.exchange import Message, Scope

STORE_FILE = "ledger.sqlite3"


def file_of(place: str) -> str:
    """The ledger's file: `place` itself, or the one in that directory."""
    return os.path.join(place, STORE_FILE) if os.path.isdir(place) else place


class _Stopped:
    """The clock of a ledger that is not served: it stands at the last event."""

    def __init__(self, at_s: float) -> None:
        self._at_s = at_s

    def now_s(self) -> float:
        """Ledger time, in seconds."""
        return self._at_s

    def wall_s(self) -> float:
        """Never asked: nothing is written."""
        return 0.0


class OfflineLedger:
    """The file at `place`, opened for reading."""

    def __init__(self, place: str) -> None:
        """Open it and replay it to its end.

        Raises:
            StoreError, UnknownEvent: it cannot be read.
        """
        path = file_of(place)
        self._store = ReadOnlyStore(path)
        state = recover(self._store).state
        writer = LedgerWriter(self._store, _Stopped(state.at_s), state)
        hub = StreamHub(self._store, writer)
        ledger = Ledger(writer, hub, state.at_s, f"sqlite:{path}", os.geteuid())
        self._app = LedgerApp(ledger)

    def answer(self, call: api.Call) -> api.Body:
        """What the server would answer.

        Raises:
            LeasefsError: what it would refuse, and whatever is not reading.
        """
        if call.method != "GET":
            raise InvalidRequest("a file can only be read; serve it to change anything")
        return api.answer(call, *asyncio.run(self._exchange(call)))

    async def _exchange(self, call: api.Call) -> tuple[int, bytes]:
        sent: list[Message] = []
        requested = False

        async def receive() -> Message:
            nonlocal requested
            if requested:
                await asyncio.Event().wait()  # we do not hang up before we have the answer
            requested = True
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(_scope(call), receive, send)
        return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def _scope(call: api.Call) -> Scope:
    path, _, query = call.path.partition("?")
    connection = Connection(uid=os.geteuid(), pid=os.getpid(), abort=lambda: None)
    state: dict[str, Any] = {"connection": connection}
    return {
        "type": "http",
        "method": call.method,
        "path": path,
        "query_string": query.encode("ascii"),
        "headers": [],
        "state": state,
    }
