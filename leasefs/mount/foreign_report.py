"""Telling of foreign writes: each suspicion is held back for a moment, and told if nobody else explains it.

What happens to a path meanwhile becomes one change of it: a draft that an editor outside makes and renames is
nothing at all. Suspicions wait while the ledger is away.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import trio

from leasefs.client import api
from leasefs.client.pauses import Pauses
from leasefs.core.errors import InvalidRequest, LeasefsError
from leasefs.core.paths import text
from leasefs.core.policy import Place
from leasefs.mount.foreign_cover import place_of
from leasefs.mount.foreign_log import ForeignFact
from leasefs.mount.intent_report import IN_ONE_REPORT, PATH_CHARACTERS_IN_ONE_REPORT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from leasefs.client.transport import Transport
    from leasefs.mount.foreign_log import ForeignLog
    from leasefs.mount.foreign_others import Others
    from leasefs.mount.holdings import Holdings
    from leasefs.mount.tree import Tree

log = logging.getLogger(__name__)

# What another mount did has reached its journal or the ledger by then.
HELD_BACK_S = 0.6
# What comes due so soon after is told with it: where many share a tree, something comes all the time.
GATHERED_S = 0.25
# For each mount of the tree that reports the same before this one.
_FOR_EACH_OTHER_S = 0.5
_MOST_OTHERS = 6
# A path that is written all the time is told of so often.
_AGAIN_AFTER_S = 5.0
_MOST = 100_000
_RETRY = Pauses(0.5, 10.0)
_TIMEOUT_S = 10.0
_SLICE = 64

# What two changes of one path, one after the other, are together; "" is none. Others are the second.
_TOGETHER = {
    ("created", "modified"): "created",
    ("created", "mode"): "created",
    ("created", "deleted"): "",
    ("modified", "mode"): "modified",
    ("deleted", "created"): "modified",
    ("deleted", "modified"): "modified",
    ("deleted", "mode"): "modified",
}


class Suspicion(NamedTuple):
    """What seems to have happened, and when it was seen first; told not before `due_s`, and this mount's turn."""

    what: str
    wall_s: float
    due_s: float


class ForeignReport:
    """Gathers suspicions and reports them."""

    def __init__(
        self,
        tree_id: str,
        transport: Transport,
        others: Others,
        holdings: Holdings,
        found: ForeignLog,
        wall_s: Callable[[], float],
    ) -> None:
        self._tree_id = tree_id
        self._transport = transport
        self._others = others
        self._holdings = holdings
        self._found = found
        self._wall_s = wall_s
        self._suspected: dict[bytes, Suspicion] = {}
        self._told_s: dict[tuple[bytes, str], float] = {}
        self._events_lost = False
        # So many mounts of the tree report the same before this one does.
        self._rank = 0
        self._some = trio.Event()

    def suspect(self, path: bytes, what: str) -> None:
        """Something happened to the path that this mount did not do."""
        now_s = trio.current_time()
        told_s = self._told_s.get((path, what), -_AGAIN_AFTER_S)
        due_s = max(now_s + HELD_BACK_S, told_s + _AGAIN_AFTER_S)
        self._add(path, Suspicion(what, self._wall_s(), due_s))

    def _add(self, path: bytes, later: Suspicion) -> None:
        before = self._suspected.get(path)
        if before is None:
            if len(self._suspected) >= _MOST:
                self.events_lost()
                return
            self._suspected[path] = later
        else:
            what = _TOGETHER.get((before.what, later.what), later.what)
            if what:
                self._suspected[path] = before._replace(what=what)
            else:
                del self._suspected[path]
        self._some.set()

    def events_lost(self) -> None:
        """Some foreign writes may never be known."""
        self._events_lost = True
        self._some.set()

    async def run(self, tree: Tree) -> None:
        """Report what comes, for ever; no failure of the ledger ends it."""
        failures = 0
        while True:
            await self._some.wait()
            try:
                await self._report_due(tree)
            except LeasefsError as error:
                log.info("foreign writes not reported yet: %s", error.message)
                await trio.sleep(_RETRY.after_s(failures))
                failures += 1
            else:
                failures = 0

    async def _report_due(self, tree: Tree) -> None:
        """Wait for the next that is due, and tell what is due then."""
        self._some = trio.Event()
        if self._suspected:
            self._rank = await self._others_before_us()
            if not self._events_lost:
                first_s = min(one.due_s for one in self._suspected.values())
                await trio.sleep_until(first_s + self._turn_s + GATHERED_S)
        due_s = trio.current_time() - self._turn_s
        due = {path: one for path, one in self._suspected.items() if one.due_s <= due_s}
        for path in due:
            del self._suspected[path]
        try:
            foreign = await self._foreign(tree, due)
            due = foreign
            if foreign and await self._others_before_us() > self._rank:
                # They came after the last look; this one was a moment ago, for what nobody explained.
                self._put_back(foreign)
                return
            while foreign or self._events_lost:
                told = _first(foreign)
                await self._tell(told)
                for path in told:
                    del foreign[path]
        except LeasefsError:
            self._put_back(due)
            raise
        finally:
            if self._suspected:
                self._some.set()

    async def _others_before_us(self) -> int:
        return min(_MOST_OTHERS, await self._others.look())

    @property
    def _turn_s(self) -> float:
        """How much later than the first of the tree's mounts this one tells."""
        return self._rank * _FOR_EACH_OTHER_S

    def _put_back(self, due: Mapping[bytes, Suspicion]) -> None:
        for path, one in due.items():
            later = self._suspected.pop(path, None)
            self._add(path, one)
            if later is not None:
                self._add(path, later)

    async def _foreign(self, tree: Tree, due: Mapping[bytes, Suspicion]) -> dict[bytes, Suspicion]:
        """Those that nobody explains. Raises LeasefsError if the ledger cannot be asked."""
        in_tree: dict[bytes, Suspicion] = {}
        explained = await self._others.written_down({p: one.wall_s for p, one in due.items()})
        left = [(path, one) for path, one in due.items() if path not in explained]
        for at, (path, one) in enumerate(left):
            if await place_of(tree, path, is_dir=False) is Place.TREE:
                in_tree[path] = one
            if at % _SLICE == _SLICE - 1:
                await trio.lowlevel.checkpoint()
        if not in_tree:
            return {}
        when = {path: one.wall_s for path, one in in_tree.items()}
        theirs = await self._others.theirs(when, self._holdings.now_s())
        foreign = {path: one for path, one in in_tree.items() if path not in theirs}
        self._tell_holder(foreign)
        return foreign

    def _tell_holder(self, foreign: Mapping[bytes, Suspicion]) -> None:
        """This mount itself, at once: the ledger may be away."""
        now_s = self._holdings.now_s()
        for path, one in foreign.items():
            lease = self._holdings.view.writable(path, now_s)
            if lease is not None:
                self._found.add(ForeignFact(path, one.what, one.wall_s, lease.lease_id))

    async def _tell(self, told: Mapping[bytes, Suspicion]) -> None:
        """One report. Raises LeasefsError if the ledger did not take it; then nothing is forgotten."""
        lost, self._events_lost = self._events_lost, False
        changes = [
            {"path": text(path), "what": one.what, "wall_s": one.wall_s}
            for path, one in told.items()
        ]
        call = api.report_foreign_writes(self._tree_id, changes, events_lost=lost)
        try:
            await self._transport.send(call, timeout_s=_TIMEOUT_S)
        except InvalidRequest as error:
            log.warning("the ledger does not take %d changes: %s", len(changes), error.message)
        except LeasefsError:
            self._events_lost = self._events_lost or lost
            raise
        self._are_told(told)

    def _are_told(self, told: Mapping[bytes, Suspicion]) -> None:
        now_s = trio.current_time()
        self._told_s = {key: s for key, s in self._told_s.items() if now_s - s < _AGAIN_AFTER_S}
        self._told_s |= {(path, one.what): now_s for path, one in told.items()}


def _first(foreign: Mapping[bytes, Suspicion]) -> dict[bytes, Suspicion]:
    """Those that fit into one request."""
    taken: dict[bytes, Suspicion] = {}
    room = PATH_CHARACTERS_IN_ONE_REPORT
    for path, one in foreign.items():
        if room <= 0 or len(taken) == IN_ONE_REPORT:
            break
        taken[path] = one
        room -= len(path)
    return taken
