"""How long events from beneath are gathered."""

from __future__ import annotations

from leasefs.mount.pace import ALONE_S, BUSY_S, Pace


def test_a_lone_event_is_looked_at_soon_and_those_that_keep_coming_together() -> None:
    pace = Pace()
    assert pace.pause_s(1.0) == ALONE_S
    pace.looked(1.01)
    assert pace.pause_s(1.02) == BUSY_S
    pace.looked(1.06)
    assert pace.pause_s(1.1) == BUSY_S
    pace.looked(1.14)
    assert pace.pause_s(2.0) == ALONE_S
