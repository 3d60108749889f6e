"""Taking over what the ledger grants: at the answer to a claim, or at the news that waiting is over.

The answer to a claim, and the event about the same grant, may come in either order. What was waited for is only heard
of: it was granted after it was claimed, and is trusted from then (P3); or, once that is some time ago, from a heartbeat
of its own.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from leasefs.client.uses import RENEWALS_PER_TTL
from leasefs.core.errors import LeaseLost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from leasefs.client import api
    from leasefs.client.heartbeats import Heartbeats
    from leasefs.client.trust import Trust
    from leasefs.client.uses import Uses
    from leasefs.core.clock import Clock

_REMEMBERED = 1024


class _Heard(NamedTuple):
    """A claim that is said to be granted under this token, and when it was sent; minus infinity if nobody knows."""

    claim: Mapping[str, Any]
    token: int
    sent_s: float


class Adopting:
    """Brings granted leases of one session into its view."""

    def __init__(
        self, session: str, trust: Trust, uses: Uses, heartbeats: Heartbeats, clock: Clock
    ) -> None:
        self._session = session
        self._trust = trust
        self._uses = uses
        self._heartbeats = heartbeats
        self._clock = clock
        # Awaited with the globs of each new exclusive lease before anything is written under it.
        self.before: Callable[[list[str]], Awaitable[None]] | None = None
        self._claims_in_flight = 0
        # Claims that wait, and when each was sent.
        self._waiting: dict[str, float] = {}
        self._heard_early: list[tuple[Mapping[str, Any], int]] = []
        self._adopting, self._to_adopt = trio.open_memory_channel[_Heard](math.inf)

    @contextlib.contextmanager
    def claiming(self) -> Iterator[None]:
        """A claim is on its way: a grant that is heard of meanwhile may be what its answer is about to tell."""
        self._claims_in_flight += 1
        try:
            yield
        finally:
            self._claims_in_flight -= 1
            early, self._heard_early = self._heard_early, []
            for claim, token in early:
                self.heard_granted(claim, token)

    def waits(self, lease_id: str, sent_s: float) -> None:
        """A claim of ours that was sent then waits: no answer will tell of its grant."""
        self._waiting.setdefault(lease_id, sent_s)
        # Those that were withdrawn stay; when an old one was sent proves nothing any more.
        if len(self._waiting) > _REMEMBERED:
            del self._waiting[next(iter(self._waiting))]

    def begun_anew(self, reason: str) -> None:
        """The session is another one for the ledger: what waited in the former one does not any more."""
        waited, self._waiting = self._waiting, {}
        for lease_id in waited:
            self._trust.lost(lease_id, reason)

    async def settled(self, answer: api.Body, sent_s: float) -> api.Body:
        """Take a grant into the view; one that was waited for is confirmed by a heartbeat first.

        Raises:
            LeaseLost: the grant is of another log than the session's.
        """
        if not self._is_grant(answer):
            return answer
        await self._prepare(answer)
        return await self._taken(answer, sent_s)

    async def settled_together(
        self, answers: Iterable[api.Body], sent_s: float
    ) -> list[api.Body | LeaseLost]:
        """The same for many, whose ground is made ready at once; what one would raise stands in its place."""
        answers = list(answers)
        new = [one for one in answers if self._is_grant(one) and self._is_new(one)]
        if self.before is not None and new:
            await self.before([glob for one in new for glob in one["globs"]])
        settled: list[api.Body | LeaseLost] = []
        for answer in answers:
            try:
                taken = await self._taken(answer, sent_s) if self._is_grant(answer) else answer
                settled.append(taken)
            except LeaseLost as error:
                settled.append(error)
        return settled

    def _is_grant(self, answer: api.Body) -> bool:
        return answer["state"] in {"granted", "lapsed"} and answer["session"] == self._session

    async def _taken(self, answer: api.Body, sent_s: float) -> api.Body:
        taken = self._trust.granted(answer, sent_s)
        if taken and answer.get("replaces"):
            self._trust.lost(answer["replaces"], f"upgraded, as {answer['lease']}")
        if not taken and self._trust.why_ended(answer["lease"]) is None:
            raise LeaseLost(
                answer["lease"],
                f"its token {answer['token']} is no newer than earlier ones, so this is not the log that the "
                "mount began with; mount again",
            )
        lease = self._trust.lease(answer["lease"])
        if lease is not None and self._clock.now_s() >= lease.trusted_until_s:
            await self._heartbeats.renew([lease.lease_id])
        elif lease is not None:
            self._uses.renewed(lease.token, sent_s)
        if self._trust.lease(answer["lease"]) is None:
            return {**answer, "state": "ended"}
        return answer

    def heard_granted(self, claim: Mapping[str, Any], token: int) -> None:
        """Of our own event: take it over, unless its answer is about to come anyway."""
        lease_id = claim["id"]
        if self._trust.lease(lease_id) is not None or self._trust.why_ended(lease_id) is not None:
            return
        if self._claims_in_flight and lease_id not in self._waiting:
            self._heard_early.append((claim, token))
            return
        heard = _Heard(claim, token, self._waiting.pop(lease_id, float("-inf")))
        if self.before is None:
            self._take_heard(heard)
        else:
            self._adopting.send_nowait(heard)

    async def run(self) -> None:
        """Take over what was waited for, once its ground is ready for it, for ever."""
        async for heard in self._to_adopt:
            await self._prepare(heard.claim)
            self._take_heard(heard)

    def _take_heard(self, heard: _Heard) -> None:
        claim, token, sent_s = heard
        ttl_s = claim["ttl_s"]
        if self._clock.now_s() >= sent_s + ttl_s / RENEWALS_PER_TTL:
            self._heartbeats.heard_granted(claim, token)
        elif self._trust.confirmed(claim, token, ttl_s, sent_s):
            self._uses.renewed(token, sent_s)
            self._heartbeats.wake()

    async def _prepare(self, claim: Mapping[str, Any]) -> None:
        if self.before is not None and self._is_new(claim):
            await self.before(claim["globs"])

    def _is_new(self, claim: Mapping[str, Any]) -> bool:
        """Whether ground to write on comes with it that is not in the view."""
        id_ = claim.get("lease") or claim["id"]
        known = self._trust.lease(id_) is not None or self._trust.why_ended(id_) is not None
        return not known and claim["mode"] == "exclusive"
