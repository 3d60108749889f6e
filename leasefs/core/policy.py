"""May this operation change these paths, now? (P2; design: what a write needs).

Pure: takes the operation, what it touches, the held view and the holder's clock, and answers with
the lease that allows it or with a refusal that says why. The mount asks here before every change
and knows no other rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from leasefs.core.companions import companion_of
from leasefs.core.lease import Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.core.held import HeldLease, HeldView


class Op(Enum):
    """An operation that changes the tree, by its system call's name.

    What every change passes through has names of its own for members: looked up in the class of an Enum, one
    takes Python 3.11 some 0.14 µs.
    """

    __hash__ = object.__hash__  # each is one object; Enum's own is written in Python

    OPEN = "open for writing"
    WRITE = "write"
    TRUNCATE = "truncate"
    CREATE = "create"
    MKNOD = "mknod"
    SYMLINK = "symlink"
    UNLINK = "unlink"
    MKDIR = "mkdir"
    RMDIR = "rmdir"
    RENAME = "rename"
    LINK = "link"
    CHMOD = "chmod"
    CHOWN = "chown"
    UTIMENS = "utimens"
    SETXATTR = "setxattr"
    REMOVEXATTR = "removexattr"


class Place(Enum):
    """What kind of ground a path stands on."""

    TREE = "tree"
    SCRATCH = "scratch"
    GIT = "git"
    CONTROL = "control"


_TREE, _CONTROL = Place.TREE, Place.CONTROL


@dataclass(slots=True)
class Target:
    """One name that an operation changes.

    `whole_tree` is set for a directory that is renamed: everything below moves too. `tracked` paths
    and paths that existed before as somebody's file are never companions. `aliases` are the other
    names of the same inode inside the territory (hard links), scratch ones left out.
    """

    path: bytes
    place: Place = Place.TREE
    whole_tree: bool = False
    tracked: bool = False
    aliases: tuple[bytes, ...] = ()

    def is_somebodys(self) -> bool:
        """Whether it is `tracked`. Asked only where the answer counts: to know it may take a look."""
        return self.tracked

    def is_beside(self, name: bytes) -> bool:
        """Whether there is something of this name in the same directory, as far as that is known."""
        return False

    def read_beside(self, pid: int) -> Sequence[bytes]:
        """The paths of the files of the same directory that this thread is reading, as far as that is known."""
        return ()

    def changed_since_read(self, pid: int, beside: bytes = b"") -> bool:
        """Whether others changed the file since this thread read it, or the file called `beside` in its directory."""
        return False


class Reason(Enum):
    """Why an operation was refused."""

    NOT_LEASED = "no lease of this mount covers the path"
    LAPSED = "the lease over the path has lapsed and is not confirmed again yet"
    LOST = "the lease that this file was opened under is gone"
    TREE_NOT_LEASED = "the leases of this mount do not contain everything below the directory"
    ALIAS_NOT_LEASED = "another name of the same file is not leased"
    DELEGATED = "the path is delegated to another agent, who alone may write there now"
    DELEGATED_SINCE = "the path was delegated to another agent after this file was opened"
    SHARED_SINCE = "the lease that this file was opened under is shared now: nobody writes under it"
    HELD = "somebody else has the path, and this mount does not wait"
    WAITED = "the path was not to be had within the time that this mount waits for one"
    DEADLOCK = "waiting for the path would never end"
    UNCLAIMED = "the path could not be claimed"
    CHANGED = "others changed the file after it was read here, and that would be written over"
    UNWRITTEN = (
        "the change could not be written down beforehand, as each first change of a path has to be"
    )
    CONTROL = "the control directory cannot be changed"
    BORDER = "a name cannot cross between the git directory and the tree"
    GIT_COMMAND = "git would change or stage this, outside the leases of this mount, so the command is refused whole"
    GIT_UNKNOWN = "what git would change cannot be told beforehand, so the command is refused whole"


@dataclass(frozen=True, slots=True)
class Refused:
    """The operation must not happen. `path` is the name that lacks a lease.

    `detail` says why here, and what to do, where the reason alone does not.
    """

    reason: Reason
    op: Op
    path: bytes
    lease: HeldLease | None = None
    detail: str = ""


class Allowed(NamedTuple):
    """The operation may happen. `lease` is None on ground that needs none.

    `by_name` says that each name has a lease of its own, or needs none: nothing passed as a companion,
    and no directory because of what may be made below it.
    """

    lease: HeldLease | None
    companion: bool = False
    by_name: bool = True


@dataclass(frozen=True, slots=True)
class RefusalRecord:
    """A refusal as it is told to people and to the ledger's history (P10, P11).

    `pid` and `program` are of the process that was refused (0 and empty if unknown), `wall_s` is
    seconds since the epoch, for reading only. `observed` says that it passed all the same.
    """

    op: Op
    path: bytes
    reason: Reason
    errno: int
    pid: int
    program: str
    wall_s: float
    lease_id: str | None = None
    detail: str = ""
    observed: bool = False


Verdict = Allowed | Refused
_FREE = Allowed(None)
# Of nearly each verdict: what Allowed has of its own for this is written in Python.
_new = tuple.__new__

# An atomic save makes files and symlinks; a directory of such a name is something else (`packages` looks
# like a temporary file of patch).
_NEVER_COMPANIONS = frozenset({Op.MKDIR, Op.RMDIR})


def decide(op: Op, targets: Sequence[Target], view: HeldView, now_s: float) -> Verdict:
    """Allow only if every name may change; the first that may not is the refusal's path."""
    verdict, by_name = _FREE, True
    for target in targets:
        one = _decide_one(op, target, view, now_s)
        if isinstance(one, Refused):
            return one
        by_name = by_name and one.by_name
        if verdict is _FREE or verdict.companion:
            verdict = one
    return verdict if verdict.by_name is by_name else verdict._replace(by_name=by_name)


def _decide_one(op: Op, target: Target, view: HeldView, now_s: float) -> Verdict:
    if target.place is _CONTROL:
        return Refused(Reason.CONTROL, op, target.path)
    for alias in target.aliases:
        if view.writable(alias, now_s) is None:
            carved = view.carved_at(alias)
            if carved is not None:
                return Refused(Reason.DELEGATED, op, alias, detail=carved.words())
            return Refused(Reason.ALIAS_NOT_LEASED, op, alias, view.lapsed(alias, now_s))
    if target.place is not _TREE:
        return _FREE
    if target.whole_tree:
        return _decide_tree(op, target.path, view, now_s)
    lease = view.writable(target.path, now_s)
    if lease is None:
        return _decide_unleased(op, target, view, now_s)
    return _new(Allowed, (lease, False, True))


def _decide_tree(op: Op, directory: bytes, view: HeldView, now_s: float) -> Verdict:
    if view.covers_tree(directory, now_s):
        return Allowed(view.writable(directory, now_s))
    carved = view.carved_in(directory)
    if carved is not None:
        return Refused(Reason.DELEGATED, op, directory, detail=carved.words())
    return Refused(Reason.TREE_NOT_LEASED, op, directory, view.lapsed(directory, now_s))


def _decide_unleased(op: Op, target: Target, view: HeldView, now_s: float) -> Verdict:
    if op in (Op.MKDIR, Op.RMDIR):
        lease = view.may_need(target.path, now_s)
        if lease is not None:
            return Allowed(lease, by_name=False)
    carved = view.carved_at(target.path)
    if carved is not None:
        return Refused(Reason.DELEGATED, op, target.path, detail=carved.words())
    if op not in _NEVER_COMPANIONS and not target.aliases and not target.is_somebodys():
        lease = companion_of(target.path, view, now_s)
        if lease is not None:
            return Allowed(lease, companion=True, by_name=False)
    lapsed = view.lapsed(target.path, now_s)
    return Refused(Reason.LAPSED if lapsed else Reason.NOT_LEASED, op, target.path, lapsed)


def decide_open_handle(op: Op, token: int, path: bytes, view: HeldView, now_s: float) -> Verdict:
    """May a handle opened at `path` under the lease with `token` still change its file? (P2, P5).

    A lease that is gone takes its handles with it, even if the path was leased anew since: somebody
    else may have written in between. Only a lease held since before that one keeps a handle alive.
    """
    carved = view.carved_at(path)
    if carved is not None:
        return Refused(Reason.DELEGATED_SINCE, op, path, detail=carved.words())
    lease = view.by_token.get(token)
    if lease is None:
        older = view.writable(path, now_s)
        if older is not None and older.token < token:
            return Allowed(older)
        return Refused(Reason.LOST, op, path)
    if lease.mode is not Mode.EXCLUSIVE:
        detail = f"claim it alone again, then open the file anew: leasefs claim --upgrade {lease.lease_id}"
        return Refused(Reason.SHARED_SINCE, op, path, detail=detail)
    if now_s < lease.trusted_until_s:
        return Allowed(lease)
    return Refused(Reason.LAPSED, op, path, lease)
