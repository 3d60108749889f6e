"""Text as man(7) wants it: escaped, one sentence a line, in the few macros that the pages use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SPECIAL = {
    "\\": r"\e",
    "-": r"\-",
    "'": r"\(aq",
    "`": r"\(ga",
    "^": r"\(ha",
    "~": r"\(ti",
}
_SENTENCE_END = re.compile(r"(?<=[.?!]) (?=[A-Z`\"(])")
_QUOTED = re.compile(r"`([^`]+)`")


def plain(text: str) -> str:
    """`text` as it is, whatever is in it."""
    escaped = "".join(_SPECIAL.get(char) or _ascii(char) for char in text)
    return rf"\&{escaped}" if escaped[:1] in {".", "'"} else escaped


def bold(text: str) -> str:
    """`text` in bold."""
    return rf"\fB{plain(text)}\fR"


def italic(text: str) -> str:
    """`text` as what is to be replaced."""
    return rf"\fI{plain(text)}\fR"


def prose(text: str) -> list[str]:
    """Lines of a paragraph, a sentence each; what stands in backquotes is bold."""
    sentences = [""]
    for part in _SENTENCE_END.split(" ".join(text.split())):
        if sentences[-1].count("`") % 2:  # what is quoted stays together
            sentences[-1] += f" {part}"
        else:
            sentences.append(part)
    return [_at_line_start(_marked(sentence)) for sentence in sentences[1:]]


def as_it_stands(lines: Iterable[str]) -> list[str]:
    """An indented block that is not filled."""
    return [".RS 4", ".nf", *(plain(line) for line in lines), ".fi", ".RE"]


def entry(tag: str, text: str) -> list[str]:
    """A tag (escaped already) and what it is."""
    return [".TP", _at_line_start(tag), *(prose(text) if text else [r"\&"])]


def _marked(text: str) -> str:
    parts = _QUOTED.split(text)
    return "".join(bold(part) if odd % 2 else plain(part) for odd, part in enumerate(parts))


def _at_line_start(line: str) -> str:
    return rf"\&{line}" if line[:1] in {".", "'"} else line


def _ascii(char: str) -> str:
    return char if char.isascii() else f"\\[u{ord(char):04X}]"
