"""Long random histories against a naive model of the promises.

Hypothesis drives sessions, claims of all kinds, recalls, delegation, limits, freezes, heartbeats that arrive late or
whose answers are lost, suspended machines, a ledger clock that stutters, restarts, revocations and replaced sessions.
The machine is in `leasefs.testing.ledger_machine` and its rules beside it, the model in `leasefs.testing.naive_queue`.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase

from leasefs.testing.ledger_claims import Claiming
from leasefs.testing.ledger_operators import Operating
from leasefs.testing.ledger_scheduling import Scheduling
from leasefs.testing.state_machines import run_machine


def test_promises_hold_over_random_histories() -> None:
    """P1, P3, P5, P6, P7 and P11, a few seconds' worth."""
    run_machine(Operating, examples=100, steps=60)


def test_claims_alone() -> None:
    """The same with claims, heartbeats and releases only: what is wrong there is found sooner."""
    run_machine(Claiming, examples=50, steps=60)


@pytest.mark.slow
def test_promises_hold_over_long_random_histories() -> None:
    """The same, for longer; a failure here is not shrunk, that takes too long."""
    run_machine(Operating, examples=600, steps=150, phases=(Phase.generate,))


@pytest.mark.slow
def test_without_limits_over_long_random_histories() -> None:
    """Limits make most claims wait for them alone: without, the rest is tried further."""
    run_machine(Scheduling, examples=400, steps=150, phases=(Phase.generate,))
