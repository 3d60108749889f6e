"""Running model-based state machines: so many examples, of so many steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

if TYPE_CHECKING:
    from hypothesis.stateful import RuleBasedStateMachine


def run_machine(
    machine: type[RuleBasedStateMachine],
    examples: int,
    steps: int,
    phases: tuple[Phase, ...] = tuple(Phase),
) -> None:
    """Run it. Without Phase.shrink a failure is told as it was found: shrinking long ones takes too long."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            phases=phases,
            report_multiple_bugs=False,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
