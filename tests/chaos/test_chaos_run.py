"""`scripts/chaos` in short: agents on real mounts, faults of every kind, and no promise broken (P1, P2, P3, P6, P7, P8, P9, P11)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from leasefs.testing.eventually import eventually

pytestmark = [pytest.mark.mount, pytest.mark.root, pytest.mark.chaos, pytest.mark.slow]

CHAOS = Path(__file__).parents[2] / "scripts/chaos"
SEED = os.environ.get("LEASEFS_SEED", "1")


def run(work: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, CHAOS, "--seed", SEED, "--work", work, *options],
        capture_output=True,
        text=True,
        check=False,
    )


def mounted_below(place: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if f" {place}/" in line]


def test_faults_for_a_few_seconds_break_no_promise(tmp_path: Path) -> None:
    done = run(tmp_path, "--agents", "3", "--seconds", "6", "--rate", "2.5")
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.search(r"(\d+) faults, (\d+) operations judged, 0 violations", done.stdout)
    assert told is not None, done.stdout
    assert int(told[1]) > 3
    assert int(told[2]) > 30
    assert os.listdir(tmp_path) == []


@pytest.mark.long
def test_many_faults_break_no_promise(tmp_path: Path) -> None:
    done = run(tmp_path, "--agents", "6", "--seconds", "90", "--rounds", "8")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_stays_of_a_run_that_is_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, CHAOS, "--agents", "1", "--seconds", "60", "--work", tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        eventually(lambda: list(tmp_path.glob("*/rec/acts.jsonl")), 60, "the storm")
        process.send_signal(number)
        process.communicate(timeout=60)
        assert process.returncode != 0
    assert mounted_below(tmp_path) == []
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("options", [("--only", "meteor")])
def test_a_fault_that_is_none_is_a_mistake(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run(tmp_path, *options)
    assert done.returncode == 2
    assert "no such fault: meteor" in done.stderr
