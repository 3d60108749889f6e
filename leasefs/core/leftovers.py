"""What the events about intents, rescues and notes do to the ledger's state: what outlives a lease (P8, P9).

Called by `leasefs.core.state.apply` and, like it, asks no question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.globs import globs_of
from leasefs.core.intents import IntentState, Outcome
from leasefs.core.records import HandOff, Holder, Intent, Tree, replace
from leasefs.core.uncommitted import work_id

if TYPE_CHECKING:
    from leasefs.core import events as ev
    from leasefs.core.records import Claim
    from leasefs.core.state import State

NOTES_REMEMBERED = 1_000


def intents_noted(state: State, event: ev.IntentsNoted, recorded: ev.Recorded) -> State:
    """A mount changed paths."""
    globs: dict[str, tuple[str, ...]] = {}
    for id_ in {intent.lease for intent in event.intents}:
        lease = state.leases.get(id_)
        if lease is not None:
            globs[work_id(id_, lease.claim.agent)] = lease.claim.globs
    tree = Tree(event.tree, event.host, event.root)
    uncommitted = state.uncommitted.having(event.territory, tree)
    return replace(state, uncommitted=uncommitted.putting(event.territory, event.intents, globs))


def intents_settled(state: State, event: ev.IntentsSettled, recorded: ev.Recorded) -> State:
    """Git was asked what became of them."""
    known, over, stay = state.uncommitted, [], []
    for settled in event.settled:
        for holder in settled.whose:
            if ends(settled.outcome, done=settled.done):
                over.append((settled.path, holder))
            else:
                work = known.works[event.territory][work_id(holder.lease, holder.agent)]
                stay.append(settled_as(work.intents[event.tree, settled.path], settled))
    left = known.without(event.territory, event.tree, over)
    return replace(state, uncommitted=left.restating(event.territory, stay))


def ends(outcome: Outcome, *, done: bool) -> bool:
    """Whether nothing is left of an intent that came to this."""
    return done or outcome in (Outcome.CLEAN, Outcome.LANDED)


def settled_as(intent: Intent, settled: ev.Settled) -> Intent:
    """The intent that is left."""
    if settled.outcome is Outcome.COMMITTED:
        return replace(
            intent, state=IntentState.COMMITTED, commit=settled.commit, blob=settled.blob
        )
    return replace(intent, state=IntentState.DIRTY, commit="", blob="")


def rescued(state: State, event: ev.Rescued, recorded: ev.Recorded) -> State:
    """A snapshot holds what was uncommitted."""
    rescue = event.rescue
    holder = Holder(rescue.agent, rescue.lease)
    ended = [(path, holder) for path in event.ended]
    rescues = state.rescues_of(rescue.territory)
    known = rescues.get(rescue.id)
    rescued = state.rescued
    if known is not None:
        rescued = rescued.removing(known.territory, globs_of(known.globs), known.id)
    return replace(
        state,
        uncommitted=state.uncommitted.without(rescue.territory, rescue.tree, ended),
        rescues=state.rescues.set(rescue.territory, rescues.set(rescue.id, rescue)),
        rescued=rescued.adding(rescue.territory, globs_of(rescue.globs), rescue.id),
    )


def rescue_dropped(state: State, event: ev.RescueDropped, recorded: ev.Recorded) -> State:
    """Nobody wants a rescue any more."""
    rescue = event.rescue
    left = state.rescues[rescue.territory].delete(rescue.id)
    rescues = state.rescues.set(rescue.territory, left)
    return replace(
        state,
        rescues=rescues if len(left) else rescues.delete(rescue.territory),
        rescued=state.rescued.removing(rescue.territory, globs_of(rescue.globs), rescue.id),
    )


def with_note(state: State, claim: Claim, text: str, commit: str, at_s: float) -> State:
    """A holder left a note for the next one, or said what it had checked out."""
    note = HandOff(
        claim.id, claim.territory, claim.agent, claim.harness, claim.globs, text, at_s, commit
    )
    notes = state.notes_of(claim.territory)
    if len(notes) >= NOTES_REMEMBERED:
        state = without_note(state, min(notes.values(), key=lambda one: one.left_at_s))
    notes = state.notes_of(claim.territory).set(claim.id, note)
    return replace(
        state,
        notes=state.notes.set(claim.territory, notes),
        noted=state.noted.adding(claim.territory, globs_of(claim.globs), claim.id),
    )


def without_note(state: State, note: HandOff) -> State:
    """The note was handed over, perhaps to several in one decision, or is too old."""
    if note.lease not in state.notes_of(note.territory):
        return state
    left = state.notes[note.territory].delete(note.lease)
    notes = state.notes.set(note.territory, left)
    return replace(
        state,
        notes=notes if len(left) else notes.delete(note.territory),
        noted=state.noted.removing(note.territory, globs_of(note.globs), note.lease),
    )
