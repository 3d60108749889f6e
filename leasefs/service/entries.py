"""What the service keeps in the store: one JSON object per event.

    {"at_s": ledger time, "wall_s": for people, "territory": ..., "session": ..., "event": {"type": ..., ...}}

Territory and session stand beside the event because most events name a lease only: without them a reader of
the history could not tell whose it was without replaying all of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import Struct

from leasefs.core import events as ev
from leasefs.core.events import AnyEvent, Recorded
from leasefs.service import wire_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasefs.core.state import State
    from leasefs.store.port import Entry


class StoredEvent(Struct, frozen=True):
    """The JSON object. Fields may be added with a default, never renamed or removed."""

    at_s: float
    wall_s: float
    territory: str
    session: str
    event: AnyEvent


@dataclass(frozen=True, slots=True)
class Record:
    """One event on its way to the store and to who listens. `data` is the object above."""

    seq: int
    territory: str
    session: str
    type: str
    event: AnyEvent
    data: bytes

    def heard_by(self) -> frozenset[str]:
        """The sessions that it is about: whose it is, whose ground was written or is waited for, who delegated or gets back."""
        others: Iterable[str] = ()
        if isinstance(self.event, ev.ForeignWrites):
            others = (change.session for change in self.event.changes)
        elif isinstance(self.event, ev.Queued):
            others = self.event.ahead
        elif isinstance(self.event, ev.Granted):
            others = (self.event.asked_by,)
        elif isinstance(self.event, ev.Released | ev.Expired):
            others = (self.event.returns_to,)
        return frozenset((self.session, *filter(None, others)))

    def with_seq(self) -> bytes:
        """The object with its `seq` in front, as readers of the history get it: without the hashes of secrets."""
        data = _HASH.sub(rb"\1", self.data) if isinstance(self.event, _WITH_HASHES) else self.data
        return b'{"seq":%d,%b' % (self.seq, data[1:])


class UnknownEvent(Exception):
    """The log holds something that this leasefs cannot read: a newer one wrote it."""


_reader = wire_json.Reader(StoredEvent)
_WITH_HASHES = ev.SessionOpened | ev.IdentityEvent
# Within a string a quotation mark would have a backslash before it, so this is a field.
_HASH = re.compile(rb'("(?:secret_)?sha256":")[0-9a-f]{64}(?=")')
_OF_A_LEASE = (
    ev.Lapsed
    | ev.Released
    | ev.Revoked
    | ev.Recalled
    | ev.RecallEnded
    | ev.Downgraded
    | ev.HoldSet
    | ev.Expired
)


def tag_of(event: AnyEvent) -> str:
    """The event's type as it is written: `granted`, `session-opened`, ..."""
    return str(event.__struct_config__.tag)


def record_of(recorded: Recorded, before: State, after: State, wall_s: float) -> Record:
    """The record of an event that led from the states `before` to `after` (or further)."""
    territory, session = _whose(recorded.event, before, after)
    stored = StoredEvent(recorded.at_s, wall_s, territory, session, recorded.event)
    return Record(
        recorded.seq,
        territory,
        session,
        tag_of(recorded.event),
        recorded.event,
        wire_json.encode(stored),
    )


def recorded_of(entry: Entry) -> Recorded:
    """The event to apply. Raises UnknownEvent."""
    stored = _stored(entry)
    return Recorded(entry.seq, stored.at_s, stored.event)


def record_again(entry: Entry) -> Record:
    """The record as it was when it was written. Raises UnknownEvent."""
    stored = _stored(entry)
    return Record(
        entry.seq, stored.territory, stored.session, tag_of(stored.event), stored.event, entry.data
    )


def wall_of(entry: Entry) -> float:
    """What the wall clock said then, in seconds since the epoch. Raises UnknownEvent."""
    return _stored(entry).wall_s


def _stored(entry: Entry) -> StoredEvent:
    try:
        return _reader.read(entry.data)
    except wire_json.Unreadable as error:
        raise UnknownEvent(
            f"event {entry.seq} of the log is none that this leasefs knows ({error}); "
            "upgrade leasefs; the log was left as it is"
        ) from error


def _whose(event: AnyEvent, before: State, after: State) -> tuple[str, str]:
    """The territory and session that an event is about; empty for the ledger's own."""
    if isinstance(event, ev.Granted | ev.Queued):
        return event.claim.territory, event.claim.session
    if isinstance(event, _OF_A_LEASE):
        return _whose_claim(event.lease, before, after)
    if isinstance(event, ev.Withdrawn):
        return _whose_claim(event.claim, before, after)
    if isinstance(event, ev.SessionOpened):
        return event.session.territory, event.session.id
    if isinstance(event, ev.ClaimRefused):
        return event.territory, event.session
    if isinstance(event, ev.FreshRecorded):
        return event.fresh.territory, ""
    if isinstance(
        event,
        ev.LedgerStarted | ev.LedgerRestored | ev.LedgerReopened | ev.IdentityEvent,
    ):
        return "", ""
    if isinstance(event, ev.AdmissionSet):
        return event.territory, ""
    session = before.sessions.get(event.session) or after.sessions.get(event.session)
    return (session.territory if session else "", event.session)


def _whose_claim(id_: str, before: State, after: State) -> tuple[str, str]:
    for state in (before, after):
        lease = state.leases.get(id_)
        claim = lease.claim if lease is not None else state.waiters.get(id_)
        if claim is not None:
            return claim.territory, claim.session
    return "", ""
