"""`leasefs doctor --fix` at a terminal: each repair is a question, and no is an answer."""

from __future__ import annotations

import os
import pty
import select
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from leasefs.client import paths

INSTALLED = str(Path(sys.executable).parent / "leasefs")


def bound(path: Path) -> Path:
    """A socket that nobody listens at."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    return path


def on_a_terminal(cwd: Path, answer: str, *flags: str) -> str:
    """Run `doctor --fix` at a terminal whose person answers each question so; what was shown."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [INSTALLED, "doctor", "--fix", *flags],
        cwd=cwd,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "dumb"},
    ) as process:
        os.close(follower)
        shown = b""
        answered = 0
        while select.select([leader], [], [], 60)[0]:
            try:
                data = os.read(leader, 1 << 16)
            except OSError:
                break
            if not data:
                break
            shown += data
            if shown.count(b"? [") > answered:
                answered += 1
                os.write(leader, answer.encode() + b"\n")
        process.wait(60)
    os.close(leader)
    return shown.decode()


@pytest.mark.slow
def test_each_repair_is_asked_for(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    left = bound(Path(paths.runtime_dir()) / f"mount-{gone.pid}.sock")
    shown = on_a_terminal(tmp_path, "n")
    assert "remove it? [Y/n]" in shown
    assert left.exists()
    assert f"fixed   socket {left}" in on_a_terminal(tmp_path, "y")
    assert not left.exists()
    bound(left)
    shown = on_a_terminal(tmp_path, "n", "--yes")
    assert "? [" not in shown
    assert not left.exists()


def test_yes_needs_fix(here: Any) -> None:
    assert here("doctor", "--yes").code == 2
