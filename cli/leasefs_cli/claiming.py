"""What `claim` and `run` do alike: understand the globs, ask, wait in the queue."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from leasefs.client import api
from leasefs.client.ids import new_key
from leasefs.client.understand import Understood, understand
from leasefs.core.errors import LeasefsError
from leasefs_cli.durations import in_words
from leasefs_cli.interrupts import stopping_as_exception
from leasefs_cli.printing import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs_cli.place import Place


class Wish(NamedTuple):
    """A claim as the command line has it. `wait_s` None: do not wait; `inf`: without end."""

    globs: tuple[str, ...]
    ttl_s: float
    wait_s: float | None
    shared: bool
    literal: bool
    priority: int
    note: str


class WishOptions(TypedDict):
    """What `claim_options` parses, as keywords of a command."""

    ttl_s: float
    wait_s: float | None
    shared: bool
    literal: bool
    priority: int
    note: str


def understood(place: Place, wish: Wish) -> list[Understood]:
    """Each argument as the glob that it means. Raises BadPath or BadPattern."""
    cwd = os.getcwd()
    return [understand(glob, place.roots, cwd, literal=wish.literal) for glob in wish.globs]


def claim(
    place: Place, wish: Wish, meanings: Sequence[Understood], *, quiet: bool, as_json: bool = False
) -> api.Body:
    """The LeaseAnswer of a granted lease. Interrupted or timed out, it leaves nothing behind.

    Unless `quiet`, stderr tells what was understood (not with JSON, which says it) and the waiting.

    Raises:
        ClaimConflict, Deadlock, WaitTimedOut: as the queue has it.
        LeasefsError: whatever else the ledger refuses.
    """
    call = api.claim(
        [meaning.glob for meaning in meanings],
        key=new_key(),
        shared=wish.shared,
        ttl_s=wish.ttl_s,
        priority=wish.priority,
        wait=wish.wait_s is not None,
        note=wish.note,
    )
    with stopping_as_exception():
        answer = _ask(place, call)
        if not quiet and not as_json:
            _tell_meanings(wish.globs, meanings)
        if answer["state"] != "waiting":
            return answer
        return _wait(place, answer, wish.wait_s, quiet=quiet)


def _wait(place: Place, waiting: api.Body, wait_s: float | None, *, quiet: bool) -> api.Body:
    # Imported here: most claims are granted at once, and their start counts.
    from leasefs.client.waiting import wait_for_grant
    from leasefs_cli.waiting_line import WaitingLine

    timeout_s = None if wait_s in (None, math.inf) else wait_s
    line = WaitingLine(quiet=quiet)
    try:
        return wait_for_grant(place.link, waiting, timeout_s=timeout_s, on_change=line.show)
    finally:
        line.close()


def _ask(place: Place, call: api.Call) -> api.Body:
    """Send the claim. Interrupted before the answer, ask again under the same key and give it back."""
    try:
        return place.link.send(call)
    except LeasefsError:
        raise
    except BaseException as interruption:
        try:
            answer = place.link.send(call)
            place.link.send(api.release(answer["lease"], key=new_key()))
        except LeasefsError as error:
            if error.code == "unavailable":
                interruption.add_note(f"the claim may have been made: {error.message}")
        raise


def _tell_meanings(globs: Sequence[str], meanings: Sequence[Understood]) -> None:
    """Say what was understood wherever it is not plain from what was typed."""
    for typed, meaning in zip(globs, meanings, strict=True):
        if not _plain(typed, meaning):
            tell(f"{typed!r} is taken for {meaning.meaning}")


def _plain(typed: str, meaning: Understood) -> bool:
    """A glob that is one, or the very name of something that exists."""
    return typed == meaning.glob and (any(c in typed for c in "*?[") or os.path.lexists(typed))


def granted_words(answer: api.Body) -> str:
    """For a person at a terminal: until when, and what keeps it."""
    mode = "" if answer.get("mode") == "exclusive" else " (shared: nobody may write)"
    return f"{answer['lease']} is yours for {in_words(answer['ttl_s'])} after each use{mode}"
