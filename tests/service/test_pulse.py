"""Steps of the wall clock and sleep of the machine are seen, counted and said; leases do not depend on them."""

from __future__ import annotations

import logging

import pytest

from leasefs.core.exposition import exposition
from leasefs.service.pulse import Pulse, Reading


def look(pulse_at: list[Reading], caplog: pytest.LogCaptureFixture) -> tuple[str, list[str]]:
    readings = iter(pulse_at)
    pulse = Pulse(lambda: next(readings))
    with caplog.at_level(logging.WARNING):
        for _ in pulse_at[1:]:
            pulse.look()
    return exposition(pulse.families()), caplog.messages


@pytest.mark.parametrize(
    ("wall_s", "forward", "back"), [(1010.0, 0, 0), (1010.3, 0, 0), (4610.0, 1, 0), (10.0, 0, 1)]
)
def test_a_step_of_the_wall_clock(
    caplog: pytest.LogCaptureFixture, wall_s: float, forward: int, back: int
) -> None:
    before, after = Reading(1000.0, 50.0, 40.0), Reading(wall_s, 60.0, 50.0)
    text, said = look([before, after], caplog)
    assert f'leasefs_clock_steps_total{{direction="forward"}} {forward}' in text
    assert f'leasefs_clock_steps_total{{direction="back"}} {back}' in text
    assert len(said) == forward + back


def test_sleep_is_no_step(caplog: pytest.LogCaptureFixture) -> None:
    text, said = look([Reading(1000.0, 50.0, 40.0), Reading(4600.0, 3650.0, 45.0)], caplog)
    assert "leasefs_suspended_seconds_total 3595" in text
    assert said == []
