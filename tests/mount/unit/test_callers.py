"""What a process in a system call is about to do at a name."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from leasefs.mount.callers import Intent, intent
from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        platform.machine() not in {"x86_64", "aarch64"}, reason="no system call numbers for it"
    ),
]


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that opens the FIFO `name/fifo`, and so sits in openat(2)."""
    (tmp_path / "name").mkdir()
    os.mkfifo(tmp_path / "name/fifo")
    code = "import os, sys; os.open(sys.argv[1], os.O_RDONLY)"
    with subprocess.Popen([sys.executable, "-c", code, tmp_path / "name/fifo"]) as process:
        yield process
        process.kill()


def test_the_path_of_a_waiting_call_is_read(waiting: subprocess.Popen[bytes]) -> None:
    eventually(lambda: intent(waiting.pid, b"fifo") is Intent.ENDS, what="its open(2)")
    eventually(lambda: intent(waiting.pid, b"name") is Intent.PASSES, what="the way there")


def test_who_is_gone_or_runs_is_unknown() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert intent(process.pid, b"x") is Intent.UNKNOWN
    assert intent(os.getpid(), b"x") is not Intent.TAKES
