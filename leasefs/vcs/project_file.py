"""`.leasefs.toml` at a tree's root: what a project says about its territory, its releases and its hooks.

    territory = "fleet/one"          # else `origin`, else the path
    upstream = "origin/main"         # where work has landed; else origin's HEAD, else the branch's upstream
    [release]
    require = "committed"            # or "none", "pushed": what a lease's paths must be before it is released
    checks = ["make lint", ["pytest", "-q"]]   # a string is for `sh -c`, a list is a command and its arguments
    check_timeout_s = 600            # for each check
    [unleased]                       # what a mount does about a write that no lease covers, unless it is told otherwise
    policy = "claim+wait"            # or "deny", "claim", "wait"; to refuse nothing is for whoever mounts to say
    regions = ["packages/*/", "docs/"]   # directories that are claimed as a whole; else just the path is
    wait_s = 60                      # how long a write waits at most
    idle_s = 2                       # what was claimed by a write is given back when it was not used for so long
    ttl_s = 30                       # and lapses so long after its last use where it is not
    uncommitted = "keep"             # given back with uncommitted work, which stays listed; or "lapse"
    [hooks]
    trailer = true                   # commits name the leases that they were made under

A key that is not known or not of its type is an error that names its line: a misspelt rule must not pass for none.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from leasefs.core.errors import InvalidRequest
from leasefs.core.lease import MAX_TTL_S, MIN_TTL_S
from leasefs.core.unleased_policy import (
    DEFAULT_IDLE_S,
    DEFAULT_TTL_S,
    DEFAULT_WAIT_S,
    MAX_IDLE_S,
    MAX_REGIONS,
    MAX_WAIT_S,
    parse_policy,
)
from leasefs.vcs.beneath import NotRegular, TooLarge, read_file
from leasefs.vcs.errors import BadTerritoryFile
from leasefs.vcs.toml_lines import lines_of_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FILE_NAME = ".leasefs.toml"
DEFAULT_CHECK_TIMEOUT_S = 600.0
MAX_CHECK_TIMEOUT_S = 24 * 3600.0
MAX_CHECKS = 100
# It comes with a repository, and tomllib takes time squared for keys of many dots: a second for these.
_FILE_LIMIT_BYTES = 1 << 14
_TEXT_LIMIT_CHARACTERS = 512

Require = Literal["none", "committed", "pushed"]


@dataclass(frozen=True, slots=True)
class Check:
    """One command of the release gate: its arguments, and how the file spells it."""

    arguments: tuple[str, ...]
    shown: str


@dataclass(frozen=True, slots=True)
class UnleasedWishes:
    """What the file says of writes that no lease covers; times in seconds.

    `keep` says whether a lease that a write claimed is given back with uncommitted work: None if that goes by
    `ProjectFile.require`.
    """

    policy: str = ""
    regions: tuple[str, ...] = ()
    wait_s: float = DEFAULT_WAIT_S
    idle_s: float = DEFAULT_IDLE_S
    ttl_s: float = DEFAULT_TTL_S
    keep: bool | None = None


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """What the file says; None, or the value given here, where it says nothing."""

    territory: str | None = None
    upstream: str | None = None
    require: Require | None = None
    checks: tuple[Check, ...] = ()
    check_timeout_s: float = DEFAULT_CHECK_TIMEOUT_S
    trailer: bool = False
    unleased: UnleasedWishes = UnleasedWishes()


def read_project_file(root_fd: int, root_path: str) -> ProjectFile:
    """Read the file of the tree open at `root_fd`; `root_path` is what messages call the tree. No link is followed.

    Raises:
        BadTerritoryFile: it is unreadable, longer than 16 KiB, not TOML, or has an unknown or ill-typed key.
    """
    shown = f"{root_path}/{FILE_NAME}"
    try:
        content = read_file(root_fd, os.fsencode(FILE_NAME), _FILE_LIMIT_BYTES)
    except FileNotFoundError:
        return ProjectFile()
    except (NotRegular, TooLarge) as error:
        raise BadTerritoryFile(f"{shown} is {error}") from error
    except OSError as error:
        raise BadTerritoryFile(f"{shown} cannot be read: {error.strerror}") from error
    return _parse(content, shown)


def _parse(content: bytes, shown: str) -> ProjectFile:
    try:
        text = content.decode()
        settings = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadTerritoryFile(f"{shown} is not TOML: {error}") from error
    values: dict[str, Any] = {}
    try:
        _read_table(settings, (), values)
    except _Wrong as wrong:
        line = lines_of_keys(text).get(wrong.key)
        where = f"{shown}:{line}" if line else shown
        raise BadTerritoryFile(f"{where}: {wrong}") from wrong
    wishes = {name: values.pop(name) for name in list(values) if name in _WISHES}
    return ProjectFile(unleased=UnleasedWishes(**wishes), **values)


class _Wrong(Exception):
    """What is wrong with which key; the line is looked for only then."""

    def __init__(self, key: tuple[str, ...], problem: str) -> None:
        super().__init__(problem)
        self.key = key


def _read_table(table: Mapping[str, Any], above: tuple[str, ...], values: dict[str, Any]) -> None:
    known = sorted({key[len(above)] for key in _KEYS if key[: len(above)] == above})
    for name, value in table.items():
        key = (*above, name)
        if name not in known:
            listed = " and ".join(filter(None, [", ".join(known[:-1]), known[-1]]))
            among = f" of [{'.'.join(above)}]" if above else ""
            raise _Wrong(key, f"unknown key {'.'.join(key)!r}; the keys{among} are {listed}")
        if key in _KEYS:
            field, read = _KEYS[key]
            try:
                values[field] = read(value)
            except ValueError as error:
                raise _Wrong(key, f"`{'.'.join(key)}` must be {error}") from error
        elif isinstance(value, dict):
            _read_table(value, key, values)
        else:
            raise _Wrong(key, f"`{name}` must be a table, not {type(value).__name__}")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a string, not {type(value).__name__}")  # noqa: TRY004 - one kind for all
    if (
        not value
        or value != value.strip()
        or not value.isprintable()
        or len(value) > _TEXT_LIMIT_CHARACTERS
    ):
        raise ValueError(f"1 to {_TEXT_LIMIT_CHARACTERS} printable characters, no blanks around it")
    return value


def _require(value: object) -> Require:
    for known in get_args(Require):
        if value == known:
            return known  # type: ignore[no-any-return]
    raise ValueError(f'"none", "committed" or "pushed", not {value!r}')


def _checks(value: object) -> tuple[Check, ...]:
    if not isinstance(value, list):
        raise ValueError(f"a list of commands, not {type(value).__name__}")  # noqa: TRY004
    if len(value) > MAX_CHECKS:
        raise ValueError(f"at most {MAX_CHECKS} commands, not {len(value)}")
    return tuple(_check(command) for command in value)


def _check(command: object) -> Check:
    arguments = [command] if isinstance(command, str) else command
    if (
        not isinstance(arguments, list)
        or not all(isinstance(word, str) and "\0" not in word for word in arguments)
        or not arguments
        or not arguments[0].strip()
    ):
        raise ValueError(f"a list of commands, each a string or a list of strings, not {command!r}")
    if isinstance(command, str):
        return Check(("sh", "-c", command), command)
    return Check(tuple(arguments), " ".join(arguments))


def _seconds(least_s: float, most_s: float, *, zero: bool) -> Callable[[object], float]:
    """A reader of times; `zero` says whether the least one may be said, too."""

    def read(value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            told_s = float(value)
            if least_s < told_s <= most_s or (zero and told_s == least_s):
                return told_s
        least = f"{least_s:g} to" if zero else f"more than {least_s:g} and at most"
        raise ValueError(f"seconds, {least} {most_s:g}, not {value!r}")

    return read


def _policy(value: object) -> str:
    policy = parse_policy(_text(value))
    if policy.observes:
        # It comes with a repository, and what agents may write does not go by what one of them wrote.
        raise ValueError(
            'one that refuses; "observe" is for whoever mounts: leasefs mount --unleased observe'
        )
    return policy.word


def _regions(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"a list of directories, not {value!r}")
    if len(value) > MAX_REGIONS:
        raise ValueError(f"at most {MAX_REGIONS} directories, not {len(value)}")
    # Read when needed: every command looks into this file.
    from leasefs.core.unleased_ground import Regions

    try:
        return Regions(value).texts
    except InvalidRequest as error:
        raise ValueError(f"directories: {error.message}") from error


def _keep(value: object) -> bool:
    if value not in ("keep", "lapse"):
        raise ValueError(f'"keep" or "lapse", not {value!r}')
    return value == "keep"


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"true or false, not {type(value).__name__}")  # noqa: TRY004
    return value


_KEYS: dict[tuple[str, ...], tuple[str, Callable[[object], Any]]] = {
    ("territory",): ("territory", _text),
    ("upstream",): ("upstream", _text),
    ("release", "require"): ("require", _require),
    ("release", "checks"): ("checks", _checks),
    ("release", "check_timeout_s"): (
        "check_timeout_s",
        _seconds(0.0, MAX_CHECK_TIMEOUT_S, zero=False),
    ),
    ("unleased", "policy"): ("policy", _policy),
    ("unleased", "regions"): ("regions", _regions),
    ("unleased", "wait_s"): ("wait_s", _seconds(0.0, MAX_WAIT_S, zero=True)),
    ("unleased", "idle_s"): ("idle_s", _seconds(0.0, MAX_IDLE_S, zero=True)),
    ("unleased", "ttl_s"): ("ttl_s", _seconds(MIN_TTL_S, MAX_TTL_S, zero=True)),
    ("unleased", "uncommitted"): ("keep", _keep),
    ("hooks", "trailer"): ("trailer", _flag),
}
_WISHES = frozenset(UnleasedWishes.__dataclass_fields__)
