"""Ways to have a lease last, or end, by other clocks than those that count (P3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasefs.testing.bypass_scene import MINE
from leasefs.testing.intruder import Intruder

if TYPE_CHECKING:
    from leasefs.testing.bypass_scene import Scene

pytestmark = [pytest.mark.mount, pytest.mark.root]

ANYBODY = Intruder("/")


def test_setting_the_clock(scene: Scene) -> None:
    """Nor as root of a user namespace; and it would decide nothing."""
    code = """
import time
now = time.time()
def step(): time.clock_settime(time.CLOCK_REALTIME, now + 3600)
said = [refused(step)]
call(272, 0x10000000)
said.append(refused(step))
"""
    assert ANYBODY.attempt(code) == ("done", ["EPERM", "EPERM"])


def test_a_time_namespace_of_ones_own(scene: Scene) -> None:
    """time_namespaces(7): the daemon, which looks at the clock, is not in it."""
    scene.hold({**MINE, "trusted_for_s": -1})
    script = (
        "exec unshare --user --map-root-user --time --boottime 100000 --monotonic 100000 --fork "
        "sh -c ': > mine/f'"
    )
    done = scene.intruder.shell(script)
    assert "ermission denied" in done.stderr


def test_times_of_files(scene: Scene) -> None:
    """What a file says of its age keeps no lease."""
    code = """
os.utime("mine/f", (2**33, 2**33))
said = os.stat("mine/f").st_mtime
"""
    assert scene.intruder.attempt(code) == ("done", 2**33)
    scene.hold({**MINE, "trusted_for_s": -1})
    assert scene.intruder.attempt("os.truncate('mine/f', 0)").how == "EACCES"
