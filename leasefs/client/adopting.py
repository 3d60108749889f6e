"""Taking over what the ledger grants: at the answer to a claim, or at the news that waiting is over.

The answer to a claim, and the event about the same grant, may come in either order; what was waited for is only
heard of, and is trusted from a heartbeat of its own (P3).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import trio

from leasefs.core.errors import LeaseLost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from leasefs.client import api
    from leasefs.client.heartbeats import Heartbeats
    from leasefs.client.trust import Trust
    from leasefs.client.uses import Uses
    from leasefs.core.clock import Clock


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
        self._waiting: set[str] = set()
        self._heard_early: list[tuple[Mapping[str, Any], int]] = []
        self._adopting, self._to_adopt = trio.open_memory_channel[tuple[Mapping[str, Any], int]](
            math.inf
        )

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

    def waits(self, lease_id: str) -> None:
        """A claim of ours waits: no answer will tell of its grant."""
        self._waiting.add(lease_id)

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
        """Of our own event: take it over by a heartbeat, unless its answer is about to come anyway."""
        lease_id = claim["id"]
        if self._trust.lease(lease_id) is not None or self._trust.why_ended(lease_id) is not None:
            return
        if self._claims_in_flight and lease_id not in self._waiting:
            self._heard_early.append((claim, token))
            return
        self._waiting.discard(lease_id)
        if self.before is None:
            self._heartbeats.heard_granted(claim, token)
        else:
            self._adopting.send_nowait((claim, token))

    async def run(self) -> None:
        """Take over what was waited for, once its ground is ready for it, for ever."""
        async for claim, token in self._to_adopt:
            await self._prepare(claim)
            self._heartbeats.heard_granted(claim, token)

    async def _prepare(self, claim: Mapping[str, Any]) -> None:
        if self.before is not None and self._is_new(claim):
            await self.before(claim["globs"])

    def _is_new(self, claim: Mapping[str, Any]) -> bool:
        """Whether ground to write on comes with it that is not in the view."""
        id_ = claim.get("lease") or claim["id"]
        known = self._trust.lease(id_) is not None or self._trust.why_ended(id_) is not None
        return not known and claim["mode"] == "exclusive"
