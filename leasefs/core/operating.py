"""What an operator decides for a territory: how much work it takes on, how long a lease is held, what is frozen.

A freeze is a shared lease that an operator holds and nobody writes under: it takes its place in the queue before
all others, recalls what is in its way, and who had to yield for it is first in line when it is lifted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from leasefs.core import admission
from leasefs.core.claims import checked_globs
from leasefs.core.draft import Draft
from leasefs.core.ending import withdraw
from leasefs.core.errors import ClaimConflict, InvalidRequest, TtlOutOfRange, UnknownLease
from leasefs.core.events import AdmissionSet, HoldSet, Queued, RecallEnded, Released
from leasefs.core.globs import globs_of
from leasefs.core.granting import settle, settle_territory, take
from leasefs.core.keys import done_before, fingerprint
from leasefs.core.lease import Mode
from leasefs.core.queue import standing
from leasefs.core.recalling import check_within, recall_for, recall_for_waiters, with_children
from leasefs.core.records import Claim
from leasefs.core.sessions import is_territory
from leasefs.core.views import lease_answer
from leasefs.core.waits import cycle_through

if TYPE_CHECKING:
    from leasefs.core.commands import Freeze, SetAdmission, SetHold, Unfreeze
    from leasefs.core.draft import Decision

FREEZE_PRIORITY = 1_000
"""Above every claim's: three and a half days of waiting."""
FOR_EVER_S = 100 * 365 * 24 * 3600.0
MIN_FREEZE_S = 1.0
_KEY = re.compile(r"[!-~]{1,128}")


def set_admission(draft: Draft, command: SetAdmission) -> Decision:
    """Change the limits of a territory; whoever they held back and do not any more is granted at once."""
    if not is_territory(command.territory):
        raise InvalidRequest(f"bad territory {command.territory[:80]!r}", field="territory")
    admission.check(command.admission)
    request = fingerprint("admission", command.territory, command.admission, command.expected)
    if done_before(draft.state, command.key, request):
        return draft.done(admission.admission_answer(draft.state, command.territory))
    _check_version(draft, command)
    draft.emit(AdmissionSet(command.territory, command.admission, command.key, request))
    settle_territory(draft, command.territory)
    return draft.done(admission.admission_answer(draft.state, command.territory))


def _check_version(draft: Draft, command: SetAdmission) -> None:
    now = draft.state.admission.get(command.territory, admission.NO_LIMITS)
    if command.expected not in {None, now.version}:
        who = f"{now.by or 'somebody'} set others" if now.version else "they were lifted"
        raise ClaimConflict(
            f"the limits of {command.territory} are not those that this change was made for: {who} meanwhile; look at them "
            "again, then change them",
            version=now.version,
            by=now.by,
        )


def set_hold(draft: Draft, command: SetHold) -> Decision:
    """Let one lease be held for longer, or shorter, than its territory's cap. Raises UnknownLease."""
    lease = draft.state.leases.get(command.lease)
    if lease is None or lease.claim.frozen_by:
        raise UnknownLease(command.lease)
    if not 0.0 <= command.hold_s <= FOR_EVER_S:
        raise InvalidRequest(f"a lease is held for 0 s to {FOR_EVER_S:g} s, not {command.hold_s:g}")
    request = fingerprint("hold", command.lease, command.hold_s)
    if done_before(draft.state, command.key, request):
        return draft.done(lease_answer(draft.state, lease.id, draft.now_s))
    until_s = draft.now_s + command.hold_s
    agent, by = lease.claim.agent, command.operator
    draft.emit(HoldSet(lease.id, agent, lease.token, until_s, by, command.key, request))
    if command.hold_s > 0.0:
        for id_ in with_children(draft.state, lease.id):
            _end_recall_of_cap(draft, id_)
    return draft.done(lease_answer(draft.state, lease.id, draft.now_s))


def _end_recall_of_cap(draft: Draft, lease_id: str) -> None:
    """What was recalled for its cap alone may be kept, unless claims that counted on it would then wait for ever."""
    lease = draft.state.leases[lease_id]
    recall = lease.recall
    if recall is None or recall.claims or recall.by != admission.BY or lease.revoked_by:
        return
    probe = Draft(draft.state, draft.now_s)
    ended = RecallEnded(lease_id, lease.claim.agent, lease.token, "it may be held for longer")
    probe.emit(ended)
    if cycle_through(probe.state, lease.claim.session, draft.now_s) is None:
        draft.emit(ended)
        recall_for_waiters(draft, lease_id)


def freeze(draft: Draft, command: Freeze) -> Decision:
    """Let nobody write there: at once, or as soon as those who do have yielded."""
    globs = tuple(glob.text for glob in checked_globs(command.globs))
    _check_freeze(command)
    session = f"freeze-{command.key}"
    for id_ in draft.state.of_session.get(session, ()):
        return draft.done(lease_answer(draft.state, id_, draft.now_s))
    wanted = Claim(
        id=f"L{draft.next_seq}",
        territory=command.territory,
        session=session,
        agent=command.operator,
        harness="operator",
        globs=globs,
        mode=Mode.SHARED,
        ttl_s=FOR_EVER_S if command.ttl_s is None else command.ttl_s,
        priority=FREEZE_PRIORITY,
        claimed_at_s=draft.now_s,
        claimed_seq=draft.next_seq,
        note=command.reason,
        recall_within_s=command.within_s,
        frozen_by=command.operator,
    )
    found = standing(draft.state, wanted, draft.now_s)
    if found or admission.closed(draft.state, draft.now_s):
        draft.emit(Queued(wanted, found.ids(), ahead=found.sessions()))
        recall_for(draft, wanted)
    else:
        take(draft, wanted)
    return draft.done(lease_answer(draft.state, wanted.id, draft.now_s))


def _check_freeze(command: Freeze) -> None:
    check_within(command.within_s)
    if not _KEY.fullmatch(command.key):
        raise InvalidRequest("a freeze has a key of 1 to 128 printable characters")
    if not is_territory(command.territory):
        raise InvalidRequest(f"bad territory {command.territory[:80]!r}", field="territory")
    if not command.reason.strip() or len(command.reason) > admission.MAX_REASON_LENGTH:
        raise InvalidRequest(
            f"a freeze gives its reason, in {admission.MAX_REASON_LENGTH} characters at most: refusals quote it"
        )
    if command.ttl_s is not None and not MIN_FREEZE_S <= command.ttl_s <= FOR_EVER_S:
        raise TtlOutOfRange(command.ttl_s, MIN_FREEZE_S, FOR_EVER_S)


def unfreeze(draft: Draft, command: Unfreeze) -> Decision:
    """Lift a freeze, or give up one that still waits. Raises UnknownLease."""
    request = fingerprint("unfreeze", command.lease)
    if done_before(draft.state, command.key, request):
        return draft.done(lease_answer(draft.state, command.lease, draft.now_s))
    lease = draft.state.leases.get(command.lease)
    claim = lease.claim if lease else draft.state.waiters.get(command.lease)
    if claim is None or not claim.frozen_by:
        raise UnknownLease(command.lease)
    reason = f"lifted by {command.operator}"
    if lease is None:
        withdraw(draft, claim, reason, command.key, request)
    else:
        draft.emit(Released(lease.id, claim.agent, lease.token, reason, command.key, request))
    settle(draft, claim.territory, globs_of(claim.globs))
    return draft.done(lease_answer(draft.state, claim.id, draft.now_s))
