"""Who listens to the ledger: followers of the event stream, and callers that wait for one lease.

A follower begins at a sequence number. What came up to the moment of subscribing is read from the store,
everything after it is put into the follower's buffer as it becomes durable: the two meet at one number, so
nothing is missed and nothing comes twice. A follower that does not keep up loses its buffer, not events: it
reads what it missed from the store, as if it had just come. So its memory is bounded, and how long one that
reads nothing at all is kept is the business of whoever writes to it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from leasefs.core import events as ev
from leasefs.core.identity_events import IdentityEvent
from leasefs.service.entries import Record, record_again
from leasefs.service.history import History
from leasefs.store.errors import EventsDropped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasefs.core.state import State
    from leasefs.service.writer import LedgerWriter
    from leasefs.store.port import Store

BUFFERED_EVENTS = 1_000
PAGE = 500
ANSWER_BYTES = 1 << 20
SCANNED_AT_MOST = 100_000


class StreamClosed(Exception):
    """The server stops: followers may go on with the next one, from where they are. Or who follows was revoked."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events: of one territory, of one session, of some types; None and empty mean all."""

    territory: str | None = None
    session: str | None = None
    types: frozenset[str] = frozenset()

    def takes(self, record: Record) -> bool:
        """Whether this event is wanted."""
        return (
            (self.session is None or self.session in record.heard_by())
            and (self.territory is None or record.territory == self.territory)
            and (not self.types or record.type in self.types)
        )


class Follower:
    """One reader of the stream; `identity` is whose it is, if the ledger knows them as one."""

    __slots__ = ("_buffer", "_hub", "_last", "_may", "_missed", "_position", "_wake", "wanted")

    def __init__(
        self, hub: StreamHub, wanted: Wanted, after_seq: int, may: Callable[[], bool]
    ) -> None:
        self.wanted = wanted
        self._may = may
        self._last: int | None = None  # the last event that it may hear of; None while it may read
        self._hub = hub
        self._position = after_seq
        self._missed = True
        self._buffer: deque[Record] = deque()
        self._wake = asyncio.Event()

    @property
    def position(self) -> int:
        """Every wanted event up to this number was handed out."""
        if not self._missed and not self._buffer:
            self._position = max(self._position, self._hub.head)
        return self._position

    def offer(self, record: Record) -> None:
        """A new event is durable."""
        if not self._missed:
            if len(self._buffer) < self._hub.buffered_events:
                self._buffer.append(record)
            else:
                self._buffer.clear()
                self._missed = True
        self._wake.set()

    def wake(self) -> None:
        """Have `next` look again, and remember up to where its reader might read, should that be over."""
        if self._last is None and not self._may():
            self._last = self._hub.head
        self._wake.set()

    async def next(self) -> list[Record]:
        """The next wanted events, at least one; waits for them. Nothing is lost if it is cancelled.

        Raises:
            StreamClosed: the server stops; or the reader was revoked, and has heard of all that it wanted up to then.
            StoreError, UnknownEvent: the store cannot be read.
        """
        while True:
            if self._hub.closed:
                raise StreamClosed
            self.wake()
            self._wake.clear()
            found = await self._from_store() if self._missed else self._from_buffer()
            if self._last is not None:
                found = [record for record in found if record.seq <= self._last]
            if found:
                return found
            if self._last is not None and self._position >= self._last:
                raise StreamClosed
            if not self._missed:
                await self._wake.wait()

    def _from_buffer(self) -> list[Record]:
        found = list(self._buffer)
        self._buffer.clear()
        # All wanted ones up to here went through the buffer.
        self._position = max(self._position, self._hub.head)
        return found

    async def _from_store(self) -> list[Record]:
        upto = self._hub.head
        if self._position >= upto:
            # Nothing was awaited since `head` was read: the next event will be offered.
            self._missed = False
            return []
        records = await self._hub.read(self._position, min(PAGE, upto - self._position))
        self._position = records[-1].seq if records else upto
        return [record for record in records if self.wanted.takes(record)]


class StreamHub:
    """All followers of one ledger, found by what they want. `history` reads what was before they came."""

    def __init__(
        self, store: Store, writer: LedgerWriter, *, buffered_events: int = BUFFERED_EVENTS
    ) -> None:
        self.buffered_events = buffered_events
        self.closed = False
        self.history = History(store)
        # Events up to this number were dropped; who asks for them gets those after it.
        self.base = store.base()
        self.store = store
        self._writer = writer
        self._of_session: dict[str, set[Follower]] = {}
        self._of_all: set[Follower] = set()
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        writer.listen(self._heard)

    @property
    def head(self) -> int:
        """The last durable event's number."""
        return self._writer.durable.seq

    def follow(
        self, wanted: Wanted, after_seq: int, may: Callable[[], bool] = lambda: True
    ) -> Follower:
        """A new follower, for as long as `may` says that its reader may read; `leave` it when done."""
        follower = Follower(self, wanted, after_seq, may)
        self._group(wanted).add(follower)
        return follower

    def leave(self, follower: Follower) -> None:
        """Forget the follower."""
        group = self._group(follower.wanted)
        group.discard(follower)
        if not group and follower.wanted.session is not None:
            del self._of_session[follower.wanted.session]

    async def read(self, after_seq: int, limit: int) -> list[Record]:
        """A page of the store, read in a worker thread. Raises StoreError and UnknownEvent."""
        return await asyncio.to_thread(self._read, after_seq, limit)

    def _read(self, after_seq: int, limit: int) -> list[Record]:
        try:
            entries = self.store.read(after_seq, limit)
        except EventsDropped as error:
            self.base = error.base
            entries = self.store.read(error.base, limit)
        return [record_again(entry) for entry in entries]

    async def find(self, wanted: Wanted, after_seq: int, limit: int) -> tuple[list[Record], int]:
        """Up to `limit` wanted events after `after_seq`, and the number up to which was looked.

        Looks at SCANNED_AT_MOST events, so that a rare kind of event cannot keep the store busy for long, and ends
        with the event that makes it ANSWER_BYTES: an answer is kept until its reader has taken it. Raises as `read`.
        """
        found: list[Record] = []
        size_bytes = 0
        position, last = after_seq, min(self.head, after_seq + SCANNED_AT_MOST)
        while position < last and len(found) < limit:
            records = await self.read(position, min(PAGE, last - position))
            position = last  # if all of them were dropped
            for record in records:
                position = record.seq
                if wanted.takes(record):
                    found.append(record)
                    size_bytes += len(record.data)
                if len(found) == limit or size_bytes >= ANSWER_BYTES:
                    return found, position
        return found, max(position, after_seq)

    async def until(self, lease_id: str, over: Callable[[State], bool], timeout_s: float) -> None:
        """Wait until `over(state)` holds or `timeout_s` passed; looks when something befalls the lease."""
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        while not (self.closed or over(self._writer.durable)):
            left_s = deadline_s - asyncio.get_running_loop().time()
            if left_s <= 0 or not await self._something_befell(lease_id, left_s):
                return

    async def _something_befell(self, lease_id: str, timeout_s: float) -> bool:
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(lease_id, set())
        waiting.add(told)
        try:
            async with asyncio.timeout(timeout_s):
                await told
        except TimeoutError:
            return False
        finally:
            waiting.discard(told)
            if not waiting and self._waiting.get(lease_id) is waiting:
                del self._waiting[lease_id]
        return True

    def close(self) -> None:
        """End all streams and all waiting."""
        self.closed = True
        self._wake_all()
        for lease_id in list(self._waiting):
            self._tell(lease_id)

    def _wake_all(self) -> None:
        for follower in chain(self._of_all, *self._of_session.values()):
            follower.wake()

    def _group(self, wanted: Wanted) -> set[Follower]:
        if wanted.session is None:
            return self._of_all
        return self._of_session.setdefault(wanted.session, set())

    def _heard(self, records: Sequence[Record], state: State) -> None:
        for record in records:
            hearing = (self._of_session.get(session, ()) for session in record.heard_by())
            for follower in (*self._of_all, *chain.from_iterable(hearing)):
                if follower.wanted.takes(record):
                    follower.offer(record)
            if self._waiting:
                self._tell(_befallen(record.event))
            if isinstance(record.event, IdentityEvent):
                self._wake_all()

    def _tell(self, lease_id: str) -> None:
        for told in self._waiting.pop(lease_id, ()):
            if not told.done():
                told.set_result(None)


def _befallen(event: ev.AnyEvent) -> str:
    """The waiting claim that this event moves on; empty for others."""
    if isinstance(event, ev.Granted):
        return event.claim.id
    return event.claim if isinstance(event, ev.Withdrawn) else ""
