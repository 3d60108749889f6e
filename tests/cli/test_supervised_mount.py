"""A mount under a supervisor: what it says and when."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.mount.mountinfo import top_at

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mount, pytest.mark.slow]

TIMEOUT_S = 60.0
LEASEFS = Path(sys.executable).parent / "leasefs"


class Daemon:
    def __init__(self, process: subprocess.Popen[bytes], notify: socket.socket) -> None:
        self.process = process
        self.notify = notify

    def heard(self, wanted: str) -> str:
        """Listen until a message has this in it."""
        while True:
            said = self.notify.recv(4096).decode()
            if wanted in said:
                return said

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT_S)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", root], check=True)
    return root


@contextmanager
def supervised(installed: Any, tree: Path, **environment: str) -> Iterator[Daemon]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(tree.parent / "notify"))
        notify.settimeout(TIMEOUT_S)
        process = subprocess.Popen(
            [LEASEFS, "mount", "--foreground", "--agent", "ada", str(tree)],
            env={**os.environ, "NOTIFY_SOCKET": str(notify.getsockname()), **environment},
        )
        try:
            yield Daemon(process, notify)
        finally:
            process.kill()
            process.wait(TIMEOUT_S)
            if top_at(str(tree)) is not None:
                installed("unmount", "--lazy", str(tree))
            installed("ledger", "stop")
            os.unlink(tree.parent / "notify")


def test_it_is_ready_when_it_answers_and_tells_how_it_stands(installed: Any, tree: Path) -> None:
    with supervised(installed, tree, WATCHDOG_USEC="900000") as daemon:
        said = daemon.heard("READY=1")
        assert "STATUS=ada: 0 leases held, 0 dirty paths, ledger reachable" in said
        # The kernel answered another process; so it answers this one.
        os.statvfs(tree)
        daemon.heard("WATCHDOG=1")
        assert installed("-C", str(tree), "claim", "src/**").code == 0
        (tree / "src" / "new").write_text("1\n")
        daemon.heard("STATUS=ada: 1 leases held, 1 dirty paths")
        assert daemon.stop() == 0
