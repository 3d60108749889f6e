"""Answers that exist on the wire only; the others are those of `leasefs.core.answers`."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from leasefs.core.answers import AgentAnswer, FreshAnswer, IntentAnswer, LeaseAnswer, SessionAnswer
from leasefs.core.events import AnyEvent
from leasefs.core.records import Rescue
from leasefs.core.roles import Role


class Sessions(Struct, frozen=True):
    """Sessions, oldest first."""

    sessions: list[SessionAnswer]


class Leases(Struct, frozen=True):
    """Leases, oldest grant first; of a path: who holds it, then who waits for it."""

    leases: list[LeaseAnswer]


class Waiters(Struct, frozen=True):
    """Waiting claims in the order of service."""

    waiters: list[LeaseAnswer]


class Freezes(Struct, frozen=True):
    """What is frozen or about to be, oldest first."""

    freezes: list[LeaseAnswer]


class Successes(Struct, frozen=True):
    """Last successes, by key."""

    fresh: list[FreshAnswer]


class Intents(Struct, frozen=True):
    """The oldest of `total` intents."""

    intents: list[IntentAnswer]
    total: int


class Rescues(Struct, frozen=True):
    """Rescues, newest first."""

    rescues: list[Rescue]


class Agents(Struct, frozen=True):
    """Identities, by name."""

    agents: list[AgentAnswer]


class WhoAmI(Struct, frozen=True):
    """Whom the ledger takes the caller for; `identity` is empty for its own user and root, `session` without one's secret."""

    name: str
    role: Role
    identity: str = ""
    session: str = ""
    priority: int | None = None


class HistoryItem(Struct, frozen=True):
    """One event of the history. `at_s` is ledger time, `wall_s` seconds since the epoch."""

    seq: int
    at_s: float
    wall_s: float
    territory: str
    session: str
    event: AnyEvent


class EventsPage(Struct, frozen=True):
    """Events, the log's last number, and the number to go on after. What was before and at `base` was dropped."""

    events: list[HistoryItem]
    head: int
    next: int
    base: int = 0


class BatchItem(Struct, frozen=True):
    """What became of one request of a batch: the status and body it would have got alone."""

    status: int
    body: Any


class BatchAnswer(Struct, frozen=True):
    """One item for each request, in their order."""

    answers: list[BatchItem]


class Status(Struct, frozen=True):
    """What this ledger is and how much it holds.

    `dirty` counts paths that are not committed, `unlanded` those that are committed and not landed.
    Events up to `base` were dropped from the log. Nothing is granted for `closed_for_s` more, after a backup was brought back.
    """

    version: str
    protocol: str
    seq: int
    started_ago_s: float
    sessions: int
    live_sessions: int
    leases: int
    lapsed: int
    waiters: int
    dirty: int
    unlanded: int
    rescues: int
    store: str
    territories: list[str]
    base: int = 0
    closed_for_s: float = 0.0


class Error(Struct, frozen=True):
    """Why: a fixed code, a sentence for a person, and the same facts for a program."""

    code: str
    message: str
    details: dict[str, Any]


class ErrorBody(Struct, frozen=True):
    """The body of every refusal."""

    error: Error
