"""The uncommitted work of one mount: written down before it is done, told to the ledger, followed, never lost.

`journal` and `intents` are what the handlers touch; `intent_report`, `looking`, `rescuing` and `recovering` run
beside them. Here they are put together, and here it is decided what the end of a lease means for them (P8, P9).
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import trio

from leasefs.client.trees import tree_id
from leasefs.core.errors import LeasefsError, NotMounted
from leasefs.mount.heads import Heads, head_in
from leasefs.mount.inheriting import Inheritance
from leasefs.mount.intent_report import IntentReport
from leasefs.mount.intents import IntentLog
from leasefs.mount.journal import Header, Journal, journals_dir
from leasefs.mount.looking import Looking
from leasefs.mount.recovering import Recovery
from leasefs.mount.rescuing import Owner, Rescuer
from leasefs.mount.unleased import HeldLately, Unleased
from leasefs.vcs.errors import VcsError
from leasefs.vcs.worktree import WorkTree

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from leasefs.client.lessee import Lessee
    from leasefs.client.transport import Transport
    from leasefs.core.globs import Glob
    from leasefs.core.held import HeldLease
    from leasefs.vcs.git_watch import GitWatch
    from leasefs.vcs.project_file import ProjectFile
    from leasefs.vcs.standing import Standing

log = logging.getLogger(__name__)

# A rescue that takes longer than this holds up a revocation no more: the ground opens at its deadline anyway.
_RESCUE_WITHIN_S = 30.0
# Nobody has a right to new ground by some time, and what lies there is lost once it is written over.
_ADOPT_WITHIN_S = 300.0
_END_WITHIN_S = 5.0
_ENDED_REMEMBERED = 4096


async def _at_once(_lease_id: str) -> None:
    pass


def _begun(journals: str, header: Header) -> Journal:
    """Raises NotMounted."""
    try:
        return Journal(journals, header)
    except OSError as error:
        raise NotMounted(
            f"no journal can be begun in {journals}: {error.strerror}; nothing may be changed without one: free "
            "space there, or make it writable, then mount again",
            path=journals,
        ) from error


def _wall_s() -> float:
    return time.clock_gettime(time.CLOCK_REALTIME)


class Work:
    """Everything about the uncommitted work of one mount.

    `header` says whose it is and in which tree; `journals` is the directory of the journals of all mounts of it.
    """

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
            NotMounted: the journal cannot be begun, so nothing may be changed.
        """
        identity = lessee.identity
        self.header = Header(
            tree=tree_id(root_fd),
            root=os.readlink(f"/proc/self/fd/{root_fd}"),
            host=identity.host,
            territory=identity.territory,
            agent=identity.agent,
            harness=identity.harness,
            session=lessee.session,
        )
        self._lessee = lessee
        self.journals = journals_dir(self.header.tree)
        self.journal = _begun(self.journals, self.header)
        self.tree = WorkTree(root_fd, (os.fsencode(mountpoint),))
        self._heads = Heads(self.tree)
        self.intents = IntentLog(
            self.journal, wall_s=_wall_s, head=self._heads.of, require_head=self._heads.require
        )
        self.report = IntentReport(self.journal, self.header, transport, root_fd)
        self.looking = Looking(
            self.intents, self.report, self.tree, project.upstream, self.intents.wall_s
        )
        self._rescuer = Rescuer(self.tree, self.header, transport, _wall_s)
        self._recovery = Recovery(
            self.journals,
            self.header,
            transport,
            self.intents,
            self.looking,
            self._rescuer,
            lambda: lessee.view.by_token,
        )
        self._inheritance = Inheritance(
            self.tree, self.header, transport, self._rescuer, self.journals
        )
        self._lately = HeldLately()
        self._unleased = Unleased(
            self.intents, self.tree, self.header.tree, transport, _wall_s, self._all_globs
        )
        # What changed although no lease covers it.
        self.observed = self._unleased.observed
        # In place the git directory is served natively where that is permitted.
        self.intents.may_see_no_refs = mountpoint == self.header.root
        # Of the leases that are held here, and those that were; those whose end was seen to.
        self._globs: dict[int, tuple[str, ...]] = {}
        self._seen_to: set[int] = set()
        self._keeping = trio.Lock()
        # Awaited with each revoked lease: it may be about to be given back, because it was recalled.
        self.yielded: Callable[[str], Awaitable[None]] = _at_once
        self._rescues: dict[str, str] = {}

    # -- while the mount is up -----------------------------------------------------------------

    async def run(self) -> None:
        """Report, look, rescue and recover, until cancelled."""
        self._lessee.guard_ground(self._before_adopting, self._before_leaving)
        self._lessee.begun_anew = self._tell_again
        self._lessee.downgrades.before = self._tell
        self._lessee.downgrades.moved = self.intents.new_token
        async with trio.open_nursery() as nursery:
            for task in (
                self.report.run,
                self.looking.run,
                self._rescuer.run,
                self._recovery.run,
                self._unleased.run,
                self._watch_git,
                self._watch_losses,
                self._sync,
            ):
                nursery.start_soon(task)

    def _tell_again(self) -> None:
        """What the ledger knows of our uncommitted work may be gone with its end (P8)."""
        try:
            self.intents.tell_again()
        except OSError as error:
            log.warning("the ledger is not told again what is uncommitted: %s", error.strerror)
        self.report.wake()
        self.looking.git_changed()

    async def _watch_git(self) -> None:
        loop = trio.lowlevel.current_trio_token()

        def changed() -> None:
            with suppress(trio.RunFinishedError):
                loop.run_sync_soon(self._git_changed, idempotent=True)

        watch = await trio.to_thread.run_sync(_watching, self.tree, changed)
        self.looking.watch_nested = watch.add
        self.looking.git_changed()
        try:
            await trio.sleep_forever()
        finally:
            watch.stop()

    def _git_changed(self) -> None:
        self._heads.forget()
        self.looking.git_changed()
        self._unleased.git_changed()

    def _all_globs(self) -> list[Glob]:
        self._remember_globs()
        return self._lately.globs()

    def _remember_globs(self) -> None:
        leases, uncommitted = self._lessee.view.leases, self.intents.leases()
        self._lately.note(leases, trio.current_time(), uncommitted)
        for lease in leases:
            if lease.token not in self._globs:
                self._globs[lease.token] = tuple(glob.text for glob in lease.globs)
        if len(self._globs) > len(leases) + len(uncommitted) + _ENDED_REMEMBERED:
            # Writes may claim a lease each; nobody asks for those that are over and left nothing.
            known = {*self._lessee.view.by_token, *uncommitted}
            self._globs = {token: one for token, one in self._globs.items() if token in known}

    async def _sync(self) -> None:
        """A power cut takes back no more of the journal than of what was written since the last of these."""
        synced = 0
        while True:
            await trio.sleep(1.0)
            if self.journal.last != synced:
                synced = self.journal.last
                await trio.to_thread.run_sync(self.journal.sync)

    async def _watch_losses(self) -> None:
        """Keep what was done under each lease that is over against our will (P9)."""
        while True:
            self._remember_globs()
            lost = [token for token in self.intents.leases() if self._is_lost(token)]
            if not lost:
                await self._lessee.changed()
            for token in lost:
                await self._keep_lost(token)

    def _is_lost(self, token: int) -> bool:
        reason = self._lessee.view.lost.get(token)
        # What is recalled is seen to by whoever yields it (`recalling`).
        return (
            reason is not None
            and token not in self._seen_to
            and not reason.startswith(("released", "recalled", "upgraded"))
        )

    async def _keep_lost(self, token: int) -> None:
        self._seen_to.add(token)
        lease_id = self.intents.leases().get(token)
        if lease_id is not None:
            await self._keep(token, lease_id, self._lessee.view.lost.get(token, "lost"))

    async def _before_leaving(self, lease_id: str) -> None:
        with trio.move_on_after(_RESCUE_WITHIN_S):
            await self.yielded(lease_id)
            for token, lease in self.intents.leases().items():
                if lease == lease_id:
                    await self._keep_lost(token)

    async def _before_adopting(self, globs: list[str]) -> None:
        """Keep what others left uncommitted here, before we can write over it (P9)."""
        with trio.move_on_after(_ADOPT_WITHIN_S) as scope:
            # What our own agent left there when its last mount died is no less in the way.
            await self._recovery.tried.wait()
            try:
                await self._inheritance.keep(globs)
            except LeasefsError as error:
                log.warning("what others left here cannot be told: %s", error.message)
        if scope.cancelled_caught:
            log.error("what others left below %s is not kept: it took too long", " ".join(globs))

    async def _tell(self) -> None:
        """Tell the ledger all that is known here, as far as it answers."""
        try:
            await self.flush()
        except LeasefsError as error:
            log.info("the ledger is told later: %s", error.message)

    async def _keep(
        self,
        token: int,
        lease_id: str,
        reason: str,
        *,
        ends: bool = False,
        globs: Sequence[Glob] = (),
    ) -> str:
        """Rescue what is uncommitted under a lease, perhaps only below some globs.

        Returns the rescue's id, "" if there is none.
        """
        async with self._keeping:
            await self.look()
            try:
                await self.report.flush()
            except LeasefsError as error:
                # Told of the rescue first, the ledger would hear of its paths as changed again.
                log.info("a rescue is made before its paths are told: %s", error.message)
            paths = self.intents.dirty_of(token, globs)
            identity = self._lessee.identity
            ground = tuple(glob.text for glob in globs) or self._globs.get(token, ())
            owner = Owner(lease_id, token, identity.agent, identity.harness, ground)
            made = await self._rescuer.rescue(owner, paths, reason, ends=ends)
            if made is None:
                return ""
            self._rescues[lease_id] = made.id
            for path in made.paths if ends else ():
                self.intents.clean(path)
            return made.id

    async def look(self) -> Mapping[bytes, Standing | None]:
        """Ask git now; {} if it cannot be asked, and then all that changed counts as uncommitted."""
        try:
            return await self.looking.look()
        except VcsError as error:
            log.warning("git cannot be asked, so all that changed counts as uncommitted: %s", error)
            return {}

    async def keep_part(
        self, lease: HeldLease, globs: Sequence[Glob], reason: str, *, ends: bool
    ) -> None:
        """Keep what is uncommitted under a lease on a part of its ground; `ends` says that its intents are over."""
        await self._keep(lease.token, lease.lease_id, reason, ends=ends, globs=globs)

    async def keep_and_end(self, lease: HeldLease, reason: str) -> str:
        """Keep what is uncommitted under a lease that its holder leaves so; its intents are over.

        Returns the rescue's id, "" if there was nothing to keep, or it could not be.
        """
        return await self._keep(lease.token, lease.lease_id, reason, ends=True)

    def rescue_of(self, lease_id: str) -> str:
        """The last rescue that was made here of a lease's work, "" if none."""
        return self._rescues.get(lease_id, "")

    async def take_up(
        self, rescue_id: str, lease: HeldLease
    ) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """Work that was kept and is still in the tree as it was left is uncommitted work again, under this lease.

        Returns those paths, and the others of the rescue.

        Raises:
            VcsError, OSError: neither can be told.
        """
        left = await self._rescuer.as_left(rescue_id)
        mine = {path: kind for path, kind in left.in_tree.items() if lease.matches(path)}
        await self._heads.prepare(mine)
        for path, kind in mine.items():
            self.intents.ahead(path, kind, lease, 0)
        return tuple(mine), tuple(left.changed)

    async def head(self) -> str:
        """The commit that is checked out, "" if there is none or that cannot be told."""
        return await trio.to_thread.run_sync(head_in, self.tree, b"") or ""

    async def flush(self) -> None:
        """Tell the ledger all that it has not answered yet. Raises LeasefsError if it does not."""
        await self.report.flush()
        await self._rescuer.flush()

    async def recover(self) -> None:
        """Take over now from the dead mounts of the tree. Raises as `Recovery.once`."""
        await self._recovery.once()
        await self.flush()

    async def end(self) -> None:
        """The mount is down: what is known is told, as far as the ledger is there. Nothing more is changed."""
        with trio.move_on_after(_END_WITHIN_S, shield=True):
            try:
                await self.look()
                await self.flush()
            except LeasefsError as error:
                log.info("the next mount of this tree tells the ledger the rest: %s", error.message)
        self._heads.close()
        self.journal.close()


@contextmanager
def opened_tree(source: str) -> Iterator[int]:
    """The tree beneath, by a descriptor that outlives the mount over it."""
    root_fd = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield root_fd
    finally:
        os.close(root_fd)


def _watching(tree: WorkTree, changed: Callable[[], None]) -> GitWatch:
    # Imported here, in a thread: a mount is to be usable before all this has been read.
    from leasefs.vcs.git_watch import GitWatch

    watch = GitWatch(tree, changed)
    watch.start()
    return watch
