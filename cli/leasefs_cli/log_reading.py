"""Reading the log page by page: from a number on, or the last events that are wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from leasefs.client import api, api_history

if TYPE_CHECKING:
    from leasefs.core.globs import Glob
    from leasefs_cli.log_filter import LogFilter
    from leasefs_cli.place import View

PAGE = 1000


class Wanted(NamedTuple):
    """Which events: of these types (all if none), by an agent, about paths, and none after a number."""

    types: tuple[str, ...] = ()
    agent: str | None = None
    about: Glob | None = None
    upto: int | None = None

    @property
    def narrow(self) -> bool:
        """Whether only whoever knows what was before can tell."""
        return self.agent is not None or self.about is not None


class Found(NamedTuple):
    """Events, where to go on from, what is wanted there, and after which number the log begins."""

    events: list[api.Body]
    end: int
    filter: LogFilter | None
    base: int


def events_after(seen: View, after: int, count: int | None, wanted: Wanted) -> Found:
    """The first `count` events after a sequence number, or all."""
    filter_ = filter_from(seen, after, wanted)
    found: list[api.Body] = []
    base = 0
    while count is None or len(found) < count:
        page = seen.link.send(_page(seen, after, count, len(found), wanted))
        base, after = page.get("base", 0), page["next"]
        for one in page["events"]:
            if wanted.upto is not None and one["seq"] > wanted.upto:
                return Found(found, after, filter_, base)
            if is_wanted(one, wanted, filter_):
                found.append(one)
                if len(found) == count:
                    return Found(found, one["seq"], filter_, base)
        if after >= page["head"] or (wanted.upto is not None and after >= wanted.upto):
            break
    return Found(found, after, filter_, base)


def last_events(seen: View, count: int, wanted: Wanted) -> Found:
    """The last `count` events that match, and where to go on from.

    The log is read forwards only, so the start is guessed and moved back, twice as far each time,
    until enough match.
    """
    page = seen.link.send(api.events(limit=1))
    head, base = page["head"], page.get("base", 0)
    last = head if wanted.upto is None else min(head, wanted.upto)
    reach = max(count, 1)
    while True:
        start = max(base, last - reach)
        found = events_after(seen, start, None, wanted)
        if len(found.events) >= count or start == base:
            return found._replace(events=found.events[max(0, len(found.events) - count) :])
        reach *= 2


def filter_from(seen: View, after: int, wanted: Wanted) -> LogFilter | None:
    """What tells the wanted events after `after`; None if each event says enough itself."""
    if not wanted.narrow:
        return None
    # Only who narrows it down pays for reading what that takes.
    from leasefs_cli.log_filter import LogFilter

    extent = seen.link.send(api_history.extent())
    known = min(max(after, extent["states_from"]), extent["head"])
    parts = ("sessions", "leases", "waiters")
    before = seen.link.send(api_history.past(known, territory=seen.territory, parts=parts))
    return LogFilter(wanted.agent, wanted.about, before)


def is_wanted(one: api.Body, wanted: Wanted, filter_: LogFilter | None) -> bool:
    """Whether to show this event, after all that were before it."""
    if filter_ is None:
        return True
    taken = filter_.takes(one)
    return taken and (not wanted.types or one["event"]["type"] in wanted.types)


def _page(seen: View, after: int, count: int | None, have: int, wanted: Wanted) -> api.Call:
    limit = PAGE if count is None or wanted.narrow else min(PAGE, count - have)
    # A filter must see all of them: it learns from each.
    types = () if wanted.narrow else wanted.types
    return api.events(after=after, limit=limit, territory=seen.territory, types=types)
