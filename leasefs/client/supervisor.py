"""What a supervisor such as systemd is told: ready, alive, how things stand (sd_notify(3)).

The protocol is a datagram of `NAME=value` lines to the socket named by NOTIFY_SOCKET. Without one nothing is
sent, so whoever is started by hand needs no other path.
"""

from __future__ import annotations

import logging
import os
import socket

log = logging.getLogger(__name__)

_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class Supervisor:
    """The one that started this process, if it wants to hear of it.

    `watchdog_s` is how many seconds it waits between two signs of life, None if it does not.
    """

    def __init__(self, address: str = "", watchdog_s: float | None = None) -> None:
        """`address` is a path, or a name in the abstract space after `@`; empty: there is nobody."""
        self._address = address
        self.watchdog_s = watchdog_s if address else None
        self._said = ""

    @property
    def listens(self) -> bool:
        """Whether there is anybody to tell."""
        return bool(self._address)

    def ready(self, status: str) -> None:
        """What was started can be used now."""
        self._send("READY=1", _status(status))

    def status(self, text: str) -> None:
        """One line for people; it is sent only when it changed."""
        if text != self._said:
            self._send(_status(text))
        self._said = text

    def alive(self) -> None:
        """A sign of life. Send it only after a proof."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """The end has begun."""
        self._send("STOPPING=1")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        name = self._address
        where = "\0" + name[1:] if name.startswith("@") else name
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                # A supervisor that does not read must not stop what it supervises.
                out.settimeout(1.0)
                out.sendto("\n".join(lines).encode("utf-8", "replace"), where)
        except OSError as error:
            log.warning("the supervisor at %s cannot be told: %s", name, error)


def supervisor() -> Supervisor:
    """The supervisor named by this process's environment, which it is taken out of: children have another one."""
    said = {name: os.environ.pop(name, "") for name in _VARIABLES}
    address = said["NOTIFY_SOCKET"]
    if not address.startswith(("/", "@")):
        return Supervisor()
    return Supervisor(address, _watchdog_s(said["WATCHDOG_USEC"], said["WATCHDOG_PID"]))


def _watchdog_s(usec: str, pid: str) -> float | None:
    """sd_watchdog_enabled(3): only for the process that is meant."""
    if not usec.isdecimal() or not int(usec) or (pid and pid != str(os.getpid())):
        return None
    return int(usec) / 1e6


def _status(text: str) -> str:
    return "STATUS=" + " ".join(text.split())
