"""What one write asks for where no lease covers it: the claims that it joins, and how long it waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from leasefs.client.ids import new_key
from leasefs.core.policy import Reason, Refused
from leasefs.mount.gate import Unobtained, Wanting
from leasefs.mount.unleased_words import refused_by, timed_out

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from leasefs.core.errors import LeasefsError
    from leasefs.mount.gate import Unsettled
    from leasefs.mount.unleased_claims import UnleasedClaims

# Without `wait`, for the ledger's answer alone.
ANSWER_WITHIN_S = 10.0
# What is still refused after so many grants is not helped by more.
_ATTEMPTS = 8

# What a lease would help with.
CLAIMABLE = frozenset(
    {Reason.NOT_LEASED, Reason.LAPSED, Reason.TREE_NOT_LEASED, Reason.ALIAS_NOT_LEASED}
)


class WriteClaim:
    """One claim, and those who wait for it. `done` is set once it is granted or `error` says why it is not."""

    def __init__(self, globs: tuple[str, ...]) -> None:
        self.globs = globs
        self.users = 0
        self.begin_anew()
        # Asked for only where the territory caps it; of paths it is next to nothing.
        self.share = None if any(glob.endswith("/**") for glob in globs) else 0.0
        self.token = 0
        self.blockers: Sequence[Mapping[str, Any]] = ()
        self.error: LeasefsError | None = None
        # Of a cap that its agent's other leases are up to.
        self.held_up: LeasefsError | None = None
        self.done = trio.Event()

    def begin_anew(self) -> None:
        """Ask as if it had never been asked for."""
        self.key, self.lease_id = new_key(), ""
        # When it was first asked for by this key; the ledger may know it since.
        self.asked_s: float | None = None


class Obtaining:
    """What one request has asked for. Its leases are not given back before it is `over`."""

    def __init__(self, claims: UnleasedClaims, pid: int) -> None:
        self._claims = claims
        self._pid = pid
        self._began_s = claims.now_s()
        self._pinned: list[int] = []

    async def obtain(self, unsettled: Unsettled) -> None:
        """Return once it is worth another attempt.

        Raises:
            Unobtained: it is not, and why.
        """
        claims, refused = self._claims, unsettled.refused
        if claims.stopped.is_set():
            raise Unobtained(refused)
        policy = claims.settings.policy
        within_s = claims.settings.wait_s if policy.waits else ANSWER_WITHIN_S
        until_s = self._began_s + within_s
        claimable = refused.reason in CLAIMABLE
        if claimable and policy.waits and claims.returning(refused.path):
            # Claimed anew beside it, there would be one more lease with each recall.
            await claims.until_changed(until_s)
            if claims.now_s() < until_s:
                return
            refused = timed_out(refused, within_s, await claims.before_return(refused.path))
        elif claimable and policy.claims:
            try:
                globs = claims.ground(unsettled, self._pid)
            except Wanting as wanting:  # git's index has changed since the operation was described
                await wanting.fetch()
                return
            if globs and len(self._pinned) < _ATTEMPTS:
                await self._claimed(refused, globs, until_s)
                return
        elif policy.waits and (claimable or refused.reason is Reason.DELEGATED):
            await claims.until_changed(until_s)
            if claims.now_s() < until_s:
                return
            refused = timed_out(refused, within_s, ())
        raise Unobtained(refused)

    async def _claimed(self, refused: Refused, globs: tuple[str, ...], until_s: float) -> None:
        claims = self._claims
        claim = claims.join(globs)
        try:
            with trio.move_on_after(max(0.0, until_s - claims.now_s())):
                await claim.done.wait()
            if not claim.done.is_set() and claim.held_up is not None:
                raise Unobtained(refused_by(refused, claim.held_up))
            if not claim.done.is_set():
                waited_s = claims.now_s() - self._began_s
                raise Unobtained(timed_out(refused, waited_s, await claims.in_the_way(claim)))
            if claim.error is not None:
                raise Unobtained(refused_by(refused, claim.error))
            claims.leases.pin(claim.token)
            self._pinned.append(claim.token)
        finally:
            claims.leave(claim)

    def over(self, *, again: bool) -> None:
        """The request is answered. Who is to look `again` finds the ground still held, and nothing replaced on it."""
        if again:
            self._claims.comes_back(self._pid, self._pinned)
        else:
            self._claims.leases.unpin_all(self._pinned)
