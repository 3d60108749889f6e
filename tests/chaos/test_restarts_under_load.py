"""The ledger is restarted under load, also to another build: no lost and no doubled grant, and no mount refuses a write (P1, P6, P12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasefs.testing.own_world import own_world
from leasefs.testing.restarts.run import Plan, play

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.mount, pytest.mark.chaos]


def run(tmp_path: Path, plan: Plan) -> None:
    with own_world(str(tmp_path)):
        outcome = play(str(tmp_path / "run"), plan, lambda _: None)
    assert outcome.wrong == []
    assert sum(outcome.restarts.values()) == plan.restarts
    assert outcome.grants > plan.restarts
    assert outcome.repeated > 0
    assert outcome.writes > plan.restarts
    assert len(outcome.builds) == 2


@pytest.mark.parametrize("passed", [False, True], ids=["own socket", "passed socket"])
def test_a_few_restarts(tmp_path: Path, passed: bool) -> None:
    run(tmp_path, Plan(restarts=3, clients=3, mounts=1, passed=passed, between_s=(0.1, 0.2)))


@pytest.mark.long
@pytest.mark.parametrize("passed", [False, True], ids=["own socket", "passed socket"])
def test_many_restarts(tmp_path: Path, passed: bool) -> None:
    run(tmp_path, Plan(restarts=60, clients=8, mounts=3, passed=passed, seed=2))
