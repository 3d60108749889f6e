"""Answers about the log itself."""

from __future__ import annotations

from msgspec import Struct

from leasefs.core.answers import IntentAnswer, LeaseAnswer, SessionAnswer


class HistoryExtent(Struct, frozen=True):
    """The log tells events after `base` up to `head`, and states from `states_from` on.

    `at` is the last event up to the time that was asked for, `base` if all are later; null if none was.
    """

    base: int
    states_from: int
    head: int
    size_bytes: int
    at: int | None = None


class PastState(Struct, frozen=True):
    """What held after event `seq`, at ledger time `at_s`, when the wall clock said `wall_s`.

    Seconds that remain, or have passed, count from then. `seq` is smaller than what was asked for only in the gap that
    a restored backup left. `intents` are the oldest of `total`. What was not asked for is empty.
    """

    seq: int
    at_s: float
    wall_s: float
    sessions: list[SessionAnswer]
    leases: list[LeaseAnswer]
    waiters: list[LeaseAnswer]
    intents: list[IntentAnswer]
    total: int


class Compaction(Struct, frozen=True):
    """The log begins after `base`, and will begin after `target` when what need not be kept is gone."""

    base: int
    target: int
