"""Waiting in the queue from a command line: pushed to by the ledger, never polling it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.client import api
from leasefs.client.clock import BoottimeClock, pause
from leasefs.client.ids import new_key
from leasefs.core.errors import (
    LeasefsError,
    LeaseLost,
    LedgerUnavailable,
    NotMounted,
    UnknownLease,
    WaitTimedOut,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.client.blocking import Link

# How long one answer may be held back. Short enough to show a moved queue, and to keep a session alive
# that has no mount to beat for it (the ledger drops the claims of one that is silent for 90 s).
TURN_S = 20.0
# Whoever pressed Ctrl-C waits for this at most.
WITHDRAW_TIMEOUT_S = 3.0
# How long a ledger may be away before the waiting ends.
AWAY_S = 30.0
RETRY_S = 0.2


def wait_for_grant(
    link: Link,
    waiting: api.Body,
    *,
    timeout_s: float | None,
    on_change: Callable[[api.Body], None],
) -> api.Body:
    """The LeaseAnswer of the grant; `on_change` sees the waiting answer whenever its place changes.

    `timeout_s` None waits without end. Whatever ends the waiting early, Ctrl-C included, withdraws the
    claim.

    Raises:
        WaitTimedOut: if it was not granted in time.
        LeaseLost: if somebody withdrew the claim, or it was granted and revoked meanwhile.
        LedgerUnavailable: if the ledger stays away; the claim may then still wait there.
    """
    try:
        granted = _wait(link, waiting, timeout_s, on_change)
    except BaseException as error:
        _withdraw(link, waiting["lease"], error)
        raise
    if granted["state"] != "granted":
        reason = f"it is {granted['state']}: withdrawn or revoked while it waited"
        raise LeaseLost(waiting["lease"], reason)
    return granted


def _wait(
    link: Link, waiting: api.Body, timeout_s: float | None, on_change: Callable[[api.Body], None]
) -> api.Body:
    clock = BoottimeClock()
    deadline_s = None if timeout_s is None else clock.now_s() + timeout_s
    place: object = None
    while waiting["state"] == "waiting":
        if place != _place(waiting):
            place = _place(waiting)
            on_change(waiting)
        left_s = TURN_S if deadline_s is None else deadline_s - clock.now_s()
        if left_s <= 0:
            raise WaitTimedOut(_too_late(waiting, timeout_s), lease=waiting["lease"])
        waiting = _news(link, waiting["lease"], min(TURN_S, left_s), clock)
    return waiting


def _news(link: Link, lease_id: str, wait_s: float, clock: BoottimeClock) -> api.Body:
    """What the ledger says next. It keeps the claim while it is away, so its return is waited for."""
    give_up_at_s = clock.now_s() + AWAY_S
    while True:
        try:
            if link.credentials is not None:
                link.send(api.heartbeat(link.credentials.session))
            return link.send(api.lease(lease_id, wait_s=wait_s))
        except LedgerUnavailable:
            if clock.now_s() >= give_up_at_s:
                raise
        pause(RETRY_S)
        wait_s = 0.0


def _place(waiting: api.Body) -> object:
    """What a person would want to hear of when it changes."""
    return waiting.get("position"), [
        (blocker.get("id"), blocker.get("reason"), blocker.get("yields_in_s") is not None)
        for blocker in waiting.get("waits_for", ())
    ]


def _withdraw(link: Link, lease_id: str, error: BaseException) -> None:
    """Leave the queue; `error` is what the caller hears, so a second failure is a note on it."""
    try:
        link.hurried(WITHDRAW_TIMEOUT_S).send(api.release(lease_id, key=new_key()))
    except (UnknownLease, NotMounted):
        pass  # it is out of the queue already, or with the mount its session is over
    except LeasefsError as away:
        error.add_note(f"claim {lease_id} could not be withdrawn: {away.message}")


def _too_late(waiting: api.Body, timeout_s: float | None) -> str:
    return (
        f"not granted within {timeout_s:g} s: {_in_the_way(waiting)}; the claim was withdrawn, `leasefs queue` shows "
        "who is ahead"
    )


def _in_the_way(waiting: api.Body) -> str:
    first = (waiting.get("waits_for") or [{}])[0]
    if first.get("kind") == "admission":
        return f"the territory takes on no more work now: {first.get('reason')}"
    if first.get("kind") == "freeze":
        return f"it is frozen by {first.get('agent')}: {first.get('reason')}"
    return f"{first.get('agent', 'somebody')} still holds or waits for it"
