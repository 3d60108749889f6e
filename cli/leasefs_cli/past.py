"""What held at a point of the log, in the form in which the present is shown."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from leasefs.client import api, api_history
from leasefs.core.errors import InvalidRequest
from leasefs_cli.intent_rows import say_intents
from leasefs_cli.lease_rows import say_leases
from leasefs_cli.printing import say, tell
from leasefs_cli.waiter_rows import say_waiters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasefs_cli.moments import Point
    from leasefs_cli.place import View


def past(seen: View, at: Point, parts: Iterable[str] = (), **wanted: str | None) -> api.Body:
    """The PastState at a point, said on stderr which that is.

    Raises:
        InvalidRequest: it lies before all that is told of; what `Link.send` raises.
    """
    seq = at.seq_in(seen.link)
    found = seen.link.send(api_history.past(seq, territory=seen.territory, parts=parts, **wanted))
    if at.wall_s is not None and found["seq"] and found["wall_s"] > at.wall_s:
        raise InvalidRequest(
            f"what held then cannot be told any more: older events were dropped, and the log begins at event {found['seq']}, "
            f"{when(found)}; look in the archive or a backup",
            states_from=found["seq"],
        )
    if at.seq is None:
        tell(f"at event {found['seq']}, {when(found)}")
    return found


def when(found: api.Body) -> str:
    """The wall clock's time of a PastState."""
    if not found["wall_s"]:
        return "before anything happened"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found["wall_s"]))


def say_past(found: api.Body) -> None:
    """All of it, one list after the other."""
    say(f"after event {found['seq']}, {when(found)}:")
    say_leases(found["leases"])
    say_waiters(found["waiters"])
    say_intents(found["intents"], found["wall_s"])
    if found["total"] > len(found["intents"]):
        tell(f"{found['total'] - len(found['intents'])} more intents are not shown: see --json")
