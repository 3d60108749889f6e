"""A world of its own for a test that starts ledgers and mounts: directories, environment, an end to it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from typing import TYPE_CHECKING, NamedTuple

from leasefs.client import paths
from leasefs.client.config import start_afresh
from leasefs.client.config_files import SYSTEM_VARIABLE
from leasefs.client.peer import peer_of
from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

_OURS = ("LEASEFS_", "XDG_", "GIT_")


class World(NamedTuple):
    """The directory that everything is in; the environment points there while the context lasts."""

    root: str

    def ledger_pid(self) -> int | None:
        """The process that listens on the embedded ledger's socket, or None."""
        return listener_of(paths.ledger_socket())

    def kill_ledger(self, number: int = signal.SIGKILL) -> None:
        """End it and wait for that."""
        pid = self.ledger_pid()
        if pid is not None:
            os.kill(pid, number)
            eventually(lambda: self.ledger_pid() is None and is_gone(pid), what="the ledger's end")


@contextlib.contextmanager
def own_world(root: str) -> Iterator[World]:
    """Point HOME and the XDG directories below `root`, drop what else could have a say; undo it all."""
    before = dict(os.environ)
    for name in before:
        if name.startswith(_OURS):
            del os.environ[name]
    for variable, directory in (
        ("HOME", "home"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_RUNTIME_DIR", "run"),
    ):
        path = os.path.join(root, directory)
        os.makedirs(path, mode=0o700, exist_ok=True)
        os.environ[variable] = path
    os.environ[SYSTEM_VARIABLE] = ""
    start_afresh()
    world = World(root)
    try:
        yield world
    finally:
        world.kill_ledger(signal.SIGTERM)
        os.environ.clear()
        os.environ.update(before)
        start_afresh()


def listener_of(path: str) -> int | None:
    """The pid of who listens on a Unix socket, or None if nobody does."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
        except OSError:
            return None
        return peer_of(connection).pid


def is_gone(pid: int) -> bool:
    """Whether no process of that number runs (a zombie does not)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter if it goes between open and read
        return True
