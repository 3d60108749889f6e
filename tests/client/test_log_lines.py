"""What is logged: one line each, nothing forged in it, nothing secret, and not without end."""

from __future__ import annotations

import json
import logging
import re
import shlex
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasefs.client.ids import new_credentials
from leasefs.client.log_events import Event, fields, note
from leasefs.client.log_limits import FloodLimit
from leasefs.client.log_lines import LONGEST, JsonLines, TextLines
from leasefs.core.tokens import spelled

OPERATIONS = Path(__file__).resolve().parents[2] / "docs" / "OPERATIONS.md"
ANY_TEXT = st.text(max_size=60)
Trace = tuple[type[BaseException], BaseException, TracebackType | None]


def record(
    words: str, *args: object, event: Event | None = None, trace: Trace | None = None, **facts: Any
) -> logging.LogRecord:
    made = logging.LogRecord("leasefs.mount.x", logging.ERROR, "f", 1, words, args, trace)
    if event is not None:
        vars(made).update(fields(event, facts))
    return made


def failed(words: str = "two\nlines") -> Trace:
    try:
        int(words)
    except ValueError as error:
        return type(error), error, error.__traceback__
    raise AssertionError


@pytest.mark.parametrize("formatter", [TextLines({"agent": "a"}), JsonLines({"agent": "a"})])
@given(words=ANY_TEXT, path=ANY_TEXT)
def test_a_message_is_one_line_whatever_is_in_it(
    formatter: logging.Formatter, words: str, path: str
) -> None:
    line = formatter.format(
        record("%s", words, event=Event.WRITE_REFUSED, path=path, trace=failed())
    )
    assert line.isprintable()
    assert line.isascii()


@given(words=ANY_TEXT, path=ANY_TEXT)
def test_json_says_what_was_meant(words: str, path: str) -> None:
    line = JsonLines({"agent": "a"}).format(
        record("%s", words, event=Event.WRITE_REFUSED, path=path, pid=7)
    )
    said = json.loads(line)
    assert said.pop("ts")
    assert said == {
        "agent": "a",
        "level": "error",
        "from": "mount.x",
        "event": "write-refused",
        "msg": words,
        "path": path,
        "pid": 7,
    }


@given(path=ANY_TEXT)
def test_no_path_passes_for_another_field(path: str) -> None:
    """Whatever its quotes and backslashes: a shell's rules for words find the same fields in each line."""
    line = TextLines().format(record("m", event=Event.WRITE_REFUSED, path=path, last="end"))
    names = [word.partition("=")[0] for word in shlex.split(line)]
    assert names == ["ts", "level", "from", "event", "msg", "path", "last"]


def test_words_for_people() -> None:
    line = TextLines({"agent": "ada"}).format(
        record('a "b"\r\n\x1b[31m \\ %s', "\udcff", event=Event.FOREIGN_WRITE, ok=True, n=1.5)
    )
    assert (
        'event=foreign-write msg="a \\"b\\"\\r\\n\\x1b[31m \\\\ \\udcff" agent=ada ok=yes n=1.5'
        in line
    )
    assert 'trace="Traceback' in TextLines().format(record("x", trace=failed()))


SECRETS = [
    spelled("0123456789ab", "f" * 64),
    f"Authorization: {new_credentials().authorization}",
    "Bearer abcdefgh.ijklmnopqrstuvwxyz.0123456789abcdef",
]


@pytest.mark.parametrize("formatter", [TextLines(), JsonLines()])
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("before", [0, LONGEST - 90, LONGEST - 10, LONGEST + 50])
def test_no_secret_gets_in(formatter: logging.Formatter, secret: str, before: int) -> None:
    text = "x" * before + " " + secret
    trace = failed(text)
    line = formatter.format(record("%s", text, event=Event.GRANTED, path=text, trace=trace))
    told = re.split(r"[ :]", secret)[-1]
    assert told[-8:] not in line
    assert told[8:30] not in line


def test_what_is_long_is_cut() -> None:
    assert len(TextLines().format(record("%s", "x" * 10**6))) < LONGEST + 200


def test_a_flood_is_cut_off_and_told(caplog: pytest.LogCaptureFixture) -> None:
    now_s = [0.0]
    log = logging.getLogger("leasefs.test_flood")
    limit = FloodLimit(at_once=3, per_s=1.0, now_s=lambda: now_s[0])
    caplog.handler.addFilter(limit)
    try:
        with caplog.at_level(logging.DEBUG, "leasefs"):
            for number in range(10):
                note(log, Event.WRITE_REFUSED, f"refused {number}", path=str(number))
            log.warning("something else")
            now_s[0] = 1.0
            note(log, Event.WRITE_REFUSED, "another place", path="x")
            for number in range(10, 13):
                flooded(log, number)
    finally:
        caplog.handler.removeFilter(limit)
    assert caplog.messages == [
        "refused 0",
        "refused 1",
        "refused 2",
        "something else",
        "another place",
        "refused 10",
        "refused 11",
        "refused 12",
    ]


def flooded(log: logging.Logger, number: int) -> None:
    note(log, Event.WRITE_REFUSED, f"refused {number}", path=str(number))


def test_how_many_were_left_out_is_told() -> None:
    now_s = [0.0]
    limit = FloodLimit(at_once=1, per_s=1.0, now_s=lambda: now_s[0])
    passed = [limit.filter(record("x", event=Event.GRANTED)) for _ in range(4)]
    assert passed == [True, False, False, False]
    now_s[0] = 2.0
    next_one = record("x", event=Event.GRANTED, path="p")
    assert limit.filter(next_one)
    assert TextLines().format(next_one).endswith("path=p left_out=3")


def test_message_ids_are_the_documented_ones() -> None:
    """They are an interface: catalogues, alerts and searches are made of them."""
    rows = dict(
        re.findall(
            r"^\| `([a-z-]+)` \| \w+ \| `([0-9a-f]{32})` \|", OPERATIONS.read_text(), re.MULTILINE
        )
    )
    assert rows == {event.word: event.message_id for event in Event}
    assert len({event.message_id for event in Event}) == len(Event)
