"""Listening sockets that a supervisor opened and passed on (sd_listen_fds(3)): they outlive every ledger that serves them."""

from __future__ import annotations

import os
import socket
from typing import NamedTuple

from leasefs.service.places import UnsafePlace

_FIRST_FD = 3
_MOST = 16
_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


class Passed(NamedTuple):
    """What was passed: a Unix socket or none, and any number of TCP sockets."""

    unix: socket.socket | None = None
    tcp: tuple[socket.socket, ...] = ()


def passed_sockets() -> Passed:
    """The sockets passed to this process; children do not hear of them any more.

    Raises:
        UnsafePlace: what was passed does not listen, or is more than one Unix socket.
    """
    said = {name: os.environ.pop(name, "") for name in _VARIABLES}
    count = said["LISTEN_FDS"]
    if said["LISTEN_PID"] != str(os.getpid()) or not count.isdecimal() or count == "0":
        return Passed()
    if int(count) > _MOST:
        raise UnsafePlace(f"{count} sockets were passed, and a ledger serves {_MOST} at most")
    passed = [_passed(fd) for fd in range(_FIRST_FD, _FIRST_FD + int(count))]
    unix = [one for one in passed if one.family == socket.AF_UNIX]
    if len(unix) > 1:
        raise UnsafePlace(
            f"{len(unix)} Unix sockets were passed, and a ledger serves one: give it one unit"
        )
    tcp = tuple(one for one in passed if one.family != socket.AF_UNIX)
    return Passed(unix[0] if unix else None, tcp)


def path_of(listening: socket.socket) -> str:
    """Where a Unix socket can be found."""
    return str(listening.getsockname())


def _passed(fd: int) -> socket.socket:
    try:
        passed = socket.socket(fileno=fd)
    except OSError as error:
        raise UnsafePlace(f"descriptor {fd} was passed and is no socket: {error}") from error
    passed.set_inheritable(False)
    if not _is_fit(passed):
        raise UnsafePlace(
            f"what was passed at descriptor {fd} is not a stream socket that listens at a path, or at an address of TCP"
        )
    return passed


def _is_fit(passed: socket.socket) -> bool:
    if passed.type != socket.SOCK_STREAM:
        return False
    if not passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return False
    if passed.family in {socket.AF_INET, socket.AF_INET6}:
        return True
    name = passed.getsockname()
    return passed.family == socket.AF_UNIX and isinstance(name, str) and name.startswith("/")
