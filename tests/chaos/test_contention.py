"""Agents on real mounts that want the same few files: whichever way they ask for them, no edit is lost."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

BENCH = os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "bench_contention")


@pytest.mark.mount
@pytest.mark.root
@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["globs", "auto"])
def test_no_edit_is_lost(mode: str) -> None:
    """The benchmark in short, without looking at its figures: it ends with 1 if a line is missing."""
    command = [sys.executable, BENCH, "--agents", "5", "--work", "3", "--modes", mode]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"| 5 | {mode} |" in done.stdout
