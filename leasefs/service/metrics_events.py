"""What happened since this server began, counted from the durable events and nothing else.

So nothing is counted twice, nor counted and then not done; a monitor adds the servers up itself (a counter that begins
again at 0 is what it expects of a restart).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from leasefs.core import events as ev
from leasefs.core.exposition import COUNTER, Counts, Histogram, by_label, counter
from leasefs.core.intents import Unleased
from leasefs.core.policy import Reason
from leasefs.service.errors_http import STATUS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from leasefs.core.exposition import Family
    from leasefs.core.state import State
    from leasefs.service.entries import Record

OTHER = "other"
# Seconds: from a claim that only met a request on its way to one that waited for a night's build.
_WAITS_S = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0)
_REASONS = {reason.value: reason.name.lower().replace("_", "-") for reason in Reason}


class EventMetrics:
    """Listens to a writer."""

    def __init__(self) -> None:
        self._types: dict[str, float] = {}
        self._refused = Counts(
            "leasefs_claims_refused_total", "Claims that were refused, by error code.", ("code",)
        )
        self._writes_refused = Counts(
            "leasefs_writes_refused_total",
            "Changes that mounts did not let through, or would not have (observe), by reason.",
            ("reason", "observed"),
        )
        self._foreign = Counts(
            "leasefs_foreign_writes_total",
            "Paths changed through no mount, by how that came about.",
            ("how",),
            [(how.value,) for how in Unleased],
        )
        self._revoked = Counts(
            "leasefs_revocations_total",
            "Leases that were revoked, by an operator or because a recall's deadline passed.",
            ("cause",),
            [("operator",), ("recall",)],
        )
        self._waits = Histogram(
            "leasefs_claim_wait_seconds",
            "How long granted claims had waited, those that were granted at once included.",
            _WAITS_S,
        )
        self._renewals = 0

    def heard(self, records: Sequence[Record], state: State) -> None:
        """Durable events, and the state after them (`service.writer.Listener`)."""
        for record in records:
            self._types[record.type] = self._types.get(record.type, 0) + 1
            self._count(record.event, state)

    def families(self) -> Iterator[Family]:
        """As they stand."""
        yield by_label(
            "leasefs_events_total", COUNTER, "Events of the log, by type.", "type", self._events()
        )
        for tag, name, meaning in _TOTALS:
            yield counter(name, meaning, self._types.get(tag, 0))
        yield counter("leasefs_renewals_total", "Leases that heartbeats renewed.", self._renewals)
        for counts in (self._revoked, self._refused, self._writes_refused, self._foreign):
            yield counts.family()
        yield self._waits.family()

    def _events(self) -> dict[str, float]:
        return {tag: self._types.get(tag, 0) for tag in _TAGS}

    def _count(self, event: ev.AnyEvent, state: State) -> None:
        if isinstance(event, ev.Granted):
            self._waits.observe(_waited_s(event, state))
        elif isinstance(event, ev.Renewed):
            self._renewals += len(event.leases)
        elif isinstance(event, ev.ClaimRefused):
            self._refused.add(event.code if event.code in STATUS else OTHER)
        elif isinstance(event, ev.Revoked):
            self._revoked.add("recall" if event.for_recall else "operator")
        elif isinstance(event, ev.ForeignWrites):
            self._foreign.add(event.how.value, by=len(event.changes))
        elif isinstance(event, ev.WritesRefused):
            for refusal in event.refusals:
                # A mount's own words: one of another version, or a liar, must not make names without end.
                reason = _REASONS.get(refusal.reason, OTHER)
                self._writes_refused.add(reason, "yes" if refusal.observed else "no")


def _waited_s(event: ev.Granted, state: State) -> float:
    claim = event.claim
    since_s = claim.claimed_at_s if claim.queued_at_s is None else claim.queued_at_s
    lease = state.leases.get(claim.id)  # given back in the same group of events: gone already
    return max(0.0, (state.at_s if lease is None else lease.granted_at_s) - since_s)


_TAGS = sorted(str(event.__struct_config__.tag) for event in get_args(ev.AnyEvent))
_TOTALS = (
    ("granted", "leasefs_grants_total", "Claims that became leases."),
    ("queued", "leasefs_claims_queued_total", "Claims that had to wait."),
    ("withdrawn", "leasefs_claims_withdrawn_total", "Claims that left the queue without a lease."),
    ("released", "leasefs_releases_total", "Leases that their holders gave back."),
    ("lapsed", "leasefs_lapses_total", "Leases whose deadline passed without a heartbeat."),
    ("expired", "leasefs_expiries_total", "Leases that ended against their holder's will."),
    ("recalled", "leasefs_recalls_total", "Recalls: a holder was asked to yield."),
    ("release-refused", "leasefs_releases_refused_total", "Releases refused by the release gate."),
    ("session-opened", "leasefs_sessions_opened_total", "Sessions that began."),
    ("session-ended", "leasefs_sessions_ended_total", "Sessions that ended."),
    ("rescued", "leasefs_rescues_total", "Rescues that were made."),
)
