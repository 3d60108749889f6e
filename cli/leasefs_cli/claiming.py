"""What `claim` and `run` do alike: understand the globs, ask, wait in the queue."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from leasefs.client import api
from leasefs.client.clock import BoottimeClock
from leasefs.client.ids import new_key
from leasefs.client.understand import Understood, understand
from leasefs.core.errors import LeasefsError, LedgerUnavailable, OverCap, UnknownLease
from leasefs_cli.durations import in_words
from leasefs_cli.interrupts import deaf_to_signals, stopping_as_exception
from leasefs_cli.printing import tell
from leasefs_cli.priorities import HUMAN
from leasefs_cli.sharing import with_share

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from leasefs.client.blocking import Link
    from leasefs.client.understand import Roots
    from leasefs_cli.place import Place

# Signals wait for this long at most while a claim that was cut short is given back.
UNDO_TIMEOUT_S = 3.0
# A mount answers when what others left on the ground is kept, which of large files takes its time (P9).
RESCUE_PATIENCE_S = 310.0


class Wish(NamedTuple):
    """A claim as the command line has it. `wait_s` None: do not wait; `inf`: without end.

    `upgrade` is the shared lease that it is to take the place of.
    """

    globs: tuple[str, ...]
    ttl_s: float
    wait_s: float | None
    shared: bool
    literal: bool
    priority: int
    recall_within_s: float | None
    note: str
    upgrade: str = ""


class WishOptions(TypedDict):
    """What `claim_options` parses, as keywords of a command."""

    ttl_s: float
    wait_s: float | None
    shared: bool
    literal: bool
    priority: int
    recall_within_s: float | None
    note: str


def wish_of(globs: tuple[str, ...], options: WishOptions, *, upgrade: str = "") -> Wish:
    """The claim that was asked for, with what one option says of others: who recalls waits, a person recalls."""
    wish = Wish(globs, upgrade=upgrade, **options)
    if wish.wait_s == 0.0:
        wish = wish._replace(wait_s=None)
    if wish.priority >= HUMAN and wish.recall_within_s is None:
        wish = wish._replace(recall_within_s=0.0)
    if wish.recall_within_s is not None and wish.wait_s is None:
        wish = wish._replace(wait_s=math.inf)
    return wish


def understood(roots: Roots, wish: Wish) -> list[Understood]:
    """Each argument as the glob that it means. Raises BadPath or BadPattern."""
    cwd = os.getcwd()
    return [understand(glob, roots, cwd, literal=wish.literal) for glob in wish.globs]


def globs_of_lease(place: Place, lease_id: str) -> list[Understood]:
    """The globs of a lease, as a claim of its own. Raises UnknownLease if there is no such lease."""
    lease = place.link.send(api.lease(lease_id))
    if lease["state"] == "ended":
        raise UnknownLease(lease_id)
    return [Understood(glob, f"what {lease_id} has") for glob in lease["globs"]]


class Claimed(NamedTuple):
    """A granted lease, and the key of the claim.

    `is_new`: this claim made it; else it was held already and only renewed.
    """

    lease: api.Body
    key: str
    is_new: bool

    def give_back(self, link: Link, *, in_mount: bool) -> None:
        """Release it if nobody else claimed it. Raises what the ledger refuses."""
        if in_mount:
            link.send(api.leave(self.lease["lease"], key=self.key))
        elif self.is_new:
            link.send(api.release(self.lease["lease"], key=new_key()))


@contextlib.contextmanager
def claimed(
    place: Place, wish: Wish, meanings: Sequence[Understood], *, quiet: bool, as_json: bool = False
) -> Iterator[Claimed]:
    """A granted lease, for what is done within; a shell's session that got nothing is ended.

    Whatever cuts that short leaves no new claim behind: Ctrl-C, SIGTERM or SIGHUP at any moment, an
    answer that could not be written. Unless `quiet`, stderr tells the waiting and, where JSON does not say it, what
    was understood and what lies on the ground.

    Raises:
        ClaimConflict, Deadlock, WaitTimedOut: as the queue has it.
        LeasefsError: whatever else the ledger refuses.
    """
    key = new_key()
    call = api.claim(
        [meaning.glob for meaning in meanings],
        key=key,
        shared=wish.shared,
        ttl_s=wish.ttl_s,
        priority=wish.priority,
        wait=wish.wait_s is not None,
        note=wish.note,
        recall_within_s=wish.recall_within_s,
        replaces=wish.upgrade,
    )
    if place.mount is not None:
        call = call._replace(patience_s=RESCUE_PATIENCE_S)
    if wish.wait_s is not None:
        _import_waiting()
    began_s = BoottimeClock().now_s()
    with stopping_as_exception():
        try:
            try:
                answer = place.link.send(call)
            except OverCap as refused:
                call = with_share(call, place, refused)
                answer = place.link.send(call)
            is_new = _is_new(answer, began_s)
            if not quiet and not as_json:
                _tell_meanings(wish.globs, meanings)
            if answer["state"] == "waiting":
                answer = _wait(place, answer, wish.wait_s, quiet=quiet)
            if not quiet and not as_json:
                _tell_inherited(answer)
            yield Claimed(answer, key, is_new)
        except BaseException as failure:
            if not isinstance(failure, LeasefsError) or failure.code == "unavailable":
                with deaf_to_signals():
                    _undo(place, call, key, began_s, failure)
            _leave_if_empty(place, failure)
            raise


def _leave_if_empty(place: Place, failure: BaseException) -> None:
    """Free the agent's name again, if the claim was all that the shell's session was opened for."""
    from leasefs_cli.own_claims import forget_empty_shell

    with deaf_to_signals():
        try:
            forget_empty_shell(place._replace(link=place.link.hurried(UNDO_TIMEOUT_S)))
        except LedgerUnavailable as error:
            if not isinstance(failure, LedgerUnavailable):
                failure.add_note(error.message)
        except LeasefsError:
            pass  # it is over already


def _is_new(answer: api.Body, began_s: float) -> bool:
    """Whether the claim made the lease: one that is older than its claim was held before it."""
    held_for_s: float = answer.get("held_for_s") or 0.0
    return answer["state"] == "waiting" or held_for_s <= BoottimeClock().now_s() - began_s


def _import_waiting() -> None:
    """Before signals are exceptions, which imports may lose. Not at the start: few claims wait."""
    for module in ("leasefs.client.waiting", "leasefs_cli.waiting_line", "leasefs_cli.own_claims"):
        importlib.import_module(module)


def _wait(place: Place, waiting: api.Body, wait_s: float | None, *, quiet: bool) -> api.Body:
    from leasefs.client.waiting import wait_for_grant
    from leasefs_cli.waiting_line import WaitingLine

    timeout_s = None if wait_s in (None, math.inf) else wait_s
    line = WaitingLine(quiet=quiet)
    try:
        return wait_for_grant(place.link, waiting, timeout_s=timeout_s, on_change=line.show)
    finally:
        line.close()


def _undo(place: Place, call: api.Call, key: str, began_s: float, failure: BaseException) -> None:
    """Give back what the claim made. Asked again under its key, it says what that is (P6)."""
    link = place.link.hurried(UNDO_TIMEOUT_S)
    try:
        answer = link.send(call._replace(patience_s=0.0))
        if answer["state"] != "ended":
            made = Claimed(answer, key, _is_new(answer, began_s))
            made.give_back(link, in_mount=place.mount is not None)
    except LedgerUnavailable as error:
        if not isinstance(failure, LedgerUnavailable):
            failure.add_note(f"the claim may have been made: {error.message}")
    except LeasefsError:
        pass  # refused now, so it was not made before, or it is over


def _tell_meanings(globs: Sequence[str], meanings: Sequence[Understood]) -> None:
    """Say what was understood wherever it is not plain from what was typed."""
    for typed, meaning in zip(globs, meanings if globs else (), strict=True):
        if not _plain(typed, meaning):
            tell(f"{typed!r} is taken for {meaning.meaning}")


def _tell_inherited(answer: api.Body) -> None:
    """Say what lies on the ground, if anything does."""
    if any((answer.get("inherits") or {}).values()):
        from leasefs_cli.inherited_words import inherited_lines

        for line in inherited_lines(answer):
            tell(line)


def _plain(typed: str, meaning: Understood) -> bool:
    """A glob that is one, or the very name of something that exists."""
    return typed == meaning.glob and (any(c in typed for c in "*?[") or os.path.lexists(typed))


def granted_words(answer: api.Body) -> str:
    """For a person at a terminal: until when, and what keeps it."""
    mode = "" if answer.get("mode") == "exclusive" else " (shared: nobody may write)"
    return f"{answer['lease']} is yours for {in_words(answer['ttl_s'])} after each use{mode}"
