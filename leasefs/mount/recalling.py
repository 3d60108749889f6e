"""Yielding: a recalled lease is given up as soon as its work allows, at its deadline at the latest, and taken up again (P7).

As soon as nothing writes under it and its work is committed, as the territory's releases require, it is given back;
shortly before the deadline, or at once if the recall is cold, writes stop, what is uncommitted is rescued, and it is
given back then. Its ground is claimed again in the same decision. When it comes back, what still lies in the tree as
it was left is uncommitted work of its holder again, and the rest is told.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import trio

from leasefs.client.ids import new_key
from leasefs.client.log_events import Event, note
from leasefs.client.recalls import Recall, Stage
from leasefs.core.errors import Dirty, LeasefsError, LedgerUnavailable
from leasefs.core.lease import Mode
from leasefs.core.policy import Reason
from leasefs.vcs.errors import VcsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasefs.client.lessee import Lessee
    from leasefs.core.held import HeldLease
    from leasefs.core.policy import Refused
    from leasefs.mount.recall_hook import RecallHook
    from leasefs.mount.releasing import ReleaseGate
    from leasefs.mount.work import Work

log = logging.getLogger(__name__)

# So much of the time that is left, but no more than so many seconds, is for rescuing and for telling the ledger.
MARGIN_SHARE = 0.2
LONGEST_MARGIN_S = 5.0
# While a lease is recalled: how often it is looked whether it is in use, and how often git is asked if it is not.
LOOK_EVERY_S = 0.1
ASK_GIT_EVERY_S = 1.0
TELL_AGAIN_S = 1.0
_EXPLAINED = frozenset({Reason.NOT_LEASED, Reason.LOST, Reason.TREE_NOT_LEASED})


class _Tasks(NamedTuple):
    """What is done for each recall, under the name of its part."""

    doing: set[tuple[str, Recall]]
    nursery: trio.Nursery

    def once(self, part: str, recall: Recall, task: Callable[[Recall], Awaitable[None]]) -> None:
        """Do this part for the recall, unless that is being done."""
        key = (part, recall)
        if key not in self.doing:
            self.doing.add(key)
            self.nursery.start_soon(self._to_the_end, key, recall, task)

    async def _to_the_end(
        self, key: tuple[str, Recall], recall: Recall, task: Callable[[Recall], Awaitable[None]]
    ) -> None:
        try:
            await task(recall)
        finally:
            self.doing.discard(key)


class Recalling:
    """Yields the recalled leases of one mount."""

    def __init__(self, lessee: Lessee, work: Work, gate: ReleaseGate, hook: RecallHook) -> None:
        self._lessee = lessee
        self._recalls = lessee.recalls
        self._work = work
        self._gate = gate
        self._hook = hook
        # Whether the hook was told of a cold one, of those it was told of.
        self._told: WeakKeyDictionary[Recall, bool] = WeakKeyDictionary()

    async def run(self) -> None:
        """See to all recalls, for ever."""
        async with trio.open_nursery() as nursery:
            tasks = _Tasks(set(), nursery)
            while True:
                for recall in self._recalls:
                    self._tell_hook(recall, nursery)
                    if recall.stage in (Stage.ASKED, Stage.STOPPED):
                        tasks.once("yield", recall, self._yield_in_time)
                    elif recall.stage is Stage.BACK and not recall.taken_up:
                        tasks.once("take up", recall, self._take_up)
                await self._lessee.changed()

    def _tell_hook(self, recall: Recall, nursery: trio.Nursery) -> None:
        asked = recall.stage in (Stage.ASKED, Stage.STOPPED)
        if asked and self._told.get(recall) not in (True, recall.cold):
            self._told[recall] = recall.cold
            words = f"{recall.lease_id} is {recall.words()}"
            note(log, Event.RECALLED, words, lease=recall.lease_id, cold=recall.cold)
            left_s = recall.until_s - self._lessee.now_s()
            nursery.start_soon(self._hook.run, recall, 0.0 if recall.cold else left_s)

    # -- giving up ------------------------------------------------------------------------------

    async def _yield_in_time(self, recall: Recall) -> None:
        if await self._is_to_yield(recall):
            await self._yield(recall)

    async def _is_to_yield(self, recall: Recall) -> bool:
        """Wait until writes have stopped; False if the lease stays, or is gone in another way."""
        must_commit = await self._must_commit()
        while recall.stage is Stage.ASKED:
            held = self._lease(recall.lease_id)
            ended = self._lessee.why_ended(recall.lease_id) or ""
            if ended.startswith("released"):
                return False  # by its holder's own wish
            left_s = _left_s(recall, self._lessee.now_s())
            if ended or left_s <= 0 or await self._is_done(held, recall, must_commit=must_commit):
                self._recalls.stop(recall)
                break
            idle = held is not None and self._is_idle(held, must_commit=must_commit)
            with trio.move_on_after(min(left_s, ASK_GIT_EVERY_S if idle else LOOK_EVERY_S)):
                await self._lessee.changed()
        return recall.stage is Stage.STOPPED

    async def _must_commit(self) -> bool:
        """Whether work is to be committed before its lease is given up, and can be."""
        try:
            return self._gate.require != "none" and await self._gate.is_under_git()
        except (VcsError, OSError) as error:
            log.warning("whether the tree is under git cannot be told: %s", error)
            return True

    def _is_idle(self, held: HeldLease, *, must_commit: bool) -> bool:
        """Whether nothing uses the lease, and nothing is known to be uncommitted that must be committed."""
        if self._lessee.is_used(held.token):
            return False
        return not (must_commit and self._work.intents.dirty_of(held.token))

    async def _is_done(self, held: HeldLease | None, recall: Recall, *, must_commit: bool) -> bool:
        """Whether the lease can be given up now; nothing is awaited between the last look and the answer."""
        if held is None or not self._is_idle(held, must_commit=must_commit):
            return False
        if must_commit and held.mode is Mode.EXCLUSIVE and await self._gate.in_the_way(held):
            return False
        return recall.stage is Stage.ASKED and self._is_idle(held, must_commit=must_commit)

    async def _yield(self, recall: Recall) -> None:
        """Keep what is uncommitted, and give the lease back."""
        dirty = "refuse"
        if recall.held is not None:
            recall.rescue = await self._work.keep_and_end(recall.held, recall.words())
            dirty = "rescued" if recall.rescue else "refuse"
            if self._work.intents.dirty_of(recall.held.token):
                dirty = "keep"  # it could not be rescued, but stays in the tree, and the agent's
        await self._give_back(recall, dirty)
        self._recalls.given_back(recall)

    async def yielded(self, lease_id: str) -> None:
        """Wait until a lease that is recalled was given back, if it is; what was done under it is kept by then."""
        recall = self._recalls.of(lease_id)
        while recall is not None and recall.stage in (Stage.ASKED, Stage.STOPPED):
            await self._lessee.changed()

    async def _give_back(self, recall: Recall, dirty: str) -> None:
        """Tell the ledger, as often as it takes."""
        commit, key = await self._work.head(), new_key()
        while True:
            try:
                # First the rescue: work that nobody knows to be kept would be in the way.
                await self._work.flush()
                await self._lessee.release(
                    recall.lease_id, key, dirty=dirty, commit=commit, again=True
                )
                return
            except LedgerUnavailable as error:
                log.info("%s: %s", recall.lease_id, error.message)
                await trio.sleep(TELL_AGAIN_S)
            except Dirty:
                dirty, key = "keep", new_key()
            except LeasefsError as error:
                log.info("%s needs not be given up any more: %s", recall.lease_id, error.message)
                return

    # -- getting back ---------------------------------------------------------------------------

    async def _take_up(self, recall: Recall) -> None:
        """What still lies in the tree as it was left is its holder's uncommitted work again."""
        lease = self._lease(recall.again)
        recall.taken_up = True
        recall.rescue = recall.rescue or self._work.rescue_of(recall.lease_id)
        if lease is None or not recall.rescue:
            return
        try:
            left = await self._work.take_up(recall.rescue, lease)
        except (LeasefsError, VcsError, OSError) as error:
            log.warning("what became of rescue %s cannot be told: %s", recall.rescue, error)
        else:
            recall.in_tree, recall.changed = left

    def _lease(self, lease_id: str) -> HeldLease | None:
        leases = self._lessee.view.leases
        return next((one for one in leases if one.lease_id == lease_id), None)

    # -- saying so ------------------------------------------------------------------------------

    def explain(self, refused: Refused) -> str:
        """What a refused process is told of ground that was recalled; "" if that is not why."""
        if refused.reason not in _EXPLAINED:
            return ""
        recall = self._recalls.away(refused.path)
        if recall is None:
            return ""
        if recall.goes_to:
            return f"{recall.words()}; it goes back to {recall.goes_to}, out of which it was delegated to you"
        back = f"it comes back to you as {recall.again}" if recall.again else "it comes back to you"
        return f"{recall.words()}; {back} when they are done: leasefs queue"


def _left_s(recall: Recall, now_s: float) -> float:
    """How long writes may go on: until so long before the deadline that there is time to keep what is uncommitted."""
    margin_s = min(LONGEST_MARGIN_S, MARGIN_SHARE * recall.within_s)
    return recall.until_s - margin_s - now_s
