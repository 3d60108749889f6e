"""stress-ng: the stressors of its file system class, each a few seconds, verifying what they do."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from suite_runs.outcome import OK, SKIPPED, Outcomes

if TYPE_CHECKING:
    from suite_runs.places import Place

_SECONDS = "3"
# These never touch the directory that they are given, or reach for every mount of the machine.
_ELSEWHERE = {"bind-mount", "binderfs", "dup", "eventfd", "fanotify", "io", "ioprio", "procfs"}
# stress-ng(1), EXIT STATUS.
_NOT_HERE = {3, 4, 5}


def run(place: Place) -> Outcomes:
    """Run one stressor after the other, two workers each."""
    if shutil.which("stress-ng") is None:
        return {"stress-ng is installed": SKIPPED}
    _, said = place.run(["stress-ng", "--class", "filesystem?"])
    found: Outcomes = {}
    for name in said.split("stressors:")[-1].split():
        if name in _ELSEWHERE or not re.search(place.settings.only, name):
            continue
        command = [
            "stress-ng",
            f"--{name}",
            "2",
            "--timeout",
            _SECONDS,
            "--verify",
            "--temp-path",
            place.path,
        ]
        status, told = place.run(command, timeout_s=120)
        failures = [line for line in told.splitlines() if "fail:" in line]
        if status in _NOT_HERE:
            found[name] = SKIPPED
        else:
            found[name] = (
                OK if status == 0 else f"exit status {status}: {failures[:2] or told[-300:]}"
            )
    return found
