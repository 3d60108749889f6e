"""Our own checks of what no small public suite covers: SQLite, locks, mappings. Each is a program that prints TAP."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from suite_runs.outcome import Outcomes, tap

if TYPE_CHECKING:
    from suite_runs.places import Place


def sqlite(place: Place) -> Outcomes:
    """SQLite with several processes, in each journal mode."""
    return _run(place, "sqlite_checks")


def locks(place: Place) -> Outcomes:
    """flock(2), record locks and open file description locks between processes."""
    return _run(place, "lock_checks")


def mappings(place: Place) -> Outcomes:
    """mmap(2), shared and private, against read(2) and write(2)."""
    return _run(place, "mapping_checks")


def _run(place: Place, program: str) -> Outcomes:
    scripts = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # Another user may not be able to reach our interpreter; the system's is enough for these.
    python = sys.executable if place.settings.user is None else "/usr/bin/python3"
    command = [python, "-m", f"suite_runs.{program}", place.path, place.settings.only]
    _, said = place.run(command, env={"PYTHONPATH": scripts, "PYTHONDONTWRITEBYTECODE": "1"})
    found = tap(said, program)
    if not any(re.match(r"^1\.\.", line) for line in said.splitlines()):
        found[f"{program} ends"] = said[-500:]
    return found
