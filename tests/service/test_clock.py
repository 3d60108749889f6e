"""P3: expiry comes late, never early, whatever the wall clock and the machine do."""

from __future__ import annotations

import subprocess
import sys

import pytest

from leasefs.service.clock import ClockMark, SystemClock, boot_identity, clock_after
from leasefs.testing.clock import FakeClock

_SAY_IDENTITY = "from leasefs.service.clock import boot_identity as named; print(named(), end='')"


def test_a_new_log_begins_at_the_wall_clock() -> None:
    source = FakeClock(now_s=500.0, wall_s=1_700_000_000.0)
    assert clock_after(source, "boot-1", None, None).now_s() == 1_700_000_000.0


def test_stepping_the_wall_clock_changes_nothing() -> None:
    source = FakeClock()
    clock = clock_after(source, "boot-1", None, None)
    before_s = clock.now_s()
    source.step_wall(-1e6)
    source.advance(5.0)
    assert clock.now_s() == before_s + 5.0
    assert clock.wall_s() == source.wall_s()


def test_a_restart_in_the_same_boot_counts_the_time_down() -> None:
    source = FakeClock(now_s=500.0)
    first = clock_after(source, "boot-1", None, None)
    mark = ClockMark("boot-1", first.now_s() - first.boottime_s())
    last_at_s = first.now_s()
    source.step_wall(-12345.0)
    source.advance(3600.0)
    again = clock_after(source, "boot-1", last_at_s, mark)
    assert again.now_s() == last_at_s + 3600.0


def test_after_a_reboot_time_goes_on_from_the_last_event() -> None:
    mark = ClockMark("boot-1", 1_000_000.0)
    source = FakeClock(now_s=7.0, wall_s=9e9)
    clock = clock_after(source, "boot-2", 1_000_500.0, mark)
    assert clock.now_s() == 1_000_500.0
    source.advance(2.0)
    assert clock.now_s() == 1_000_502.0


def test_a_boot_that_has_run_for_longer_does_not_make_leases_expire_early() -> None:
    mark = ClockMark("boot-1", 1_000_000.0)
    clock = clock_after(FakeClock(now_s=90_000.0), "boot-2", 1_000_500.0, mark)
    assert clock.now_s() == 1_000_500.0


def test_a_boot_clock_that_went_back_does_not_take_ledger_time_with_it() -> None:
    mark = ClockMark("boot-1", 1_000_000.0)
    clock = clock_after(FakeClock(now_s=20.0), "boot-1", 1_000_500.0, mark)
    assert clock.now_s() == 1_000_500.0


def test_a_log_whose_server_left_no_mark_goes_on_from_its_last_event() -> None:
    assert clock_after(FakeClock(), "boot-1", 42.0, None).now_s() == 42.0


def test_the_system_clock_counts_and_the_boot_has_a_name() -> None:
    clock = SystemClock()
    first_s = clock.now_s()
    assert clock.now_s() >= first_s > 0
    assert boot_identity() == boot_identity() != ""


def _identity_with_a_clock_ahead(seconds: int) -> str:
    return subprocess.run(
        ["unshare", "--time", f"--boottime={seconds}", "--", sys.executable, "-c", _SAY_IDENTITY],
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.mark.root
def test_time_namespaces_whose_clocks_differ_are_no_one_boot() -> None:
    """The kernel gives the number of one that is gone to the next."""
    said = {_identity_with_a_clock_ahead(seconds) for seconds in (1000, 50_000, 90_000)}
    assert len(said) == 3
    assert boot_identity() not in said
    assert _identity_with_a_clock_ahead(1000) in said
