"""Messages for journald: each field as it was meant, whatever is in it, and nobody waits for a journal that hangs."""

from __future__ import annotations

import array
import logging
import os
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from leasefs.client import log_setup
from leasefs.client.log_events import Event, fields
from leasefs.client.log_journal import JournalHandler, stderr_is_the_journal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "journal"))
        listening.settimeout(5)
        yield listening


def heard(journal: socket.socket) -> dict[str, str]:
    """The next message as journald would store it."""
    data, ancillary, _, _ = journal.recvmsg(1 << 20, socket.CMSG_SPACE(4))
    for _, _, raw in ancillary:
        fd = array.array("i", raw)[0]
        with open(fd, "rb") as file:
            file.seek(0)
            data = file.read()
    found = {}
    while data:
        name, _, rest = data.partition(b"\n")
        key, equals, value = name.partition(b"=")
        if equals:
            data = rest
        else:
            (length,) = struct.unpack_from("<Q", rest)
            value, data = rest[8 : 8 + length], rest[8 + length + 1 :]
        found[key.decode()] = value.decode()
    return found


def record(words: str, level: int = logging.WARNING, **facts: object) -> logging.LogRecord:
    made = logging.LogRecord("leasefs.mount.gate", level, "/x/gate.py", 12, words, (), None, "f")
    vars(made).update(fields(Event.WRITE_REFUSED, facts))
    return made


def test_fields_of_a_message(journal: socket.socket, tmp_path: Path) -> None:
    handler = JournalHandler("leasefs-mount", {"agent": "ada"}, str(tmp_path / "journal"))
    try:
        handler.emit(record("refused\nPRIORITY=0", path="a\nMESSAGE_ID=forged\udcff", pid=7))
    finally:
        handler.close()
    assert heard(journal) == {
        "MESSAGE": "refused\\nPRIORITY=0",
        "PRIORITY": "4",
        "SYSLOG_IDENTIFIER": "leasefs-mount",
        "MESSAGE_ID": Event.WRITE_REFUSED.message_id,
        "CODE_FILE": "/x/gate.py",
        "CODE_LINE": "12",
        "CODE_FUNC": "f",
        "LEASEFS_FROM": "mount.gate",
        "LEASEFS_EVENT": "write-refused",
        "LEASEFS_AGENT": "ada",
        "LEASEFS_PATH": "a\\nMESSAGE_ID=forged\\udcff",
        "LEASEFS_PID": "7",
    }


@pytest.mark.parametrize(
    ("level", "priority"),
    [(logging.DEBUG, "7"), (logging.INFO, "6"), (logging.ERROR, "3"), (logging.CRITICAL, "2")],
)
def test_priorities(journal: socket.socket, tmp_path: Path, level: int, priority: str) -> None:
    handler = JournalHandler("x", {}, str(tmp_path / "journal"))
    handler.emit(record("m", level))
    handler.close()
    assert heard(journal)["PRIORITY"] == priority


def test_a_trace_keeps_its_lines_and_a_long_one_gets_through(
    journal: socket.socket, tmp_path: Path
) -> None:
    handler = JournalHandler("x", {}, str(tmp_path / "journal"))
    handler._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    made = record("m")
    try:
        float("y" * 100_000)
    except ValueError as error:
        made.exc_info = (type(error), error, error.__traceback__)
    handler.emit(made)
    handler.close()
    trace = heard(journal)["LEASEFS_TRACE"]
    assert "yyyy" in trace
    assert len(trace) > 10_000


def test_nobody_waits_for_a_journal_that_does_not_read(
    journal: socket.socket, tmp_path: Path
) -> None:
    handler = JournalHandler("x", {}, str(tmp_path / "journal"))
    for number in range(2_000):  # more than any queue takes (net.unix.max_dgram_qlen)
        handler.emit(record(str(number)))
    journal.setblocking(False)
    taken = 0
    while True:
        try:
            journal.recv(1 << 16)
        except BlockingIOError:
            break
        taken += 1
    assert 0 < taken < 2_000
    handler.emit(record("again"))
    handler.close()
    assert heard(journal)["LEASEFS_MISSED"] == str(2_000 - taken)


def test_a_journal_that_was_restarted_is_found_again(tmp_path: Path) -> None:
    place = str(tmp_path / "journal")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as first:
        first.bind(place)
        handler = JournalHandler("x", {}, place)
        os.unlink(place)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as second:
        second.bind(place)
        second.settimeout(5)
        handler.emit(record("after"))
        assert heard(second)["MESSAGE"] == "after"
    handler.close()


def test_only_a_stderr_that_the_journal_reads_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "stream").open("w") as stream:
        found = os.fstat(stream.fileno())
        for said, expected in (
            (f"{found.st_dev}:{found.st_ino}", True),
            (f"{found.st_dev}:{found.st_ino + 1}", False),
            ("", False),
            ("x:y", False),
        ):
            monkeypatch.setenv("JOURNAL_STREAM", said)
            assert stderr_is_the_journal(stream.fileno()) is expected
    assert not stderr_is_the_journal(9_999)


def test_where_there_is_no_journal_lines_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    found = os.fstat(2)
    monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
    monkeypatch.setattr("leasefs.client.log_journal.SOCKET", "/nowhere/journal")
    monkeypatch.setattr(JournalHandler.__init__, "__defaults__", ("/nowhere/journal",))
    handler = log_setup._handler("x", {}, "auto")
    assert isinstance(handler, logging.StreamHandler)
