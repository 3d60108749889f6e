"""What the value of a setting may be: read strictly, since a setting that is misread does something else than it says.

A value comes typed from a TOML file, or as text from a variable of the environment or the command line. Text is taken
apart by `parse` into what TOML would have said; `read` then judges both alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from leasefs.core.durations import parse_duration_s
from leasefs.core.errors import InvalidRequest
from leasefs.core.unleased_policy import MAX_REGIONS, parse_policy

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT_LIMIT_CHARACTERS = 512
COMMAND_LIMIT_CHARACTERS = 4096
SHOWN_CHARACTERS = 80
MAX_CHECKS = 100
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


class Kind(NamedTuple):
    """A kind of values.

    `words` say it to people. `read` gives the value that programs use, or raises ValueError whose message goes on
    after "must be". `parse` is for text, and raises ValueError likewise.
    """

    words: str
    read: Callable[[object], Any]
    parse: Callable[[str], object]


def shown(value: object) -> str:
    """The value that was found, as a message has it: short, whatever it is."""
    try:
        told = repr(value)
    except ValueError:  # Python writes no whole number of thousands of digits
        return "a number of thousands of digits"
    return told if len(told) <= SHOWN_CHARACTERS else f"{told[:SHOWN_CHARACTERS]}..."


def text(words: str = "a text") -> Kind:
    """One line of printable text, without blanks around it."""
    return Kind(words, _text, str)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a string, not {type(value).__name__}")  # noqa: TRY004 - one kind for all
    if (
        not value
        or value != value.strip()
        or not value.isprintable()
        or len(value) > TEXT_LIMIT_CHARACTERS
    ):
        raise ValueError(f"1 to {TEXT_LIMIT_CHARACTERS} printable characters, no blanks around it")
    return value


def shell_command() -> Kind:
    """What `sh -c` is given; "" runs nothing."""

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError(f"a string, not {type(value).__name__}")  # noqa: TRY004
        if "\0" in value or len(value) > COMMAND_LIMIT_CHARACTERS:
            raise ValueError(f"at most {COMMAND_LIMIT_CHARACTERS} characters, none of them NUL")
        return value

    return Kind("a command for `sh -c`", read, str)


def file_path(words: str = "a path") -> Kind:
    """An absolute path, or one that begins with `~/`: a file of settings is read wherever one stands."""

    def read(value: object) -> str:
        if not isinstance(value, str) or "\0" in value or not value.startswith(("/", "~/")):
            raise ValueError(f"an absolute path, or one that begins with ~/, not {shown(value)}")
        return value

    return Kind(words, read, str)


def places_to_listen() -> Kind:
    """`HOST:PORT`s, in a list; as text with blanks between."""
    words = "a list of HOST:PORT"

    def read(value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise ValueError(f"{words}, not {shown(value)}")
        for one in value:
            host, colon, port = one.rpartition(":")
            if not colon or not (port.isascii() and port.isdecimal()) or " " in host:
                raise ValueError(f"{words}, not {one[:80]!r}")
        return tuple(value)

    return Kind(words, read, str.split)


def flag() -> Kind:
    """True or false."""

    def read(value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"true or false, not {type(value).__name__}")  # noqa: TRY004
        return value

    def parse(given: str) -> bool:
        if given.lower() not in _TRUE | _FALSE:
            raise ValueError(f"true or false, not {given[:40]!r}")
        return given.lower() in _TRUE

    return Kind("true or false", read, parse)


def choice(*words: str) -> Kind:
    """One of these words."""

    def read(value: object) -> str:
        if value not in words:
            raise ValueError(f"{listed(words)}, not {shown(value)}")
        return str(value)

    return Kind(listed(words), read, str)


def listed(words: tuple[str, ...]) -> str:
    """The words in quotes, the last after `or`."""
    quoted = [f'"{word}"' for word in words]
    return " or ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))


def whole(least: int, most: int, unit: str = "") -> Kind:
    """A whole number within bounds; `unit` is what is counted."""
    words = f"{unit + ', ' if unit else ''}{least} to {most}"

    def read(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        raise ValueError(f"{words}, not {shown(value)}")

    def parse(given: str) -> object:
        # The digits alone: int() also takes underscores, blanks and other scripts' digits.
        plain = given.removeprefix("-")
        return int(given) if plain.isascii() and plain.isdecimal() and len(plain) < 20 else given

    return Kind(words, read, parse)


def seconds(least_s: float, most_s: float, *, zero: bool = True, forever: bool = False) -> Kind:
    """Seconds within bounds; `zero` says whether the least may be said, too, `forever` whether `inf` may."""
    least = f"{least_s:.15g} to" if zero else f"more than {least_s:.15g} and at most"
    words = f"seconds, {least} {most_s:.15g}{' or inf' if forever else ''}"

    def read(value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            # Compared as it is: a whole number may be larger than any float.
            if least_s < value <= most_s or (zero and value == least_s):
                return float(value)
            if forever and value == float("inf"):
                return float(value)
        raise ValueError(f"{words}, not {shown(value)}")

    def parse(given: str) -> object:
        if forever and given in ("inf", "forever"):
            return float("inf")
        try:
            return parse_duration_s(given)
        except ValueError as error:
            raise ValueError(
                f"{words}, or written like 90s or 1h30m, not {given[:40]!r}"
            ) from error

    return Kind(words, read, parse)


def policy() -> Kind:
    """What becomes of writes that no lease covers."""

    def read(value: object) -> str:
        return parse_policy(_text(value)).word

    return Kind("`deny`, `claim`, `wait`, `claim+wait` or `observe`", read, str)


def refusing_policy(value: object) -> str:
    """As `policy`, for who may not say that writes pass: raises ValueError."""
    found = parse_policy(_text(value))
    if found.observes:
        # It comes with a repository, and what agents may write does not go by what one of them wrote.
        raise ValueError(
            'one that refuses; "observe" is for whoever mounts: leasefs mount --unleased observe'
        )
    return found.word


def priority(classes: dict[str, int], least: int, most: int) -> Kind:
    """A class by its name, or a number; the value is a number."""
    words = f"{listed(tuple(classes))}, or {least} to {most}"

    def read(value: object) -> int:
        if isinstance(value, str) and value in classes:
            return classes[value]
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        raise ValueError(f"{words}, not {shown(value)}")

    return Kind(words, read, whole(least, most).parse)


def directories() -> Kind:
    """Regions of a territory."""

    def read(value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise ValueError(f"a list of directories, not {shown(value)}")
        if len(value) > MAX_REGIONS:
            raise ValueError(f"at most {MAX_REGIONS} directories, not {len(value)}")
        # Read when needed: every command looks into this file.
        from leasefs.core.unleased_ground import Regions

        try:
            return Regions(value).texts
        except InvalidRequest as error:
            raise ValueError(f"directories: {error.message}") from error

    return Kind("a list of directories", read, str)


def commands() -> Kind:
    """Commands: a string is for `sh -c`, a list is a command and its arguments, which becomes a tuple."""

    def read(value: object) -> tuple[str | tuple[str, ...], ...]:
        if not isinstance(value, list):
            raise ValueError(f"a list of commands, not {type(value).__name__}")  # noqa: TRY004
        if len(value) > MAX_CHECKS:
            raise ValueError(f"at most {MAX_CHECKS} commands, not {len(value)}")
        return tuple(_command(command) for command in value)

    return Kind("a list of commands", read, str)


def _command(command: object) -> str | tuple[str, ...]:
    arguments = [command] if isinstance(command, str) else command
    if (
        not isinstance(arguments, list)
        or not all(isinstance(word, str) and "\0" not in word for word in arguments)
        or not arguments
        or not arguments[0].strip()
    ):
        raise ValueError(
            f"a list of commands, each a string or a list of strings, not {shown(command)}"
        )
    return command if isinstance(command, str) else tuple(arguments)
