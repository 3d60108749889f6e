"""The ledger's state as bytes and back: a shortcut past the log, never a replacement for it.

Only what cannot be computed is written: the indexes of `State` follow from its leases, waiters and sessions.
"""

from __future__ import annotations

from dataclasses import dataclass

from immutables import Map
from msgspec import Struct

from leasefs.core.index import GlobIndex
from leasefs.core.records import (
    Claim,
    Lease,
    Session,
)
from leasefs.core.state import State, globs_of
from leasefs.service import wire_json
from leasefs.service.clock import ClockMark

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Saved:
    """What a server needs to go on: the state, and how the last clock ran."""

    state: State
    clock: ClockMark | None


class _Written(Struct, frozen=True):
    format: int
    seq: int
    at_s: float
    boot: str
    offset_s: float
    sessions: tuple[Session, ...]
    leases: tuple[Lease, ...]
    waiters: tuple[Claim, ...]
    holds: dict[str, tuple[float, ...]]


class _Format(Struct, frozen=True):
    format: int


_format_reader = wire_json.Reader(_Format)
_reader = wire_json.Reader(_Written)


def written(saved: Saved) -> bytes:
    """The bytes of a snapshot."""
    state, clock = saved.state, saved.clock
    return wire_json.encode(
        _Written(
            format=FORMAT,
            seq=state.seq,
            at_s=state.at_s,
            boot=clock.boot if clock else "",
            offset_s=clock.offset_s if clock else 0.0,
            sessions=tuple(state.sessions.values()),
            leases=tuple(state.leases.values()),
            waiters=tuple(state.waiters.values()),
            holds=dict(state.holds),
        )
    )


def read(data: bytes) -> Saved:
    """What `written` wrote.

    Raises:
        wire_json.Unreadable: other bytes, or a format of another leasefs.
    """
    found = _format_reader.read(data).format
    if found != FORMAT:
        raise wire_json.Unreadable(f"snapshot format {found}, and this leasefs reads {FORMAT}")
    file = _reader.read(data)
    clock = ClockMark(file.boot, file.offset_s) if file.boot else None
    return Saved(_state(file), clock)


def _state(file: _Written) -> State:
    claims = [*(lease.claim for lease in file.leases), *file.waiters]
    return State(
        seq=file.seq,
        at_s=file.at_s,
        sessions=Map({session.id: session for session in file.sessions}),
        leases=Map({lease.id: lease for lease in file.leases}),
        waiters=Map({claim.id: claim for claim in file.waiters}),
        held=_index([lease.claim for lease in file.leases]),
        waiting=_index(list(file.waiters)),
        by_agent=Map({(one.territory, one.agent): one.id for one in file.sessions}),
        of_session=_by_session(claims),
        holds=Map(file.holds),
    )


def _index(claims: list[Claim]) -> GlobIndex:
    index = GlobIndex()
    for claim in claims:
        index = index.adding(claim.territory, globs_of(claim.globs), claim.id)
    return index


def _by_session(claims: list[Claim]) -> Map[str, Map[str, None]]:
    found: dict[str, dict[str, None]] = {}
    for claim in claims:
        found.setdefault(claim.session, {})[claim.id] = None
    return Map({session: Map(ids) for session, ids in found.items()})
