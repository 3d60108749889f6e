"""Output is aligned, safe on a terminal, and plain everywhere else."""

from __future__ import annotations

import io
import json

import pytest

from leasefs_cli.printing import (
    cells_wide,
    coloured,
    printable,
    say_columns,
    say_fields,
    say_json,
    wants_colour,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_names_chosen_by_others_cannot_drive_the_terminal() -> None:
    hostile = "a\x1b[2Jb\nc\rd\x07\x9b31m\u202etxt.py"
    shown = printable(hostile)
    assert shown == "a\\x1b[2Jb\\x0ac\\x0dd\\x07\\x9b31m\\u202etxt.py"
    assert printable("ünïcödé/ファイル.py") == "ünïcödé/ファイル.py"


def test_colour_only_on_a_terminal_and_never_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    assert coloured("x", "red", Terminal()) == "\x1b[31mx\x1b[0m"
    assert coloured("x", "red", io.StringIO()) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_colour(Terminal())


def test_columns_line_up_whatever_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("a", "1", "x"), ("ファイル", "22", "y"), ("e\u0301", "333", "z")]
    say_columns(("NAME", "N", "LAST"), rows, right=frozenset({1}))
    lines = capsys.readouterr().out.splitlines()
    ends = [
        cells_wide(line[: max(line.rfind(mark), 0)])
        for line, mark in zip(lines[1:], "xyz", strict=True)
    ]
    assert len(set(ends)) == 1
    assert lines[1] == "a           1  x"
    assert not any(line.endswith(" ") for line in lines)


def test_fields_line_up(capsys: pytest.CaptureFixture[str]) -> None:
    say_fields([("agent", "a"), ("territory", "t")])
    assert capsys.readouterr().out == "agent:      a\nterritory:  t\n"


def test_json_keeps_names_that_are_not_utf8(capsys: pytest.CaptureFixture[str]) -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    say_json({"path": name})
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out)["path"].encode("utf-8", "surrogateescape") == b"caf\xe9"
