"""What a git command would do to the working tree or to the index, as far as that can be known before it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

OWN_WORKTREE = (
    "work in a worktree of your own (git worktree add, and mount that), or lease the whole tree"
)


@dataclass(frozen=True, slots=True)
class Nothing:
    """It changes none of it.

    `delegates`: it has other git processes do what it is for (pull: merge or rebase); they are to be judged in turn.
    """

    delegates: bool = False


@dataclass(frozen=True, slots=True)
class Paths:
    """It changes at most these, relative to the tree; one that ends in `/` means the directory and all below it.

    `tracked`: they come to be tracked, or cease to be, so it does not matter that git ignores one of them now.
    """

    paths: frozenset[bytes]
    tracked: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Unknown:
    """What it would change cannot be known beforehand: why, and what to do instead."""

    reason: str
    advice: str = OWN_WORKTREE


Effect = Nothing | Paths | Unknown


class CannotTell(Exception):
    """Raised on the way to an `Unknown`."""

    def __init__(self, reason: str, advice: str = OWN_WORKTREE) -> None:
        super().__init__(reason)
        self.unknown = Unknown(reason, advice)
