"""What this mount changed and has not seen committed: the mount's side of intents (P8).

Every change asks `ahead` first, and nearly always that is one look into a dictionary: the path is known, and
was touched in this epoch. The first change of a clean path is written to the journal before it is made. An
epoch ends when somebody begins to look at what became of the paths (`begin_look`), so that whatever is touched
while git is being asked is not called clean by an answer that is older.

Plain Python on the loop; the journal is the only I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from leasefs.client.process import program_name
from leasefs.core.paths import text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from leasefs.core.held import HeldLease
    from leasefs.mount.journal import Journal, Note


class Intents(Protocol):
    """What the operations need: to say that a change is about to be made."""

    def ahead(self, path: bytes, kind: str, lease: HeldLease, pid: int, other: bytes = b"") -> None:
        """`path` is about to change under this lease. Raises OSError if that cannot be journalled."""
        ...


class NoIntents:
    """For trees that nobody keeps a ledger of."""

    def ahead(self, path: bytes, kind: str, lease: HeldLease, pid: int, other: bytes = b"") -> None:
        """Nothing is kept."""


class Uncommitted:
    """One path that changed. `epoch` is the last one in which it was touched.

    `head` is the commit that HEAD named at first: "" if none, None if that is not known.
    """

    __slots__ = ("blob", "commit", "epoch", "head", "lease", "token")

    def __init__(self, lease: str, token: int, epoch: int, head: str | None) -> None:
        self.lease = lease
        self.token = token
        self.epoch = epoch
        self.head = head
        # Of a path that is committed but has not landed; its blob is "" if the commit removes it.
        self.commit = ""
        self.blob = ""


class Look(NamedTuple):
    """The paths that are being looked at, as they were in `epoch`."""

    epoch: int
    paths: dict[bytes, Uncommitted]


class IntentLog:
    """The paths of one mount that are dirty, or committed and not landed."""

    def __init__(
        self,
        journal: Journal,
        *,
        turn: Callable[[], int],
        wall_s: Callable[[], float],
        head: Callable[[], str] = lambda: "",
    ) -> None:
        """An empty log.

        Args:
            journal: where each first change is written before it is made.
            turn: ends the epoch in which open files are known to be noted, and returns the new one's number.
            wall_s: seconds since 1970, for people.
            head: the commit that HEAD names, as cheaply as it can be told.
        """
        self._journal = journal
        self._turn = turn
        self._head = head
        self._wall_s = wall_s
        self._known: dict[bytes, Uncommitted] = {}
        self._epoch = turn()
        # Set whenever a path is touched for the first time in an epoch.
        self.touched: Callable[[], None] = lambda: None

    def ahead(self, path: bytes, kind: str, lease: HeldLease, pid: int, other: bytes = b"") -> None:
        """See `Intents`. A directory's path ends in a slash: everything below changes."""
        known = self._known.get(path)
        if known is not None and known.epoch == self._epoch and known.token == lease.token:
            return
        if known is None or known.token != lease.token or known.commit:
            self._journal.note(self._note(path, kind, lease.lease_id, lease.token, pid, other))
            known = Uncommitted(lease.lease_id, lease.token, self._epoch, self._head())
            self._known[path] = known
        known.epoch = self._epoch
        self.touched()

    def _note(
        self, path: bytes, kind: str, lease: str, token: int, pid: int, other: bytes = b""
    ) -> Note:
        return {
            "path": text(path),
            "kind": kind,
            "other": text(other),
            "lease": lease,
            "token": token,
            "pid": pid,
            "program": program_name(pid) if pid else "",
            "wall_s": self._wall_s(),
        }

    # -- asking about them ---------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._known)

    def dirty_of(self, token: int) -> list[bytes]:
        """The paths that are uncommitted under the lease with this token, as far as is known."""
        return [p for p, one in self._known.items() if one.token == token and not one.commit]

    def tokens(self) -> set[int]:
        """The leases under which something is known to be uncommitted or unlanded."""
        return {one.token for one in self._known.values()}

    @property
    def last_note(self) -> int:
        """The number of the last note in the journal."""
        return self._journal.last

    def begin_look(self, *, touched_only: bool = False) -> Look:
        """Begin to look at all paths, or at those touched in the epoch that this ends."""
        ended = self._epoch
        self._epoch = self._turn()
        known = self._known.items()
        return Look(ended, {p: one for p, one in known if not touched_only or one.epoch == ended})

    def is_untouched(self, look: Look, path: bytes) -> bool:
        """Whether nothing was done to the path since the look began: what was seen then still counts."""
        known = self._known.get(path)
        return known is not None and known is look.paths.get(path) and known.epoch <= look.epoch

    def clean(self, path: bytes) -> None:
        """The path is as HEAD has it, or landed: its next change is a first one again."""
        self._known.pop(path, None)

    def committed(self, path: bytes, commit: str, blob: str) -> None:
        """The path's bytes are in this commit, which has not landed yet; with "" they are in none any more."""
        known = self._known[path]
        known.commit, known.blob = commit, blob

    def found_below(self, directory: bytes, paths: Iterable[bytes]) -> None:
        """What differs below a directory that changed as a whole: each path is an intent of its own from now on."""
        whole = self._known.pop(directory)
        for path in paths:
            if path not in self._known:
                self._journal.note(self._note(path, "modify", whole.lease, whole.token, 0))
                self._known[path] = Uncommitted(whole.lease, whole.token, self._epoch, whole.head)

    def adopt(self, path: bytes, lease: str, token: int, commit: str = "", blob: str = "") -> None:
        """An intent that the ledger has of an earlier mount of this tree is ours to look after."""
        if path in self._known:
            return
        one = self._known[path] = Uncommitted(lease, token, self._epoch, None)
        one.commit, one.blob = commit, blob
