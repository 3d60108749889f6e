"""fsx: random reads, writes, mappings and truncations of one file, each compared with what must be in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from suite_runs.outcome import OK, Outcomes
from suite_runs.xfstests import programs

if TYPE_CHECKING:
    from suite_runs.places import Place

_OPERATIONS = 20_000
_ALIGNED = ["-r", "4096", "-w", "4096", "-t", "4096"]
_KINDS = {
    "plain": [],
    "small operations": ["-o", "4096", "-l", "60000"],
    "large file": ["-l", "4194304", "-o", "524288"],
    "reopened": ["-c", "10"],
    "flushed and invalidated": ["-f"],
    "synchronized": ["-y"],
    "compared as a whole": ["-X", "-l", "30000"],
    "dirt after the end": ["-e", "1"],
    "without mappings": ["-R", "-W"],
    "libaio": ["-A"],
    "io_uring": ["-U"],
    "direct": ["-Z", "-R", "-W", *_ALIGNED],
    "direct libaio": ["-Z", "-A", "-R", "-W", *_ALIGNED],
}


def run(place: Place) -> Outcomes:
    """Run every kind of sequence with three seeds."""
    fsx = programs(place.settings.work) + "/fsx"
    found: Outcomes = {}
    for kind, flags in _KINDS.items():
        for seed in (1, 2, 3):
            name = f"{kind}, seed {seed}"
            if not re.search(place.settings.only, name):
                continue
            command = [
                fsx,
                "-q",
                "-N",
                str(_OPERATIONS),
                "-S",
                str(seed),
                *flags,
                f"{place.path}/file",
            ]
            status, said = place.run(command)
            found[name] = OK if status == 0 else f"exit status {status}: {said[-400:]!r}"
    return found
