"""A mount that yields without a tree: the real lessee and ledger, and work that a test sets, on trio's mock clock."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import trio

from leasefs.client import api
from leasefs.client.ids import Credentials
from leasefs.client.lessee import Identity, Lessee
from leasefs.core.errors import LedgerUnavailable
from leasefs.mount.recalling import Recalling
from leasefs.testing.core_ledger import CoreLedger, CoreLink
from leasefs.testing.lessee_probe import KEYS, held
from leasefs.testing.mock_time import MockTime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from leasefs.client.recalls import Recall
    from leasefs.core.held import HeldLease


@dataclass
class FakeWork:
    """Uncommitted paths that a test sets; `unpushed` stand in the way of a release only."""

    ledger: CoreLedger
    dirty: set[bytes] = field(default_factory=set)
    unpushed: set[bytes] = field(default_factory=set)
    rescues: list[str] = field(default_factory=list)
    rescue_takes_s: float = 0.0
    rescue_fails: bool = False
    taken_up: list[str] = field(default_factory=list)

    @property
    def intents(self) -> FakeWork:
        """Itself: what is uncommitted is all that is asked of it."""
        return self

    def dirty_of(self, _token: int) -> list[bytes]:
        """What is uncommitted."""
        return sorted(self.dirty)

    async def keep_and_end(self, lease: HeldLease, _reason: str) -> str:
        """Rescue it."""
        await trio.sleep(self.rescue_takes_s)
        if not self.dirty or self.rescue_fails:
            return ""
        self.dirty.clear()
        self.rescues.append(lease.lease_id)
        return lease.lease_id

    async def flush(self) -> None:
        """Tell the ledger."""
        if self.ledger.away:
            raise LedgerUnavailable("nobody listens")

    async def head(self) -> str:
        """Some commit."""
        return "f" * 40

    def rescue_of(self, _lease_id: str) -> str:
        """None that others made."""
        return ""

    async def take_up(self, rescue: str, _lease: HeldLease) -> tuple[Any, Any]:
        """Note that it was asked for."""
        self.taken_up.append(rescue)
        return (b"src/a",), ()


@dataclass
class FakeGate:
    """What must be done before a release."""

    work: FakeWork
    require: str = "committed"
    under_git: bool = True

    async def is_under_git(self) -> bool:
        """Whether it is said to be."""
        return self.under_git

    async def in_the_way(self, _lease: HeldLease) -> list[bytes]:
        """What stands in the way of a release."""
        await trio.sleep(0.05)
        return sorted(self.work.dirty | self.work.unpushed)


class SilentHook:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float]] = []

    async def run(self, recall: Recall, left_s: float) -> None:
        """Note it."""
        self.told.append((recall.lease_id, left_s))


@dataclass
class Fleet:
    """A ledger, a holder whose mount yields, and a person without one."""

    ledger: CoreLedger
    holder: Lessee
    person: Lessee
    work: FakeWork
    gate: FakeGate
    hook: SilentHook
    left: list[str]

    async def asked(self, within_s: float, priority: int = 20) -> str:
        """The person claims the holder's ground."""
        call = api.claim(
            ["src/**"],
            key=f"key-{next(KEYS)}",
            ttl_s=600.0,
            priority=priority,
            wait=True,
            recall_within_s=within_s,
        )
        return str((await self.person.claim(call))["lease"])

    async def until_granted(self) -> float:
        """When the person has it, on the one clock."""
        while not held(self.person):
            await self.person.changed()
        return self.person.now_s()

    async def until_back(self) -> str:
        """The lease that the ground comes back with."""
        while not held(self.holder):
            await self.holder.changed()
        return held(self.holder)[0]

    def revoked(self) -> bool:
        """Whether the ledger had to end it."""
        return any(type(one.event).__name__ == "Revoked" for one in self.ledger.history)


@contextlib.asynccontextmanager
async def fleet() -> AsyncIterator[Fleet]:
    """Both sessions and the mount, up together and down."""
    ledger = CoreLedger(MockTime())
    people = []
    for agent in ("loop", "person"):
        credentials = Credentials(f"session-of-{agent}", "secret")
        identity = Identity(agent, "test", "territory", "mount", "host", 1, "")
        people.append(Lessee(identity, credentials, CoreLink(ledger, *credentials), ledger.clock))
        await people[-1].open()
    work = FakeWork(ledger)
    gate, hook = FakeGate(work), SilentHook()
    recalling = Recalling(people[0], work, gate, hook)  # type: ignore[arg-type]
    left: list[str] = []

    async def leave(lease_id: str) -> None:
        await recalling.yielded(lease_id)
        left.append(lease_id)

    people[0].guard_ground(adopt, leave)
    async with trio.open_nursery() as nursery:
        for task in (people[0].run, people[1].run, recalling.run, lambda: ticking(ledger)):
            nursery.start_soon(task)
        yield Fleet(ledger, people[0], people[1], work, gate, hook, left)
        nursery.cancel_scope.cancel()


async def adopt(_globs: list[str]) -> None:
    """Ground is always ready."""


async def ticking(ledger: CoreLedger) -> None:
    """Have the ledger act on its deadlines."""
    while True:
        await trio.sleep(0.5)
        ledger.tick()
