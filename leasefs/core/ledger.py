"""The ledger: a pure function from a command to events. Start reading here.

    decide(state, command, now_s) -> Decision(events, state, answer | error)
    apply(state, event)           -> state                       (leasefs.core.state)

Rules of this file and the ones it calls:

* No I/O, no clock, no randomness: `now_s` comes in, ids and tokens are sequence numbers. So the same
  commands give the same log, and replaying the log gives the same state (P11).
* `decide` never changes its argument. A server that loses the race for the log drops the decision and
  decides again on the newer state.
* A request that is wrong raises `InvalidRequest`; one that is refused returns or raises its reason.
  Either way nothing changes but, at most, the trace of a refused claim.

Where each rule stands: who stands before whom, `queue`; that nobody waits for ever, `waits`; how long it may take,
`estimating`; claims and revocations, `claims`; the grant itself, `granting`; upgrade, downgrade and many at once,
`converting`; recall and what comes back after it, `recalling`; parts given to others, `delegating`; limits and caps,
`admission`; what operators decide, `operating`; giving back and its gate, `releasing`; sessions, `sessions`; heartbeats and deadlines, `renewal`; what mounts report of their trees,
`reports`; rescues, `rescues`; what a new holder is told, `inheriting`; successes of checks, `fresh`;
who is known to the ledger, `identities`, and what that entitles to, `entitled`; exact overlap, `overlap`; after a backup was brought back, `restoring`; the write check that mounts make without the ledger, `policy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasefs.core import (
    claims,
    converting,
    delegating,
    fresh,
    identities,
    operating,
    recalling,
    releasing,
    renewal,
    reports,
    rescues,
    restoring,
    sessions,
)
from leasefs.core.commands import (
    AnyCommand,
    AskForTime,
    ClaimLease,
    ClaimRegions,
    Command,
    DelegateLease,
    DowngradeLease,
    DropRescue,
    EndSession,
    Freeze,
    Heartbeat,
    OpenSession,
    RecallLease,
    RecordFresh,
    ReleaseLease,
    ReopenLedger,
    ReportForeignWrites,
    ReportIntents,
    ReportRefusals,
    ReportRescue,
    RevokeLease,
    SetAdmission,
    SetHold,
    SettleIntents,
    StartLedger,
    Tick,
    Unfreeze,
)
from leasefs.core.draft import Decision, Draft
from leasefs.core.errors import LeasefsError
from leasefs.core.state import State, apply

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Decision", "State", "apply", "decide"]

_DECIDERS: dict[type[Command], Callable[[Draft, Any], Decision]] = {
    StartLedger: renewal.start_ledger,
    OpenSession: sessions.open_session,
    EndSession: sessions.end_session,
    ClaimLease: claims.claim,
    ClaimRegions: converting.claim_regions,
    DowngradeLease: converting.downgrade,
    DelegateLease: delegating.delegate,
    RecallLease: recalling.recall,
    AskForTime: recalling.ask_for_time,
    SetAdmission: operating.set_admission,
    SetHold: operating.set_hold,
    Freeze: operating.freeze,
    Unfreeze: operating.unfreeze,
    ReopenLedger: restoring.reopen,
    ReleaseLease: releasing.release,
    RevokeLease: claims.revoke,
    Heartbeat: renewal.heartbeat,
    ReportRefusals: renewal.report_refusals,
    ReportIntents: reports.report_intents,
    SettleIntents: reports.settle_intents,
    ReportForeignWrites: reports.report_foreign_writes,
    ReportRescue: rescues.report_rescue,
    DropRescue: rescues.drop_rescue,
    RecordFresh: fresh.record_fresh,
    **identities.DECIDERS,
    Tick: renewal.tick,
}


def decide(state: State, command: AnyCommand, now_s: float) -> Decision:
    """What happens when `command` arrives at `now_s`, ledger seconds.

    A clock that went back is held at the last event's time: a deadline never moves into the past (P3).
    """
    draft = Draft(state, max(now_s, state.at_s))
    try:
        return _DECIDERS[type(command)](draft, command)
    except LeasefsError as error:
        return Decision((), state, error=error)
