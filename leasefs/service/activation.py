"""A listening socket that a supervisor opened and passed on (sd_listen_fds(3)): it outlives every ledger that serves it."""

from __future__ import annotations

import os
import socket

from leasefs.service.places import UnsafePlace

_FIRST_FD = 3
_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


def passed_socket() -> socket.socket | None:
    """The socket passed to this process, or None; children do not hear of it any more.

    Raises:
        UnsafePlace: what was passed is not one Unix socket that listens at a path.
    """
    said = {name: os.environ.pop(name, "") for name in _VARIABLES}
    count = said["LISTEN_FDS"]
    if said["LISTEN_PID"] != str(os.getpid()) or not count.isdecimal() or count == "0":
        return None
    if count != "1":
        raise UnsafePlace(f"{count} sockets were passed, and a ledger serves one: give it one unit")
    try:
        passed = socket.socket(fileno=_FIRST_FD)
    except OSError as error:
        raise UnsafePlace(f"descriptor {_FIRST_FD} was passed and is no socket: {error}") from error
    passed.set_inheritable(False)
    if not _is_fit(passed):
        raise UnsafePlace(
            f"what was passed at descriptor {_FIRST_FD} is not a Unix stream socket that listens at a path"
        )
    return passed


def path_of(listening: socket.socket) -> str:
    """Where it can be found."""
    return str(listening.getsockname())


def _is_fit(passed: socket.socket) -> bool:
    if passed.family != socket.AF_UNIX or passed.type != socket.SOCK_STREAM:
        return False
    if not passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return False
    name = passed.getsockname()
    return isinstance(name, str) and name.startswith("/")
