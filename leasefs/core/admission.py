"""How much work a territory takes on: limits that make claims wait, and caps that refuse them (P7).

Admission stands behind the queue: only what no holder and no earlier waiter stops is held back by it, in the
order of service. It never makes a wait unending: when all whose work fills the territory wait, directly or through
others, for admission itself, no place would ever come free; then a claim is let through above the limit if its
maker is one of them, or one that they wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.answers import AdmissionAnswer, Blocker
from leasefs.core.errors import InvalidRequest, OverCap
from leasefs.core.lease import Mode
from leasefs.core.queue import is_blocked
from leasefs.core.records import Admission
from leasefs.core.waits import own_waiters, reaches, waits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.core.records import Claim, Lease
    from leasefs.core.state import State

MAX_REASON_LENGTH = 500
MOST = 1_000_000
LEAST_HOLD_S = 1.0
NO_LIMITS = Admission()
BY = "admission"
"""Who recalls a lease that was held for as long as its territory allows."""


def check(admission: Admission) -> None:
    """Raise InvalidRequest unless these limits make sense."""
    for name in ("max_exclusive", "max_unlanded", "max_leases"):
        value = getattr(admission, name)
        if value is not None and not 0 <= value <= MOST:
            raise InvalidRequest(f"{name} is 0 to {MOST}, not {value}", field=name)
    if admission.max_share is not None and not 0.0 < admission.max_share <= 1.0:
        raise InvalidRequest(
            f"max_share is a part of all files, above 0 and at most 1, not {admission.max_share:g}",
            field="max_share",
        )
    if admission.max_hold_s is not None and not LEAST_HOLD_S <= admission.max_hold_s <= 1e9:
        raise InvalidRequest(
            f"max_hold_s is at least {LEAST_HOLD_S:g} s, not {admission.max_hold_s:g}",
            field="max_hold_s",
        )
    if len(admission.reason) > MAX_REASON_LENGTH or len(admission.by) > MAX_REASON_LENGTH:
        raise InvalidRequest(f"a reason has at most {MAX_REASON_LENGTH} characters")


def unlanded(state: State, territory: str) -> int:
    """The leases, live or over, under which work was done that has not landed."""
    return len(state.uncommitted.works.get(territory, ()))


def closed(state: State, now_s: float) -> str:
    """Why nothing at all is granted now, in words; empty if it is. See `leasefs.core.restoring`."""
    if now_s >= state.closed_until_s:
        return ""
    return (
        "the ledger was brought back from a backup, and mounts may still hold what it does not know of; it grants again in "
        f"{state.closed_until_s - now_s:.0f} s, or when an operator says that nobody does (`leasefs ledger reopen`)"
    )


def is_full(state: State, territory: str) -> str:
    """What fills the territory, in words; empty if another exclusive lease may be granted."""
    admission = state.admission.get(territory)
    if admission is None:
        return ""
    live, open_ = state.exclusive.get(territory, 0), unlanded(state, territory)
    why = f" ({admission.reason})" if admission.reason else ""
    by = f", set by {admission.by}" if admission.by else ""
    if admission.max_exclusive is not None and live >= admission.max_exclusive:
        return f"{_leases(live, 'exclusive ')} {'is' if live == 1 else 'are'} live, the limit is {admission.max_exclusive}{by}{why}"
    if admission.max_unlanded is not None and open_ >= admission.max_unlanded:
        return f"work of {_leases(open_)} has not landed, the limit is {admission.max_unlanded}{by}{why}"
    return ""


def is_closed(state: State, territory: str, now_s: float) -> bool:
    """Whether a territory is full and somebody inside it waits for nothing: so a place will come free."""
    if not is_full(state, territory):
        return False
    waiting = {claim.session for claim in state.waiters.values() if claim.territory == territory}
    return any(session not in waiting for session in _inside(state, territory, now_s))


def held_back(state: State, claim: Claim, now_s: float) -> str | None:
    """Why admission holds this claim back, in words; None if it does not.

    Only for claims that nothing else stops.
    """
    if now_s < state.closed_until_s:
        return closed(state, now_s)
    full = over_limit(state, claim)
    return full if full and not _must_go_on(state, claim, now_s) else None


def over_limit(state: State, claim: Claim) -> str | None:
    """Why the territory takes on no more of such claims, in words; None if it does."""
    return is_full(state, claim.territory) or None if claim.mode is Mode.EXCLUSIVE else None


def _must_go_on(state: State, claim: Claim, now_s: float) -> bool:
    """Whether all inside the territory wait for ever unless admission lets this claim, or one like it, through."""
    is_waited_for, seen = False, set[str]()
    for session in _inside(state, claim.territory, now_s):
        if session in seen:
            continue
        seen.add(session)
        if session != claim.session and not waits(state, session):
            return False
        if not reaches(state, session, lambda one: _is_held_back(state, one, claim, now_s), now_s):
            return False
        is_waited_for = is_waited_for or reaches(
            state, session, lambda one: one == claim.session, now_s
        )
    return is_waited_for


def _is_held_back(state: State, session: str, claim: Claim, now_s: float) -> bool:
    """Whether nothing but admission stops a claim of this session; `claim` is taken to be stopped."""
    return session == claim.session or any(
        not is_blocked(state, waiter, now_s) for waiter in own_waiters(state, session)
    )


def _inside(state: State, territory: str, now_s: float) -> Iterator[str]:
    """The sessions whose leases, or whose agents' unlanded work, fill the territory; some more than once.

    A lease that has lapsed keeps nobody inside: its place comes free as soon as a timer looks at it.
    """
    for lease in state.leases.values():
        claim = lease.claim
        if (
            claim.territory == territory
            and claim.mode is Mode.EXCLUSIVE
            and not lease.lapsed(now_s)
        ):
            yield claim.session
    for work in state.uncommitted.works.get(territory, {}).values():
        session = state.by_agent.get((territory, work.agent))
        if session is not None:
            yield session


def blocker(claim: Claim, why: str, kind: str = "admission") -> Blocker:
    """Admission, or what closes the whole ledger, as what stands before a claim."""
    return Blocker(
        id="",
        kind=kind,
        session="",
        agent="",
        harness="",
        mode=claim.mode,
        glob="",
        wanted="",
        witness="",
        expires_in_s=None,
        reason=why,
    )


def check_caps(state: State, claim: Claim, share: float | None) -> None:
    """Raise OverCap if the claim is more than one agent may have."""
    admission = state.admission.get(claim.territory)
    if admission is None or claim.mode is not Mode.EXCLUSIVE:
        return
    if admission.max_leases is not None:
        _check_count(state, claim, admission.max_leases)
    if admission.max_share is not None:
        _check_share(admission.max_share, share)


def _check_count(state: State, claim: Claim, most: int) -> None:
    own = [
        id_
        for id_ in state.of_session.get(claim.session, ())
        if id_ != claim.replaces and _is_exclusive(state, id_)
    ]
    if len(own) >= most:
        raise OverCap(
            f"{claim.agent} has {len(own)} leases or claims ({', '.join(sorted(own)[:8])}), and this territory lets one "
            f"agent have {most}; release one first",
            leases=sorted(own)[:64],
            max_leases=most,
        )


def _is_exclusive(state: State, id_: str) -> bool:
    lease = state.leases.get(id_)
    return (lease.claim if lease else state.waiters[id_]).mode is Mode.EXCLUSIVE


def _check_share(most: float, share: float | None) -> None:
    if share is None:
        raise OverCap(
            "this territory caps the share of its files that one lease may cover, so a claim must say it (`share`)",
            max_share=most,
            needs="share",
        )
    if not 0.0 <= share <= 1.0:
        raise InvalidRequest(f"share is a part of all files, 0 to 1, not {share:g}")
    if share > most:
        raise OverCap(
            f"the claim covers {share:.1%} of the files, and this territory lets one lease cover {most:.1%}; claim what "
            "you change, not what you read (`leasefs plan` proposes regions)",
            share=share,
            max_share=most,
        )


def hold_ends_at_s(state: State, lease: Lease) -> float | None:
    """Until when a lease may be held, by its territory's cap or what an operator said instead."""
    if lease.hold_until_s is not None:
        return lease.hold_until_s
    admission = state.admission.get(lease.claim.territory)
    if admission is None or admission.max_hold_s is None or lease.claim.frozen_by:
        return None
    return lease.granted_at_s + admission.max_hold_s


def admission_answer(state: State, territory: str) -> AdmissionAnswer:
    """The limits of a territory, and how much of them is used."""
    waiting = sum(claim.territory == territory for claim in state.waiters.values())
    return AdmissionAnswer(
        territory=territory,
        admission=state.admission.get(territory, NO_LIMITS),
        exclusive=state.exclusive.get(territory, 0),
        unlanded=unlanded(state, territory),
        waiting=waiting,
    )


def _leases(count: int, kind: str = "") -> str:
    return f"{count} {kind}lease{'s' * (count != 1)}"
