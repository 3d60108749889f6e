"""Lines on standard error: whole where somebody reads them, and nobody waits where not."""

from __future__ import annotations

import fcntl
import io
import logging
import os
from typing import TYPE_CHECKING, TextIO

import pytest

from leasefs.client.log_lines import TextLines
from leasefs.client.log_stream import PatientLines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROOM_BYTES = 4096


class Pipe:
    """The smallest there is, and the handler that writes to it."""

    def __init__(self, reading: int, stream: TextIO) -> None:
        self.reading = reading
        fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, ROOM_BYTES)
        os.set_blocking(reading, False)
        self.handler = PatientLines(stream)
        self.handler.setFormatter(TextLines())

    def say(self, words: str) -> None:
        self.handler.handle(logging.LogRecord("leasefs.x", 20, "here", 1, words, (), None))

    def read(self) -> str:
        said = b""
        while True:
            try:
                said += os.read(self.reading, 1 << 16)
            except BlockingIOError:
                return said.decode()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    reading, writing = os.pipe()
    with open(writing, "w") as stream:
        made = Pipe(reading, stream)
        yield made
        os.close(made.reading)


def test_what_nobody_reads_is_left_out_and_counted(pipe: Pipe) -> None:
    for number in range(200):
        pipe.say(f"number {number}")
    came = pipe.read().splitlines()
    assert 0 < len(came) < 200
    assert all(line.startswith("ts=") and line.endswith('"') for line in came)
    pipe.say("again")
    assert f"missed={200 - len(came)}" in pipe.read()
    pipe.say("and again")
    assert "missed" not in pipe.read()


def test_half_a_line_is_ended_before_the_next(pipe: Pipe) -> None:
    pipe.say("a\x00" * 3000)  # longer than the pipe
    first = pipe.read()
    assert first
    assert not first.endswith("\n")
    pipe.say("next")
    half, whole = pipe.read().splitlines()
    assert half == ""
    assert whole.startswith("ts=")
    assert "missed=1" in whole


def test_a_reader_that_went_away_harms_nobody(pipe: Pipe) -> None:
    os.close(pipe.reading)
    pipe.reading = os.open("/dev/null", os.O_RDONLY)
    pipe.say("to nobody")


def test_files_get_every_line_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w") as stream:
        handler = PatientLines(stream)
        handler.setFormatter(TextLines())
        for number in range(100):
            words = f"number {number} " + "\x00" * 3000
            handler.handle(logging.LogRecord("leasefs.x", 20, "here", 1, words, (), None))
    lines = path.read_text().splitlines()
    assert len(lines) == 100
    assert all(line.endswith('"') for line in lines)


def test_a_stream_of_python_alone_is_written_to() -> None:
    stream: TextIO = io.StringIO()
    handler = PatientLines(stream)
    handler.handle(logging.LogRecord("leasefs.x", 20, "here", 1, "words", (), None))
    assert stream.getvalue() == "words\n"  # type: ignore[attr-defined]
