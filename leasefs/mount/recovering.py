"""What earlier mounts of this tree left behind: their journals, and what they had not seen committed (P8, P9).

Whoever mounts a tree next tells the ledger what the dead mounts could not, keeps what they left uncommitted, and
looks after it from then on, also if the old agent never comes back.
"""

from __future__ import annotations

import logging
import os
from contextlib import closing
from typing import TYPE_CHECKING

import trio

from leasefs.client import api
from leasefs.client.pauses import Pauses
from leasefs.core.errors import LeasefsError
from leasefs.mount.intent_report import tell
from leasefs.mount.journal import dead_journals, remove_drafts
from leasefs.mount.rescuing import Owner
from leasefs.vcs.errors import VcsError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from leasefs.client.transport import Transport
    from leasefs.mount.intents import IntentLog
    from leasefs.mount.journal import DeadJournal, Header, Left
    from leasefs.mount.looking import Looking
    from leasefs.mount.rescuing import Rescuer

log = logging.getLogger(__name__)

_TIMEOUT_S = 10.0
_RETRY = Pauses(0.5, 30.0)
_AGAIN_S = 10.0


class Recovery:
    """Takes over from the dead mounts of one tree, also from those that die beside us."""

    def __init__(
        self,
        directory: str,
        header: Header,
        transport: Transport,
        intents: IntentLog,
        looking: Looking,
        rescuer: Rescuer,
        own_tokens: Callable[[], Container[int]],
    ) -> None:
        """`directory` is that of the tree's journals; `own_tokens` are those of the leases held here now."""
        self._directory = directory
        self._header = header
        self._transport = transport
        self._intents = intents
        self._looking = looking
        self._rescuer = rescuer
        self._own_tokens = own_tokens
        # Set once what was there at the beginning is kept, or could not be at the first attempt.
        self.tried = trio.Event()

    async def run(self) -> None:
        """Do it, and again whenever another mount has died, for ever."""
        await self._until_done()
        while True:
            await trio.sleep(_AGAIN_S)
            if await trio.to_thread.run_sync(self._is_one_dead, abandon_on_cancel=True):
                await self._until_done()

    def _is_one_dead(self) -> bool:
        try:
            with closing(dead_journals(self._directory)) as journals:
                return any(journal.left() is not None for journal in journals)
        except OSError:
            return True  # whoever tries to recover them says why that fails

    async def _until_done(self) -> None:
        """While the ledger is away, again and again."""
        failures = 0
        while True:
            try:
                await self.once()
            except (LeasefsError, VcsError, OSError) as error:
                # Nothing is lost by it: their journals stay.
                log.warning("earlier mounts are not recovered yet: %s", error)
                self.tried.set()
                await trio.sleep(_RETRY.after_s(failures))
                failures += 1
            else:
                self.tried.set()
                return

    async def once(self) -> None:
        """Do it now.

        Raises:
            LeasefsError, VcsError, OSError: it is not done, or not whole; their journals stay.
        """
        remove_drafts(self._directory)
        dead: list[tuple[DeadJournal, Left]] = []
        for journal in dead_journals(self._directory):
            left = journal.left()
            if left is None:
                log.warning("%s is no journal that can be read; it is left alone", journal.path)
                continue
            await self._replay(left)
            dead.append((journal, left))
        tokens = frozenset[int]().union(*(left.tokens for _, left in dead))
        found = await self._uncommitted(tokens)
        for intent in found:
            self._intents.adopt(
                os.fsencode(intent["path"]),
                intent["lease"],
                intent["token"],
                intent["commit"] if intent["state"] == "committed" else "",
                intent["blob"] if intent["state"] == "committed" else "",
                (intent["agent"], intent["harness"]),
                intent["last_wall_s"],
            )
        await self._looking.look()
        await self._keep([intent for intent in found if intent["token"] in tokens])
        for journal, _ in dead:
            journal.remove()
        self._looking.git_changed()

    async def _replay(self, left: Left) -> None:
        await tell(self._send, left.header, left.notes, recovered=True)
        log.warning("recovered %d notes of %s's mount", len(left.notes), left.header.agent)
        if left.damaged:
            log.error("%d lines of its journal are damaged: what they said is lost", left.damaged)

    async def _uncommitted(self, dead_tokens: frozenset[int]) -> list[api.Body]:
        """What the ledger has of this tree under leases that no live mount looks after."""
        call = api.intents(territory=self._header.territory, tree=self._header.tree)
        answer = await self._send(call)
        own = self._own_tokens()
        return [
            one
            for one in answer["intents"]
            if (one["token"] in dead_tokens or not one["held"]) and one["token"] not in own
        ]

    async def _keep(self, left: Iterable[api.Body]) -> None:
        """Rescue what is still dirty, lease by lease; what several changed goes to the last of them."""
        paths: dict[bytes, Owner] = {}
        for one in sorted(left, key=lambda one: int(one["token"])):
            owner = Owner(one["lease"], one["token"], one["agent"], one["harness"])
            path = os.fsencode(one["path"])
            if self._intents.is_dirty(path):
                paths[path] = owner
            # What lay below a directory that moved was found by the look, under the same lease.
            paths |= dict.fromkeys(self._intents.dirty_of(owner.token), owner)
        for owner in sorted(set(paths.values())):
            mine = [path for path, whose in paths.items() if whose == owner]
            await self._rescuer.rescue(owner, mine, "its mount died")

    async def _send(self, call: api.Call) -> api.Body:
        return await self._transport.send(call, timeout_s=_TIMEOUT_S)
