"""The heartbeat loop: one request at a time renews what is used, and says that the session lives.

A round that is asked for while another one is on its way waits for the next, and all who ask share it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from leasefs.client import api
from leasefs.client.log_events import Event, note
from leasefs.client.pauses import Pauses
from leasefs.core.errors import LeasefsError, LedgerUnavailable, SessionEnded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from typing import Any

    from leasefs.client.downgrades import Downgrades
    from leasefs.client.recalls import Recalls
    from leasefs.client.transport import Transport
    from leasefs.client.trust import Trust
    from leasefs.client.uses import Uses
    from leasefs.core.clock import Clock
    from leasefs.core.held import HeldLease

log = logging.getLogger(__name__)

# How many leases one request names, so that what keeps them alive fits into its body (1 MiB) with them.
IN_ONE_BEAT = 100
# The ledger calls a session silent after 90 s.
SESSION_BEAT_S = 20.0
# A write waits at most this long for a lapsed lease to be confirmed (P5), then it is refused.
REVALIDATE_S = 2.0
_TIMEOUT_S = (0.5, 5.0)
_RETRY = Pauses(0.1, 2.0)


class _Round:
    """One round of the loop: `done`, and what it failed with if it did."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.error: LeasefsError | None = None


class Heartbeats:
    """Keeps one session and its leases alive, and learns by it what is lost."""

    def __init__(
        self,
        session: str,
        transport: Transport,
        trust: Trust,
        uses: Uses,
        recalls: Recalls,
        downgrades: Downgrades,
        clock: Clock,
        ended: Callable[[str], Awaitable[None]],
    ) -> None:
        """`ended` is awaited with the reason when the ledger no longer knows the session."""
        self._session = session
        self._transport = transport
        self._trust = trust
        self._uses = uses
        self._recalls = recalls
        self._downgrades = downgrades
        self._clock = clock
        self._ended = ended
        self._heard: dict[str, tuple[Mapping[str, Any], int]] = {}
        self._asked: set[str] = set()
        self._dropped: dict[str, None] = {}
        self._now = False
        self._wake = trio.Event()
        self._next_round = _Round()
        self._beat_at_s = float("-inf")
        self._failures = 0
        self._not_before_s = float("-inf")
        self.reachable = True

    @property
    def beat_at_s(self) -> float:
        """When the last heartbeat was sent that was answered; minus infinity if none was."""
        return self._beat_at_s

    def wake(self) -> None:
        """Look again at what is due."""
        self._wake.set()

    def beat_soon(self) -> None:
        """Send a heartbeat now, whatever is due."""
        self._now = True
        self._wake.set()

    def retry_now(self) -> None:
        """The ledger is back: do not wait for the next attempt."""
        self._failures, self._not_before_s = 0, float("-inf")
        self.beat_soon()

    def heard_granted(self, claim: Mapping[str, Any], token: int) -> None:
        """A claim of ours is said to be granted: ask, and trust from that asking (P3)."""
        self._heard[claim["id"]] = (claim, token)
        self.beat_soon()

    def drop(self, lease_id: str) -> None:
        """Tell the ledger that this revoked lease is no longer trusted, so that its ground opens."""
        self._dropped[lease_id] = None
        self.beat_soon()

    def ask_about(self, lease_id: str) -> None:
        """Renew this one now: the answer says how long it may still be held."""
        self._asked.add(lease_id)
        self.beat_soon()

    async def renew(self, lease_ids: Iterable[str]) -> LeasefsError | None:
        """Renew these in the next round, used or not; returns what that failed with, None if answered."""
        self._asked.update(lease_ids)
        self.beat_soon()
        next_round = self._next_round
        await next_round.done.wait()
        return next_round.error

    async def revalidate(self) -> None:
        """Ask about every lease that is no longer trusted; returns after 2 s at most."""
        now_s = self._clock.now_s()
        lapsed = [
            lease.lease_id for lease in self._trust.view.leases if now_s >= lease.trusted_until_s
        ]
        with trio.move_on_after(REVALIDATE_S):
            await self.renew(lapsed)

    async def run(self) -> None:
        """Beat for ever. No refusal and no silence of the ledger ends it."""
        while True:
            await self._until_due()
            self._now = False
            this_round, self._next_round = self._next_round, _Round()
            try:
                await self._round()
                self._back()
                self._failures, self._not_before_s, self.reachable = 0, float("-inf"), True
            except SessionEnded as error:
                this_round.error = error
                self._failed(error)
                await self._ended(error.message)
            except LeasefsError as error:
                this_round.error = error
                self._failed(error)
            finally:
                this_round.done.set()

    async def _until_due(self) -> None:
        while True:
            self._wake = trio.Event()
            wait_s = max(self._due_at_s(), self._not_before_s) - self._clock.now_s()
            if wait_s <= 0:
                return
            with trio.move_on_after(wait_s):
                await self._wake.wait()

    def _due_at_s(self) -> float:
        if self._now:
            return float("-inf")
        leases_s = self._uses.next_due_s(self._trust.view.leases)
        return min(leases_s, self._beat_at_s + SESSION_BEAT_S)

    def _back(self) -> None:
        if self._failures:
            words = f"the ledger answers again, after {self._failures} heartbeats in vain"
            note(log, Event.LEDGER_BACK, words, failures=self._failures)

    def _failed(self, error: LeasefsError) -> None:
        if not self._failures:
            note(log, Event.LEDGER_LOST, f"no heartbeat: {error.message}", code=error.code)
        wait_s = _RETRY.after_s(self._failures)
        self._failures += 1
        self._not_before_s = self._clock.now_s() + wait_s
        self.reachable = not isinstance(error, LedgerUnavailable)

    async def _round(self) -> None:
        asked, self._asked = self._asked, set()
        leases = self._chosen(asked)
        heard, dropped = dict(self._heard), list(self._dropped)
        await self._send(leases[:IN_ONE_BEAT], heard, dropped)
        for lease_id in dropped:
            self._dropped.pop(lease_id, None)
        for start in range(IN_ONE_BEAT, len(leases), IN_ONE_BEAT):
            await self._send(leases[start : start + IN_ONE_BEAT], {}, [])

    async def _send(
        self,
        leases: list[HeldLease],
        heard: dict[str, tuple[Mapping[str, Any], int]],
        dropped: list[str],
    ) -> None:
        renew = [self._beat(lease) for lease in leases]
        renew += [
            {"lease": id_, "token": token, "kept_by": []} for id_, (_, token) in heard.items()
        ]
        sent_s = self._clock.now_s()
        used = self._uses.sent(lease.token for lease in leases)
        try:
            answer = await self._transport.send(
                api.heartbeat(self._session, renew, dropped), timeout_s=self._timeout_s()
            )
        except BaseException:
            self._uses.unsent(used)
            raise
        self._beat_at_s = sent_s
        tokens = {beat["lease"]: beat["token"] for beat in renew}
        self._take(answer, heard, tokens, sent_s)

    def _chosen(self, asked: set[str]) -> list[HeldLease]:
        view, now_s = self._trust.view, self._clock.now_s()
        due = {lease.token for lease in self._uses.due(view.leases, now_s)}
        return [lease for lease in view.leases if lease.token in due or lease.lease_id in asked]

    def _beat(self, lease: HeldLease) -> api.Body:
        kept_by = self._uses.kept_by(lease.token)
        return {"lease": lease.lease_id, "token": lease.token, "kept_by": kept_by}

    def _timeout_s(self) -> float:
        least_ttl_s = min((lease.ttl_s for lease in self._trust.view.leases), default=60.0)
        return max(_TIMEOUT_S[0], min(_TIMEOUT_S[1], least_ttl_s / 3))

    def _is_renamed(self, lease_id: str, tokens: Mapping[str, int]) -> bool:
        """Whether only the token that was sent is lost: the lease has another one since it is shared."""
        lease = self._trust.lease(lease_id)
        if lease is None:
            return False
        return self._downgrades.in_doubt(lease_id) or lease.token != tokens.get(lease_id)

    def _take(
        self,
        answer: api.Body,
        heard: dict[str, tuple[Mapping[str, Any], int]],
        tokens: Mapping[str, int],
        sent_s: float,
    ) -> None:
        for renewal in answer["renewed"]:
            token = renewal["token"]
            claim, heard_token = heard.get(renewal["lease"], ({}, 0))
            if heard_token == token:
                self._trust.confirmed(claim, token, renewal["ttl_s"], sent_s)
            self._uses.renewed(token, sent_s)
            if renewal.get("recall"):
                self._recalls.told(renewal["lease"], renewal["recall"], sent_s)
        self._trust.renewed(answer["renewed"], sent_s)
        for loss in answer["lost"]:
            if not self._is_renamed(loss["lease"], tokens):
                self._trust.taken(loss["lease"], loss["reason"])
        for lease_id in heard:
            self._heard.pop(lease_id, None)
