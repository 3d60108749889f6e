"""Ground that a session has delegated: it writes there under none of its leases while the others have it (P1, P7).

A carve begins before the ledger is asked for the delegation and ends when the ledger is known to have ended it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.core.overlap import TooComplex, first_overlap, uncovered

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasefs.core.globs import Glob


@dataclass(frozen=True, slots=True)
class Carved:
    """A part of the lease `parent`, given to `agent` as the lease `child`; empty while the ledger has not said.

    `key` is that of the request, so that no two are the same.
    """

    parent: str
    globs: tuple[Glob, ...]
    agent: str
    child: str = ""
    key: str = ""

    def matches(self, path: bytes) -> bool:
        """Whether `path` is on this ground."""
        return any(glob.matches(path) for glob in self.globs)

    def meets_tree(self, directory: bytes) -> bool:
        """Whether `directory` or some path below it is on this ground."""
        return any(
            glob.matches(directory) or glob.may_match_below(directory) for glob in self.globs
        )

    def words(self) -> str:
        """Who has it, and how it comes back, in one line."""
        if not self.child:
            return (
                f"{self.agent} is to have it out of {self.parent}, and the ledger has not answered yet whether it does; "
                "try again, or see: leasefs status"
            )
        return f"{self.agent} has it as {self.child} out of {self.parent}; to get it back: leasefs recall {self.child}"


def globs_in(carved: Iterable[Carved]) -> tuple[Glob, ...]:
    """All globs of these."""
    return tuple(glob for one in carved for glob in one.globs)


def touches(globs: Iterable[Glob], carved: Iterable[Carved]) -> bool:
    """Whether some path is matched by `globs` and carved out."""
    return first_overlap(globs, globs_in(carved)) is not None


def is_left(globs: Sequence[Glob], carved: Iterable[Carved]) -> bool:
    """Whether some path is matched by `globs` and not carved out; no if that would cost too much to decide."""
    gone = globs_in(carved)
    if not gone:
        return bool(globs)
    try:
        return any(uncovered(glob, gone) is not None for glob in globs)
    except TooComplex:
        return False
