"""The release gate: a lease is not given back while work under it would be left unseen (P9)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from leasefs.client.ids import new_key
from leasefs.core.errors import Dirty, InvalidRequest, LedgerUnavailable
from leasefs.core.intents import NAMES_KEPT
from leasefs.core.paths import text
from leasefs.mount.intent_report import Settlement, settled
from leasefs.vcs.gitdir import find_git

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from leasefs.client import api
    from leasefs.client.lessee import Lessee
    from leasefs.core.held import HeldLease
    from leasefs.mount.work import Work
    from leasefs.vcs.project_file import ProjectFile
    from leasefs.vcs.standing import Standing
    from leasefs.vcs.worktree import WorkTree

log = logging.getLogger(__name__)

_WAYS = frozenset({"refuse", "keep", "force", "rescue"})


class ReleaseGate:
    """Gives back the leases of one mount."""

    def __init__(self, lessee: Lessee, work: Work, tree: WorkTree, project: ProjectFile) -> None:
        """`project` is what `.leasefs.toml` says of releases; `tree` the one beneath."""
        self._lessee = lessee
        self._work = work
        self._tree = tree
        self._project = project

    async def release(self, lease_id: str, key: str, wishes: Mapping[str, str]) -> api.Body:
        """Give a lease back, as far as its uncommitted work allows (P9).

        Args:
            lease_id: which.
            key: the idempotency key of the request.
            wishes: perhaps `require` (else what `.leasefs.toml` says), `dirty`, a `note` for the next holder, and
                `again`, to have a recalled lease back.

        Raises:
            Dirty: there is work that is not committed, or not pushed if that is required. Nothing changed.
            LeasefsError: the ledger's refusal.
        """
        lease = next((one for one in self._lessee.view.leases if one.lease_id == lease_id), None)
        require = wishes.get("require") or self.require
        dirty, commit = wishes.get("dirty") or "refuse", ""
        if lease is not None:
            dirty = await self._settled(lease, require, dirty)
            commit = await self._work.head()
            if dirty == "refuse" and require != "none":
                # Whatever was changed while git was asked; from here to the end of trust nothing waits.
                _refuse_if(lease, self._work.intents.dirty_of(lease.token), require)
        elif dirty == "rescue":
            dirty = "refuse"  # nothing is held here, so there is nothing of ours to rescue
        return await self._lessee.release(
            lease_id,
            key,
            # What was pushed without having landed is something that only git knows.
            require="committed" if require == "pushed" else require,
            dirty=dirty,
            note=wishes.get("note") or "",
            commit=commit,
            again=wishes.get("again") == "true",
        )

    @property
    def require(self) -> str:
        """What the work under a lease must have come to before it is given back, if nobody says otherwise."""
        return self._project.require or "committed"

    async def in_the_way(self, lease: HeldLease) -> list[bytes]:
        """What has not come to that by now, as git says."""
        standings = await self._work.look()
        return self._in_the_way(lease, self.require, standings)

    async def is_under_git(self) -> bool:
        """Whether anything can be committed in this tree."""
        return await trio.to_thread.run_sync(self._is_under_git)

    async def give_up(self, lease: HeldLease, is_idle: Callable[[], bool]) -> None:
        """Give back a lease that nobody asked for by name, if it `is_idle` when all else is done.

        What is uncommitted stays in the tree, listed as the agent's (P9), for others to build upon.

        Raises:
            LeasefsError: it could not be given back, or the ledger not be told.
        """
        await self._work.flush()
        if not is_idle():
            return
        if not await trio.to_thread.run_sync(self._is_under_git):
            if not is_idle():
                return
            self._end_with_lease(lease)
            await self._work.flush()
        if is_idle():
            await self._lessee.release(lease.lease_id, new_key(), dirty="hand-on")

    async def look(self) -> None:
        """Bring the ledger up to date about all that is uncommitted here. Raises LeasefsError if it does not answer."""
        await self._work.look()
        await self._work.flush()

    async def _settled(self, lease: HeldLease, require: str, dirty: str) -> str:
        """Bring the ledger up to date about the lease; returns what it is to do with what is dirty."""
        if dirty not in _WAYS:
            raise InvalidRequest(f"dirty is refuse, keep, force or rescue, not {dirty!r}")
        standings = await self._work.look()
        if dirty != "rescue" and not await self.is_under_git():
            self._end_with_lease(lease)
        # Where nothing is required, what its holder wants kept is kept all the same.
        asked = "committed" if dirty == "rescue" and require == "none" else require
        in_the_way = self._in_the_way(lease, asked, standings)
        if in_the_way and dirty == "rescue":
            await self._work.keep_and_end(lease, "released with --rescue")
        elif dirty == "refuse":
            _refuse_if(lease, in_the_way, require)
        try:
            await self._work.flush()
        except LedgerUnavailable as error:
            # Then it cannot be told of the release either, and hears of both when it is back.
            log.info("released without the ledger: %s", error.message)
        if dirty == "rescue":
            return "rescued" if in_the_way else "refuse"
        return dirty

    def _in_the_way(
        self, lease: HeldLease, require: str, standings: Mapping[bytes, Standing | None]
    ) -> list[bytes]:
        if require == "none":
            return []
        dirty = self._work.intents.dirty_of(lease.token)
        if require == "committed":
            return dirty
        committed = (
            path for path, one in standings.items() if one and not one.pushed and one.commit
        )
        return dirty + [
            path for path in committed if self._work.intents.lease_of(path) == lease.token
        ]

    def _is_under_git(self) -> bool:
        gitdir = find_git(self._tree.root_fd, self._tree.around())
        if gitdir is None:
            return False
        gitdir.close()
        return True

    def _end_with_lease(self, lease: HeldLease) -> None:
        """Without git nothing is ever committed: intents end when their lease is given back."""
        paths = self._work.intents.dirty_of(lease.token)
        after, now_s = self._work.intents.last_note, self._work.intents.wall_s()
        for path in paths:
            self._work.intents.clean(path)
        self._work.report.settle([Settlement(after, now_s, settled(p, "clean")) for p in paths])


def _refuse_if(lease: HeldLease, in_the_way: list[bytes], require: str) -> None:
    if in_the_way:
        names = sorted(map(text, in_the_way))
        raise Dirty(lease.lease_id, names[:NAMES_KEPT], len(names), wanted=require)
