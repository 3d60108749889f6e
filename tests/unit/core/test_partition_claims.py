"""A plan becomes leases in one step: all of its regions or none (P1, P6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasefs.core.answers import RegionsAnswer
from leasefs.core.commands import ClaimRegions, Region
from leasefs.core.errors import BadPattern, ClaimConflict, InvalidRequest
from leasefs.core.globs import Glob, parse_glob
from leasefs.core.partition import partition
from leasefs.core.partition_types import File, Plan, Task
from leasefs.testing.ledger_driver import LedgerDriver

if TYPE_CHECKING:
    from leasefs.core.ledger import Decision

TOKENS = ["a", "b", "/", "*", "[!a]", "/**/", "**", "a/", "*a*", "é"]
FILES = [File(path.encode()) for path in ("a", "b/a", "ab/b", "a/b/a", "é/a")]


def readable(pattern: str) -> Glob | None:
    try:
        return parse_glob(pattern)
    except BadPattern:
        return None


globs = (
    st.lists(st.sampled_from(TOKENS), min_size=1, max_size=4)
    .map("".join)
    .map(readable)
    .filter(lambda glob: glob is not None)
)


def planned(*tasks: str) -> Plan:
    return partition([Task(text, (parse_glob(text),)) for text in tasks], FILES)


def claim(ledger: LedgerDriver, plan: Plan, agent: str = "a") -> Decision:
    regions = tuple(
        Region(tuple(glob.text for glob in region.globs), region.task) for region in plan.regions
    )
    return ledger.run(ClaimRegions(f"session-{agent}", "one key", regions))


@settings(deadline=None)
@given(st.lists(globs, min_size=1, max_size=5))
def test_the_ledger_takes_every_plan(wanted: list[Glob]) -> None:
    tasks = [Task(str(number), (glob,)) for number, glob in enumerate(wanted)]
    plan = partition(tasks, FILES)
    ledger = LedgerDriver()
    decision = claim(ledger, plan)
    assert decision.error is None
    assert isinstance(decision.answer, RegionsAnswer)
    assert [lease.globs for lease in decision.answer.leases] == [
        tuple(glob.text for glob in region.globs) for region in plan.regions
    ]


def test_one_region_in_the_way_of_another_agent_and_none_is_claimed(
    ledger: LedgerDriver,
) -> None:
    ledger.claim("b", "b/x/**")
    before = ledger.state.leases
    decision = claim(ledger, planned("a/**", "b/**"))
    assert isinstance(decision.error, ClaimConflict)
    assert ledger.state.leases == before


def test_asked_twice_it_is_claimed_once(ledger: LedgerDriver) -> None:
    plan = planned("a/**", "b/**", "**")
    first = claim(ledger, plan)
    again = claim(ledger, plan)
    assert len(ledger.state.leases) == len(plan.regions) == 3
    assert isinstance(first.answer, RegionsAnswer)
    assert isinstance(again.answer, RegionsAnswer)
    assert [one.lease for one in again.answer.leases] == [one.lease for one in first.answer.leases]
    assert again.events == ()


@pytest.mark.parametrize(
    ("one", "other"), [("a/**", "a/b"), ("a/*", "*/b"), ("a", "a"), ("**", "é/x"), ("*a", "a*")]
)
def test_regions_that_overlap_are_refused_with_a_path(
    ledger: LedgerDriver, one: str, other: str
) -> None:
    regions = (Region(("x", one)), Region(("y",)), Region((other,)))
    decision = ledger.run(ClaimRegions("session-a", "k", regions))
    assert isinstance(decision.error, InvalidRequest)
    assert "two regions overlap" in decision.error.message
    assert not ledger.state.leases
