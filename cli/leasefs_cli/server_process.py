"""The process behind a Unix socket: which it is, and seeing it end."""

from __future__ import annotations

import os
import select
import signal
import socket
from typing import Self

from leasefs.client.peer import peer_of


def listener_pid(socket_path: str) -> int | None:
    """The pid of whoever listens there (SO_PEERCRED, unix(7)); None if nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(5.0)
        try:
            probe.connect(socket_path)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        return peer_of(probe).pid


class Watched:
    """A process held by its pidfd, so that a signal cannot reach another one of the same number."""

    def __init__(self, pid: int) -> None:
        """Raises ProcessLookupError if it is gone."""
        self._fd = os.pidfd_open(pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def terminate(self) -> None:
        """Send SIGTERM."""
        signal.pidfd_send_signal(self._fd, signal.SIGTERM)

    def ends_within(self, seconds: float) -> bool:
        """Wait for its end, by notice of the kernel (a pidfd becomes readable)."""
        return bool(select.select([self._fd], [], [], seconds)[0])
