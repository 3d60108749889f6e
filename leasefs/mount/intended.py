"""What a change intends, told before it is made: all that the handlers know of intents (P8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from leasefs.core.policy import Op, Place, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from leasefs.core.held import HeldLease

# Attributes that git does not keep are no work of anybody's: chown, utimens and extended attributes are left out.
_KINDS = {
    Op.CREATE: "create",
    Op.MKNOD: "create",
    Op.SYMLINK: "create",
    Op.LINK: "create",
    Op.UNLINK: "delete",
    Op.TRUNCATE: "modify",
    Op.WRITE: "modify",
    Op.CHMOD: "mode",
}
# Looked up in its class, a member takes Python 3.11 longer than all that is done with it (`policy.Op`).
_RENAME = Op.RENAME
_TREE = Place.TREE

Intended = tuple[bytes, str, bytes]


def intended(op: Op, targets: Sequence[Target]) -> list[Intended]:
    """The paths that an operation on these names changes: path, kind, and the other name of a rename.

    Git knows no directories, so making or removing one is no intent; moving one moves all that is in it.
    """
    if op is _RENAME:
        source, goal = map(_name, targets)
        ends = [(source, "rename-to", goal), (goal, "rename-from", source)]
        return [end for end, at in zip(ends, targets, strict=True) if at.place is _TREE]
    kind = _KINDS.get(op)
    if kind is None:
        return []
    if op is Op.LINK:
        targets = targets[-1:]
    return [
        (path, kind, b"")
        for target in targets
        if target.place is _TREE
        for path in (target.path, *target.aliases)
    ]


def _name(target: Target) -> bytes:
    return target.path + b"/" if target.whole_tree else target.path


class Intents(Protocol):
    """What the operations need: to say that a change is about to be made."""

    def is_ahead(self, path: bytes, token: int) -> bool:
        """Whether `ahead` has nothing to do for this path, changed again under the lease with this token."""
        ...

    def require(self, path: bytes) -> None:
        """Raises `Wanting` if something has to be read before a first change of the path can be noted in full."""
        ...

    def ahead(self, path: bytes, kind: str, lease: HeldLease, pid: int, other: bytes = b"") -> None:
        """`path` is about to change under this lease. Raises OSError if that cannot be journalled."""
        ...

    def follow(self, turn: Callable[[], int]) -> None:
        """`turn` ends the epoch in which open files are known to be noted, and returns the next one's number."""
        ...

    def moved(self, paths: Iterable[bytes], pid: int) -> None:
        """A git process is about to move history to these paths, which no lease covers."""
        ...

    def ref_moves(self, path: bytes) -> None:
        """A file of git's references is about to be put in place, at this path of the tree."""
        ...

    def share(self, is_alone: Callable[[], bool]) -> None:
        """`is_alone` says whether no other mount shares the tree now."""
        ...


class NoIntents:
    """For trees that nobody keeps a ledger of."""

    def is_ahead(self, path: bytes, token: int) -> bool:
        """Nothing is kept, so nothing is missing."""
        return True

    def require(self, path: bytes) -> None:
        """Nothing is kept."""

    def ahead(self, path: bytes, kind: str, lease: HeldLease, pid: int, other: bytes = b"") -> None:
        """Nothing is kept."""

    def follow(self, turn: Callable[[], int]) -> None:
        """Nothing is looked at."""

    def moved(self, paths: Iterable[bytes], pid: int) -> None:
        """Nothing is looked at."""

    def ref_moves(self, path: bytes) -> None:
        """Nothing is looked at."""

    def share(self, is_alone: Callable[[], bool]) -> None:
        """Nothing is looked at."""
