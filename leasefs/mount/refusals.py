"""The last refusals, kept for the person or agent who wonders about an errno (P10)."""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from leasefs.client.log_events import Event, note
from leasefs.client.process import program_name
from leasefs.core.paths import shown
from leasefs.core.policy import Op, Reason, RefusalRecord, Refused
from leasefs.mount.errnos import Refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable


log = logging.getLogger(__name__)

KEPT = 100

ADVICE: dict[Reason, str] = {
    Reason.NOT_LEASED: "claim it first: leasefs claim {path}",
    Reason.LAPSED: "the ledger has not confirmed the lease lately; try again, or see: leasefs status",
    Reason.LOST: "claim again, then open the file anew: leasefs claim {path}",
    Reason.TREE_NOT_LEASED: "claim the whole directory: leasefs claim {path}/",
    Reason.ALIAS_NOT_LEASED: "the file has several names (hard links); claim this one too: leasefs claim {path}",
    Reason.DELEGATED: "who has it: leasefs who {path}",
    Reason.DELEGATED_SINCE: "who has it: leasefs who {path}",
    Reason.SHARED_SINCE: "claim it alone again, then open the file anew: leasefs status",
    Reason.HELD: "who has it: leasefs who {path}",
    Reason.WAITED: "try again, or see: leasefs who {path}",
    Reason.DEADLOCK: "close what is being written, then try again: leasefs status",
    Reason.UNCLAIMED: "try again, or see: leasefs status",
    Reason.CHANGED: "read it again, then write",
    Reason.UNWRITTEN: "make room where the state directory of leasefs lies: leasefs doctor",
    Reason.CONTROL: ".leasefs shows the state of the mount and cannot be changed",
    Reason.GIT_COMMAND: "name your own paths (git commit -- PATH), claim the rest, or use a worktree of your own; "
    "who holds it: leasefs why {path}",
    Reason.GIT_UNKNOWN: "name your own paths, or use a worktree of your own",
    Reason.BORDER: "the git directory of a mounted tree stays where it is; unmount first",
}


def advice_for(record: RefusalRecord) -> str:
    """What to do next, one line."""
    return record.detail or ADVICE[record.reason].format(path=shown(record.path) or ".")


class There(NamedTuple):
    """Who stands at a path, in words, and what to do about it, if that is something special."""

    words: str = ""
    next_step: str = ""


async def _nobody_to_ask() -> None:
    """Nothing more is known than what was refused."""


class RefusalLog:
    """The last `KEPT` refusals of this mount; passes each on to `tell`."""

    def __init__(self, tell: Callable[[RefusalRecord], None]) -> None:
        self._tell = tell
        # Asked in turn, without waiting, for what to tell of a refusal that says no more than its reason.
        self.explainers: list[Callable[[Refused], str]] = []
        # Awaited before somebody reads the refusals, so that `there` knows who stands where something was refused.
        self.ask: Callable[[], Awaitable[None]] = _nobody_to_ask
        self.there: Callable[[bytes], There] = lambda _: There()
        self._last: deque[RefusalRecord] = deque(maxlen=KEPT)
        # How many there were, by reason and whether they passed all the same.
        self.counts: dict[tuple[Reason, bool], int] = {}

    def add(self, refusal: Refusal, pid: int, *, observed: bool = False) -> None:
        """Note a refusal met by process `pid`; one that is `observed` passed."""
        refused = refusal.refused
        record = RefusalRecord(
            op=refused.op,
            path=refused.path,
            reason=refused.reason,
            errno=refusal.errno,
            pid=pid,
            program=program_name(pid),
            wall_s=time.clock_gettime(time.CLOCK_REALTIME),
            lease_id=refused.lease.lease_id if refused.lease else None,
            detail=refused.detail or self._explained(refused),
            observed=observed,
        )
        self.counts[refused.reason, observed] = self.counts.get((refused.reason, observed), 0) + 1
        how = "observed" if observed else "refused"
        path = shown(record.path)
        note(
            log,
            Event.WRITE_REFUSED,
            f"{how}: {record.op.value} {path}: {record.reason.value}",
            path=record.path,
            op=record.op.value,
            reason=record.reason.name.lower().replace("_", "-"),
            errno=record.errno,
            pid=record.pid,
            program=record.program,
            lease=record.lease_id,
        )
        self._last.append(record)
        self._tell(record)

    def unwritten(self, path: bytes, pid: int, error: OSError) -> None:
        """Note a change that was not made because the journal did not take it (P8).

        The process gets the errno as if the tree's own disk were full, and would look there.
        """
        refusal = Refusal(Refused(Reason.UNWRITTEN, Op.WRITE, path))
        refusal.errno = error.errno or refusal.errno
        self.add(refusal, pid)

    def _explained(self, refused: Refused) -> str:
        return next(filter(None, (explain(refused) for explain in self.explainers)), "")

    def newest_first(self) -> Iterable[RefusalRecord]:
        """The kept refusals."""
        return reversed(self._last)

    async def before_reading(self, name: str) -> None:
        """Awaited before the control file with this name is read: if it is about refusals, `ask`."""
        if name.startswith("refusals"):
            await self.ask()
