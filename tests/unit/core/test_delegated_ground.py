"""Whose ground a delegated part is, for what the ledger tells of it; the random histories are in tests/model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasefs.core.commands import DelegateLease, ForeignReport, ReportForeignWrites
from leasefs.core.errors import InvalidRequest
from leasefs.core.intents import ForeignChange
from leasefs.core.records import Holder

if TYPE_CHECKING:
    from leasefs.core.answers import LeaseAnswer
    from leasefs.testing.ledger_driver import LedgerDriver


def delegate(
    ledger: LedgerDriver, of: str, lease: LeaseAnswer, to: str, *globs: str
) -> LeaseAnswer:
    command = DelegateLease(f"session-{of}", f"{lease.lease}-{to}", lease.lease, globs, to)
    answer: LeaseAnswer = ledger.answered(command)
    return answer


def test_a_foreign_write_on_a_part_is_told_to_who_has_the_part(ledger: LedgerDriver) -> None:
    """And not to those that it was carved out of, however old or deep: their leases cover the path, too."""
    whole = ledger.claim("a", "src/**")
    part = delegate(ledger, "a", whole, "b", "src/x/**")
    deep = delegate(ledger, "b", part, "c", "src/x/y/**")
    paths = ("src/1", "src/x/1", "src/x/y/1")
    changes = tuple(ForeignReport(path, ForeignChange.MODIFIED, 5.0) for path in paths)
    ledger.answered(ReportForeignWrites("session-a", "t-1", changes))
    event = ledger.last_events[0].event
    assert [one.holder for one in event.changes] == [
        Holder("a", whole.lease),
        Holder("b", part.lease),
        Holder("c", deep.lease),
    ]
    assert [one.session for one in event.changes] == ["session-a", "session-b", "session-c"]


def test_a_part_does_not_go_back_to_where_it_came_from_as_a_part(ledger: LedgerDriver) -> None:
    """Its giver may not write on ground that it gave away, under whatever lease."""
    whole = ledger.claim("a", "src/**")
    part = delegate(ledger, "a", whole, "b", "src/x/**")
    deep = delegate(ledger, "b", part, "c", "src/x/y/**")
    with pytest.raises(InvalidRequest, match="release it instead"):
        delegate(ledger, "b", part, "a", "src/x/z")
    with pytest.raises(InvalidRequest, match="release it instead"):
        delegate(ledger, "c", deep, "a", "src/x/y/z")
