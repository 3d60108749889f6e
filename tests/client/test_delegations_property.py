"""P1 with delegation, under every fault: at no moment do the views of two sessions let a write to one path pass.

Three lessees over the real rules. Requests and answers travel for a while or get lost, the ledger and its streams are away at
times, leases are claimed, delegated, delegated on, shared, given back, revoked, and lapse. Whatever was in doubt is settled when all is
well again: then what is delegated in the ledger is closed in its givers' views, and nothing else is.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from leasefs.client import api
from leasefs.client.ids import Credentials
from leasefs.client.lessee import Identity, Lessee
from leasefs.core import commands as cmd
from leasefs.core.errors import LeasefsError
from leasefs.core.globs import parse_glob
from leasefs.core.lease import Mode
from leasefs.core.overlap import uncovered
from leasefs.testing.core_ledger import CoreLedger, CoreLink
from leasefs.testing.mock_time import MockTime

if TYPE_CHECKING:
    from leasefs.core.held import HeldLease

pytestmark = pytest.mark.slow

AGENTS = ("ada", "bo", "cy")
PATHS = (b"a/x", b"a/b/x", b"a/b/c/x", b"z")
GLOBS = ("a/**", "a/b/**", "a/b/c/**", "a/b/x", "**")
LOOK_EVERY_S = 0.05
WAITS_S = (0.05, 0.3, 3.0, 25.0)

# What is done more often stands there more often; the numbers choose among what there is to do it to.
KINDS = st.sampled_from(
    (
        *("delegate",) * 8,
        *("release",) * 4,
        *("wait",) * 5,
        *("withdraw", "ask"),
        *("claim", "downgrade", "upgrade", "revoke", "use", "use"),
        *("travel", "travel", "lose", "lose", "away", "back", "streams", "restart"),
    )
)
STEPS = st.lists(
    st.tuples(KINDS, st.integers(0, 11), st.integers(0, 11), st.integers(0, 1)),
    min_size=10,
    max_size=30,
)


class World:
    """Three lessees, one ledger, and who may write what at this moment."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.ledger = CoreLedger(MockTime())
        self.nursery = nursery
        self.lessees: list[Lessee] = []
        self.number = 0

    async def open(self) -> None:
        for agent in AGENTS:
            credentials = Credentials(f"session-of-{agent}", f"secret-of-{agent}")
            identity = Identity(agent, "claude", "territory", "mount", "host", 1, "")
            link = CoreLink(self.ledger, *credentials)
            lessee = Lessee(identity, credentials, link, self.ledger.clock)
            await lessee.open()
            self.lessees.append(lessee)
            self.nursery.start_soon(lessee.run)
        self.nursery.start_soon(self._keep_looking)
        self.nursery.start_soon(self._tick)

    async def _keep_looking(self) -> None:
        while True:
            self.look()
            await trio.sleep(LOOK_EVERY_S)

    async def _tick(self) -> None:
        while True:
            await trio.sleep(0.5)
            self.ledger.tick()

    def look(self) -> None:
        for path in PATHS:
            writers = [
                lessee.identity.agent
                for lessee in self.lessees
                if lessee.view.writable(path, lessee.now_s()) is not None
            ]
            assert len(writers) <= 1, (path, writers)

    def some(self, number: int, mode: Mode | None = None) -> tuple[Lessee, HeldLease] | None:
        """One of the leases that are held now, perhaps of this mode, and who holds it."""
        held = [
            (lessee, lease)
            for lessee in self.lessees
            for lease in lessee.view.leases
            if mode in (None, lease.mode)
        ]
        return held[number % len(held)] if held else None

    def do(self, kind: str, one: int, other: int, third: int) -> None:
        getattr(self, kind)(one, other, third)

    def _soon(self, ask: Any) -> None:
        async def carefully() -> None:
            with contextlib.suppress(LeasefsError):
                await ask()

        self.nursery.start_soon(carefully)

    def _key(self) -> str:
        self.number += 1
        return f"k{self.number}"

    def claim(self, one: int, other: int, third: int) -> None:
        call = api.claim(
            [GLOBS[other % len(GLOBS)]],
            key=self._key(),
            ttl_s=(20.0, 600.0)[third],
            wait=bool(one % 2),
        )
        self._soon(functools.partial(self.lessees[one % 3].claim, call))

    def delegate(self, one: int, other: int, third: int) -> None:
        found = self.some(one, Mode.EXCLUSIVE)
        if found is None:
            return
        giver, lease = found
        inside = [text for text in GLOBS if uncovered(parse_glob(text), lease.globs) is None]
        inside.append(lease.globs[0].text)
        others = [lessee for lessee in self.lessees if lessee is not giver]
        wishes: dict[str, Any] = {
            "globs": [inside[other % len(inside)]],
            "to": others[third].identity.agent,
        }
        if other >= 10:
            wishes["ttl_s"] = 15.0
        ask = giver.delegations.delegate
        self._soon(functools.partial(ask, lease.lease_id, self._key(), wishes))

    def release(self, one: int, other: int, third: int) -> None:
        if found := self.some(one):
            self._soon(functools.partial(found[0].release, found[1].lease_id, self._key()))

    def _known(self, number: int) -> tuple[Lessee, str] | None:
        """What some session has or waits for, as the ledger has it: it may not have heard of it yet."""
        of = {lessee.session: lessee for lessee in self.lessees}
        waiting, leases = self.ledger.state.waiters, self.ledger.state.leases
        claims = [*waiting.values(), *(lease.claim for lease in leases.values())]
        known = sorted((claim.claimed_seq, of[claim.session], claim.id) for claim in claims)
        return known[number % len(known)][1:] if known else None

    def withdraw(self, one: int, other: int, third: int) -> None:
        if found := self._known(one):
            self._soon(functools.partial(found[0].release, found[1], self._key()))

    def ask(self, one: int, other: int, third: int) -> None:
        if found := self._known(one):
            self._soon(functools.partial(found[0].waited, found[1], 5.0 * third))

    def downgrade(self, one: int, other: int, third: int) -> None:
        if found := self.some(one, Mode.EXCLUSIVE):
            ask = found[0].downgrades.downgrade
            self._soon(functools.partial(ask, found[1].lease_id, self._key()))

    def upgrade(self, one: int, other: int, third: int) -> None:
        if found := self.some(one, Mode.SHARED):
            lessee, lease = found
            globs = [glob.text for glob in lease.globs]
            call = api.claim(
                globs, key=self._key(), ttl_s=600.0, wait=True, replaces=lease.lease_id
            )
            self._soon(functools.partial(lessee.claim, call))

    def revoke(self, one: int, other: int, third: int) -> None:
        if found := self.some(one):
            with contextlib.suppress(LeasefsError):
                self.ledger.do(cmd.RevokeLease("ops", found[1].lease_id))

    def use(self, one: int, other: int, third: int) -> None:
        if found := self.some(one):
            found[0].use(found[1].lease_id, 1, "test")

    def travel(self, one: int, other: int, third: int) -> None:
        times_s = (0.0, 0.0, 0.05, 1.0)
        self.ledger.request_takes_s = times_s[one % 4]
        self.ledger.answer_takes_s = times_s[other % 4]

    def lose(self, one: int, other: int, third: int) -> None:
        self.ledger.lose_answers, self.ledger.lose_requests = 1 + one % 3, one // 4
        self.ledger.lose_to = ("/delegate", "/downgrade", "/delegate", "")[other % 4]

    def away(self, one: int, other: int, third: int) -> None:
        self.ledger.away = True

    def back(self, one: int, other: int, third: int) -> None:
        self.ledger.away = self.ledger.streams_away = False

    def streams(self, one: int, other: int, third: int) -> None:
        self.ledger.streams_away = bool(third)
        self.ledger.cut_streams()

    def restart(self, one: int, other: int, third: int) -> None:
        self.ledger.restart()

    def well_again(self) -> None:
        self.ledger.away = self.ledger.streams_away = False
        self.ledger.lose_answers = self.ledger.lose_requests = 0
        self.ledger.request_takes_s = self.ledger.answer_takes_s = 0.0
        self.ledger.cut_streams()

    def is_settled(self) -> None:
        """What is carved out of each view is what the ledger has delegated out of that session's leases, and none is held for nobody."""
        state = self.ledger.state
        for lessee in self.lessees:
            held = {lease.lease_id for lease in lessee.view.leases}
            for lease in state.leases.values():
                if lease.claim.session == lessee.session and lease.id not in held:
                    assert lease.lapsed(self.ledger.clock.now_s())
            given = {
                (child.claim.parent, child.id)
                for child in state.leases.values()
                if child.claim.parent in held
            }
            assert {(one.parent, one.child) for one in lessee.view.carved} == given
            for lease in lessee.view.leases:
                known = state.leases[lease.lease_id]
                assert (known.token, known.claim.mode) == (lease.token, lease.mode)
                assert known.claim.mode is Mode.EXCLUSIVE or not lessee.downgrades.in_doubt(
                    lease.lease_id
                )


async def run(steps: list[tuple[str, int, int, int]]) -> None:
    async with trio.open_nursery() as nursery:
        world = World(nursery)
        await world.open()
        for lessee, glob in zip(world.lessees, ("a/**", "z", "q"), strict=True):
            await lessee.claim(api.claim([glob], key=world._key(), ttl_s=600.0))
        for kind, *numbers in steps:
            if kind == "wait":
                await trio.sleep(WAITS_S[numbers[0] % len(WAITS_S)])
            else:
                world.do(kind, *numbers)
                await trio.sleep(0.01)
            world.look()
        world.well_again()
        await trio.sleep(60)
        world.look()
        world.is_settled()
        nursery.cancel_scope.cancel()


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_no_two_sessions_may_write_one_path_whatever_is_delegated_and_whatever_fails(
    steps: list[tuple[str, int, int, int]],
) -> None:
    trio.run(run, steps, clock=trio.testing.MockClock(autojump_threshold=0))
