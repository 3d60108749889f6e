"""The leases that writes claimed, and how soon they are given back.

Nobody gives such a lease back by name. It goes soon after its last use; at once after it, where others are known to
wait; and the longer they wait, the less counts as use. What is uncommitted then stays in the tree, listed as the
agent's (P9), unless the territory would rather have such a lease lapse.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

import trio

from leasefs.core.errors import LeasefsError
from leasefs.core.globs import parse_glob
from leasefs.core.overlap import first_overlap

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from typing import Any

    from leasefs.client.lessee import Lessee
    from leasefs.core.globs import Glob
    from leasefs.core.held import HeldLease
    from leasefs.mount.unleased_policy import Settings

log = logging.getLogger(__name__)

# Where others wait: longer than there is between the steps of one save.
HURRY_S = 0.01
# Whoever goes on and on has had its turn after so long, and is left no pause.
TURN_S = 1.0
NO_PAUSE_S = 0.005
LOOK_AGAIN_S = 1.0
REMEMBERED = 4096
# News of others' claims that may be about ground whose grant is still to be heard of.
_HEARD_LATELY = 256


class _WriteLease:
    """One of them. `wanted_s` is since when others are known to wait for it, or likely to."""

    __slots__ = ("granted_s", "lease_id", "pins", "token", "wanted_s")

    def __init__(self, lease: HeldLease, now_s: float, wanted_s: float) -> None:
        self.lease_id = lease.lease_id
        self.token = lease.token
        self.granted_s = now_s
        self.wanted_s = wanted_s
        self.pins = 0


class WriteLeases:
    """Gives them back when it is time. All of it on the trio thread."""

    def __init__(
        self,
        lessee: Lessee,
        settings: Settings,
        release: Callable[[HeldLease, Callable[[], bool]], Awaitable[None]],
        is_dirty: Callable[[int], bool],
    ) -> None:
        """None yet.

        Args:
            lessee: the session.
            settings: how soon.
            release: gives a lease back, if what it is given says that it is idle when all else is done.
            is_dirty: whether something is uncommitted under the lease with this token.
        """
        self._lessee = lessee
        self._settings = settings
        self._release = release
        self._is_dirty = is_dirty
        self._leases: dict[int, _WriteLease] = {}
        # Those that came back after a recall are found by the first one's id.
        self._ids: dict[str, None] = {}
        # When others were heard to wait, and for what.
        self._heard: deque[tuple[float, list[Glob]]] = deque(maxlen=_HEARD_LATELY)
        self._look = trio.Event()
        # Those that are being given back right now.
        self._going: dict[int, trio.Event] = {}
        lessee.heard_wanted = self._heard_wanted
        lessee.when_rested(self._rested)

    def granted(self, lease: HeldLease, asked_s: float | None = None) -> None:
        """A write claimed this lease: it waited, and others are likely to wait behind it, or had it when it `asked_s`.

        Then whoever has come to wait since was perhaps heard of before the grant was.
        """
        if lease.token not in self._leases:
            now_s = self._lessee.now_s()
            wanted_s = now_s if asked_s is None else self._wanted_s(lease, asked_s)
            self._leases[lease.token] = _WriteLease(lease, now_s, wanted_s)
            self._ids[lease.lease_id] = None
            if len(self._ids) > REMEMBERED:
                del self._ids[next(iter(self._ids))]
            self._look.set()

    def pin(self, token: int) -> None:
        """Somebody is about to use this lease."""
        if token in self._leases:
            self._leases[token].pins += 1

    def unpin_all(self, tokens: Iterable[int]) -> None:
        """That was done, or not."""
        for token in tokens:
            if token in self._leases:
                self._leases[token].pins -= 1
                self._look.set()

    def taken_over(self, lease_id: str) -> None:
        """Somebody claimed the same on purpose: it is theirs to give back."""
        self._ids.pop(self._lessee.recalls.first(lease_id), None)
        self._leases = {k: one for k, one in self._leases.items() if one.lease_id != lease_id}

    def find_back(self) -> None:
        """Leases came or went: what a recall took and gave back is still nobody's to give back but ours."""
        for lease in self._lessee.view.leases:
            if lease.token not in self._leases:
                first = self._lessee.recalls.first(lease.lease_id)
                if first != lease.lease_id and first in self._ids:
                    self.granted(lease)

    async def let_idle_go(self) -> int:
        """Give back all that nothing uses right now, however short a time ago; returns how many there were."""
        now_s, going = self._lessee.now_s(), list(self._going.values())
        ones = self._leases.values()
        idle = [one for one in ones if one.token not in self._going]
        idle = [one for one in idle if self._due_at_s(one, 0.0) <= now_s]
        async with trio.open_nursery() as nursery:
            for one in idle:
                nursery.start_soon(self._give_back, one, 0.0)
            for gone in going:
                await gone.wait()
        return len(idle) + len(going)

    async def run(self) -> None:
        """Give back what is due, for ever. None waits for another one."""
        async with trio.open_nursery() as nursery:
            while True:
                self._look = trio.Event()
                held = self._lessee.view.by_token
                self._leases = {token: one for token, one in self._leases.items() if token in held}
                for one in self._leases.values():
                    if one.token not in self._going and self._is_due(one):
                        nursery.start_soon(self._give_back, one)
                with trio.move_on_after(self._next_look_s()):
                    await self._look.wait()

    def _heard_wanted(self, claim: Mapping[str, Any]) -> None:
        wanted = [parse_glob(text) for text in claim["globs"]]
        self._heard.append((self._lessee.now_s(), wanted))
        for token, one in self._leases.items():
            lease = self._lessee.view.by_token.get(token)
            if lease is not None and first_overlap(wanted, lease.globs):
                one.wanted_s = min(one.wanted_s, self._lessee.now_s())
                self._look.set()

    def _wanted_s(self, lease: HeldLease, since_s: float) -> float:
        heard = (
            at for at, globs in self._heard if at >= since_s and first_overlap(globs, lease.globs)
        )
        return next(heard, float("inf"))

    def _rested(self, token: int) -> None:
        if token in self._leases:
            self._look.set()

    def _is_due(self, one: _WriteLease) -> bool:
        if self._due_at_s(one, self._idle_s(one)) > self._lessee.now_s():
            return False
        return self._settings.keeps or not self._is_dirty(one.token)

    def _due_at_s(self, one: _WriteLease, idle_s: float) -> float:
        """When it may be given back, as things are now, if it has to be idle for so long."""
        if one.pins:
            return float("inf")
        return max(one.granted_s, self._lessee.last_used_s(one.token)) + idle_s

    def _idle_s(self, one: _WriteLease) -> float:
        wanted_for_s = self._lessee.now_s() - one.wanted_s
        if wanted_for_s < 0.0:
            return self._settings.idle_s
        return min(NO_PAUSE_S if wanted_for_s > TURN_S else HURRY_S, self._settings.idle_s)

    def _next_look_s(self) -> float:
        now_s = self._lessee.now_s()
        left_s = [self._due_at_s(one, self._idle_s(one)) - now_s for one in self._leases.values()]
        # What is due and still there waits for a commit, or for the ledger.
        return min((in_s if in_s > 0 else LOOK_AGAIN_S for in_s in left_s), default=float("inf"))

    async def _give_back(self, one: _WriteLease, idle_s: float | None = None) -> None:
        lease = self._lessee.view.by_token.get(one.token)
        if lease is None or one.token in self._going:
            return
        gone = self._going[one.token] = trio.Event()

        def is_idle() -> bool:
            least_s = self._idle_s(one) if idle_s is None else idle_s
            known = self._leases.get(one.token) is one
            return known and self._due_at_s(one, least_s) <= self._lessee.now_s()

        try:
            await self._release(lease, is_idle)
            self._look.set()
        except LeasefsError as error:
            log.info("%s is not given back yet: %s", one.lease_id, error.message)
        finally:
            del self._going[one.token]
            gone.set()
