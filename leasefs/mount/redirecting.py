"""Making redirects and undoing them, beside the handlers (see `redirects`).

A directory is redirected when it is scratch as a whole, or the git directory; large enough to be worth
it, so that what is quickly removed never is a mountpoint; and no file in it has another name in the
tree, which would be written unasked. All of that is looked at again while redirects exist, and whoever
is not sure undoes: without a redirect everything is right, only slower.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, NamedTuple

import trio

from leasefs.core.policy import Place
from leasefs.mount import bind
from leasefs.mount.deletions import Deletions
from leasefs.mount.fitness import Fitness, answer, shown
from leasefs.mount.mountinfo import Mount, mounts
from leasefs.mount.redirects import Redirect, Redirects
from leasefs.mount.surveying import holds
from leasefs.vcs.beneath import open_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leasefs.mount.notices import Notices
    from leasefs.mount.tree import Tree

log = logging.getLogger(__name__)

# To remove more takes longer than the kernel may remember an entry (`redirects`), so that it is asked in
# time; and with fewer there is little to gain.
WORTH_FILES = 1024
# What was true of the ground is confirmed so often: no redirect outlives its reason by a second.
_CONFIRM_EVERY_S = 0.7
_LOOK_EVERY_S = 0.1
_DRAIN_EVERY_S = 0.002
_UNFIT_FOR_S = 60.0
_TRIES = 20
_TRIED = 1024


class Where(NamedTuple):
    """The mount that redirects are made in, and how its kernel side is told."""

    mount: Mount
    notices: Notices


class Redirecting:
    """Makes and undoes the redirects of one mount. `told` gets their paths whenever they change."""

    def __init__(
        self,
        tree: Tree,
        where: Where,
        now_s: Callable[[], float],
        told: Callable[[list[bytes]], None],
        *,
        git_too: Callable[[], bool],
    ) -> None:
        """Raises OSError if the user has no inotify instance left."""
        self._tree = tree
        self._table: Redirects = tree.redirects
        self._where = where
        self._now_s = now_s
        self._told = told
        self._git_too = git_too
        self._deletions = Deletions()
        self._fitness = Fitness(tree)
        self._one_change = trio.Lock()
        self._tries: dict[bytes, int] = {}
        # Touched while it rested: when to look again.
        self._later: dict[bytes, float] = {}
        self._table.begin(now_s, self._deletions)

    async def run(self) -> None:
        """Until cancelled. A fault of ours takes away the redirects, not the mount."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._find)
                nursery.start_soon(self._confirm)
                nursery.start_soon(self._guard)
        except Exception:
            log.exception("redirects end by a fault; the mount goes on without")
            await self.stop()
            for redirect in self._table.mounted():
                await self._undo(redirect)

    async def stop(self) -> None:
        """Make no more. Those that exist are in force until they are unmounted."""
        self._table.end()
        async with self._one_change:
            pass

    def close(self) -> None:
        """Close what is held open, once nothing is served any more."""
        for redirect in [*self._table.by_place.values(), *self._table.lost]:
            os.close(redirect.lower_fd)
        self._deletions.close()

    def mount_ids(self) -> frozenset[int]:
        """The mounts that are redirects."""
        return frozenset(redirect.mount_id for redirect in self._table.mounted())

    # -- three things to do, for ever ------------------------------------------------------------

    async def _find(self) -> None:
        while True:
            await self._look_is_due()
            for root, is_git in (await self._roots(self._table.take_touched())).items():
                if not self._table.active:
                    return
                async with self._one_change:
                    await self._consider(root, is_git=is_git)
            await trio.sleep(_LOOK_EVERY_S)

    async def _look_is_due(self) -> None:
        """Something was touched, or the rest of what was touched during it is over."""
        next_s = min(self._later.values(), default=float("inf"))
        with trio.move_on_after(max(0.0, next_s - self._now_s())):
            await self._table.look.wait()
        now_s = self._now_s()
        for root in [root for root, due_s in self._later.items() if due_s <= now_s]:
            del self._later[root]
            self._table.touch(root)

    async def _confirm(self) -> None:
        while True:
            with trio.move_on_after(_CONFIRM_EVERY_S if self._table.by_place else float("inf")):
                await self._table.hurry.wait()
            self._table.hurry = trio.Event()
            async with self._one_change:
                await self._forget_lost()
                for redirect in self._table.mounted():
                    if redirect.void or not await self._is_due(redirect):
                        await self._undo(redirect)
                await self._forget_lost()

    async def _guard(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._deletions.fd)
            for redirect in self._table.heed_deletions():
                await self._expire(redirect)
            if b"index" in self._deletions.arrived:
                self._tree.ground.changed(b".git/index")
                self._table.hurry.set()
            self._deletions.arrived.clear()
            await trio.sleep(_DRAIN_EVERY_S)

    # -- finding ---------------------------------------------------------------------------------

    async def _roots(self, directories: set[bytes]) -> dict[bytes, bool]:
        """The directories to consider that are at or above these; and whether it is the git directory."""
        roots: dict[bytes, bool] = {}
        for directory in directories:
            for above in _from_the_top(directory):
                if above in roots:
                    break
                place = await self._fitness.place(above)
                if place is Place.GIT:
                    if self._git_too() and self._tree.ground.is_git_root(above):
                        roots[above] = True
                    break
                if place is Place.SCRATCH:
                    roots[above] = False
                    break
        return roots

    # -- making ----------------------------------------------------------------------------------

    async def _consider(self, root: bytes, *, is_git: bool) -> None:
        known = any(redirect.path == root for redirect in self._table.by_place.values())
        rests_until_s = self._table.resting.get(root, 0.0)
        if not known and rests_until_s > self._now_s():
            self._later[root] = rests_until_s
        if known or root in self._later:
            return
        self._table.resting.pop(root, None)
        try:
            lower_fd = await trio.to_thread.run_sync(_open_listing, self._tree.lower.root_fd, root)
        except OSError:
            return  # gone again
        node = self._tree.inodes.find(os.fstat(lower_fd))
        if node is None or self._tree.inodes.path(node) != root:
            os.close(lower_fd)
            return
        redirect = Redirect(node, root, lower_fd, is_git=is_git)
        if not is_git and not await answer(lambda: holds(lower_fd, WORTH_FILES)):
            os.close(lower_fd)
            return
        self._table.by_place[redirect.place] = redirect
        writers = self._fitness.writers_below(node)
        if not await self._fitness.is_fit(redirect) or not await answer(
            lambda: self._watch(redirect)
        ):
            self._rest(redirect, _UNFIT_FOR_S)
        elif not self._fitness.is_quiet(redirect, writers):
            self._try_again(redirect)
        else:
            await self._make(redirect)
        if not redirect.mount_id:
            self._table.by_place.pop(redirect.place, None)
            self._table.brief.pop(redirect.node.number, None)
            self._deletions.forget(redirect)
            os.close(lower_fd)

    def _try_again(self, redirect: Redirect) -> None:
        """Soon, a few times; then when something changes there."""
        tries = self._tries.get(redirect.path, 0)
        if tries < _TRIES and len(self._tries) < _TRIED:
            self._tries[redirect.path] = tries + 1
            self._table.touch(redirect.path)

    def _rest(self, redirect: Redirect, for_s: float) -> None:
        self._table.resting[redirect.path] = self._now_s() + for_s

    def _watch(self, redirect: Redirect) -> bool:
        # Git removes files below its directory all the time.
        return self._deletions.watch(redirect, redirect.lower_fd, alone=redirect.is_git)

    async def _make(self, redirect: Redirect) -> None:
        if redirect.void or not await self._is_due(redirect):
            return
        # From now on the kernel keeps no entry of it, lest it be removed or renamed unasked.
        self._table.brief[redirect.node.number] = 0.0
        try:
            redirect.mount_id = await trio.to_thread.run_sync(self._bind, redirect)
        except OSError as error:
            if bind.is_passing(error):
                self._try_again(redirect)
            else:
                self._rest(redirect, _UNFIT_FOR_S)
                log.info("%s is not redirected: %s", shown(redirect.path), error)
            return
        self._tries.pop(redirect.path, None)
        # Whatever came in between was not yet stopped by the mount: moved, linked, opened, tracked.
        quiet = self._fitness.is_quiet(redirect, set())
        if redirect.void or not quiet or not await self._is_due(redirect):
            await self._undo(redirect)
        else:
            self._leave(redirect)
        self._table.hurry.set()  # `_confirm` ticks while there are any
        self._tell()

    def _leave(self, redirect: Redirect) -> None:
        """Nothing below is watched any more, so the kernel must not rely on that."""
        for file in self._tree.handles.files():
            if self._tree.inodes.is_below(file.node, redirect.node):
                self._tree.cache.drop_inode(file.node.number)
        self._tree.outside.leave(redirect.node)

    def _bind(self, redirect: Redirect) -> int:
        """In a worker thread. Only if the kernel's entry at the path is the very directory."""
        root_fd = os.open(self._where.mount.mountpoint, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            target_fd = bind.open_cached(root_fd, redirect.path)
        finally:
            os.close(root_fd)
        try:
            node, there = redirect.node, bind.handle_of(target_fd)
            if there not in {self._handle(node.number), self._handle(node.shown)}:
                raise FileNotFoundError(f"{shown(redirect.path)} is another directory now")
            self._where.notices.expire(*redirect.place)
            return bind.bind(redirect.lower_fd, target_fd)
        finally:
            os.close(target_fd)

    def _handle(self, number: int) -> bind.Handle:
        return bind.Handle(self._where.mount.mount_id, number)

    # -- keeping and undoing ---------------------------------------------------------------------

    async def _is_due(self, redirect: Redirect) -> bool:
        """Whether the directory still is where and what it must be, as the rules are now."""
        path = self._tree.inodes.path(redirect.node)
        if path is None:
            return False
        redirect.path = path
        if redirect.is_git:
            return self._git_too() and self._tree.ground.is_git_root(path)
        self._tree.ground.doubt(path)
        if await self._fitness.place(path) is not Place.SCRATCH:
            return False
        return await self._is_large_still(redirect)

    async def _is_large_still(self, redirect: Redirect) -> bool:
        """After deletions. What has become small would be removed before we notice."""
        if not redirect.shrinks or self._now_s() < redirect.guarded_until_s:
            return True
        redirect.shrinks = False
        if not await answer(lambda: holds(redirect.lower_fd, WORTH_FILES // 2)):
            return False
        self._deletions.forget(redirect)
        redirect.deleted = 0
        return bool(await answer(lambda: self._watch(redirect)))

    async def _undo(self, redirect: Redirect) -> None:
        """Detach it. Who is inside goes on there, as below any unmounted file system."""
        await trio.to_thread.run_sync(self._drop, redirect, abandon_on_cancel=True)
        self._table.lose(redirect)

    def _drop(self, redirect: Redirect) -> None:
        try:
            self._where.notices.drop(*redirect.place)
        except OSError as error:
            log.info("%s could not be dropped: %s", shown(redirect.path), error)
        if any(mount.mount_id == redirect.mount_id for mount in mounts()):
            path = os.path.join(self._where.mount.mountpoint, redirect.path)
            bind.unbind(os.fsdecode(path), lazy=True)

    async def _expire(self, redirect: Redirect) -> None:
        try:
            place = redirect.place
            expire = self._where.notices.expire
            await trio.to_thread.run_sync(expire, *place, abandon_on_cancel=True)
        except OSError:
            self._table.hurry.set()  # unknown to the kernel, so nothing is mounted there either

    async def _forget_lost(self) -> None:
        """Those that somebody else unmounted, and those that handlers let go."""
        if self._table.mounted():
            there = {mount.mount_id for mount in await trio.to_thread.run_sync(mounts)}
            for redirect in self._table.mounted():
                if redirect.mount_id not in there:
                    self._table.lose(redirect)
        lost, self._table.lost = self._table.lost, []
        for redirect in lost:
            self._deletions.forget(redirect)
            os.close(redirect.lower_fd)
            # Git may track something there by now, and nobody saw it change.
            self._tree.changes.tree_changed(redirect.path)
        if lost:
            self._tell()

    def _tell(self) -> None:
        self._told(sorted(redirect.path for redirect in self._table.mounted()))


def begin(
    tree: Tree,
    where: Where,
    redirected: Callable[[list[str]], None],
    *,
    git_too: Callable[[], bool],
) -> Redirecting | None:
    """What makes redirects in this mount, or None where that is not permitted.

    `git_too` says whether the git directory may be one now.
    """
    if not bind.permitted():
        return None
    try:
        return Redirecting(
            tree,
            where,
            tree.gate.holdings.now_s,
            lambda paths: redirected([shown(path) for path in paths]),
            git_too=git_too,
        )
    except OSError as error:
        log.warning("no redirects: %s", error)
        return None


def _open_listing(root_fd: int, path: bytes) -> int:
    fd = open_directory(root_fd, path)
    try:
        return os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
    finally:
        os.close(fd)


def _from_the_top(directory: bytes) -> Iterator[bytes]:
    """The directory and those above it but for the root, outermost first."""
    at = directory.find(b"/")
    while at >= 0:
        yield directory[:at]
        at = directory.find(b"/", at + 1)
    if directory:
        yield directory
