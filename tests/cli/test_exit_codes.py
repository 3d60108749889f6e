"""The exit codes are fixed, complete, and the same in the code, on the help pages and in the docs."""

from __future__ import annotations

import re
from pathlib import Path

from leasefs.core import errors
from leasefs_cli import exit_codes

DOCS = Path(__file__).parents[2] / "docs" / "EXIT_CODES.md"


def _codes_of(cls: type[errors.LeasefsError]) -> set[str]:
    """Codes of the core alone: what else is imported, and subclasses them, depends on the test run."""
    below = [sub for sub in cls.__subclasses__() if sub.__module__ == errors.__name__]
    return {cls.code} | {code for sub in below for code in _codes_of(sub)}


def test_every_error_of_the_core_has_its_number_and_no_other_has() -> None:
    assert set(exit_codes.OF_ERROR) == _codes_of(errors.LeasefsError)


def test_numbers_are_the_published_ones() -> None:
    published = {
        "unexpected": 1,
        "invalid": 2,
        "bad-path": 2,
        "bad-pattern": 2,
        "bad-ttl": 2,
        "key-reused": 2,
        "not-contained": 2,
        "bad-configuration": 2,
        "conflict": 3,
        "over-cap": 3,
        "timed-out": 4,
        "unknown-lease": 5,
        "not-holder": 5,
        "lost": 5,
        "dirty": 6,
        "checks-failed": 6,
        "unavailable": 7,
        "over-limit": 7,
        "deadlock": 8,
        "denied": 9,
        "agent-busy": 9,
        "session-ended": 9,
        "mount": 10,
        "protocol": 11,
    }
    assert published == exit_codes.OF_ERROR
    assert exit_codes.exit_code_of("from-the-future") == exit_codes.UNEXPECTED


def test_the_docs_quote_the_table() -> None:
    rows = re.findall(r"^\| ([0-9]+|128\+N) \| ([^`\n]+) \|$", DOCS.read_text(), re.MULTILINE)
    table = [(str(number), meaning) for number, meaning in exit_codes.MEANINGS.items()]
    assert rows == [*table, ("128+N", exit_codes.SIGNAL_MEANING)]


def test_the_docs_name_every_error_code_beside_its_number() -> None:
    listed = {
        code: int(number)
        for number, codes in re.findall(
            r"^\| ([0-9]+) \| (`.+`) \|$", DOCS.read_text(), re.MULTILINE
        )
        for code in re.findall(r"`([a-z-]+)`", codes)
    }
    assert listed == {**exit_codes.OF_ERROR, "usage": exit_codes.USAGE}
