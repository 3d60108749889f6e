"""Messages for journald with fields of their own, by its native protocol.

https://systemd.io/JOURNAL_NATIVE_PROTOCOL/: one datagram for each message, `NAME=value` lines, or the length before a
value that has more than one line; what does not fit into a datagram goes into a sealed memory file whose descriptor is
sent instead. Nobody waits for a journal that does not take it: what it missed is counted, and told once it listens.
"""

from __future__ import annotations

import array
import fcntl
import logging
import os
import socket
import struct
from typing import TYPE_CHECKING

from leasefs.client.log_lines import event_of, facts_of, message_of, on_one_line, trace_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET = "/run/systemd/journal/socket"
STREAM = "JOURNAL_STREAM"
PREFIX = "LEASEFS_"
_LENGTH = struct.Struct("<Q")
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
# syslog(3); `logging` knows no other levels here.
_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
_DEBUG = 7


def stderr_is_the_journal(fd: int = 2) -> bool:
    """Whether journald reads what this process writes to its standard error (systemd.exec(5), $JOURNAL_STREAM)."""
    device, colon, inode = os.environ.get(STREAM, "").partition(":")
    if not (colon and device.isdecimal() and inode.isdecimal()):
        return False
    try:
        found = os.fstat(fd)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (int(device), int(inode))


class JournalHandler(logging.Handler):
    """Sends each message to the journal; `about` are fields of every one, `name` is what it is listed under."""

    def __init__(self, name: str, about: Mapping[str, str], path: str = SOCKET) -> None:
        """Raises OSError: there is no journal at `path`."""
        super().__init__()
        self._name = name
        self._about = dict(about)
        self._path = path
        self._missed = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.setblocking(False)
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise

    def emit(self, record: logging.LogRecord) -> None:
        """Send it. What cannot be sent is left out and counted, as there is nowhere else to say it."""
        try:
            self._send(self._datagram(record))
        except OSError:
            self._missed += 1
        except Exception:  # noqa: BLE001 -- what `logging` wants of handlers
            self.handleError(record)

    def close(self) -> None:
        """Let go of the socket."""
        self._socket.close()
        super().close()

    def _datagram(self, record: logging.LogRecord) -> bytes:
        event, trace = event_of(record), trace_of(record)
        fields: dict[str, str] = {
            "MESSAGE": on_one_line(message_of(record)),
            "PRIORITY": str(_priority(record.levelno)),
            "SYSLOG_IDENTIFIER": self._name,
            "CODE_FILE": record.pathname,
            "CODE_LINE": str(record.lineno),
            "CODE_FUNC": record.funcName or "",
            PREFIX + "FROM": record.name.removeprefix("leasefs."),
        }
        for name, value in {**self._about, **facts_of(record)}.items():
            fields[PREFIX + name.upper()] = on_one_line(str(value))
        if event is not None:
            fields["MESSAGE_ID"] = event.message_id
            fields[PREFIX + "EVENT"] = event.word
        if trace:
            fields[PREFIX + "TRACE"] = trace
        if self._missed:
            fields[PREFIX + "MISSED"] = str(self._missed)
        return b"".join(_field(name, value) for name, value in fields.items())

    def _send(self, datagram: bytes) -> None:
        try:
            self._socket.send(datagram)
        except OSError as error:
            if isinstance(error, BlockingIOError):
                raise
            if error.errno == 90:  # EMSGSIZE: it does not fit
                self._send_file(datagram)
            else:
                # The journal was restarted: another socket has the name now.
                self._socket.connect(self._path)
                self._socket.send(datagram)
        self._missed = 0

    def _send_file(self, datagram: bytes) -> None:
        fd = os.memfd_create("leasefs-log", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            with open(fd, "wb", closefd=False) as file:
                file.write(datagram)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
            sent = array.array("i", [fd])
            self._socket.sendmsg([b""], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, sent)])
        finally:
            os.close(fd)


def _field(name: str, value: str) -> bytes:
    data = value.encode("utf-8", "backslashreplace")
    if b"\n" not in data:
        return b"%b=%b\n" % (name.encode("ascii"), data)
    return b"%b\n%b%b\n" % (name.encode("ascii"), _LENGTH.pack(len(data)), data)


def _priority(level: int) -> int:
    return next((priority for least, priority in _PRIORITIES if level >= least), _DEBUG)
