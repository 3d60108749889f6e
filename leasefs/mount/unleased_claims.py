"""Leases that writes claim, by the unleased policies `claim` and `wait`.

A write that no lease covers asks for its ground here, and is attempted again once it is granted. Whoever wants the
same ground at the same moment shares one claim; claims that come up while another one is on its way to the ledger go
in one request. What is granted is given back by `unleased_leases`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import trio

from leasefs.client import api
from leasefs.client.ids import new_key
from leasefs.core.errors import Deadlock, LeasefsError, LedgerUnavailable
from leasefs.core.lease import SESSION_TTL_S
from leasefs.core.unleased_ground import ground_for, ground_of_files
from leasefs.mount.unleased_asking import ANSWER_WITHIN_S, Obtaining, WriteClaim

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from leasefs.client.lessee import Lessee
    from leasefs.core.held import HeldLease
    from leasefs.mount.gate import Unsettled
    from leasefs.mount.unleased_leases import WriteLeases
    from leasefs.mount.unleased_policy import Settings

log = logging.getLogger(__name__)

NOTE = "claimed by a write"
# The ledger may be started again meanwhile.
RETRY_S = 0.3
# A thread that is told to look again does so at once, but may have to wait for its turn on the processor.
BACK_WITHIN_S = 2.0
_IN_ONE_REQUEST = 256
_ASK_WITHIN_S = 1.0
# Why a claim left the queue, as its own agent or an operator would have it.
_ON_PURPOSE = "released", "withdrawn by"


class UnleasedClaims:
    """Claims ground for writes, and gives it back. All of it on the trio thread."""

    def __init__(
        self,
        lessee: Lessee,
        settings: Settings,
        leases: WriteLeases,
        is_own: Callable[[bytes], bool] = lambda _: False,
        share_of: Callable[[Iterable[str]], Awaitable[float]] | None = None,
    ) -> None:
        """Nothing is claimed yet.

        Args:
            lessee: the session.
            settings: what the policy is.
            leases: those that were granted here.
            is_own: whether a path was changed through this mount, and is not committed.
            share_of: the part of all files under these globs; without it, none.
        """
        self.settings = settings
        self.leases = leases
        self._is_own = is_own
        self._share_of = share_of
        self.stopped = trio.Event()
        self._lessee = lessee
        self._claims: dict[tuple[str, ...], WriteClaim] = {}
        self._unsent: list[WriteClaim] = []
        self._to_send = trio.Event()
        self._waiting: dict[str, WriteClaim] = {}
        # Threads that look again, and what is kept in place for each meanwhile.
        self._coming_back: dict[int, list[int]] = {}
        self._jobs, self._to_do = trio.open_memory_channel[Callable[[], Awaitable[None]]](math.inf)

    def now_s(self) -> float:
        """CLOCK_BOOTTIME seconds."""
        return self._lessee.now_s()

    async def run(self) -> None:
        """Claim, for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send)
            nursery.start_soon(self._follow_waiting)
            async for job in self._to_do:
                nursery.start_soon(job)

    # -- for requests --------------------------------------------------------------------------

    def begin(self, pid: int) -> Obtaining:
        """A request of this thread begins to ask."""
        return Obtaining(self, pid)

    def ground(self, unsettled: Unsettled, pid: int) -> tuple[str, ...]:
        """What to claim for what this thread wants; nothing if no claim could help."""
        return ground_for(
            unsettled.refused.op,
            unsettled.targets,
            self._lessee.view,
            self.now_s(),
            self.settings.regions,
            pid,
        )

    def returning(self, path: bytes) -> bool:
        """Whether a recall took the path, and it is on its way back."""
        return self._lessee.recalls.away(path) is not None

    async def before_return(self, path: bytes) -> Sequence[Mapping[str, Any]]:
        """What stands before its return, as far as that is known."""
        recall = self._lessee.recalls.away(path)
        return () if recall is None or not recall.again else await self._blockers(recall.again)

    async def until_changed(self, until_s: float) -> None:
        """Wait until leases came or went, or it is that late."""
        with trio.move_on_after(max(0.0, until_s - self.now_s())):
            async with trio.open_nursery() as nursery:
                for either in (self._lessee.changed, self.stopped.wait):
                    nursery.start_soon(_until, either, nursery.cancel_scope)

    def stop(self) -> None:
        """See `leasefs.mount.gate.Obtainer`."""
        self.stopped.set()
        for claim in [*self._claims.values(), *self._waiting.values()]:
            self._finish(claim, LeasefsError("the mount is going"))

    def comes_back(self, pid: int, tokens: Sequence[int]) -> None:
        """The thread finds something else at the name than it came for, and looks again: its leases are kept for it.

        Else others would get their turn between its look and its open, and replace what it is about to write.
        """
        if tokens:
            self._coming_back.setdefault(pid, []).extend(tokens)
            self._jobs.send_nowait(partial(self._give_up, pid))

    def came_back(self, pid: int) -> None:
        """See `leasefs.mount.gate.Obtainer`."""
        self.leases.unpin_all(self._coming_back.pop(pid, ()))

    async def _give_up(self, pid: int) -> None:
        await trio.sleep(BACK_WITHIN_S)
        self.came_back(pid)

    async def take_back(self, paths: Collection[bytes]) -> None:
        """See `leasefs.mount.gate.Obtainer`."""
        if not self.settings.policy.claims or not all(map(self._is_own, paths)):
            return
        within_s = self.settings.wait_s if self.settings.policy.waits else ANSWER_WITHIN_S
        with trio.move_on_after(within_s):
            for globs in ground_of_files(sorted(paths), self.settings.regions):
                claim = self.join(globs)
                try:
                    await claim.done.wait()
                finally:
                    self.leave(claim)

    def join(self, globs: tuple[str, ...]) -> WriteClaim:
        """Ask for this ground, or be one more who asks for it."""
        claim = self._claims.get(globs)
        if claim is None:
            claim = self._claims[globs] = WriteClaim(globs)
            self._ask(claim)
        claim.users += 1
        return claim

    def leave(self, claim: WriteClaim) -> None:
        """One of those who asked for it is gone. After the last one a claim that waits is withdrawn."""
        claim.users -= 1
        if claim.users == 0:
            if self._claims.get(claim.globs) is claim:
                del self._claims[claim.globs]
            if self._waiting.pop(claim.lease_id, None) is not None:
                self._jobs.send_nowait(partial(self._withdraw, claim.lease_id))

    async def in_the_way(self, claim: WriteClaim) -> Sequence[Mapping[str, Any]]:
        """What stands before a claim that waits, as its answer has it: now, or if that is not told, at first."""
        now = await self._blockers(claim.lease_id) if claim.lease_id else ()
        return now or claim.blockers

    async def _blockers(self, lease_id: str) -> Sequence[Mapping[str, Any]]:
        with trio.move_on_after(_ASK_WITHIN_S), suppress(LeasefsError):
            answer = await self._lessee.waited(lease_id, 0.0)
            return answer.get("waits_for") or ()
        return ()

    # -- claiming ------------------------------------------------------------------------------

    def _ask(self, claim: WriteClaim) -> None:
        self._unsent.append(claim)
        self._to_send.set()

    async def _send(self) -> None:
        while True:
            await self._to_send.wait()
            self._to_send = trio.Event()
            while self._unsent:
                some = self._unsent[:_IN_ONE_REQUEST]
                claims = [one for one in some if one.users or self._may_be_known(one)]
                del self._unsent[:_IN_ONE_REQUEST]
                if claims:
                    await self._send_some(claims)

    def _may_be_known(self, claim: WriteClaim) -> bool:
        """Whether the ledger may keep ground, or a place, for a claim that nobody waits for any more."""
        return claim.asked_s is not None and self.now_s() - claim.asked_s < SESSION_TTL_S

    async def _send_some(self, claims: list[WriteClaim]) -> None:
        calls = [self._call(claim) for claim in claims]
        answers: Sequence[api.Body | LeasefsError]
        try:
            if len(calls) > 1:
                answers = await self._lessee.claim_together(calls)
            else:
                answers = [await self._lessee.claim(calls[0])]
        except LeasefsError as error:
            answers = [error] * len(claims)
        for claim, answer in zip(claims, answers, strict=True):
            if isinstance(answer, LeasefsError):
                self._refused(claim, answer)
            else:
                self._answered(claim, answer)

    def _call(self, claim: WriteClaim) -> api.Call:
        settings = self.settings
        claim.asked_s = self.now_s() if claim.asked_s is None else claim.asked_s
        return api.claim(
            claim.globs,
            key=claim.key,
            ttl_s=settings.ttl_s,
            wait=settings.policy.waits,
            note=NOTE,
            share=claim.share,
        )

    def _answered(self, claim: WriteClaim, answer: api.Body) -> None:
        claim.lease_id, claim.held_up = answer["lease"], None
        if answer["state"] == "waiting":
            claim.blockers = answer.get("waits_for") or ()
            self._waiting[claim.lease_id] = claim
            self._find_granted()
            if not claim.users:
                self.leave_unwanted(claim)
        elif answer["state"] == "ended":
            # It renewed what was on its way back, say.
            self._begin_anew(claim)
        else:
            # Claiming what is held already renews it: that is not ours to give back.
            asked_s, held_s = claim.asked_s or 0.0, answer.get("held_for_s") or 0.0
            is_new = answer["note"] == NOTE and held_s <= self.now_s() - asked_s
            self._granted(claim, asked_s, is_new=is_new)

    def leave_unwanted(self, claim: WriteClaim) -> None:
        """Nobody waited any more when the answer came."""
        claim.users += 1
        self.leave(claim)

    def _granted(
        self, claim: WriteClaim, asked_s: float | None = None, *, is_new: bool = True
    ) -> None:
        lease = self._held(claim.lease_id)
        if lease is None:
            why = self._lessee.why_ended(claim.lease_id) or "it is over again"
            self._finish(claim, LeasefsError(f"{claim.lease_id} was granted, but {why}"))
            return
        claim.token = lease.token
        if is_new:
            self.leases.granted(lease, asked_s)
        self._finish(claim, None)

    def _held(self, lease_id: str) -> HeldLease | None:
        return next((one for one in self._lessee.view.leases if one.lease_id == lease_id), None)

    def _finish(self, claim: WriteClaim, error: LeasefsError | None) -> None:
        claim.error = error
        if self._claims.get(claim.globs) is claim:
            del self._claims[claim.globs]
        claim.done.set()

    def _refused(self, claim: WriteClaim, error: LeasefsError) -> None:
        if isinstance(error, Deadlock):
            self._jobs.send_nowait(partial(self._let_go_and_ask_again, claim, error))
        elif error.details.get("needs") == "share" and claim.share is None:
            self._jobs.send_nowait(partial(self._ask_with_share, claim))
        elif "max_leases" in error.details:
            self._jobs.send_nowait(partial(self._make_room, claim, error))
        elif isinstance(error, LedgerUnavailable):
            if not self.settings.policy.waits:
                self._finish(claim, error)
            self._jobs.send_nowait(partial(self._ask_later, claim))
        else:
            self._finish(claim, error)

    async def _ask_with_share(self, claim: WriteClaim) -> None:
        claim.share = 0.0 if self._share_of is None else await self._share_of(claim.globs)
        claim.begin_anew()
        self._ask(claim)

    def _begin_anew(self, claim: WriteClaim) -> None:
        claim.begin_anew()
        self._jobs.send_nowait(partial(self._ask_later, claim))

    async def _ask_later(self, claim: WriteClaim) -> None:
        await trio.sleep(RETRY_S)
        self._ask(claim)

    async def _let_go_and_ask_again(self, claim: WriteClaim, error: Deadlock) -> None:
        """Of what is in the way of others, all that is not used right now is given back; then once more."""
        if not await self.leases.let_idle_go():
            self._finish(claim, error)
            return
        claim.begin_anew()
        try:
            self._answered(claim, await self._lessee.claim(self._call(claim)))
        except Deadlock as again:
            self._finish(claim, again)
        except LeasefsError as again:
            self._refused(claim, again)

    async def _make_room(self, claim: WriteClaim, error: LeasefsError) -> None:
        """The agent has as many leases as it may: what nothing uses right now is given back, then once more.

        A file that was closed is still known as open for a moment. With `wait`, the write waits for the agent's others.
        """
        first, claim.held_up = claim.held_up is None, error
        if not first and not self.settings.policy.waits:
            self._finish(claim, error)
            return
        if not await self.leases.let_idle_go() or not first:
            await trio.sleep(RETRY_S)
            await self.leases.let_idle_go()
        claim.begin_anew()
        self._ask(claim)

    async def _follow_waiting(self) -> None:
        while True:
            self._find_granted()
            self.leases.find_back()
            await self._lessee.changed()

    def _find_granted(self) -> None:
        for lease_id, claim in list(self._waiting.items()):
            if self._held(lease_id) is not None:
                del self._waiting[lease_id]
                self._granted(claim)
            elif (why := self._lessee.why_ended(lease_id)) is not None:
                del self._waiting[lease_id]
                self._waits_no_more(claim, why)

    def _waits_no_more(self, claim: WriteClaim, why: str) -> None:
        """Somebody took it out of the queue on purpose, or the ledger did not know that its mount still lives."""
        if why.startswith(_ON_PURPOSE):
            self._finish(claim, LeasefsError(f"{claim.lease_id} waits no more: {why}"))
        else:
            self._begin_anew(claim)

    async def _withdraw(self, lease_id: str) -> None:
        """Nobody waits for it any more; if it was granted just now, it is given back."""
        try:
            await self._lessee.release(lease_id, new_key(), dirty="hand-on")
        except LeasefsError as error:
            log.info("%s needs no withdrawal: %s", lease_id, error.message)


async def _until(event: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
    await event()
    scope.cancel()
