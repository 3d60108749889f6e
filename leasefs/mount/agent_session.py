"""The ledger's side of a mount: which ledger, and the session of the agent there, opened and ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import trio

from leasefs.client import names, paths
from leasefs.client.clock import BoottimeClock
from leasefs.client.embedded import ensure_ledger
from leasefs.client.ids import new_credentials
from leasefs.client.lessee import Identity, Lessee
from leasefs.client.pauses import Pauses
from leasefs.client.process import process_identity
from leasefs.client.trio_http import TrioLink
from leasefs.core.errors import LeasefsError, LedgerUnavailable
from leasefs.mount.kept_file import kept_file
from leasefs.mount.kept_leases import KeptLeases

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasefs.mount.launch import MountConfig

REVIVE = Pauses(2.0, 60.0)


class AgentSession(NamedTuple):
    """A live session: `url` is the ledger's, `revive` starts an embedded one again, `kept` are leases of its predecessor."""

    lessee: Lessee
    link: TrioLink
    url: str
    revive: Callable[[], Awaitable[None]] | None
    kept: KeptLeases

    async def end(self) -> None:
        """End it, whatever is being cancelled; its leases are free at once unless they are to be kept."""
        with trio.CancelScope(shield=True):
            await self.kept.hand_on()
            await self.lessee.end(keep=self.kept.keeps)
        self.link.close()


async def opened_session(config: MountConfig, territory: str) -> AgentSession:
    """Find the ledger and open the agent's session there.

    Raises:
        AgentBusy: the agent has a live session and is not to replace it.
        LedgerUnavailable: the ledger does not answer.
    """
    url, revive = await _find_ledger(config)
    credentials = new_credentials()
    link = TrioLink(url, credentials)
    identity = Identity(
        agent=config.agent,
        harness=config.harness,
        territory=territory,
        kind="mount",
        host=names.host_name(),
        pid=os.getpid(),
        process=process_identity(os.getpid()),
    )
    clock = BoottimeClock()
    lessee = Lessee(identity, credentials, link, clock, revive)
    file = kept_file(identity, url)
    kept = KeptLeases(lessee, link, file, clock.now_s, wanted=config.keep_leases)
    session = AgentSession(lessee, link, url, revive, kept)
    try:
        await _open(session, config)
    except LedgerUnavailable:
        if revive is None:
            raise
        # It went idle and stopped between being found and being asked.
        await revive()
        await _open(session, config)
    return session


async def _open(session: AgentSession, config: MountConfig) -> None:
    await session.kept.look()
    try:
        await session.lessee.open(replace=config.replace)
    except LedgerUnavailable:
        raise  # it may have begun all the same
    except LeasefsError:
        session.kept.not_begun()
        raise


async def _find_ledger(config: MountConfig) -> tuple[str, Callable[[], Awaitable[None]] | None]:
    """The ledger's address, and for the embedded one how to start it again should it be gone."""
    if config.ledger:
        return config.ledger, None
    url, embedded = paths.ledger_url()
    if not embedded:
        return url, None
    revival = Revival()
    await revival.revive()
    return url, revival.revive


class Revival:
    """Starts the embedded ledger, ever less often while it fails: each attempt costs a Python start."""

    def __init__(self) -> None:
        self._clock = BoottimeClock()
        self._not_before_s = float("-inf")
        self._failures = 0

    async def revive(self) -> None:
        """See that a ledger runs, unless the last attempt failed a moment ago.

        Raises:
            LedgerUnavailable: it could not be started.
        """
        if self._clock.now_s() < self._not_before_s:
            return
        try:
            await trio.to_thread.run_sync(ensure_ledger, abandon_on_cancel=True)
        except LedgerUnavailable:
            self._not_before_s = self._clock.now_s() + REVIVE.after_s(self._failures)
            self._failures += 1
            raise
        self._failures = 0
