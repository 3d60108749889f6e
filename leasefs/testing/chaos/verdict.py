"""The verdict on a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.testing.chaos.check_bytes import check_bytes
from leasefs.testing.chaos.check_log import check_log
from leasefs.testing.chaos.check_writes import check_writes
from leasefs.testing.chaos.holds import holds_of
from leasefs.testing.chaos.ledger_time import LedgerTime

if TYPE_CHECKING:
    from leasefs.testing.chaos.history import History, Violation


def violations(history: History) -> list[Violation]:
    """Every promise that was broken, those with the least evidence to read first."""
    holds = holds_of(history.log, LedgerTime(history.log, history.ahead_s))
    found = [
        *history.troubles,
        *check_log(history, holds),
        *check_writes(history, holds),
        *check_bytes(history, holds),
    ]
    return sorted(found, key=lambda one: len(one.evidence))
