"""What a new holder finds on its ground: notes, rescues, and uncommitted work of others (P9).

Looks only at what an index says could overlap.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

from leasefs.core.answers import Inherited, NoteAnswer
from leasefs.core.globs import globs_of, lies_on
from leasefs.core.intents import NAMES_KEPT, IntentState
from leasefs.core.overlap import first_overlap
from leasefs.core.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.core.globs import Glob
    from leasefs.core.records import Claim, HandOff, Intent, Lease, Rescue
    from leasefs.core.state import State

RESCUES_TOLD = 50
NAMES_TOLD_LENGTH = 64 * 1024
"""Of all rescues' names together: each claim of the ground is answered with them, however many somebody reports."""

_NOTHING = Inherited()


def notes_for(state: State, claim: Claim, left: State | None = None) -> tuple[HandOff, ...]:
    """The notes that go to whoever is granted this claim, newest first.

    Those of `left`, too: of an earlier moment of the same decision, in which others were handed them already.
    """
    found = {note.lease: note for note in _notes_on(state, claim)}
    if left is not None and left is not state:
        found |= {note.lease: note for note in _notes_on(left, claim)}
    return tuple(sorted(found.values(), key=lambda note: (-note.left_at_s, note.lease)))


def _notes_on(state: State, claim: Claim) -> list[HandOff]:
    if claim.territory not in state.notes:
        return []
    globs = globs_of(claim.globs)
    notes = state.notes_of(claim.territory)
    found = [notes[id_] for id_ in state.noted.candidates(claim.territory, globs)]
    return [note for note in found if first_overlap(globs, globs_of(note.globs))]


def rescues_on(state: State, territory: str, globs: tuple[Glob, ...]) -> list[Rescue]:
    """The rescues whose lease overlapped `globs`, newest first."""
    rescues = state.rescues_of(territory)
    near = [rescues[id_] for id_ in state.rescued.candidates(territory, globs)]
    met = [one for one in near if first_overlap(globs, globs_of(one.globs))]
    return sorted(met, key=lambda rescue: (-rescue.wall_s, rescue.id))


def inherited(state: State, lease: Lease, now_s: float) -> Inherited:
    """All of it. The notes are those of the grant; the rest is as it is now."""
    claim = lease.claim
    where = claim.territory
    if not (lease.inherited or where in state.rescues or where in state.uncommitted.works):
        return _NOTHING
    globs = globs_of(claim.globs)
    uncommitted = _uncommitted_of_others(state, claim, globs)
    rescues = rescues_on(state, claim.territory, globs)
    notes = [_note_answer(note, now_s) for note in lease.inherited]
    return Inherited(
        note=notes[0] if notes else None,
        earlier_notes=tuple(notes[1:]),
        rescues=tuple(_in_short(rescues[:RESCUES_TOLD])),
        uncommitted=tuple(nsmallest(NAMES_KEPT, uncommitted, key=_place)),
        uncommitted_count=len(uncommitted),
        rescues_count=len(rescues),
    )


def _in_short(rescues: list[Rescue]) -> Iterator[Rescue]:
    """Without names where there is no room for them; `paths` says how many there are."""
    left = NAMES_TOLD_LENGTH
    for rescue in rescues:
        left -= sum(map(len, rescue.names))
        yield rescue if left >= 0 else replace(rescue, names=())


def _uncommitted_of_others(state: State, claim: Claim, globs: tuple[Glob, ...]) -> list[Intent]:
    return [
        intent
        for work in state.uncommitted.near(claim.territory, globs)
        if work.agent != claim.agent and work.dirty
        for intent in work.intents.values()
        if intent.state is IntentState.DIRTY
        and lies_on(intent.path.encode("utf-8", "surrogateescape"), globs)
    ]


def _place(intent: Intent) -> tuple[str, str, str, str]:
    return intent.path, intent.tree, intent.lease, intent.agent


def _note_answer(note: HandOff, now_s: float) -> NoteAnswer:
    return NoteAnswer(
        lease=note.lease,
        agent=note.agent,
        harness=note.harness,
        globs=note.globs,
        text=note.text,
        left_ago_s=now_s - note.left_at_s,
        commit=note.commit,
    )
