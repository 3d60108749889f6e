"""The ledger under requests made from its own description: a short form of `scripts/fuzz_api`, the same each time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.api_fuzz import Found, fuzz, fuzz_boundaries, fuzz_sequences
from leasefs.testing.fuzzed_ledger import FuzzedLedger
from leasefs.testing.ledger_process import LedgerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.fixture
def target(tmp_path: Path) -> Iterator[FuzzedLedger]:
    os.chmod(tmp_path, 0o700)
    with LedgerProcess(str(tmp_path), store=":memory:") as ledger:
        target = FuzzedLedger(ledger)
        yield target
        target.session.close()
        assert ledger.stop() == 0


def test_whatever_fits_the_description_or_not_is_answered_as_it_says(target: FuzzedLedger) -> None:
    found = Found()
    fuzz(target, 2, 1, found)
    fuzz_boundaries(target, found, one_in=8)
    assert not found.wrong, "\n\n".join(found.wrong.values())
    described = sum(len(item) for item in target.document["paths"].values())
    assert len(found.operations) == described


def test_what_answers_link_to_can_be_asked_for_in_any_order(target: FuzzedLedger) -> None:
    found = Found()
    fuzz_sequences(target, 12, 10, 1, found)
    assert not found.wrong, "\n\n".join(found.wrong.values())
    assert found.statuses[201]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_the_same_for_many_minutes(target: FuzzedLedger, seed: int) -> None:
    found = Found()
    fuzz(target, 300, seed, found)
    fuzz_boundaries(target, found)
    fuzz_sequences(target, 300, 20, seed, found)
    assert not found.wrong, "\n\n".join(found.wrong.values())
