"""What a partition is made from and what comes out: plain values, see `leasefs.core.partition`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from leasefs.core.globs import Glob


class File(NamedTuple):
    """A file of the territory; `commits` is in how many of the commits looked at it changed."""

    path: bytes
    size_bytes: int = 0
    commits: int = 0


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of work, and all that it wants to change."""

    name: str
    globs: tuple[Glob, ...]


class Spelling(Enum):
    """How a region's globs came about, the most harmless first."""

    ASKED = "asked"
    """They are those of the task."""
    EXACT = "exact"
    """They are those of the task less what others keep; nothing is left over."""
    SIBLINGS = "siblings"
    """They name what exists: new names in `Plan.open` are in no region."""
    WHOLE = "whole"
    """They could not be taken apart, so several tasks have them one after the other."""


@dataclass(frozen=True, slots=True)
class Region:
    """Ground that no other region meets.

    `task` has it first, and `then` want a part of it too, afterwards. `commits` are those of its files, added up.
    """

    id: str
    task: str
    then: tuple[str, ...]
    globs: tuple[Glob, ...]
    files: int
    size_bytes: int
    commits: int
    spelling: Spelling


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two tasks, a glob of each, and the ground that both want.

    `witness` is a file that both globs match; if `files` is 0, there is none yet, and it is a path that both would match.
    `regions` are where the common ground lies now.
    """

    tasks: tuple[str, str]
    globs: tuple[str, str]
    witness: bytes
    files: int
    regions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """A directory (with a slash at the end) or file of which no task wants anything."""

    path: bytes
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Notable:
    """A file that is large or often changed, the region it is in ("": none), and who wants it.

    `apart` says that it should have a region of its own: one writer of it would hold up many.
    """

    file: File
    region: str
    tasks: tuple[str, ...]
    apart: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The partition.

    `open` are directories in which what is created anew may belong to no region, though a task wants it. `idle` tasks have
    no region first: others have all of their ground before them.
    """

    regions: tuple[Region, ...]
    conflicts: tuple[Conflict, ...]
    unclaimed: tuple[Unclaimed, ...]
    largest: tuple[Notable, ...]
    hottest: tuple[Notable, ...]
    open: tuple[bytes, ...]
    idle: tuple[str, ...]
    files: int
