"""The lines of a journal: JSON in ASCII, and what is no line that a mount wrote."""

from __future__ import annotations

import json
import math
import os
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

from leasefs.core.paths import is_normal

Note = dict[str, Any]

_TEXTS = ("kind", "other", "lease", "program", "agent", "harness")
# Those of `intents.IntentLog`; what others changed has an author as well.
_IN_A_NOTE = 8
# `json.dumps` makes one of these for each line.
_to_json = json.JSONEncoder(separators=(",", ":")).encode
# The ledger counts in 64 bits.
_NO_NUMBER = 1 << 63


def to_note_line(number: int, note: Note) -> bytes:
    """The line of a note, as `to_line` has it; before each first change, so it does not go through all of JSON."""
    if len(note) != _IN_A_NOTE:
        return to_line({"n": number, **note})
    return (
        f'{{"n":{number},"path":{_quoted(note["path"])},"kind":{_quoted(note["kind"])},'
        f'"other":{_quoted(note["other"])},"lease":{_quoted(note["lease"])},"token":{note["token"]},'
        f'"pid":{note["pid"]},"program":{_quoted(note["program"])},"wall_s":{note["wall_s"]!r}}}\n'
    ).encode("ascii")


def to_line(facts: Note) -> bytes:
    """ASCII: names that are not UTF-8 are lone surrogates, which only their escapes can carry."""
    return _to_json(facts).encode("ascii") + b"\n"


def read_line(line: bytes) -> Note:
    """The facts of a line; {} for one that no mount wrote: what has rotted must not hold up the rest."""
    try:
        facts = json.loads(line)
    except (ValueError, RecursionError):
        facts = None
    return facts if isinstance(facts, dict) and _is_sound(facts) else {}


def _is_sound(facts: Note) -> bool:
    """Whether it is a header, a note, leases to look after, or an answer, with values of their kinds."""
    if "journal" in facts:
        return True
    if "tokens" in facts:
        tokens = facts["tokens"]
        return isinstance(tokens, list) and all(map(_is_number, tokens))
    if "answered" in facts:
        return _is_number(facts["answered"])
    return (
        all(_is_number(facts.get(name)) for name in ("n", "token"))
        and all(isinstance(facts.get(name, ""), str) for name in _TEXTS)
        and _is_path(facts.get("path"))
        and _is_number(facts.get("pid", 0))
        and _is_time(facts.get("wall_s", 0.0))
    )


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value < _NO_NUMBER


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _is_path(value: object) -> bool:
    """Of a tree; a directory's ends in a slash."""
    if not isinstance(value, str) or not value.strip("/"):
        return False
    try:
        return is_normal(os.fsencode(value.removesuffix("/")))
    except UnicodeEncodeError:
        return False
