"""A ledger that was brought back from a backup: what it may not believe, and how long it grants nothing (P1, P3).

The backup does not know what happened after it. Ground that it calls free may be held by a mount that the lost events granted it
to, ground that it calls held may have been given back and granted to somebody else. So none of its sessions, leases and waiting
claims is believed: they end with the event that tells of the restoring, and their holders hear that they are lost. Nothing is
granted until the longest time has passed that anybody may still trust a lease of the lost past. That event's number lies beyond all
that were handed out, and with it every token that is granted from then on.

Freezes stay, for they only forbid. Intents, rescues, notes, admission and identities stay as the backup has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.answers import Done
from leasefs.core.events import LedgerReopened
from leasefs.core.granting import settle_territory

if TYPE_CHECKING:
    from leasefs.core.commands import ReopenLedger
    from leasefs.core.draft import Decision, Draft


def reopen(draft: Draft, command: ReopenLedger) -> Decision:
    """An operator knows that nobody trusts a lost lease any more. Nothing happens if nothing is closed."""
    open_again(draft, command.operator)
    return draft.done(Done())


def open_if_due(draft: Draft) -> None:
    """Grant again once the time is over."""
    if draft.state.closed_until_s and draft.now_s >= draft.state.closed_until_s:
        open_again(draft, "")


def open_again(draft: Draft, by: str) -> None:
    """Grant again: whoever came to wait meanwhile, in order."""
    if not draft.state.closed_until_s:
        return
    draft.emit(LedgerReopened(by))
    for territory in sorted({claim.territory for claim in draft.state.waiters.values()}):
        settle_territory(draft, territory)
