"""The lessee: one session of one agent, as its mount sees it (the mount's `Holdings`).

What stands where: `trust` what is held and until when (P3), `uses` what keeps it alive (P4), `heartbeats`
and `own_events` the two loops that talk to the ledger, `refusal_report` the third, which only tells; `adopting`
how leases come into the view, `leaving` how they go.
The ledger may be away, stopped, or started anew at any time: writes go on inside trust (P12), nothing
new is granted, and when it is back the same session goes on with the same id and secret.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from leasefs.client import api, api_scheduling
from leasefs.client.adopting import Adopting
from leasefs.client.delegations import Delegations
from leasefs.client.downgrades import Downgrades
from leasefs.client.heartbeats import Heartbeats
from leasefs.client.leaving import Leaving
from leasefs.client.own_events import OwnEvents
from leasefs.client.recalls import Recalls
from leasefs.client.refusal_report import RefusalReport
from leasefs.client.trust import Trust
from leasefs.client.uses import Uses
from leasefs.core.errors import LeasefsError, SessionEnded, UnknownLease

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from leasefs.client.ids import Credentials
    from leasefs.client.transport import Transport
    from leasefs.core.carving import Carved
    from leasefs.core.clock import Clock
    from leasefs.core.held import HeldView
    from leasefs.core.policy import RefusalRecord

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 10.0


class Identity(NamedTuple):
    """Who a session is for and what runs it; the fields of `api.open_session`."""

    agent: str
    harness: str
    territory: str
    kind: str
    host: str
    pid: int
    process: str


class Lessee:
    """Holds leases for one session. Everything but the coroutines is called on the trio thread."""

    def __init__(
        self,
        identity: Identity,
        credentials: Credentials,
        transport: Transport,
        clock: Clock,
        revive: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.identity = identity
        self.session = credentials.session
        self._credentials = credentials
        self._transport = transport
        self._clock = clock
        self._trust = Trust(self._changed)
        self._uses = Uses(lambda: self._heartbeats.wake(), clock.now_s)
        # Each change asks for these, so whoever has them answers: CLOCK_BOOTTIME seconds, on which trust ends;
        # a change was made under a lease just now; a handle that was open for writing is closed.
        self.now_s: Callable[[], float] = clock.now_s
        self.wrote: Callable[[int], None] = self._uses.wrote
        self.writer_closed: Callable[[int], None] = self._uses.end
        self.recalls = Recalls(self._trust, clock.now_s, self._wake)
        self.delegations = Delegations(
            self.session, identity.territory, self._trust, self._send, self._wake
        )
        self.downgrades = Downgrades(self._trust, self._send, clock.now_s)
        self._heartbeats = Heartbeats(
            self.session,
            transport,
            self._trust,
            self._uses,
            self.recalls,
            self.downgrades,
            clock,
            self._session_ended,
        )
        self._adopting = Adopting(self.session, self._trust, self._uses, self._heartbeats, clock)
        self._leaving = Leaving(self._trust, self._heartbeats, self._send, self.waited)
        self._events = OwnEvents(
            self.session,
            transport,
            self._trust,
            self._heartbeats,
            self.recalls,
            self.delegations,
            self.downgrades,
            granted=self._adopting.heard_granted,
            revoked=self._leaving.heard_revoked,
            foreign=lambda fact: self.heard_foreign(fact),
            wanted=lambda claim: self.heard_wanted(claim),
            back=self._ledger_is_back,
            revive=revive,
        )
        self._refusals = RefusalReport(transport, clock)
        self._over = False
        # Hears that the ledger knew the session no more, and perhaps nothing of what it was told in it; it is open again.
        self.begun_anew: Callable[[], None] = lambda: None
        self._change = trio.Event()
        # Hears of foreign writes on this session's ground, as `core.events.ForeignWrites` has them.
        self.heard_foreign: Callable[[Mapping[str, Any]], None] = lambda _: None
        # Hears of claims of others that wait for what this session holds, or waits for itself.
        self.heard_wanted: Callable[[Mapping[str, Any]], None] = lambda _: None

    def guard_ground(
        self,
        before_adopting: Callable[[list[str]], Awaitable[None]],
        before_leaving: Callable[[str], Awaitable[None]],
    ) -> None:
        """Have ground seen to at both ends.

        Args:
            before_adopting: awaited with the globs of each new exclusive lease before anything is written under it.
            before_leaving: awaited with each revoked lease before its ground opens; nothing is written under it then.
        """
        self._adopting.before = self.delegations.before = before_adopting
        self._leaving.before = before_leaving

    # -- Holdings -------------------------------------------------------------------------------

    @property
    def view(self) -> HeldView:
        """What is held now."""
        return self._trust.view

    def writer_opened(self, token: int, path: bytes, pid: int) -> int:
        """A handle is open for writing under this lease (P4)."""
        return self._uses.begin(token, pid, path)

    async def revalidate(self) -> None:
        """Ask the ledger about every lapsed lease; returns after 2 s at most."""
        await self._heartbeats.revalidate()

    def refused(self, refusal: RefusalRecord) -> None:
        """For the ledger's history; never blocks."""
        self._refusals.add(refusal)

    def when_given(self, call: Callable[[Carved], None]) -> None:
        """Have `call` hear of each part of our ground that is given away for certain."""
        self.delegations.given = call

    # -- the session ----------------------------------------------------------------------------

    async def open(self, *, replace: bool = False) -> None:
        """Begin the session.

        Raises:
            AgentBusy: if the agent has a live session and `replace` is not set.
            LedgerUnavailable: if the ledger does not answer.
        """
        status = await self._send(api.status())
        await self._open(replace=replace)
        self._events.seq = status["seq"]

    async def run(self) -> None:
        """Keep the session and its leases; never returns and no failure of the ledger ends it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._heartbeats.run)
            nursery.start_soon(self._events.run)
            nursery.start_soon(self._refusals.run)
            nursery.start_soon(self._leaving.run)
            nursery.start_soon(self._adopting.run)
            nursery.start_soon(self.delegations.run)
            nursery.start_soon(self.downgrades.run)

    async def end(self, within_s: float = 2.0, *, keep: bool = False) -> None:
        """End the session, its leases are free at once; given up after `within_s`.

        With `keep` only our side of it ends: its leases run out, or end when the agent's next session begins.
        """
        self._trust.lost_all("the session has ended")
        with trio.move_on_after(within_s):
            try:
                await self._refusals.flush()
                if keep:
                    return
                await self._send(api.end_session(self.session))
            except LeasefsError as error:
                log.warning("the session could not be ended: %s", error.message)

    async def changed(self) -> None:
        """Wait until a lease came or went, or something was heard of a recall."""
        await self._change.wait()

    @property
    def ledger_reachable(self) -> bool:
        """Whether the last heartbeat was answered."""
        return self._heartbeats.reachable

    @property
    def heard_ago_s(self) -> float:
        """How long ago the last heartbeat was sent that was answered; infinity if none was."""
        return self.now_s() - self._heartbeats.beat_at_s

    def kept_by(self, token: int) -> list[str]:
        """What keeps this lease alive, for people."""
        return self._uses.kept_by(token)

    def why_ended(self, lease_id: str) -> str | None:
        """Why a lease that this session held is no longer."""
        return self._trust.why_ended(lease_id)

    # -- leases ---------------------------------------------------------------------------------

    async def claim(self, call: api.Call) -> api.Body:
        """Send an `api.claim`. What is granted is in the view before this returns.

        Raises:
            LeasefsError: what the ledger refused, or that it is away; then nothing is granted (P12).
        """
        sent_s = self._clock.now_s()
        with self._adopting.claiming():
            answer = await self._send(call)
            if answer["state"] == "waiting":
                self._adopting.waits(answer["lease"], sent_s)
            settled = await self._adopting.settled(answer, sent_s)
        # What is held is renewed by claiming it again, also if it is on its way back.
        if settled["state"] == "ended" and await self._leaving.reached_ledger(settled["lease"]):
            return await self.claim(call)
        return settled

    async def claim_together(self, calls: Sequence[api.Call]) -> list[api.Body | LeasefsError]:
        """Send many at once, each decided on its own; what is refused stands in its place.

        Raises:
            LeasefsError: none of them was decided.
        """
        sent_s = self._clock.now_s()
        with self._adopting.claiming():
            asked = [{"op": "claim", **(call.body or {})} for call in calls]
            answers = (await self._send(api.batch(asked)))["answers"]
            decided = [api.decided(one["status"], one["body"]) for one in answers]
            granted = [one for one in decided if not isinstance(one, LeasefsError)]
            for answer in granted:
                if answer["state"] == "waiting":
                    self._adopting.waits(answer["lease"], sent_s)
            settled = iter(await self._adopting.settled_together(granted, sent_s))
            return [one if isinstance(one, LeasefsError) else next(settled) for one in decided]

    async def claim_regions(self, call: api.Call) -> api.Body:
        """Send an `api_scheduling.claim_regions`. All that is granted is in the view before this returns.

        Raises:
            LeasefsError: as for `claim`.
        """
        sent_s = self._clock.now_s()
        with self._adopting.claiming():
            leases = (await self._send(call))["leases"]
            settled = await self._adopting.settled_together(leases, sent_s)
        for one in settled:
            if isinstance(one, LeasefsError):
                raise one
        return {"leases": settled}

    async def waited(self, lease_id: str, wait_s: float) -> api.Body:
        """`api.lease` for a claim of this session: what is granted is in the view before this returns."""
        sent_s = self._clock.now_s()
        answer = await self._send(api.lease(lease_id, wait_s=wait_s))
        return await self._adopting.settled(answer, sent_s)

    async def release(
        self,
        lease_id: str,
        key: str,
        *,
        require: str = "committed",
        dirty: str = "refuse",
        note: str = "",
        commit: str = "",
        again: bool = False,
    ) -> api.Body:
        """Give a lease back: nothing is written under it from this moment, whatever the ledger says.

        What is said beside the key is as in `api.release`; whoever asks has made sure of it.

        Raises:
            LedgerUnavailable: if the ledger is away; it is told when it is back.
            LeasefsError: what the ledger refused.
        """
        call = api.release(
            lease_id, key=key, require=require, dirty=dirty, note=note, commit=commit, again=again
        )
        return await self._leaving.release(lease_id, call)

    async def more_time(self, lease_id: str, extra_s: float, key: str) -> api.Body:
        """Ask for more time to give up a lease that is recalled (LeaseAnswer). Raises LeasefsError."""
        sent_s = self._clock.now_s()
        answer = await self._send(api_scheduling.more_time(lease_id, extra_s, key=key))
        if answer.get("recall"):
            self.recalls.told(lease_id, answer["recall"], sent_s)
        return answer

    async def renew_all(self) -> api.Body:
        """Renew everything held, used or not: a HeartbeatAnswer.

        Raises:
            LeasefsError: the ledger did not answer, or did not take the heartbeat; what it ended is lost.
        """
        before = self.view.leases
        error = await self._heartbeats.renew(lease.lease_id for lease in before)
        if error is not None and not isinstance(error, SessionEnded):
            raise error
        kept = [lease for lease in before if lease.token in self.view.by_token]
        gone = [lease.lease_id for lease in before if lease.token not in self.view.by_token]
        return {
            "renewed": [
                {"lease": lease.lease_id, "token": lease.token, "ttl_s": lease.ttl_s}
                for lease in kept
            ],
            "lost": [{"lease": id_, "reason": self.why_ended(id_) or "lost"} for id_ in gone],
        }

    def use(self, lease_id: str, pid: int, program: str) -> tuple[int, int]:
        """Keep a lease in use until `stop_using` (P4); returns its token and the use's id.

        Raises:
            UnknownLease: if it is not held.
        """
        lease = self._trust.lease(lease_id)
        if lease is None:
            raise UnknownLease(lease_id)
        return lease.token, self._uses.begin(lease.token, pid, "", program)

    def last_used_s(self, token: int) -> float:
        """When this lease was used last: infinity if it is now, less than any time if it never was."""
        return self._uses.last_s(token)

    def when_rested(self, call: Callable[[int], None]) -> None:
        """Have `call` hear the token of each lease that is used no more."""
        self._uses.rested = call

    def is_used(self, token: int) -> bool:
        """Whether a write handle under this lease is open, or something else uses it right now."""
        return self._uses.is_open(token)

    def stop_using(self, use_id: int) -> None:
        """That use is over."""
        self._uses.end(use_id)

    # -- inside ---------------------------------------------------------------------------------

    async def _send(self, call: api.Call) -> api.Body:
        return await self._transport.send(call, timeout_s=REQUEST_TIMEOUT_S)

    async def _ledger_is_back(self) -> None:
        """It gives holders little time to reclaim after a restart, so reclaim first."""
        self._heartbeats.retry_now()
        self.delegations.connected()
        self.downgrades.connected()
        await self._leaving.tell()

    def _changed(self) -> None:
        self._uses.keep_only(self.view.by_token)
        self.recalls.held_changed()
        self._wake()

    def _wake(self) -> None:
        self._change.set()
        self._change = trio.Event()

    async def _open(self, *, replace: bool) -> None:
        who = {**self._credentials._asdict(), **self.identity._asdict()}
        await self._send(api.open_session(**who, replace=replace))

    async def _session_ended(self, reason: str) -> None:
        """The ledger does not know us any more: everything is lost; begin again if we may."""
        self._trust.lost_all(reason)
        self.recalls.forget_all()
        try:
            await self._open(replace=False)
        except LeasefsError as error:
            if not self._over:  # it is tried again and again, perhaps for days
                log.warning("the session is over and cannot be opened again: %s", error.message)
            self._over = True
        else:
            log.warning("the session was unknown to the ledger; opened again without any lease")
            self._over = False
            self.begun_anew()
        self._adopting.begun_anew(reason)
