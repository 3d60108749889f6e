"""Deciding releases: a lease is given back, and not while work under it would be left unseen (P9)."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, NamedTuple

from leasefs.core.claims import owned_claim, session_of
from leasefs.core.ending import kept, returns_to, withdraw
from leasefs.core.errors import Dirty, InvalidRequest, NotHolder
from leasefs.core.events import Released, ReleaseRefused
from leasefs.core.globs import globs_of
from leasefs.core.granting import settle
from leasefs.core.intents import (
    HANDED_ON,
    MAX_HANDOFF_LENGTH,
    NAMES_KEPT,
    IntentState,
    OnDirty,
    Require,
)
from leasefs.core.keys import answered_before, fingerprint
from leasefs.core.recalling import come_back
from leasefs.core.views import lease_answer

if TYPE_CHECKING:
    from leasefs.core.commands import ReleaseLease
    from leasefs.core.draft import Decision, Draft
    from leasefs.core.records import Claim, Intent
    from leasefs.core.state import State

MAX_COMMIT_LENGTH = 64
_LEFT = {OnDirty.KEEP: "kept", OnDirty.FORCE: "forced", OnDirty.HAND_ON: HANDED_ON}


def release(draft: Draft, command: ReleaseLease) -> Decision:
    """Give back a lease or leave the queue; whoever waited for it is served in the same decision."""
    session = session_of(draft.state, command.session)
    request = _request(command)
    before = answered_before(session, command.key, request)
    if before is not None:
        return draft.done(lease_answer(draft.state, before, draft.now_s))
    owned = owned_claim(draft.state, command.lease)
    if owned.session != session.id:
        raise NotHolder(command.lease, owned.agent)
    _check_note(draft.state, command)
    in_the_way = unfinished(draft.state, owned, command.require)
    if in_the_way and command.on_dirty not in _LEFT:
        return refuse_dirty(draft, owned, in_the_way, _wanted(command))
    left = _LEFT.get(command.on_dirty, "") if in_the_way else _left(draft.state, owned, command)
    held = draft.state.leases.get(owned.id)
    ending = Ending(command.reason, command.key, request, command.note, command.commit)
    end(draft, owned, ending, left=left)
    if command.again and held is not None:
        come_back(draft, held, wished=True)
    settle(draft, owned.territory, globs_of(owned.globs))
    return draft.done(lease_answer(draft.state, owned.id, draft.now_s))


def _request(command: ReleaseLease) -> str:
    # Without a wish about the gate as it always was: older logs remember it so.
    wishes = command.require, command.on_dirty, command.note
    if wishes == (Require.COMMITTED, OnDirty.REFUSE, ""):
        return fingerprint("release", command.lease)
    return fingerprint("release", command.lease, *map(str, wishes))


def _check_note(state: State, command: ReleaseLease) -> None:
    if len(command.commit) > MAX_COMMIT_LENGTH:
        raise InvalidRequest(f"a commit id has at most {MAX_COMMIT_LENGTH} characters")
    if len(command.note) > MAX_HANDOFF_LENGTH:
        raise InvalidRequest(
            f"a hand-off note has at most {MAX_HANDOFF_LENGTH} characters, this one {len(command.note)}"
        )
    if command.note and command.lease not in state.leases:
        raise InvalidRequest(
            f"{command.lease} only waits: nothing was held, so there is no hand-off"
        )


def unfinished(state: State, claim: Claim, require: Require) -> list[Intent]:
    """The intents under the claim's lease that have not come to what is required."""
    work = state.uncommitted.work(claim.territory, claim.id, claim.agent)
    if work is None or require is Require.NONE or not (work.dirty or require is Require.PUSHED):
        return []
    return [
        intent
        for intent in work.intents.values()
        if require is Require.PUSHED or intent.state is IntentState.DIRTY
    ]


def refuse_dirty(draft: Draft, owned: Claim, in_the_way: list[Intent], wanted: str) -> Decision:
    """The refusal to let go of ground on which these intents lie; `wanted` is what they would have to be."""
    paths = nsmallest(NAMES_KEPT, (intent.path for intent in in_the_way))
    count = len(in_the_way)
    draft.emit(ReleaseRefused(owned.session, owned.agent, owned.id, count, tuple(paths)))
    return draft.refused(Dirty(owned.id, paths, count, wanted=wanted))


def _wanted(command: ReleaseLease) -> str:
    wanted = "pushed" if command.require is Require.PUSHED else "committed"
    return f"{wanted} and in no rescue" if command.on_dirty is OnDirty.RESCUED else wanted


def _left(state: State, owned: Claim, command: ReleaseLease) -> str:
    if command.on_dirty is OnDirty.RESCUED:
        near = state.rescued.candidates(owned.territory, globs_of(owned.globs))
        rescues = state.rescues_of(owned.territory)
        if any(rescues[id_].lease == owned.id for id_ in near):
            return "rescued"
    return kept(state, owned)


class Ending(NamedTuple):
    """How a holder ends a lease: why, by which request, and what it leaves to the next one."""

    reason: str
    key: str = ""
    request: str = ""
    note: str = ""
    commit: str = ""


def end(draft: Draft, owned: Claim, how: Ending, *, left: str | None = None) -> None:
    """End a lease or a waiting claim by its own holder's wish. What is uncommitted stays the agent's."""
    lease = draft.state.leases.get(owned.id)
    if lease is None:
        withdraw(draft, owned, how.reason, how.key, how.request)
        return
    draft.emit(
        Released(
            lease=owned.id,
            agent=owned.agent,
            token=lease.token,
            reason=how.reason,
            key=how.key,
            request=how.request,
            note=how.note,
            left=kept(draft.state, owned) if left is None else left,
            commit=how.commit,
            returns_to=returns_to(draft.state, lease),
        )
    )
