"""What `scripts/suites` runs without fetching anything: through a mount under `**` all passes that does beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.mount, pytest.mark.slow]

_SUITES = Path(__file__).parents[2] / "scripts/suites"


@pytest.mark.parametrize(
    ("suite", "only"),
    [
        ("locks", ""),
        ("mmap", ""),
        ("sqlite", "delete|wal|mapped"),
        ("fio", "random|read and written"),
        # A few of them; all take minutes.
        ("stress-ng", "^(dentry|filename|iomix|rename)$"),
    ],
)
def test_nothing_passes_beside_the_mount_only(tmp_path: Path, suite: str, only: str) -> None:
    if suite in {"fio", "stress-ng"} and shutil.which(suite) is None:
        pytest.skip(f"{suite} is not installed")
    done = subprocess.run(
        [sys.executable, _SUITES, suite, "--only", only, "--work", tmp_path],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mount 0 passed" not in done.stdout
