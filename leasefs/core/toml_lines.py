"""On which line of a TOML document each key stands: tomllib tells values, not places.

The document is cut into statements, which end at the line breaks outside strings and brackets; what keys a statement
defines, tomllib itself is asked. Only for documents that tomllib could read as a whole.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Key = tuple[str, ...]

# A document may nest as deep as it is long, and nobody asks for such a key's line.
DEEPEST = 8

# https://toml.io/en/v1.0.0: comments and the four kinds of strings may hold brackets and quotes that mean nothing.
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}(?!")'
    r"|'''.*?'{3,5}(?!')"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"|[\[\]{}\n]",
    re.DOTALL,
)


def lines_of_keys(text: str) -> dict[Key, int]:
    """The number, counted from 1, of the first line that defines each key or table, by its whole name."""
    lines: dict[Key, int] = {}
    table: Key = ()
    for number, statement in _statements(text):
        keys = list(_keys_of(tomllib.loads(statement)))
        if statement.startswith("["):
            table = max(keys, key=len)
        elif keys:
            keys = [table + key for key in keys]
        for key in keys:
            lines.setdefault(key, number)
    return lines


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Each statement without the blanks before it, and the number of the line on which it starts."""
    start, depth, line = 0, 0, 1
    text = text.replace("\r\n", "\n") + "\n"
    for token in _TOKEN.finditer(text):
        if token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1
        elif token[0] == "\n" and not depth:
            statement = text[start : token.start()].lstrip(" \t")
            if statement and not statement.startswith("#"):
                yield line, statement
            line += text.count("\n", start, token.end())
            start = token.end()


def _keys_of(table: Mapping[str, Any], above: Key = ()) -> Iterator[Key]:
    for name, value in table.items():
        key = (*above, name)
        yield key
        inner = value[0] if isinstance(value, list) and value else value
        if isinstance(inner, dict) and len(key) < DEEPEST:
            yield from _keys_of(inner, key)
