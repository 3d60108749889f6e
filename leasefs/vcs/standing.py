"""What is known of a path before and after asking git."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasefs.vcs.differences import Difference


@dataclass(frozen=True, slots=True)
class Seen:
    """What was known of a path.

    `commit` is the HEAD at which it was first dirty ("" if there was no commit yet, None if that is not known); or,
    if a `blob` is given, the commit that held it, with what it had there ("": the path's deletion).
    """

    commit: str | None = None
    blob: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a path stands.

    `dirty` says in what it differs from HEAD. If it does not, `commit` is the commit that holds it, with `blob` there
    ("" for a deletion), or "" if it merely equals HEAD: it was never changed, or the change was undone, stashed or left
    on no branch (`dropped`: the commit that held it cannot be reached from any ref any more, and what it held is not in
    HEAD). With a `commit`, `upstream` is the ref that `landed` speaks of, None if there is none, and `pushed` says that
    some remote's branch has it.
    """

    dirty: Difference | None = None
    commit: str = ""
    blob: str = ""
    pushed: bool = False
    landed: bool = False
    dropped: bool = False
    upstream: str | None = None

    @property
    def outcome(self) -> str:
        """The ledger's word: dirty, clean, committed, or landed."""
        if self.dirty:
            return "dirty"
        if not self.commit:
            return "clean"
        return "landed" if self.landed else "committed"
