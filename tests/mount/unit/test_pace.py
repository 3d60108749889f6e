"""How long events from beneath are gathered."""

from __future__ import annotations

from leasefs.mount.pace import MORE_S, Pace


def test_a_lone_event_is_looked_at_soon_and_those_that_keep_coming_together() -> None:
    pace = Pace()
    assert pace.more_s(1.01, names=False) == 0.0
    pace.looked(1.01)
    assert pace.more_s(1.03, names=False) == MORE_S
    pace.looked(1.06)
    assert pace.more_s(1.1, names=False) == MORE_S
    pace.looked(1.14)
    assert pace.more_s(2.0, names=False) == 0.0


def test_a_name_that_came_or_went_is_not_left_to_wait() -> None:
    """The kernel would go on finding what was there, or nothing."""
    pace = Pace()
    pace.looked(1.0)
    assert pace.more_s(1.02, names=True) == 0.0
