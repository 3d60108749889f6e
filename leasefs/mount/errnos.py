"""The one table from reasons to errnos.

| reason | errno | why |
|---|---|---|
| NOT_LEASED, LAPSED, TREE_NOT_LEASED, ALIAS_NOT_LEASED, DELEGATED | EACCES | "Permission denied" is what every tool reports with the file's name. EROFS would make some give up on the whole tree, EPERM hints at root |
| HELD, WAITED, UNCLAIMED, CHANGED | EACCES | the same, after a claim or a wait by the mount's unleased policy |
| DEADLOCK | EDEADLK | "Resource deadlock avoided" says what it is; nothing helps but that the caller closes what it writes |
| GIT_COMMAND, GIT_UNKNOWN | EACCES | git names the file that it could not make, its index.lock, and ends |
| LOST, DELEGATED_SINCE, SHARED_SINCE | ESTALE | the handle is dead for good; opening the file anew is what helps, as with a stale NFS handle |
| UNWRITTEN | ENOSPC, or what the journal's file system said | the change was not made; there is no room for its intent (P8) |
| CONTROL | EROFS | nothing a lease could help with |
| BORDER | EBUSY | rename(2)'s own word for a directory that the system is using; EXDEV would make mv copy and delete it |
"""

from __future__ import annotations

import errno

from leasefs.core.policy import Reason, Refused

ERRNO_OF: dict[Reason, int] = {
    Reason.NOT_LEASED: errno.EACCES,
    Reason.LAPSED: errno.EACCES,
    Reason.TREE_NOT_LEASED: errno.EACCES,
    Reason.ALIAS_NOT_LEASED: errno.EACCES,
    Reason.HELD: errno.EACCES,
    Reason.WAITED: errno.EACCES,
    Reason.UNCLAIMED: errno.EACCES,
    Reason.CHANGED: errno.EACCES,
    Reason.DEADLOCK: errno.EDEADLK,
    Reason.GIT_COMMAND: errno.EACCES,
    Reason.GIT_UNKNOWN: errno.EACCES,
    Reason.DELEGATED: errno.EACCES,
    Reason.LOST: errno.ESTALE,
    Reason.DELEGATED_SINCE: errno.ESTALE,
    Reason.SHARED_SINCE: errno.ESTALE,
    Reason.UNWRITTEN: errno.ENOSPC,
    Reason.CONTROL: errno.EROFS,
    Reason.BORDER: errno.EBUSY,
}


class Refusal(Exception):
    """An operation that the policy refused."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(f"{refused.op.value} {refused.path!r}: {refused.reason.value}")
        self.refused = refused
        self.errno = ERRNO_OF[refused.reason]


def errno_of(error: OSError | Refusal) -> int:
    """The errno that the calling process gets."""
    # An OSError without a number is a fault in our own code path, not an answer of the kernel.
    return error.errno or errno.EIO
