"""The ledger's verbs that share ground out between holders and waiters, as in `leasefs.client.api`.

`downgrade`, `delegate` and `more_time` of a mount's lease go to its control socket: the mount has to stop writing first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasefs.client.api import Body, Call, query, quoted
from leasefs.core.lease import DEFAULT_TTL_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def claim_regions(
    regions: Iterable[Mapping[str, Any]],
    *,
    key: str,
    shared: bool = False,
    ttl_s: float = DEFAULT_TTL_S,
    priority: int = 0,
) -> Call:
    """Claim several leases `{globs, note, share}` that do not overlap, all of them or none (RegionsAnswer)."""
    body: Body = {
        "key": key,
        "regions": [dict(region) for region in regions],
        "mode": "shared" if shared else "exclusive",
        "ttl_s": ttl_s,
        "priority": priority,
    }
    return Call("POST", "/v1/regions", body, needs_session=True)


def downgrade(lease_id: str, *, key: str) -> Call:
    """Share an exclusive lease, whose holder has stopped writing (LeaseAnswer, with a new token)."""
    return Call("POST", _of(lease_id, "downgrade"), {"key": key}, needs_session=True)


def delegate(
    lease_id: str,
    globs: Iterable[str],
    *,
    to: str,
    key: str,
    ttl_s: float | None = None,
    note: str = "",
    dirty: str = "refuse",
) -> Call:
    """Give a part of a lease to agent `to` (LeaseAnswer of the part).

    Without `ttl_s` it has the lease's own. `dirty` is as in a release.
    """
    body: Body = {"key": key, "globs": list(globs), "to": to, "note": note, "dirty": dirty}
    if ttl_s is not None:
        body["ttl_s"] = ttl_s
    return Call("POST", _of(lease_id, "delegate"), body, needs_session=True)


def recall(
    lease_id: str, *, within_s: float = 60.0, reason: str = "", by: str = "", own: bool = False
) -> Call:
    """Have a holder yield (LeaseAnswer): as operator on behalf of `by`, or with `own` as who delegated it."""
    body: Body = {"within_s": within_s, "reason": reason}
    if by:
        body["by"] = by
    return Call("POST", _of(lease_id, "recall"), body, needs_session=own)


def more_time(lease_id: str, extra_s: float, *, key: str) -> Call:
    """As holder of a recalled lease, ask for more time, once (LeaseAnswer)."""
    body: Body = {"extra_s": extra_s, "key": key}
    return Call("POST", _of(lease_id, "more-time"), body, needs_session=True)


def hold(lease_id: str, hold_s: float, *, key: str, by: str = "") -> Call:
    """As operator, let a lease be held for so long from now, whatever admission says (LeaseAnswer)."""
    return Call("POST", _of(lease_id, "hold"), {"hold_s": hold_s, "by": by, "key": key})


def admission(territory: str) -> Call:
    """How much work a territory takes on, and how much there is (AdmissionAnswer)."""
    return Call("GET", "/v1/admission" + query(territory=territory))


def set_admission(
    territory: str,
    limits: Mapping[str, Any],
    *,
    key: str,
    expected: int | None = None,
    by: str = "",
) -> Call:
    """As operator, give a territory these limits and no others (AdmissionAnswer).

    `limits` are `max_exclusive`, `max_unlanded`, `max_leases`, `max_share` (0 to 1), `max_hold_s`, and their `reason`.
    With `expected`, only if the limits are still those of this version.
    """
    body: Body = {**limits, "by": by, "key": key}
    if expected is not None:
        body["expected"] = expected
    return Call("PUT", "/v1/admission" + query(territory=territory), body)


def freeze(
    globs: Iterable[str],
    *,
    territory: str,
    key: str,
    reason: str,
    within_s: float = 60.0,
    ttl_s: float | None = None,
    by: str = "",
) -> Call:
    """As operator, let nobody write there (LeaseAnswer): for `ttl_s` seconds, or until it is lifted."""
    body: Body = {
        "key": key,
        "territory": territory,
        "globs": list(globs),
        "reason": reason,
        "within_s": within_s,
        "by": by,
    }
    if ttl_s is not None:
        body["ttl_s"] = ttl_s
    return Call("POST", "/v1/freezes", body)


def unfreeze(lease_id: str, *, key: str, by: str = "") -> Call:
    """As operator, lift a freeze, or give up one that still waits (LeaseAnswer)."""
    return Call("DELETE", f"/v1/freezes/{quoted(lease_id)}" + query(by=by or None, key=key))


def reopen(*, by: str = "") -> Call:
    """As operator, have a ledger that was brought back from a backup grant claims again: `{"ok": true}`."""
    return Call("POST", "/v1/reopen", {"by": by})


def freezes(territory: str | None = None) -> Call:
    """What is frozen or about to be: `{"freezes": [LeaseAnswer]}`."""
    return Call("GET", "/v1/freezes" + query(territory=territory))


def _of(lease_id: str, verb: str) -> str:
    return f"/v1/leases/{quoted(lease_id)}/{verb}"
