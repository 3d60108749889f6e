"""P1, P6, P7, P11 by the log alone, and what agents were told against it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from leasefs.core.events import Granted, Queued, Released, Withdrawn
from leasefs.core.lease import Mode
from leasefs.core.overlap import first_overlap
from leasefs.testing.chaos.acts import OK
from leasefs.testing.chaos.history import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from leasefs.testing.chaos.acts import Act
    from leasefs.testing.chaos.history import History
    from leasefs.testing.chaos.holds import Hold


def check_log(history: History, holds: Sequence[Hold]) -> Iterator[Violation]:
    """Everything that the log says of itself, and that agents say of it."""
    yield from _is_whole(history)
    yield from _double_holders(holds)
    yield from _told_but_unknown(history, {hold.claim.id: hold for hold in holds})
    yield from _lost_waiters(history)


def _is_whole(history: History) -> Iterator[Violation]:
    """Numbers without a gap, so that no token is given twice, and a time that never goes back."""
    if history.log and history.log[0].seq != 1:
        yield Violation("history incomplete", (f"the log begins with {history.log[0].seq}",))
    for before, after in pairwise(history.log):
        if after.seq != before.seq + 1:
            yield Violation("tokens not monotonic", (f"{after.seq} follows {before.seq}",))
        if after.at_s < before.at_s:
            yield Violation("ledger time went back", (f"{before.at_s} at {before.seq}", f"{after}"))


def _double_holders(holds: Sequence[Hold]) -> Iterator[Violation]:
    """No two sessions hold overlapping ground at once if one of them holds it alone, parts of it left out."""
    live: list[Hold] = []
    for hold in holds:
        live = [one for one in live if one.end_s > hold.start_s]
        for one in live:
            if _may_be_together(one, hold, live):
                continue
            met = first_overlap(one.globs, hold.globs)
            if met is not None:
                yield Violation("double holders", (one.shown(), hold.shown(), f"both: {met[2]!r}"))
        live.append(hold)


def _may_be_together(one: Hold, new: Hold, live: Sequence[Hold]) -> bool:
    if one.claim.session == new.claim.session or one.claim.id in _above(new, live):
        return True
    # What was shared may be taken for oneself alone only by an upgrade, which is a grant of its own.
    alone = new.claim.mode is Mode.EXCLUSIVE or (
        one.claim.mode is Mode.EXCLUSIVE and one.exclusive_until_s > new.start_s
    )
    return not alone


def _above(hold: Hold, live: Sequence[Hold]) -> set[str]:
    """The leases that this one was carved out of."""
    by_id = {one.claim.id: one for one in live}
    found: set[str] = set()
    parent = hold.claim.parent
    while parent and parent not in found:
        found.add(parent)
        parent = by_id[parent].claim.parent if parent in by_id else ""
    return found


def _told_but_unknown(history: History, by_id: dict[str, Hold]) -> Iterator[Violation]:
    """What an agent was told of a claim or a release is in the log."""
    queued = {one.event.claim.id for one in history.log if isinstance(one.event, Queued)}
    over = {one.event.lease for one in history.log if isinstance(one.event, Released)}
    over |= {one.event.claim for one in history.log if isinstance(one.event, Withdrawn)}
    for act in history.acts:
        if act.outcome == OK and act.what == "claim":
            yield from _claim_known(act, by_id, queued)
        elif act.outcome == OK and act.what == "release" and act.lease not in over:
            hold = by_id.get(act.lease)
            if hold is None or hold.end_s == float("inf"):
                yield Violation("a release was forgotten", (act.shown(),))


def _claim_known(act: Act, by_id: dict[str, Hold], queued: set[str]) -> Iterator[Violation]:
    hold = by_id.get(act.lease)
    if act.token == 0:
        if hold is None and act.lease not in queued:
            yield Violation("a queued claim was forgotten", (act.shown(),))
    elif hold is None or act.token not in hold.tokens:
        known = hold.shown() if hold is not None else "the log has no such grant"
        yield Violation("a grant was forgotten", (act.shown(), known))


def _lost_waiters(history: History) -> Iterator[Violation]:
    """Whoever began to wait was granted or left the queue; at the end nobody waits."""
    waiting: dict[str, str] = {}
    for recorded in history.log:
        match recorded.event:
            case Queued(claim=claim):
                waiting[claim.id] = (
                    f"{claim.id} of {claim.agent} ({' '.join(claim.globs)}) waits since {recorded.seq}"
                )
            case Granted(claim=claim):
                waiting.pop(claim.id, None)
            case Withdrawn(claim=claim_id):
                waiting.pop(claim_id, None)
            case _:
                pass
    for shown in [*waiting.values(), *history.waiting]:
        yield Violation("a lost waiter", (shown,))
