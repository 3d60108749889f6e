"""The state in words: answers about leases, waiters and sessions at a given moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import asdict, replace

from leasefs.core import admission
from leasefs.core.answers import (
    GlobPlace,
    IntentAnswer,
    LeaseAnswer,
    RecallAnswer,
    SessionAnswer,
)
from leasefs.core.estimating import Estimate, estimate
from leasefs.core.globs import globs_of
from leasefs.core.inheriting import inherited
from leasefs.core.lease import SESSION_TTL_S
from leasefs.core.obstacles import Obstacles, obstacles
from leasefs.core.queue import Standing, rank
from leasefs.core.whole_queue import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.core.intents import IntentState
    from leasefs.core.records import Claim, Lease, Rescue, Session
    from leasefs.core.state import State


class WantedIntents(NamedTuple):
    """Which intents: of a territory, an agent, a tree, a lease, in a state; None means any.

    With `unkept` only what lies under no lease any more and was not handed on: whoever comes next keeps it first.
    """

    territory: str | None = None
    agent: str | None = None
    tree: str | None = None
    lease: str | None = None
    state: IntentState | None = None
    unkept: bool = False


def is_live(session: Session, now_s: float) -> bool:
    """Whether the session was heard of lately. A silent one may come back (P5), one whose identity was revoked may not."""
    return not session.revoked_by and now_s - session.seen_at_s < SESSION_TTL_S


def lease_answer(state: State, lease_id: str, now_s: float) -> LeaseAnswer:
    """What became of the claim with this id; `ended` when it is neither held nor waiting."""
    lease = state.leases.get(lease_id)
    if lease is not None:
        return replace(_held(state, lease, now_s), inherits=inherited(state, lease, now_s))
    claim = state.waiters.get(lease_id)
    if claim is not None:
        return _waiting(state, claim, now_s)
    return LeaseAnswer(lease=lease_id, state="ended")


def _claimed(claim: Claim, state: str) -> LeaseAnswer:
    return LeaseAnswer(
        lease=claim.id,
        state=state,
        agent=claim.agent,
        harness=claim.harness,
        session=claim.session,
        territory=claim.territory,
        globs=claim.globs,
        mode=claim.mode,
        ttl_s=claim.ttl_s,
        priority=claim.priority,
        note=claim.note,
        parent=claim.parent,
        replaces=claim.replaces,
        resumes=claim.resumes,
        frozen_by=claim.frozen_by,
    )


def _held(state: State, lease: Lease, now_s: float) -> LeaseAnswer:
    how = "revoked" if lease.revoked_by else "lapsed" if lease.lapsed(now_s) else "granted"
    ends_at_s = admission.hold_ends_at_s(state, lease)
    return replace(
        _claimed(lease.claim, how),
        token=lease.token,
        expires_in_s=lease.expires_at_s - now_s,
        held_for_s=now_s - lease.granted_at_s,
        kept_by=lease.kept_by,
        recall=recall_answer(lease, now_s),
        delegated=_delegated(state, lease.id) if lease.id in state.children else (),
        hold_ends_in_s=None if ends_at_s is None else ends_at_s - now_s,
    )


def _delegated(state: State, lease_id: str) -> tuple[str, ...]:
    ids = sorted(state.children[lease_id])
    return tuple(glob for id_ in ids for glob in state.leases[id_].claim.globs)


def recall_answer(lease: Lease, now_s: float) -> RecallAnswer | None:
    """By when and for whom a lease must be given up; None if it need not be."""
    recall = lease.recall
    if recall is None:
        return None
    return RecallAnswer(
        by=recall.by,
        reason=recall.reason,
        yields_in_s=max(0.0, recall.deadline_s - now_s),
        may_ask_for_s=0.0 if recall.extended else recall.within_s,
        cold=recall.cold,
        claims=recall.claims,
    )


def _waiting(state: State, claim: Claim, now_s: float) -> LeaseAnswer:
    found = obstacles(state, claim, now_s)
    expected = estimate(state, claim, now_s, found.before.lines) if found.before else None
    return waiting_answer(claim, found, expected, now_s)


def waiting_answer(
    claim: Claim, found: Obstacles, expected: Estimate | None, now_s: float
) -> LeaseAnswer:
    """What becomes of a claim that waits for what was `found`, as long as is `expected`."""
    since_s = claim.claimed_at_s if claim.queued_at_s is None else claim.queued_at_s
    told = found.told(claim, now_s)
    return replace(
        _claimed(claim, "waiting"),
        waiting_for_s=now_s - since_s,
        position=1 + found.before.waiters,
        eta_s=expected.eta_s if expected else None,
        eta_low_s=expected.low_s if expected else None,
        eta_high_s=expected.high_s if expected else None,
        eta_from=expected.holds if expected else 0,
        waits_for=told,
        places=_places(claim, found, tuple(one.id for one in told if one.id)),
    )


def _places(claim: Claim, found: Obstacles, ids: tuple[str, ...]) -> tuple[GlobPlace, ...]:
    """Where the claim stands for each of its globs; for the only one that is said once."""
    if len(claim.globs) == 1:
        return (GlobPlace(claim.globs[0], 1 + found.before.waiters, ids),)
    places: list[GlobPlace] = []
    for text, glob in zip(claim.globs, globs_of(claim.globs), strict=True):
        before = found.before.at(glob)
        places.append(GlobPlace(text, 1 + before.waiters, before.ids()))
    return tuple(places)


def leases(state: State, territory: str | None, now_s: float) -> list[LeaseAnswer]:
    """All held leases, oldest grant first; of one territory, or of all."""
    held = [
        lease
        for lease in state.leases.values()
        if territory is None or lease.claim.territory == territory
    ]
    held.sort(key=lambda lease: lease.token)
    return [_held(state, lease, now_s) for lease in held]


def waiters(state: State, territory: str | None, now_s: float) -> list[LeaseAnswer]:
    """All waiters in the order of service; of one territory, or of all."""
    waiting = [
        claim
        for claim in state.waiters.values()
        if territory is None or claim.territory == territory
    ]
    waiting.sort(key=rank)
    return [
        _as_told(state, claim, before, expected, now_s)
        for claim, before, expected in in_order(state, waiting, now_s)
    ]


def _as_told(
    state: State, claim: Claim, before: Standing, expected: Estimate | None, now_s: float
) -> LeaseAnswer:
    why = None if before else admission.held_back(state, claim, now_s)
    found = Obstacles(before, why, closed=now_s < state.closed_until_s)
    return waiting_answer(claim, found, expected if before else None, now_s)


def over_path(state: State, territory: str, path: bytes, now_s: float) -> list[LeaseAnswer]:
    """Leases and waiters whose globs match `path`: holders first, then the queue in order."""
    return [
        *(
            _held(state, state.leases[id_], now_s)
            for id_ in _matching_leases(state, territory, path)
        ),
        *(
            answer
            for answer in waiters(state, territory, now_s)
            if any(glob.matches(path) for glob in globs_of(answer.globs))
        ),
    ]


def _matching_leases(state: State, territory: str, path: bytes) -> Iterator[str]:
    for id_, lease in sorted(state.leases.items(), key=lambda item: item[1].token):
        claim = lease.claim
        if claim.territory == territory and any(
            glob.matches(path) for glob in globs_of(claim.globs)
        ):
            yield id_


def intents(state: State, wanted: WantedIntents) -> Iterator[IntentAnswer]:
    """The intents that are wanted, in no order."""
    trees = state.uncommitted.trees
    for territory, works in state.uncommitted.works.items():
        if wanted.territory not in {None, territory}:
            continue
        for work in works.values():
            if wanted.agent not in {None, work.agent} or wanted.lease not in {None, work.lease}:
                continue
            held = work.lease in state.leases
            if wanted.unkept and (held or work.handed_on):
                continue
            for intent in work.intents.values():
                if wanted.tree in {None, intent.tree} and wanted.state in {None, intent.state}:
                    tree = trees[territory, intent.tree]
                    yield IntentAnswer(
                        **asdict(intent),
                        territory=territory,
                        host=tree.host,
                        root=tree.root,
                        held=held,
                        handed_on=work.handed_on,
                    )


def rescues(state: State, territory: str | None) -> list[Rescue]:
    """All rescues, newest first; of one territory, or of all."""
    found = [
        rescue
        for where, rescues in state.rescues.items()
        if territory in {None, where}
        for rescue in rescues.values()
    ]
    return sorted(found, key=lambda rescue: (-rescue.wall_s, rescue.territory, rescue.id))


def session_answer(session: Session, now_s: float) -> SessionAnswer:
    """The session without its secret."""
    return SessionAnswer(
        session=session.id,
        agent=session.agent,
        harness=session.harness,
        territory=session.territory,
        kind=session.kind,
        host=session.host,
        pid=session.pid,
        live=is_live(session, now_s),
        open_for_s=now_s - session.opened_at_s,
        seen_ago_s=now_s - session.seen_at_s,
        identity=session.identity,
        process=session.process,
    )


def sessions(state: State, territory: str | None, now_s: float) -> list[SessionAnswer]:
    """All sessions, oldest first; of one territory, or of all."""
    found = [
        session
        for session in state.sessions.values()
        if territory is None or session.territory == territory
    ]
    found.sort(key=lambda session: (session.opened_at_s, session.id))
    return [session_answer(session, now_s) for session in found]
