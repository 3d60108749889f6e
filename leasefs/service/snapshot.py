"""The ledger's state as bytes and back: a shortcut past the log, never a replacement for it.

Only what cannot be computed is written: the indexes of `State` follow from its leases, waiters, sessions, intents,
rescues and notes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from immutables import Map
from msgspec import Struct

from leasefs.core.globs import globs_of
from leasefs.core.index import GlobIndex
from leasefs.core.lease import Mode
from leasefs.core.records import (
    Admission,
    Answered,
    Claim,
    Fresh,
    HandOff,
    Identity,
    Intent,
    Lease,
    Rescue,
    Session,
    Tree,
)
from leasefs.core.state import State
from leasefs.core.uncommitted import Uncommitted, work_id
from leasefs.service import wire_json
from leasefs.service.clock import ClockMark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T", HandOff, Rescue, Fresh)
FORMAT = 4
# All that formats 1 (before intents), 2 (before admission and recall) and 3 (before identities) have is in format 4.
_READABLE = frozenset({1, 2, 3, FORMAT})


@dataclass(frozen=True, slots=True)
class Saved:
    """What a server needs to go on: the state, and how the last clock ran."""

    state: State
    clock: ClockMark | None


class _WrittenWork(Struct, frozen=True):
    territory: str
    lease: str
    agent: str
    globs: tuple[str, ...]
    intents: tuple[Intent, ...]
    handed_on: bool = False


class _WrittenTree(Struct, frozen=True):
    territory: str
    tree: Tree


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
    fresh: tuple[Fresh, ...] = ()
    works: tuple[_WrittenWork, ...] = ()
    trees: tuple[_WrittenTree, ...] = ()
    rescues: tuple[Rescue, ...] = ()
    notes: tuple[HandOff, ...] = ()
    admission: dict[str, Admission] = {}
    identities: tuple[Identity, ...] = ()
    operated: tuple[Answered, ...] = ()
    closed_until_s: float = 0.0


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
            fresh=tuple(one for kept in state.fresh.values() for one in kept.values()),
            works=tuple(_written_works(state.uncommitted)),
            trees=tuple(
                _WrittenTree(territory, tree)
                for (territory, _), tree in state.uncommitted.trees.items()
            ),
            rescues=tuple(one for ones in state.rescues.values() for one in ones.values()),
            notes=tuple(one for ones in state.notes.values() for one in ones.values()),
            admission=dict(state.admission),
            identities=tuple(state.identities.values()),
            operated=state.operated,
            closed_until_s=state.closed_until_s,
        )
    )


def _written_works(uncommitted: Uncommitted) -> Iterator[_WrittenWork]:
    for territory, works in uncommitted.works.items():
        for work in works.values():
            intents = tuple(work.intents.values())
            yield _WrittenWork(
                territory, work.lease, work.agent, work.globs, intents, work.handed_on
            )


def read(data: bytes) -> Saved:
    """What `written` wrote.

    Raises:
        wire_json.Unreadable: other bytes, or a format of another leasefs.
    """
    found = _format_reader.read(data).format
    if found not in _READABLE:
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
        held=_ground(map(_filed, (lease.claim for lease in file.leases))),
        waiting=_ground(map(_filed, file.waiters)),
        by_agent=Map({(one.territory, one.agent): one.id for one in file.sessions}),
        of_session=_by_session(claims),
        holds=Map(file.holds),
        fresh=_by_territory(file.fresh, lambda fresh: fresh.key),
        uncommitted=_uncommitted(file),
        rescues=_by_territory(file.rescues, lambda rescue: rescue.id),
        rescued=_ground((one.territory, one.globs, one.id) for one in file.rescues),
        notes=_by_territory(file.notes, lambda note: note.lease),
        noted=_ground((one.territory, one.globs, one.lease) for one in file.notes),
        admission=Map(file.admission),
        recalled=Map({lease.id: None for lease in file.leases if lease.recall is not None}),
        children=_children(file.leases),
        exclusive=_exclusive(file.leases),
        operated=file.operated,
        closed_until_s=file.closed_until_s,
        identities=Map({one.name: one for one in file.identities}),
        by_token=Map({token.id: one.name for one in file.identities for token in one.tokens}),
        by_uid=Map(
            {one.uid: one.name for one in file.identities if one.uid is not None and one.is_live}
        ),
    )


def _children(leases: tuple[Lease, ...]) -> Map[str, Map[str, None]]:
    found: dict[str, dict[str, None]] = {}
    for lease in leases:
        if lease.claim.parent:
            found.setdefault(lease.claim.parent, {})[lease.id] = None
    return Map({parent: Map(ids) for parent, ids in found.items()})


def _exclusive(leases: tuple[Lease, ...]) -> Map[str, int]:
    live = (
        lease.claim.territory
        for lease in leases
        if lease.claim.mode is Mode.EXCLUSIVE and not lease.lapse_recorded
    )
    return Map(Counter(live))


def _uncommitted(file: _Written) -> Uncommitted:
    found = Uncommitted(trees=Map({(one.territory, one.tree.id): one.tree for one in file.trees}))
    for work in file.works:
        id_ = work_id(work.lease, work.agent)
        found = found.putting(work.territory, work.intents, {id_: work.globs})
        if work.handed_on:
            found = found.handing_on(work.territory, id_)
    return found


def _by_territory(ones: tuple[T, ...], id_of: Callable[[T], str]) -> Map[str, Map[str, T]]:
    found: dict[str, dict[str, T]] = {}
    for one in ones:
        found.setdefault(one.territory, {})[id_of(one)] = one
    return Map({territory: Map(by_id) for territory, by_id in found.items()})


def _filed(claim: Claim) -> tuple[str, tuple[str, ...], str]:
    return claim.territory, claim.globs, claim.id


def _ground(filed: Iterable[tuple[str, tuple[str, ...], str]]) -> GlobIndex:
    index = GlobIndex()
    for territory, globs, id_ in filed:
        index = index.adding(territory, globs_of(globs), id_)
    return index


def _by_session(claims: list[Claim]) -> Map[str, Map[str, None]]:
    found: dict[str, dict[str, None]] = {}
    for claim in claims:
        found.setdefault(claim.session, {})[claim.id] = None
    return Map({session: Map(ids) for session, ids in found.items()})
