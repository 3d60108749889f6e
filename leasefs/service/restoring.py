"""Bringing a ledger back from a backup: what the copy is told before it is served again.

    lock ▸ copy and check ▸ append `ledger-restored`, numbered beyond all that were handed out ▸ put in place, the old aside

What that event does to leases and claims stands in `leasefs.core.restoring`. How long nothing is granted is decided here: the
ledger that was there is certainly not answering any more, for its lock is ours. So nobody trusts a lease of it for longer than the
longest time to live from now on. If what was there is sound, the leases in it say how long that is.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.core.errors import ClaimConflict, InvalidRequest
from leasefs.core.events import LedgerRestored, Recorded
from leasefs.core.lease import MAX_TTL_S
from leasefs.core.state import apply
from leasefs.service.clock import SystemClock, boot_identity, clock_after
from leasefs.service.entries import record_of
from leasefs.service.offline import STORE_FILE
from leasefs.service.places import private_directory
from leasefs.service.recovery import recover
from leasefs.store.sqlite_backup import Replacing, Standing, look_at
from leasefs.store.sqlite_reading import ReadOnlyStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.core.state import State

PASSED_OVER = 1_000_000
"""How many numbers are left out after the last one known: after a power cut more may have been handed out."""
PASSED_OVER_BLINDLY = 1_000_000_000
"""The same if nothing is known: a day of the greatest load there is."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What was done. `head_before` is the last number known to have been handed out, 0 if none was.

    `aside` is where the former ledger lies, empty if there was none; `seq` is the number of the event that tells of it.
    """

    path: str
    backup_seq: int
    head_before: int
    seq: int
    closed_for_s: float
    leases_ended: int
    aside: str


def restore(
    backup: str,
    store: str,
    *,
    by: str,
    over: bool,
    closed_for_s: float | None,
    told: Callable[[int, int], None],
) -> Restored:
    """Bring `backup` to the directory `store`, whose ledger is stopped.

    Args:
        backup: a file that `back_up` made, or any other whole ledger.
        store: the directory that a ledger is served from.
        by: who does it, for the history.
        over: whether a ledger that is there may be replaced; it is kept beside.
        closed_for_s: how long nothing is granted; None: as long as it takes to be safe.
        told: hears how much of how much is copied.

    Raises:
        StoreLocked: the ledger there is being served.
        ClaimConflict: there is a ledger, and `over` does not say that it may be replaced.
        StoreError, UnknownEvent, UnsafePlace, OSError: either cannot be read, or the place not be written.
    """
    private_directory(store)
    path = os.path.join(store, STORE_FILE)
    if os.path.exists(path) and os.path.samefile(backup, path):
        raise InvalidRequest(f"{backup} is that very ledger, not a backup of it")
    with closing(Replacing(path)) as replacing:
        there = look_at(replacing.path)
        copied = replacing.copy(backup, told)
        if there.there and not over:
            raise ClaimConflict(_in_the_way(path, there, copied.head), store=path)
        closed_s = _longest_trust_s(path, there) if closed_for_s is None else closed_for_s
        with closing(replacing.reading()) as reading:
            saved = recover(reading)
        boot, clock = boot_identity(), SystemClock()
        now_s = clock_after(clock, boot, saved.state.at_s if saved.state.seq else None, saved.clock)
        event = LedgerRestored(by, copied.head, there.head, closed_s)
        recorded = Recorded(_beyond(copied.head, there), now_s.now_s(), event)
        after = apply(saved.state, recorded)
        record = record_of(recorded, saved.state, after, clock.wall_s())
        replacing.append(recorded.seq, record.data)
        aside = _aside(replacing.path) if there.there else ""
        replacing.put_in_place(aside or _aside(replacing.path))
    ended = len(saved.state.leases) - len(after.leases)
    return Restored(path, copied.head, there.head, recorded.seq, closed_s, ended, aside)


def _in_the_way(path: str, there: Standing, backup_seq: int) -> str:
    if there.sound and there.head >= backup_seq:
        what = f"a ledger, sound, with {there.head - backup_seq} events more than the backup"
    elif there.sound:
        what = f"a ledger, sound, which ends at event {there.head}; the backup ends at {backup_seq}"
    else:
        what = (
            f"a damaged ledger, which handed out numbers up to {there.head or 'nobody knows where'}"
        )
    return f"{path}: there is {what}; --replace puts the backup in its place and keeps it beside"


def _beyond(head: int, there: Standing) -> int:
    if there.head:
        return max(head, there.head) + PASSED_OVER
    return head + PASSED_OVER_BLINDLY


def _longest_trust_s(path: str, there: Standing) -> float:
    """How long somebody may still trust a lease of the ledger that was there, at most."""
    if not there.sound:
        return MAX_TTL_S
    with closing(ReadOnlyStore(path)) as store:
        state: State = recover(store).state
    # A freeze has a time to live without end, and nobody writes under it.
    trusted = [one for one in state.leases.values() if not one.claim.frozen_by]
    # One that was renewed for less than before is trusted until what its holder was told first.
    left_s = (max(one.claim.ttl_s, one.expires_at_s - state.at_s) for one in trusted)
    return max(left_s, default=0.0)


def _aside(path: str) -> str:
    """A name beside the ledger that nothing has."""
    made = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.clock_gettime(time.CLOCK_REALTIME)))
    for number in range(1_000):
        aside = f"{path}.replaced-{made}" + (f"-{number}" if number else "")
        if not os.path.lexists(aside):
            return aside
    raise FileExistsError(path)
