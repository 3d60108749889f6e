"""What a command prints: aligned columns, colour on a terminal, JSON, and text that is safe to show.

stdout carries the answer and nothing else; words about it go to stderr.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36, "bold": 1, "dim": 2}


@functools.cache
def _escapes() -> dict[int, str]:
    controls = [*range(0x20), 0x7F, *range(0x80, 0xA0)]
    invisible = [*range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF]
    return {
        **{code: f"\\x{code:02x}" for code in controls},
        **{code: f"\\u{code:04x}" for code in invisible},
        # Bytes that are not UTF-8 (surrogateescape), which may be control characters to a terminal.
        **{code: f"\\x{code - 0xDC00:02x}" for code in range(0xDC80, 0xDD00)},
    }


def printable(text: str) -> str:
    """`text` with control and direction characters escaped.

    Paths, notes and program names are chosen by others; none of them may move a terminal's cursor,
    colour its text or break a line in two.
    """
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_escapes())


def wants_colour(stream: TextIO) -> bool:
    """Whether to colour `stream`: a terminal, and no NO_COLOR (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def coloured(text: str, colour: str, stream: TextIO) -> str:
    """`text` in `colour` if `stream` wants colours."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if wants_colour(stream) else text


def say(text: str) -> None:
    """One line of the answer, on stdout."""
    print(text)


def say_at_once(text: str) -> None:
    """One line of the answer; raises here, not at the end of the process, if it cannot be written."""
    print(text, flush=True)


def tell(text: str) -> None:
    """One line for the person, on stderr."""
    print(f"leasefs: {printable(text)}", file=sys.stderr, flush=True)


def say_json(value: object) -> None:
    """One JSON value on one line. ASCII only, so names that are not UTF-8 survive as lone surrogates."""
    print(json.dumps(value, separators=(", ", ": ")), flush=True)


def say_columns(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: frozenset[int] = frozenset(),
    colours: Sequence[str] | None = None,
) -> None:
    """Rows under titles, each column as wide as its widest cell; the last one is not padded.

    `right` are the columns set flush right. `colours`, one name or "" per row, colours its first cell.
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(cells_wide, column)) for column in zip(titles, *shown, strict=True)]
    say(coloured(_line(titles, widths, right), "bold", sys.stdout))
    for number, row in enumerate(shown):
        line = _line(row, widths, right)
        colour = colours[number] if colours else ""
        if colour:
            line = coloured(row[0], colour, sys.stdout) + line[len(row[0]) :]
        say(line)


def _line(cells: Sequence[str], widths: Sequence[int], right: frozenset[int]) -> str:
    padded = []
    for number, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        gap = " " * (width - cells_wide(cell))
        padded.append(gap + cell if number in right else cell + gap)
    return "  ".join(padded).rstrip()


def cells_wide(text: str) -> int:
    """How many columns of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(
        0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text
    )


def say_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Named values below each other, values aligned."""
    pairs = [(name, printable(value)) for name, value in fields]
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        label = coloured(f"{name}:".ljust(width + 1), "dim", sys.stdout)
        say(f"{label}  {value}")
