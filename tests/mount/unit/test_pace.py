"""How long events from beneath are gathered."""

from __future__ import annotations

from leasefs.mount.pace import BUSY_S, SOON_S, Pace


def test_a_lone_event_is_looked_at_soon_and_those_that_keep_coming_together() -> None:
    pace = Pace()
    assert pace.pause_s(1.0) == SOON_S
    pace.looked(1.01, names=False)
    assert pace.pause_s(1.02) == BUSY_S
    pace.looked(1.06, names=False)
    assert pace.pause_s(1.1) == BUSY_S
    pace.looked(1.14, names=False)
    assert pace.pause_s(2.0) == SOON_S


def test_where_names_come_and_go_nothing_is_left_to_wait() -> None:
    """The kernel would go on finding what was there, or nothing."""
    pace = Pace()
    pace.looked(1.0, names=True)
    assert pace.pause_s(1.02) == SOON_S
    pace.looked(1.03, names=False)
    assert pace.pause_s(1.05) == BUSY_S
