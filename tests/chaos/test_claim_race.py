"""Many real processes want the same ground at once (P1, P7)."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.testing.ledger_process import LedgerProcess

if TYPE_CHECKING:
    from pathlib import Path


def race(tmp_path: Path, processes: int, rounds: int) -> list[dict[str, Any]]:
    """The grants that all processes printed. Fails if two of them ever held it at once."""
    with LedgerProcess(str(tmp_path)) as ledger:
        command = [sys.executable, "-m", "leasefs.testing.contender", ledger.socket_path]
        children = [
            subprocess.Popen(
                [*command, str(number), str(rounds), str(tmp_path)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(processes)
        ]
        said = [child.communicate(timeout=500) for child in children]
        assert [child.returncode for child in children] == [0] * processes, said
    return [json.loads(line) for out, _ in said for line in out.splitlines()]


def check(grants: list[dict[str, Any]], expected: int) -> None:
    assert len(grants) == expected
    by_token = sorted(grants, key=lambda grant: grant["token"])
    tokens = [grant["token"] for grant in by_token]
    assert len(set(tokens)) == expected, "P1: a fencing token is never reused"
    arrivals = [int(grant["lease"][1:]) for grant in by_token]
    assert arrivals == sorted(arrivals), "P7: waiters are served in order of arrival"
    assert max(grant["asked"] for grant in grants) <= 1, "P7: a release reaches the next by push"


def test_ten_processes_want_the_same_ground(tmp_path: Path) -> None:
    check(race(tmp_path, processes=10, rounds=5), 50)


@pytest.mark.slow
@pytest.mark.chaos
def test_a_hundred_processes_want_the_same_ground_fifty_times(tmp_path: Path) -> None:
    check(race(tmp_path, processes=100, rounds=50), 5000)
