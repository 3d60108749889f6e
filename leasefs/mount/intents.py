"""What this mount changed and has not seen committed: the mount's side of intents (P8).

Every change asks `ahead` first, and nearly always that is one look into a dictionary: the path is known, and
was touched in this epoch. The first change of a clean path is written to the journal before it is made. An
epoch ends when somebody begins to look at what became of the paths (`begin_look`), so that whatever is touched
while git is being asked is not called clean by an answer that is older.

Plain Python on the loop; the journal is the only I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from leasefs.client.process import program_name
from leasefs.core.globs import lies_on
from leasefs.core.paths import text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from leasefs.core.globs import Glob
    from leasefs.core.held import HeldLease
    from leasefs.mount.journal import Journal, Note

_SAME_PROGRAM_S = 0.5


class Uncommitted:
    """One path that changed. `epoch` is the last one in which it was touched.

    `head` is the commit that HEAD named at first: "" if none, None if that is not known. `author` is the agent
    and harness of the dead mount that changed it, None for our own. `leases` are all under which it was changed, as far as
    this mount looks after that.
    """

    __slots__ = ("author", "blob", "commit", "epoch", "head", "lease", "leases", "token")

    def __init__(self, lease: str, token: int, epoch: int, head: str | None) -> None:
        self.lease = lease
        self.leases = {lease}
        self.token = token
        self.epoch = epoch
        self.head = head
        self.author: tuple[str, str] | None = None
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
        wall_s: Callable[[], float],
        head: Callable[[bytes], str | None] = lambda _: None,
        require_head: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        """An empty log.

        Args:
            journal: where each first change is written before it is made.
            wall_s: seconds since 1970, for people.
            head: the commit that HEAD names in the repository of a path, "" if none yet, None if that cannot be told.
            require_head: raises `Wanting` if `head` cannot tell before something is read.
        """
        self._journal = journal
        self._head = head
        self._require_head = require_head
        self._read_wall_s = wall_s
        self._latest_wall_s = 0.0
        self._known: dict[bytes, Uncommitted] = {}
        self._last_program = 0, "", 0.0
        self._epoch = 1
        self._turn = self._next_epoch
        # Where git moved history to, outside all leases, and nobody has looked yet whether that is all it was.
        self.history: set[bytes] = set()
        # Who moved it; while they live, they may not be done.
        self.movers: set[int] = set()
        self.history_moves: Callable[[], None] = lambda: None
        # The git directory may be served natively; then whatever moves a reference does it unseen.
        self.may_see_no_refs = False
        self._is_alone: Callable[[], bool] = lambda: True
        self._refs: set[bytes] = set()
        # Hears of each change that is not made because it cannot be journalled.
        self.unwritten: Callable[[bytes, int, OSError], None] = lambda path, pid, error: None
        # Set whenever a path is touched for the first time in an epoch.
        self.touched: Callable[[], None] = lambda: None

    def is_ahead(self, path: bytes, token: int) -> bool:
        """See `Intents`."""
        known = self._known.get(path)
        return known is not None and known.epoch == self._epoch and known.token == token

    def require(self, path: bytes) -> None:
        """See `Intents`."""
        if self._begins_on_head(self._known.get(path)):
            self._require_head(path)

    def ahead(self, path: bytes, kind: str, lease: HeldLease, pid: int, other: bytes = b"") -> None:
        """See `Intents`. A directory's path ends in a slash: everything below changes."""
        if self.is_ahead(path, lease.token):
            return
        known = self._known.get(path)
        if known is None or known.token != lease.token or known.commit:
            self._write(path, self._note(path, kind, lease.lease_id, lease.token, pid, other))
            head = self._head_before(path, known)
            former = known.leases if known is not None else set()
            known = Uncommitted(lease.lease_id, lease.token, self._epoch, head)
            known.leases |= former
            self._known[path] = known
        known.epoch = self._epoch
        self.touched()

    def _write(self, path: bytes, note: Note) -> None:
        try:
            self._journal.note(note)
        except OSError as error:
            self.unwritten(path, note["pid"], error)
            raise

    def _head_before(self, path: bytes, known: Uncommitted | None) -> str | None:
        """The commit that the path's work began on.

        What is committed and has not landed began before that commit: were it forgotten, a change that is undone, or a
        rebase, which makes each change anew, would seem to leave nothing unlanded.
        """
        return known.head if known and not self._begins_on_head(known) else self._head(path)

    def _begins_on_head(self, known: Uncommitted | None) -> bool:
        return known is None or (known.head is None and not known.commit)

    def _note(
        self, path: bytes, kind: str, lease: str, token: int, pid: int, other: bytes = b""
    ) -> Note:
        wall_s = self.wall_s()
        last_pid, program, until_s = self._last_program
        if pid != last_pid or wall_s > until_s:
            # What the process runs; asked once for what it does in a row.
            program = program_name(pid) if pid else ""
            self._last_program = pid, program, wall_s + _SAME_PROGRAM_S
        return {
            "path": text(path),
            "kind": kind,
            "other": text(other) if other else "",
            "lease": lease,
            "token": token,
            "pid": pid,
            "program": program,
            "wall_s": wall_s,
        }

    def wall_s(self) -> float:
        """Seconds since 1970 that never go back, or what is seen later would look older than what it settles."""
        now_s = self._read_wall_s()
        if now_s > self._latest_wall_s:
            self._latest_wall_s = now_s
        return self._latest_wall_s

    def follow(self, turn: Callable[[], int]) -> None:
        """See `Intents`."""
        self._turn = turn
        self._epoch = turn()

    def moved(self, paths: Iterable[bytes], pid: int) -> None:
        """See `Intents`."""
        self.history.update(paths)
        self.movers.add(pid)
        self.history_moves()

    def ref_moves(self, path: bytes) -> None:
        """See `Intents`."""
        self._refs.add(path.removeprefix(b".git/"))

    def made_commits(self, ref: bytes) -> bool:
        """Whether this reference was seen to be moved through this mount since that was asked last."""
        moved = ref in self._refs
        self._refs.discard(ref)
        return moved

    def share(self, is_alone: Callable[[], bool]) -> None:
        """See `Intents`."""
        self._is_alone = is_alone

    def sees_no_refs(self) -> bool:
        """Whether references are moved unseen now. Where others share the tree, they are not."""
        return self.may_see_no_refs and self._is_alone()

    def _next_epoch(self) -> int:
        return self._epoch + 1

    # -- asking about them ---------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._known)

    def dirty_of(self, token: int, globs: Sequence[Glob] = ()) -> list[bytes]:
        """The paths that are uncommitted under the lease with this token, as far as is known.

        With `globs` only those that they match; a directory that moved may hold such paths, and counts.
        """
        found = [p for p, one in self._known.items() if one.token == token and not one.commit]
        return [p for p in found if not globs or lies_on(p, globs)]

    def new_token(self, old: int, new: int) -> None:
        """The lease with one token has another one now."""
        for one in self._known.values():
            if one.token == old:
                one.token = new

    def tell_again(self) -> None:
        """The ledger may have forgotten: note all that is known once more, to be looked at as if it had just changed.

        Raises:
            OSError: the journal cannot be written.
        """
        for path, one in self._known.items():
            note = self._note(path, "modify", one.lease, one.token, 0)
            if one.author is not None:
                note["agent"], note["harness"] = one.author
            self._journal.note(note)
            # What is committed is told when git has been asked again.
            one.commit = one.blob = ""
            one.epoch = self._epoch
        self.touched()

    def is_dirty(self, path: bytes) -> bool:
        """Whether the path is known, and not committed."""
        known = self._known.get(path)
        return known is not None and not known.commit

    def lease_of(self, path: bytes) -> int | None:
        """The token of the lease that the path was changed under, None if it is not known."""
        known = self._known.get(path)
        return None if known is None else known.token

    def leases(self) -> dict[int, str]:
        """The leases under which something is known to be uncommitted, by token."""
        return {one.token: one.lease for one in self._known.values() if not one.commit}

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

    def found_below(self, directory: bytes, kinds: Mapping[bytes, str]) -> None:
        """What differs below a directory that changed as a whole: each path is an intent of its own from now on.

        What was known under an older lease was changed again by moving the directory.

        Raises:
            OSError: that cannot be journalled; the directory stays an intent.
        """
        whole = self._known[directory]
        for path, kind in kinds.items():
            known = self._known.get(path)
            if known is None or known.token < whole.token:
                note = self._note(path, kind, whole.lease, whole.token, 0)
                if whole.author is not None:
                    note["agent"], note["harness"] = whole.author
                self._journal.note(note)
                one = Uncommitted(whole.lease, whole.token, self._epoch, whole.head)
                one.author = whole.author
                self._known[path] = one
        del self._known[directory]

    def adopt(
        self,
        path: bytes,
        lease: str,
        token: int,
        commit: str = "",
        blob: str = "",
        author: tuple[str, str] | None = None,
        changed_wall_s: float = 0.0,
    ) -> None:
        """An intent that the ledger has of an earlier mount of this tree is ours to look after. Raises OSError."""
        self._latest_wall_s = max(self._latest_wall_s, changed_wall_s)
        if path in self._known:
            self._known[path].leases.add(lease)
            return
        self._journal.look_after(token)
        one = self._known[path] = Uncommitted(lease, token, self._epoch, None)
        one.commit, one.blob, one.author = commit, blob, author
