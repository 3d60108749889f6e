"""The uncommitted work of one mount: written down before it is done, told to the ledger, followed, never lost.

`journal` and `intents` are what the handlers touch; `intent_report`, `looking`, `rescuing` and `recovering` run
beside them. Here they are put together, and here it is decided what the end of a lease means for them (P8, P9).
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import trio

from leasefs.client.trees import tree_id
from leasefs.core.errors import Dirty, InvalidRequest, LeasefsError
from leasefs.core.paths import text
from leasefs.mount.intent_report import IntentReport, Settlement
from leasefs.mount.intents import IntentLog
from leasefs.mount.journal import Header, Journal, journals_dir
from leasefs.mount.looking import Looking
from leasefs.mount.recovering import Recovery
from leasefs.mount.rescuing import Owner, Rescuer
from leasefs.vcs.errors import VcsError
from leasefs.vcs.gitdir import find_git
from leasefs.vcs.reconcile import WorkTree, heads_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from leasefs.client import api
    from leasefs.client.lessee import Lessee
    from leasefs.client.transport import Transport
    from leasefs.core.held import HeldLease
    from leasefs.vcs.git_watch import GitWatch
    from leasefs.vcs.project_file import ProjectFile
    from leasefs.vcs.reconcile import Standing

log = logging.getLogger(__name__)

# A rescue that takes longer than this holds up a revocation no more: the ground opens at its deadline anyway.
_RESCUE_WITHIN_S = 30.0
_END_WITHIN_S = 5.0
_NAMES_TOLD = 50


def _wall_s() -> float:
    return time.clock_gettime(time.CLOCK_REALTIME)


class Work:
    """Everything about the uncommitted work of one mount."""

    def __init__(
        self,
        root_fd: int,
        mountpoint: str,
        lessee: Lessee,
        transport: Transport,
        project: ProjectFile,
    ) -> None:
        """Begin a journal.

        Args:
            root_fd: the tree beneath, opened before it is mounted over; stays the caller's.
            mountpoint: where it is shown.
            lessee: whose leases they are.
            transport: to the ledger.
            project: what `.leasefs.toml` says of releases and the upstream.

        Raises:
            OSError: the journal cannot be begun, so nothing may be changed.
        """
        identity = lessee.identity
        self._header = Header(
            tree=tree_id(root_fd),
            root=os.readlink(f"/proc/self/fd/{root_fd}"),
            host=identity.host,
            territory=identity.territory,
            agent=identity.agent,
            harness=identity.harness,
            session=lessee.session,
        )
        self._lessee = lessee
        self._project = project
        self._root_fd = root_fd
        self._journals = journals_dir(self._header.tree)
        self._journal = Journal(self._journals, self._header)
        self._tree = WorkTree(root_fd, (os.fsencode(mountpoint),))
        self.intents = IntentLog(self._journal, wall_s=_wall_s, head=self._head)
        self._report = IntentReport(self._journal, self._header, transport, root_fd)
        self.looking = Looking(self.intents, self._report, self._tree, project.upstream, _wall_s)
        self._rescuer = Rescuer(self._tree, self._header, transport, _wall_s)
        self._recovery = Recovery(
            self._journals,
            self._header,
            transport,
            self.intents,
            self.looking,
            self._rescuer,
            lambda: lessee.view.by_token,
        )
        # Of every lease that was ever held here; those whose end was seen to.
        self._globs: dict[int, tuple[str, ...]] = {}
        self._seen_to: set[int] = set()

    @property
    def tree(self) -> str:
        """The id by which the ledger knows the tree."""
        return self._header.tree

    def _head(self, path: bytes) -> str | None:
        try:
            return heads_of(self._tree, [path.removesuffix(b"/")])[path.removesuffix(b"/")]
        except (VcsError, OSError):
            return None  # then only what is committed from now on can be told from what was there

    # -- while the mount is up -----------------------------------------------------------------

    async def run(self) -> None:
        """Report, look, rescue and recover, until cancelled."""
        self._lessee.before_leaving = self._before_leaving
        async with trio.open_nursery() as nursery:
            for task in (
                self._report.run,
                self.looking.run,
                self._rescuer.run,
                self._recovery.run,
                self._watch_git,
                self._watch_losses,
                self._sync,
            ):
                nursery.start_soon(task)

    async def _watch_git(self) -> None:
        loop = trio.lowlevel.current_trio_token()

        def changed() -> None:
            with suppress(trio.RunFinishedError):
                loop.run_sync_soon(self.looking.git_changed, idempotent=True)

        watch = await trio.to_thread.run_sync(_watching, self._tree, changed)
        try:
            await trio.sleep_forever()
        finally:
            watch.stop()

    async def _sync(self) -> None:
        """A power cut takes back no more of the journal than of what was written since the last of these."""
        synced = 0
        while True:
            await trio.sleep(1.0)
            if self._journal.last != synced:
                synced = self._journal.last
                await trio.to_thread.run_sync(self._journal.sync)

    async def _watch_losses(self) -> None:
        """Keep what was done under each lease that is over against our will (P9)."""
        while True:
            for lease in self._lessee.view.leases:
                self._globs[lease.token] = tuple(glob.text for glob in lease.globs)
            lost = [token for token in self.intents.leases() if self._is_lost(token)]
            if not lost:
                await self._lessee.changed()
            for token in lost:
                await self._keep_lost(token)

    def _is_lost(self, token: int) -> bool:
        reason = self._lessee.view.lost.get(token)
        return (
            reason is not None and token not in self._seen_to and not reason.startswith("released")
        )

    async def _keep_lost(self, token: int) -> None:
        self._seen_to.add(token)
        lease_id = self.intents.leases().get(token)
        if lease_id is not None:
            await self._keep(token, lease_id, self._lessee.view.lost.get(token, "lost"))

    async def _before_leaving(self, lease_id: str) -> None:
        with trio.move_on_after(_RESCUE_WITHIN_S):
            for token, lease in self.intents.leases().items():
                if lease == lease_id:
                    await self._keep_lost(token)

    async def _keep(self, token: int, lease_id: str, reason: str, *, ends: bool = False) -> None:
        await self._look()
        paths = self.intents.dirty_of(token)
        identity = self._lessee.identity
        globs = self._globs.get(token, ())
        owner = Owner(lease_id, token, identity.agent, identity.harness, globs)
        made = await self._rescuer.rescue(owner, paths, reason, ends=ends)
        if made is not None and ends:
            for path in made.paths:
                self.intents.clean(path)

    async def _look(self) -> Mapping[bytes, Standing | None]:
        try:
            return await self.looking.look()
        except VcsError as error:
            log.warning("git cannot be asked, so all that changed counts as uncommitted: %s", error)
            return {}

    # -- the end of a lease --------------------------------------------------------------------

    async def release(self, lease_id: str, key: str, wishes: Mapping[str, str]) -> api.Body:
        """Give a lease back, as far as its uncommitted work allows (P9).

        Args:
            lease_id: which.
            key: the idempotency key of the request.
            wishes: perhaps `require` (else what `.leasefs.toml` says), `dirty`, and a `note` for the next holder.

        Raises:
            Dirty: there is work that is not committed, or not pushed if that is required. Nothing changed.
            LeasefsError: the ledger's refusal.
        """
        lease = next((one for one in self._lessee.view.leases if one.lease_id == lease_id), None)
        require = wishes.get("require") or self._project.require or "committed"
        dirty = wishes.get("dirty") or "refuse"
        if lease is not None:
            dirty = await self._settled(lease, require, dirty)
            if dirty == "refuse" and require != "none":
                # Whatever was changed while git was asked; from here to the end of trust nothing waits.
                self._refuse_if(lease, self.intents.dirty_of(lease.token), require)
        return await self._lessee.release(
            lease_id,
            key,
            # What was pushed without having landed is something that only git knows.
            require="committed" if require == "pushed" else require,
            dirty=dirty,
            note=wishes.get("note") or "",
        )

    async def _settled(self, lease: HeldLease, require: str, dirty: str) -> str:
        """Bring the ledger up to date about the lease; returns what it is to do with what is dirty."""
        if dirty not in {"refuse", "keep", "force", "rescue"}:
            raise InvalidRequest(f"dirty is refuse, keep, force or rescue, not {dirty!r}")
        standings = await self._look()
        if not await trio.to_thread.run_sync(self._is_under_git):
            self._end_with_lease(lease)
        in_the_way = self._in_the_way(lease, require, standings)
        if in_the_way and dirty == "rescue":
            await self._keep(lease.token, lease.lease_id, "released with --rescue", ends=True)
        elif dirty == "refuse":
            self._refuse_if(lease, in_the_way, require)
        await self._flush()
        if dirty == "rescue":
            return "rescued" if in_the_way else "refuse"
        return dirty

    def _in_the_way(
        self, lease: HeldLease, require: str, standings: Mapping[bytes, Standing | None]
    ) -> list[bytes]:
        if require == "none":
            return []
        dirty = self.intents.dirty_of(lease.token)
        if require == "committed":
            return dirty
        committed = (
            path for path, one in standings.items() if one and not one.pushed and one.commit
        )
        return dirty + [path for path in committed if self.intents.lease_of(path) == lease.token]

    def _refuse_if(self, lease: HeldLease, in_the_way: list[bytes], require: str) -> None:
        if in_the_way:
            names = sorted(map(text, in_the_way))
            raise Dirty(lease.lease_id, names[:_NAMES_TOLD], len(names), wanted=require)

    def _is_under_git(self) -> bool:
        gitdir = find_git(self._root_fd, self._tree.around())
        if gitdir is None:
            return False
        gitdir.close()
        return True

    def _end_with_lease(self, lease: HeldLease) -> None:
        """Without git nothing is ever committed: intents end when their lease is given back."""
        paths = self.intents.dirty_of(lease.token)
        after, now_s = self.intents.last_note, _wall_s()
        told: list[dict[str, Any]] = [
            {"path": text(path), "outcome": "clean", "commit": "", "blob": "", "done": False}
            for path in paths
        ]
        for path in paths:
            self.intents.clean(path)
        self._report.settle([Settlement(after, now_s, one) for one in told])

    async def _flush(self) -> None:
        await self._report.flush()
        await self._rescuer.flush()

    async def end(self) -> None:
        """The mount is down: what is known is told, as far as the ledger is there. Nothing more is changed."""
        with trio.move_on_after(_END_WITHIN_S, shield=True):
            try:
                await self._look()
                await self._flush()
            except LeasefsError as error:
                log.info("the next mount of this tree tells the ledger the rest: %s", error.message)
        self._journal.close()


@contextmanager
def opened_tree(source: str) -> Iterator[int]:
    """The tree beneath, by a descriptor that outlives the mount over it."""
    root_fd = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield root_fd
    finally:
        os.close(root_fd)


def _watching(tree: WorkTree, changed: Callable[[], None]) -> GitWatch:
    # Imported here, in a thread, because a mount is to be usable before this has been read.
    from leasefs.vcs.git_watch import GitWatch

    watch = GitWatch(tree, changed)
    watch.start()
    return watch
