"""How things stand, read from the durable state when a monitor asks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from leasefs.core.exposition import GAUGE, Family, Sample, by_label, gauge
from leasefs.core.lease import Mode
from leasefs.core.roles import Role
from leasefs.core.sessions import KINDS
from leasefs.core.views import is_live

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.core.records import Lease
    from leasefs.core.state import State

_STATES = "granted", "lapsed", "revoked"


def state_families(state: State, now_s: float) -> Iterator[Family]:
    """All of it; walks the leases, waiters and sessions once."""
    yield gauge("leasefs_last_event", "Number of the log's last event.", state.seq)
    yield _leases(state, now_s)
    yield gauge("leasefs_waiting_claims", "Claims in the queue.", len(state.waiters))
    yield gauge(
        "leasefs_longest_wait_seconds",
        "How long the claim that waits longest has waited; 0 if none does.",
        _longest_wait_s(state, now_s),
    )
    yield _sessions(state, now_s)
    yield gauge("leasefs_recalled_leases", "Leases that must be given up.", len(state.recalled))
    yield gauge("leasefs_frozen_leases", "Freezes in force.", _freezes(state))
    yield gauge(
        "leasefs_closed_seconds",
        "How long nothing is granted yet, after a restore; 0: claims are granted.",
        max(0.0, state.closed_until_s - now_s),
    )
    live = Counter(one.role for one in state.identities.values() if one.is_live)
    yield by_label(
        "leasefs_identities",
        GAUGE,
        "Identities that are not revoked.",
        "role",
        {role.value: live[role] for role in Role},
    )
    dirty, unlanded = state.uncommitted.counts()
    yield by_label(
        "leasefs_intent_paths",
        GAUGE,
        "Paths with intents: dirty, or committed and not landed.",
        "state",
        {"dirty": dirty, "committed": unlanded},
    )
    kept = sum(map(len, state.rescues.values()))
    yield gauge("leasefs_rescues_kept", "Rescues that nobody has taken up or dropped.", kept)
    yield gauge(
        "leasefs_territories", "Territories that sessions or leases are of.", _places(state)
    )


def _leases(state: State, now_s: float) -> Family:
    counts = Counter(
        (lease.claim.mode.value, _how(lease, now_s)) for lease in state.leases.values()
    )
    samples = tuple(
        Sample(counts[mode.value, how], (("mode", mode.value), ("state", how)))
        for mode in Mode
        for how in _STATES
    )
    meaning = (
        "Leases that have a holder: granted ones are trusted, lapsed and revoked ones are not."
    )
    return Family("leasefs_leases", GAUGE, meaning, samples)


def _how(lease: Lease, now_s: float) -> str:
    if lease.revoked_by:
        return "revoked"
    return "lapsed" if lease.lapsed(now_s) else "granted"


def _sessions(state: State, now_s: float) -> Family:
    counts = Counter((session.kind, is_live(session, now_s)) for session in state.sessions.values())
    samples = tuple(
        Sample(counts[kind, live], (("kind", kind), ("state", "live" if live else "silent")))
        for kind in KINDS
        for live in (True, False)
    )
    return Family("leasefs_sessions", GAUGE, "Open sessions; silent: not heard of lately.", samples)


def _longest_wait_s(state: State, now_s: float) -> float:
    since_s = (
        claim.claimed_at_s if claim.queued_at_s is None else claim.queued_at_s
        for claim in state.waiters.values()
    )
    return max(0.0, now_s - min(since_s, default=now_s))


def _freezes(state: State) -> int:
    return sum(bool(lease.claim.frozen_by) for lease in state.leases.values())


def _places(state: State) -> int:
    found = {session.territory for session in state.sessions.values()}
    found.update(lease.claim.territory for lease in state.leases.values())
    return len(found)
