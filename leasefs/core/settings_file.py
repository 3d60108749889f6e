"""From the text of a settings file to values, or to what is wrong with it and on which line.

A key that is not known, or a value of another kind, is a problem and not passed over: a misspelt rule must not pass for
none.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from leasefs.core.setting import PROJECT, REPOSITORY
from leasefs.core.settings import SETTINGS, nearest, of_place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasefs.core.setting import Setting, Value
    from leasefs.core.toml_lines import Key

MAX_PROBLEMS = 20
_LONGEST_NAME = 80
_TOO_LONG = r"[0-9][0-9_]{4299,}"  # Python reads no whole number of more digits than 4,300
_SAYS_LINE = r" \(at line (\d+), column \d+\)"


class Problem(NamedTuple):
    """Something that a file must not say: `line` counts from 1 and is 0 if it is about no line, `key` "" likewise."""

    key: str
    line: int
    words: str


class Parsed(NamedTuple):
    """What a file says, by the settings' names, and what is wrong with it. `text` is what it was read from."""

    said: dict[str, Value]
    problems: tuple[Problem, ...] = ()
    text: str = ""

    def line_of(self, name: str) -> int:
        """The line on which a setting is said; 0 if it is not."""
        return _lines(self.text).get(SETTINGS[name].key, 0) if name in self.said else 0


NOTHING = Parsed({})


def parse(content: bytes, place: str) -> Parsed:
    """Read the file of a place (`leasefs.core.setting.PLACES`)."""
    import tomllib  # 4 ms that only who has such a file pays

    try:
        text = content.decode("utf-8-sig")  # some editors put a byte order mark in front
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return _unreadable(line, "is not TOML: it is not UTF-8")
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = re.search(_SAYS_LINE, str(error))
        what = re.sub(_SAYS_LINE, "", str(error))
        return _unreadable(int(found[1]) if found else 0, f"is not TOML: {what}")
    except ValueError:
        long = re.search(_TOO_LONG, text)
        line = text.count("\n", 0, long.start()) + 1 if long else 0
        return _unreadable(line, "has a number of thousands of digits")
    reading = _Reading(place)
    reading.table(document, ())
    return Parsed(reading.said, reading.problems_in(text), text)


def _unreadable(line: int, words: str) -> Parsed:
    return Parsed({}, (Problem("", line, words),))


@lru_cache(maxsize=4)
def _lines(text: str) -> Mapping[Key, int]:
    from leasefs.core.toml_lines import lines_of_keys  # only for who asks where something stands

    return lines_of_keys(text)


class _Reading:
    """One pass over a document."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._known = of_place(place)
        self.said: dict[str, Value] = {}
        self._wrong: list[tuple[Key, str]] = []

    def table(self, table: Mapping[str, Any], above: Key) -> None:
        names = {key[len(above)] for key in self._known if key[: len(above)] == above}
        for name, value in table.items():
            key = (*above, name)
            if name not in names:
                self._elsewhere_or_unknown(key, value, sorted(names))
            elif key in self._known:
                self._setting(self._known[key], value)
            elif isinstance(value, dict):
                self.table(value, key)
            else:
                self._note(key, f"`{name}` must be a table, not {type(value).__name__}")

    def _setting(self, setting: Setting, value: object) -> None:
        try:
            self.said[setting.name] = setting.read(value, self._place)
        except ValueError as error:
            self._note(setting.key, f"`{setting.name}` must be {error}")

    def _elsewhere_or_unknown(self, key: Key, value: object, names: list[str]) -> None:
        """A setting that others may say is told apart from what nobody knows, in tables below as well."""
        inside = [one for one in SETTINGS.values() if one.key[: len(key)] == key]
        if inside and isinstance(value, dict) and inside[0].key != key:
            for name, inner in value.items():
                self._elsewhere_or_unknown((*key, name), inner, [])
        elif inside:
            self._note(key, _elsewhere(inside[0], self._place))
        else:
            self._note(key, _unknown(key, names))

    def _note(self, key: Key, words: str) -> None:
        if len(self._wrong) < MAX_PROBLEMS:
            self._wrong.append((key, words))

    def problems_in(self, text: str) -> tuple[Problem, ...]:
        """The problems with their lines, in the order of the file."""
        if not self._wrong:
            return ()
        lines = _lines(text)
        found = [Problem(".".join(key), lines.get(key, 0), words) for key, words in self._wrong]
        return tuple(sorted(found, key=lambda problem: problem.line))


def _elsewhere(setting: Setting, place: str) -> str:
    files = " or ".join(_FILES[one] for one in setting.files)
    if place == REPOSITORY:
        return f"`{setting.name}` is not a repository's to say, which nobody need trust; say it in {files}"
    whose = "one repository's" if setting.files == PROJECT else "one person's"
    return f"`{setting.name}` is {whose} to say; say it in {files}"


_FILES = {
    "system": "/etc/leasefs/config.toml",
    "user": "~/.config/leasefs/config.toml",
    "repository": ".leasefs.toml",
}


def _unknown(key: Key, names: list[str]) -> str:
    name = ".".join(key)
    shown = name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "..."
    words = f"unknown key {shown!r}"
    if names:
        listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        among = f" of [{'.'.join(key[:-1])}]" if len(key) > 1 else ""
        words += f"; the keys{among} are {listed}"
    # A table is taken for a table.
    near = nearest(name) if len(key) > 1 else nearest(name, names) or nearest(name)
    return f"{words}; did you mean {near!r}?" if near else words
