"""Durations are read strictly and written so that they can be read back."""

from __future__ import annotations

import math

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasefs_cli.durations import FOREVER, Duration, in_words, parse_duration_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("45", 45),
        ("90s", 90),
        ("30m", 1800),
        ("1h30m", 5400),
        ("1h5s", 3605),
        ("1d", 86400),
        ("0.5s", 0.5),
        ("1.5h", 5400),
    ],
)
def test_what_people_write(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "m",
        "5 m",
        "5parsecs",
        "5 parsecs",
        "-5m",
        "+5",
        "1m1h",
        "1m1m",
        "1h30",
        "1e9",
        "nan",
        "inf",
        "0x10",
        "1_000",
        "٣m",
        "5M",
        "1.",
        ".5",
        "1h 30m",
        "9" * 100,
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_duration_s(text)


@given(st.integers(min_value=1, max_value=10**7))
def test_words_can_be_read_back_to_within_their_two_units(seconds: int) -> None:
    read = parse_duration_s(in_words(seconds))
    largest_error = 3600 if seconds >= 86400 else 60 if seconds >= 3600 else 1
    assert abs(read - seconds) < largest_error


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0.0s"), (0.44, "0.4s"), (59.7, "1m"), (61, "1m01s"), (3600, "1h"), (-5, "-5s")],
)
def test_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


@pytest.mark.parametrize("text", ["0", "0s", "0.5s", "1d1s", "365d", "-1", "soon"])
def test_a_refusal_names_the_range(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"give 1s to 1d, written like 90s, 30m"):
        Duration(1.0, 86400.0).convert(text, None, None)


def test_forever_is_what_a_bare_option_means() -> None:
    assert Duration(1.0, 86400.0).convert(FOREVER, None, None) == math.inf
