"""Options as git's own parser takes them: clusters, values, negations, unique beginnings (gitcli(7), parse-options.c).

An option that is not in the table might take a value or change what the command does, so nothing is guessed about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.vcs.git_commands.effects import CannotTell

if TYPE_CHECKING:
    from collections.abc import Sequence

_ABBREVIATED = "write the command with the options that `git help` names, spelled out"

Value = bool | bytes


@dataclass(frozen=True, slots=True)
class _Option:
    name: str
    takes: str  # "" nothing, ":" a value, "?" a value that must be attached


@dataclass(frozen=True, slots=True)
class Parsed:
    """`dashes`: how many of `arguments` stand before a `--`; None without one."""

    options: tuple[tuple[str, Value], ...]
    arguments: tuple[bytes, ...]
    dashes: int | None

    def has(self, *names: str) -> bool:
        """Whether one of them is on: of the same option given twice, the last one counts."""
        last = dict(self.options)
        return any(last.get(name, False) is not False for name in names)

    def value(self, name: str) -> bytes | None:
        """The last value given, unless the option was negated after it."""
        found = dict(self.options).get(name)
        return found if isinstance(found, bytes) else None

    def values(self, name: str) -> list[bytes]:
        """All values given, in order."""
        return [value for key, value in self.options if key == name and isinstance(value, bytes)]

    def last_of(self, *names: str) -> str | None:
        """Which of options that exclude one another was given last."""
        given = [name for name, value in self.options if name in names and value is not False]
        return given[-1] if given else None

    def before_dashes(self) -> tuple[bytes, ...]:
        """The arguments before `--`, or all of them."""
        return self.arguments if self.dashes is None else self.arguments[: self.dashes]

    def after_dashes(self) -> tuple[bytes, ...]:
        """The arguments after `--`."""
        return () if self.dashes is None else self.arguments[self.dashes :]


class Table:
    """The options of one command, written as `f,force b: track?`: all names of one, then what it takes.

    The last name of an option is what `Parsed` calls it. `stops`: the first argument ends the options.
    """

    def __init__(self, text: str, *, stops: bool = False) -> None:
        self._short: dict[str, _Option] = {}
        self._long: dict[str, _Option] = {}
        self._stops = stops
        for word in text.split():
            takes = word[-1] if word[-1] in ":?" else ""
            names = (word[:-1] if takes else word).split(",")
            option = _Option(names[-1], takes)
            for name in names:
                (self._short if len(name) == 1 else self._long)[name] = option

    def parse(self, arguments: Sequence[bytes]) -> Parsed:
        """Take the words after the command's name.

        Raises:
            CannotTell: an option is unknown, ambiguous, or lacks its value.
        """
        left = list(reversed(arguments))
        options: list[tuple[str, Value]] = []
        plain: list[bytes] = []
        dashes = None
        while left:
            word = left.pop()
            if word in {b"--", b"--end-of-options"}:
                dashes = len(plain) if word == b"--" else None
                break
            if word.startswith(b"--"):
                options.append(self._take_long(word, left))
            elif word.startswith(b"-") and word != b"-":
                options += self._take_cluster(word, left)
            else:
                plain.append(word)
                if self._stops:
                    break
        return Parsed(tuple(options), (*plain, *reversed(left)), dashes)

    def _take_long(self, word: bytes, left: list[bytes]) -> tuple[str, Value]:
        name, given, value = word[2:].partition(b"=")
        option, positive = self._find(name.decode(errors="replace"))
        if not positive or (not option.takes and not given):
            return option.name, positive
        if given:
            return option.name, value
        if option.takes == "?":
            return option.name, True
        return option.name, _next(word, left)

    def _find(self, name: str) -> tuple[_Option, bool]:
        known = self._spellings()
        found = {known[name]} if name in known else set()
        found = found or {meant for spelled, meant in known.items() if spelled.startswith(name)}
        if len(found) != 1:
            said = (
                "means more than one option" if found else "is an option that leasefs does not know"
            )
            raise CannotTell(f"--{name} {said}", _ABBREVIATED)
        return found.pop()

    def _spellings(self) -> dict[str, tuple[_Option, bool]]:
        opposites = {
            name.removeprefix("no-") if name.startswith("no-") else f"no-{name}": (option, False)
            for name, option in self._long.items()
        }
        return opposites | {name: (option, True) for name, option in self._long.items()}

    def _take_cluster(self, word: bytes, left: list[bytes]) -> list[tuple[str, Value]]:
        found: list[tuple[str, Value]] = []
        letters = word[1:]
        for at in range(len(letters)):
            option = self._short.get(chr(letters[at]))
            if option is None:
                shown = chr(letters[at])
                raise CannotTell(f"-{shown} is an option that leasefs does not know", _ABBREVIATED)
            rest = letters[at + 1 :]
            if option.takes and rest:
                return [*found, (option.name, rest)]
            if option.takes == ":":
                return [*found, (option.name, _next(word, left))]
            found.append((option.name, True))
        return found


def _next(word: bytes, left: list[bytes]) -> bytes:
    if not left:
        shown = word.decode(errors="replace")
        raise CannotTell(f"{shown} lacks its value, so git would refuse the command")
    return left.pop()
