"""Which events are about an agent or a path, although most name a lease or a session only.

What a lease covers and whose a session is was said by earlier events; so the filter is begun with the state before the
first event, and learns from each that it is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasefs.core.globs import Glob, parse_glob
from leasefs.core.overlap import first_overlap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Event = dict[str, Any]
_NESTED = ("claim", "session", "fresh", "rescue")
_LISTS = ("intents", "settled", "refusals", "changes")


class LogFilter:
    """Takes events in their order; `agent` or `about` None: any."""

    def __init__(self, agent: str | None, about: Glob | None, before: Mapping[str, Any]) -> None:
        """`before` is the state that the first event meets (PastState): its sessions, leases and waiters."""
        self._agent = agent
        self._about = about
        self._sessions = {one["session"] for one in before["sessions"] if one["agent"] == agent}
        self._claims: set[str] = set()
        for one in (*before["leases"], *before["waiters"]):
            self._learn(one["lease"], one["globs"])

    def takes(self, recorded: Mapping[str, Any]) -> bool:
        """Whether the event is wanted."""
        event = recorded["event"]
        session, claim = event.get("session"), event.get("claim")
        if isinstance(session, dict) and session["agent"] == self._agent:
            self._sessions.add(session["id"])
        if isinstance(claim, dict):
            self._learn(claim["id"], claim["globs"])
        return self._is_by(recorded, event) and self._is_there(event)

    def _learn(self, claim_id: str, globs: list[str]) -> None:
        if self._about is not None and self._meets(globs):
            self._claims.add(claim_id)

    def _is_by(self, recorded: Mapping[str, Any], event: Event) -> bool:
        return (
            self._agent is None
            or recorded.get("session") in self._sessions
            or self._agent in _agents(event)
        )

    def _is_there(self, event: Event) -> bool:
        if self._about is None:
            return True
        if any(id_ in self._claims for id_ in _claims_of(event)):
            return True
        return self._meets(_globs(event)) or any(map(self._covers, _paths(event)))

    def _meets(self, globs: list[str]) -> bool:
        about = self._about
        return about is not None and any(
            first_overlap((about,), (parse_glob(glob),)) is not None for glob in globs
        )

    def _covers(self, path: str) -> bool:
        raw = path.rstrip("/").encode("utf-8", "surrogateescape")
        return self._about is not None and self._about.matches(raw)


def _agents(event: Event) -> Iterator[str]:
    for one in (event, *(event[name] for name in _NESTED if isinstance(event.get(name), dict))):
        if isinstance(one.get("agent"), str):
            yield one["agent"]
    identity = event.get("identity")
    if isinstance(identity, dict):
        yield identity["name"]
        yield _operator(identity["added_by"])
    if isinstance(event.get("by"), str):
        yield _operator(event["by"])


def _operator(by: str) -> str:
    """Whose act it was: `ann` of `ann (release manager)`, who is whom ann said to act for."""
    return by.partition(" (")[0]


def _claims_of(event: Event) -> Iterator[str]:
    claim = event.get("claim")
    yield from filter(None, (event.get("lease"), claim["id"] if isinstance(claim, dict) else claim))
    leases = event.get("leases")
    for one in leases if isinstance(leases, list) else ():
        yield one["lease"]


def _globs(event: Event) -> list[str]:
    found = list(event.get("globs", ()))
    for name in _NESTED:
        one = event.get(name)
        if isinstance(one, dict):
            found += one.get("globs", ())
    return found


def _paths(event: Event) -> Iterator[str]:
    for name in _LISTS:
        for one in event.get(name, ()):
            yield one["path"]
            if one.get("other"):
                yield one["other"]
    yield from event.get("paths", ())
    rescue = event.get("rescue")
    yield from rescue["names"] if isinstance(rescue, dict) else ()
