"""A verdict in words: what it is, who stands in the way, until when, what to do next (P10)."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from leasefs.core.paths import shown
from leasefs.core.policy import Allowed, Reason
from leasefs_cli.durations import in_words
from leasefs_cli.lease_notes import freeze_words, note_lines, recall_words
from leasefs_cli.lease_rows import globs_of, until, who_is
from leasefs_cli.waiter_rows import blockers_of, eta

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.client import api
    from leasefs.core.policy import Refused, Verdict


# What a claim of its own helps a write with.
_CLAIMED = frozenset({Reason.NOT_LEASED, Reason.LAPSED, Reason.TREE_NOT_LEASED})


class Claims(NamedTuple):
    """The claims over a path: this session's and everybody else's."""

    ours: Sequence[api.Body]
    theirs: Sequence[api.Body]


class Explanation(NamedTuple):
    """`reason` and `next_step` are each one sentence; `next_step` is empty if there is nothing to do."""

    passes: bool
    reason: str
    next_step: str


def explain(verdict: Verdict, claims: Claims, path: str) -> Explanation:
    """Put the verdict on a write to `path` (as the person typed it) into words."""
    if isinstance(verdict, Allowed):
        return Explanation(True, _why_allowed(verdict, claims), "")
    if verdict.reason is Reason.CONTROL:
        return Explanation(False, verdict.reason.value, "")
    if verdict.reason is Reason.LAPSED:
        return Explanation(
            False,
            verdict.reason.value,
            "write again: the mount asks the ledger once more; if it is taken, claim again",
        )
    return Explanation(False, _who_has_it(verdict, claims), _what_to_do(claims, shlex.quote(path)))


def by_policy(
    told: Explanation, verdict: Verdict, claims: Claims, unleased: api.Body
) -> Explanation:
    """The same, where the mount treats writes that no lease covers otherwise than by refusing them."""
    policy = unleased.get("policy", "deny")
    if isinstance(verdict, Allowed) or policy == "deny" or verdict.reason is Reason.CONTROL:
        return told
    if policy == "observe":
        return Explanation(True, f"this mount only observes, and reports it: {told.reason}", "")
    if "claim" in policy and verdict.reason in _CLAIMED and not (claims.ours or claims.theirs):
        reason = f"nobody has it, and a write claims it first, by this mount's policy ({policy})"
        return Explanation(True, reason, "")
    if "wait" not in policy:
        return told
    waits = f"a write waits for it, for {in_words(unleased['wait_s'])} at most ({policy})"
    return told._replace(next_step=f"{waits}; or: {told.next_step}" if told.next_step else waits)


def _why_allowed(verdict: Allowed, claims: Claims) -> str:
    if verdict.lease is None:
        return "no lease is needed there: it is git's own, or git ignores it"
    id_ = verdict.lease.lease_id
    lease = next((lease for lease in claims.ours if lease["lease"] == id_), None)
    what = f"{id_} {globs_of(lease) if lease else ''}".rstrip()
    if verdict.companion:
        return f"it is a companion file of an atomic save under {what}"
    recalled = f"; {recall_words(id_, lease['recall'])}" if lease and lease.get("recall") else ""
    return f"{what} is yours, for {until(lease or {})} after its last use{recalled}"


def _held(claims: Sequence[api.Body]) -> list[api.Body]:
    return [claim for claim in claims if claim["state"] != "waiting"]


def _who_has_it(verdict: Refused, claims: Claims) -> str:
    held = _held(claims.theirs)
    if held:
        return "; ".join(map(_has_it, held))
    for lease in _held(claims.ours):
        if lease.get("recall"):
            return "; ".join(note_lines(lease))
        if lease["mode"] == "shared":
            return f"your lease {lease['lease']} {globs_of(lease)} is shared: it lets nobody write"
        if lease["state"] == "revoked":
            return f"your lease {lease['lease']} {globs_of(lease)} was revoked by an operator"
    if verdict.reason is Reason.TREE_NOT_LEASED:
        return f"{verdict.reason.value}, for example {shown(verdict.path)}; nobody else holds it"
    return f"{verdict.reason.value}, and nobody else holds it"


def _has_it(lease: api.Body) -> str:
    if lease.get("frozen_by"):
        return freeze_words(lease)
    part = f", delegated out of {lease['parent']}" if lease.get("parent") else ""
    recall = lease.get("recall")
    how_long = f"for {until(lease)} unless renewed"
    if lease["state"] == "revoked":
        how_long = f"revoked, free within {until(lease)}"
    elif recall:
        how_long = f"recalled by {recall['by']}, yields within {in_words(recall['yields_in_s'])}"
    return f"{who_is(lease)} holds {globs_of(lease)} as {lease['lease']} ({lease['mode']}{part}), {how_long}"


def _what_to_do(claims: Claims, path: str) -> str:
    for claim in claims.ours:
        if claim["state"] == "waiting":
            behind = f"behind {blockers_of(claim)}, ETA {eta(claim)}"
            back = f" to bring back {claim['resumes']}" if claim.get("resumes") else ""
            return (
                f"your claim {claim['lease']} waits{back} at position {claim['position']}, {behind}"
            )
    own = {claim["lease"] for claim in claims.ours}
    for lease in _held(claims.theirs):
        if lease.get("parent") in own:
            return f"leasefs recall {lease['lease']}"
    if any(lease.get("recall") for lease in _held(claims.ours)):
        return "wait: it comes back by itself when those that it was recalled for are done"
    if any(claim["mode"] == "shared" for claim in _held(claims.ours)):
        shared = next(claim for claim in _held(claims.ours) if claim["mode"] == "shared")
        return f"leasefs claim --upgrade {shared['lease']} --wait"
    busy = _held(claims.theirs) or claims.theirs
    return f"leasefs claim {path}" + (" --wait" if busy else "")
