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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from leasefs.core.layers import ALONE, Around
from leasefs.core.setting import REPOSITORY
from leasefs.core.settings import DEFAULT_CHECK_TIMEOUT_S
from leasefs.core.settings_file import NOTHING, Parsed, Problem, parse
from leasefs.core.unleased_policy import DEFAULT_IDLE_S, DEFAULT_TTL_S, DEFAULT_WAIT_S
from leasefs.vcs.beneath import NotRegular, TooLarge, read_file
from leasefs.vcs.errors import BadTerritoryFile

if TYPE_CHECKING:
    from collections.abc import Callable

FILE_NAME = ".leasefs.toml"
# It comes with a repository, and tomllib takes time squared for keys of many dots: a second for these.
_FILE_LIMIT_BYTES = 1 << 14

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


def read_project_file(root_fd: int, root_path: str, around: Around = ALONE) -> ProjectFile:
    """Read the file of the tree open at `root_fd`; `root_path` is what messages call the tree. No link is followed.

    What others say of the same settings stands `around` it: what is below holds where the file says nothing, and
    what is above holds in any case.

    Raises:
        BadTerritoryFile: it is unreadable, longer than 16 KiB, not TOML, or has an unknown or ill-typed key.
    """
    parsed = parse_project_file(root_fd)
    for problem in parsed.problems:
        raise BadTerritoryFile(_words(problem, f"{root_path}/{FILE_NAME}"))
    fields: dict[str, Any] = {}
    for name, value in {**around.below, **parsed.said, **around.above}.items():
        field, made = _FIELDS[name]
        fields[field] = made(value) if made else value
    wishes = {name: fields.pop(name) for name in list(fields) if name in _WISHES}
    return ProjectFile(unleased=UnleasedWishes(**wishes), **fields)


def parse_project_file(root_fd: int) -> Parsed:
    """What the file says, by setting, and what is wrong with it. Never raises for what a repository put there."""
    try:
        content = read_file(root_fd, os.fsencode(FILE_NAME), _FILE_LIMIT_BYTES)
    except FileNotFoundError:
        return NOTHING
    except (NotRegular, TooLarge) as error:
        return Parsed({}, (Problem("", 0, f"is {error}"),))
    except OSError as error:
        return Parsed({}, (Problem("", 0, f"cannot be read: {error.strerror}"),))
    return parse(content, REPOSITORY)


def _words(problem: Problem, shown: str) -> str:
    where = f"{shown}:{problem.line}" if problem.line else shown
    return f"{where}: {problem.words}" if problem.key else f"{where} {problem.words}"


def _checks(commands: tuple[str | tuple[str, ...], ...]) -> tuple[Check, ...]:
    return tuple(
        Check(("sh", "-c", command), command)
        if isinstance(command, str)
        else Check(command, " ".join(command))
        for command in commands
    )


def _keeps(uncommitted: str) -> bool:
    return uncommitted == "keep"


# Each setting that the file may say, the field that it becomes, and how.
_FIELDS: dict[str, tuple[str, Callable[[Any], Any] | None]] = {
    "territory": ("territory", None),
    "upstream": ("upstream", None),
    "release.require": ("require", None),
    "release.checks": ("checks", _checks),
    "release.check_timeout_s": ("check_timeout_s", None),
    "unleased.policy": ("policy", None),
    "unleased.regions": ("regions", None),
    "unleased.wait_s": ("wait_s", None),
    "unleased.idle_s": ("idle_s", None),
    "unleased.ttl_s": ("ttl_s", None),
    "unleased.uncommitted": ("keep", _keeps),
    "hooks.trailer": ("trailer", None),
}
_WISHES = frozenset(UnleasedWishes.__dataclass_fields__)
