"""Changing how ground is held: from exclusive to shared, and many regions at once (P6, P7).

From shared to exclusive goes by a claim that `replaces` the shared lease: it waits its turn like any other, and two
that both wait for each other to let go are told at once (deadlock).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core import admission, entitled
from leasefs.core.answers import RegionsAnswer
from leasefs.core.claims import (
    check_terms,
    checked_globs,
    conflict,
    own_live_lease,
    refuse,
    session_of,
)
from leasefs.core.draft import Decision, Draft
from leasefs.core.errors import (
    Deadlock,
    InvalidRequest,
    OverCap,
)
from leasefs.core.events import Downgraded
from leasefs.core.globs import globs_of
from leasefs.core.granting import settle, settle_territory, take
from leasefs.core.keys import answered_before, fingerprint
from leasefs.core.lease import Mode
from leasefs.core.obstacles import obstacles
from leasefs.core.overlap import overlap
from leasefs.core.partition_meetings import meetings
from leasefs.core.paths import text
from leasefs.core.recalling import drop_idle_recalls
from leasefs.core.records import Claim, Session, replace
from leasefs.core.views import lease_answer
from leasefs.core.waits import cycle_through, names_of

if TYPE_CHECKING:
    from leasefs.core.commands import ClaimRegions, DowngradeLease

MAX_REGIONS = 512


def downgrade(draft: Draft, command: DowngradeLease) -> Decision:
    """Share what was held alone: at once, as nobody who waits is worse off for it.

    Raises:
        NotHolder, UnknownLease, LeaseLost: the caller does not hold it, or not any more.
        InvalidRequest: parts of it are delegated, or it is a part itself.
    """
    session = session_of(draft.state, command.session)
    request = fingerprint("downgrade", command.lease)
    before = answered_before(session, command.key, request)
    if before is not None:
        return draft.done(lease_answer(draft.state, before, draft.now_s))
    lease = own_live_lease(draft, session, command.lease)
    claim = lease.claim
    if claim.parent or lease.id in draft.state.children:
        raise InvalidRequest(
            f"{lease.id} is delegated in part, or a part itself: release it instead"
        )
    if claim.mode is Mode.EXCLUSIVE:
        draft.emit(Downgraded(lease.id, claim.agent, lease.token, command.key, request))
        drop_idle_recalls(draft, lease.id)
        settle(draft, claim.territory, globs_of(claim.globs))
    return draft.done(lease_answer(draft.state, lease.id, draft.now_s))


def claim_regions(draft: Draft, command: ClaimRegions) -> Decision:
    """Grant all of several leases or none, at once.

    Raises:
        ClaimConflict: one of them is held or waited for by somebody else, or two of them overlap.
        OverCap: they are more than one agent may have.
        Deadlock: somebody of lower priority waits for them whom the session waits for.
    """
    session = session_of(draft.state, command.session)
    claims = _claims(draft, command, session)
    request = fingerprint("regions", [claim.globs for claim in claims], command.mode, command.ttl_s)
    before = answered_before(session, command.key, request)
    if before is not None:
        return draft.done(_answers(draft, before.split()))
    entitled.check_claim(draft.state, session, command.priority)
    return _grant_all(draft, command, claims, request)


def _grant_all(draft: Draft, command: ClaimRegions, claims: list[Claim], request: str) -> Decision:
    trial, ids = Draft(draft.state, draft.now_s), []
    for wanted, region in zip(claims, command.regions, strict=True):
        numbered = _numbered(wanted, trial.next_seq)
        try:
            admission.check_caps(trial.state, numbered, region.share)
        except OverCap as error:
            return refuse(draft, numbered, error)
        found = obstacles(trial.state, numbered, draft.now_s)
        if found:
            return refuse(draft, numbered, conflict(numbered, found, draft.now_s))
        take(trial, numbered, command.key, request)
        ids.append(numbered.id)
    territory = claims[0].territory
    cycle = cycle_through(trial.state, command.session, draft.now_s)
    if cycle:
        return refuse(draft, claims[0], Deadlock(names_of(trial.state, cycle)))
    if territory in trial.state.admission:
        settle_territory(trial, territory)
    return trial.done(_answers(trial, ids))


def _answers(draft: Draft, ids: list[str]) -> RegionsAnswer:
    return RegionsAnswer(tuple(lease_answer(draft.state, id_, draft.now_s) for id_ in ids))


def _claims(draft: Draft, command: ClaimRegions, session: Session) -> list[Claim]:
    if not 1 <= len(command.regions) <= MAX_REGIONS:
        raise InvalidRequest(f"1 to {MAX_REGIONS} regions at once, not {len(command.regions)}")
    found: list[Claim] = []
    for region in command.regions:
        check_terms(command.ttl_s, command.priority, region.note)
        texts = tuple(glob.text for glob in checked_globs(region.globs))
        found.append(
            Claim(
                id="",
                territory=session.territory,
                session=session.id,
                agent=session.agent,
                harness=session.harness,
                globs=texts,
                mode=command.mode,
                ttl_s=command.ttl_s,
                priority=command.priority,
                claimed_at_s=draft.now_s,
                claimed_seq=0,
                note=region.note,
            )
        )
    _check_apart(found)
    return found


def _check_apart(claims: list[Claim]) -> None:
    globs = [
        (number, glob) for number, claim in enumerate(claims) for glob in globs_of(claim.globs)
    ]
    for (region, glob), met in zip(globs, meetings([glob for _, glob in globs]), strict=True):
        for at in sorted(met):
            other_region, other = globs[at]
            if other_region != region:
                witness = overlap(glob, other) or b""
                raise InvalidRequest(
                    f"two regions overlap: {glob.text} and {other.text} both match {text(witness)!r}"
                )


def _numbered(claim: Claim, seq: int) -> Claim:
    return replace(claim, id=f"L{seq}", claimed_seq=seq)
