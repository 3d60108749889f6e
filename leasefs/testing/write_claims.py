"""Writers of one mount that claim what they write, against the ledger's real rules on trio's mock clock."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import trio

from leasefs.client.ids import Credentials, new_key
from leasefs.client.lessee import Identity, Lessee
from leasefs.core.policy import Op, Reason, Refused, Target
from leasefs.core.unleased_policy import parse_policy
from leasefs.mount.gate import Unobtained, Unsettled
from leasefs.mount.unleased_claims import UnleasedClaims
from leasefs.mount.unleased_leases import WriteLeases
from leasefs.mount.unleased_policy import Settings
from leasefs.testing.core_ledger import CoreLedger, CoreLink

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from leasefs.core.held import HeldLease


class Writer:
    """One mount's writers."""

    def __init__(self, lessee: Lessee, settings: Settings) -> None:
        self.lessee = lessee
        self.dirty: set[int] = set()
        self.leases = WriteLeases(lessee, settings, self._release, self.dirty.__contains__)
        self.share = 0.0
        self.claims = UnleasedClaims(lessee, settings, self.leases, share_of=self._share_of)

    async def _share_of(self, globs: Iterable[str]) -> float:
        return self.share

    async def _release(self, lease: HeldLease, is_idle: object) -> None:
        assert callable(is_idle)
        if is_idle():
            await self.lessee.release(lease.lease_id, new_key(), dirty="hand-on")

    def holds(self, path: bytes) -> bool:
        """Whether it may be written now."""
        return self.lessee.view.writable(path, self.lessee.now_s()) is not None

    @contextlib.asynccontextmanager
    async def writing(self, path: bytes) -> AsyncIterator[None]:
        """Get the lease as the gate does, and use it by an open handle while the context lasts."""
        obtaining = self.claims.begin(1)
        try:
            while not self.holds(path):
                refused = Refused(Reason.NOT_LEASED, Op.OPEN, path)
                await obtaining.obtain(Unsettled(refused, [Target(path)]))
            lease = self.lessee.view.writable(path, self.lessee.now_s())
            assert lease is not None
            use = self.lessee.writer_opened(lease.token, path, 1)
        finally:
            obtaining.over(again=False)
        try:
            yield
        finally:
            self.lessee.writer_closed(use)

    async def write(self, path: bytes, for_s: float = 0.0) -> float:
        """Write for so long; returns when the write began."""
        async with self.writing(path):
            began_s = trio.current_time()
            await trio.sleep(for_s)
            return began_s


@contextlib.asynccontextmanager
async def writer(
    ledger: CoreLedger, agent: str, policy: str = "claim+wait", **settings: object
) -> AsyncIterator[Writer]:
    """A mount of this agent, whose `settings` are those of `leasefs.mount.unleased_policy.Settings`."""
    credentials = Credentials(f"session-of-{agent}", f"secret-of-{agent}")
    identity = Identity(agent, "claude", "territory", "mount", "host", 1, "")
    lessee = Lessee(identity, credentials, CoreLink(ledger, *credentials), ledger.clock)
    await lessee.open()
    made = Writer(lessee, Settings(parse_policy(policy))._replace(**settings))  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lessee.run)
        nursery.start_soon(made.claims.run)
        nursery.start_soon(made.leases.run)
        yield made
        nursery.cancel_scope.cancel()


async def refused(writing: Writer, path: bytes) -> Refused:
    """What a write is told that is not let through."""
    try:
        await writing.write(path)
    except Unobtained as error:
        return error.refused
    raise AssertionError(f"{path!r} was written")
