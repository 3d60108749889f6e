"""From a directory to a served mount, and down again."""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import secrets
import signal
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyfuse3
import trio

from leasefs.client.log_events import Event, note
from leasefs.core.errors import NotMounted
from leasefs.mount.changes import ChangeLog
from leasefs.mount.connection import connect, raise_read_ahead
from leasefs.mount.control_dir import ControlDir
from leasefs.mount.cpu_latency import latency_of
from leasefs.mount.delegating import cut_off
from leasefs.mount.fsmonitor import finder, finder_of_all
from leasefs.mount.gate import Gate
from leasefs.mount.git_guard import GitGuard
from leasefs.mount.handshake import Handshake
from leasefs.mount.inodes import Inodes
from leasefs.mount.kernel_cache import FuseCache, Uncached
from leasefs.mount.links import LinkedNames
from leasefs.mount.lower import Lower
from leasefs.mount.memory import give_back, spare_the_collector
from leasefs.mount.mountinfo import Mount, top_at
from leasefs.mount.mountpoint import MountOptions, check
from leasefs.mount.notices import Notices
from leasefs.mount.operations import Operations
from leasefs.mount.outside import Outside
from leasefs.mount.over_dead import clear_dead
from leasefs.mount.owner import Owner
from leasefs.mount.pump import Pump, PumpedTrio
from leasefs.mount.readings import Readings
from leasefs.mount.redirecting import Where, begin
from leasefs.mount.refusals import RefusalLog
from leasefs.mount.scratch import GitGround
from leasefs.mount.sharing import Sharing
from leasefs.mount.tree import Tree
from leasefs.mount.unmounting import unmount
from leasefs.mount.watches import is_local
from leasefs.vcs.worktree import WorkTree

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from leasefs.mount.foreign import Foreign
    from leasefs.mount.foreign_writes import ForeignWrites
    from leasefs.mount.ground import Ground
    from leasefs.mount.holdings import Holdings
    from leasefs.mount.intended import Intents
    from leasefs.mount.kernel_cache import KernelCache
    from leasefs.mount.redirecting import Redirecting

log = logging.getLogger(__name__)

_PR_SET_DUMPABLE = 4
_libc = ctypes.CDLL(None)

# Requests that wait (for the ledger, for a disk) leave this many others room.
_REQUESTS_AT_ONCE = 1000
# Not for what callers have open, unless that would be more than a quarter of all.
_DESCRIPTORS_LEFT = 1024
_SIGNALS = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


def build_tree(
    root_fd: int,
    gate: Gate,
    ground: Ground,
    control: ControlDir,
    *,
    for_others: bool,
    descriptors: int = 4096,
    cache: KernelCache | None = None,
    changes: ChangeLog | None = None,
    watched: bool = False,
    judge: Foreign | None = None,
) -> Tree:
    """Put a tree together over an open root directory; it has so many `descriptors`.

    `cache` is told when something `watched` changes beneath; `changes` notes all that changes; `judge` tells
    whether others changed it.
    """
    inodes = Inodes(os.fstat(root_fd))
    lower = Lower(
        root_fd,
        inodes,
        directories=descriptors // 4,
        handles_below=descriptors - min(descriptors // 4, _DESCRIPTORS_LEFT),
    )
    cache = cache or Uncached()
    changes = changes or ChangeLog("0")
    return Tree(
        cache=cache,
        changes=changes,
        outside=Outside(inodes, lower, cache, changes, judge, watched=watched),
        inodes=inodes,
        lower=lower,
        gate=gate,
        ground=ground,
        links=LinkedNames(lower, inodes, skip=b".git" if ground.is_git_root(b".git") else None),
        owner=Owner(for_others),
        control=control,
    )


class Served(NamedTuple):
    """Who holds what, what `.leasefs/` shows, and whom one mount tells."""

    holdings: Holdings
    # The files of `.leasefs/`, by name.
    control: Mapping[str, Callable[[], bytes]]
    # Called when requests are served.
    ready: Callable[[], None]
    refusals: RefusalLog | None = None
    # Gets the paths of all redirects whenever they change.
    redirected: Callable[[list[str]], None] = lambda _: None
    # Hears of each change ahead.
    intents: Intents | None = None
    # Reports those that others make beneath.
    foreign: ForeignWrites | None = None
    # Tells the gate what to do about refusals.
    treat: Callable[[Gate], None] = lambda _: None
    # Hears of the tree that is served.
    serves: Callable[[Tree], None] = lambda _: None
    # Awaited before anything is mounted.
    beforehand: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint


async def serve(options: MountOptions, served: Served) -> None:
    """Mount, and return once unmounted.

    SIGTERM, SIGINT and SIGHUP unmount; a second one does so at once. Any exception that ends the loop
    leaves the mount in place and dead, so that the tree stays closed (P12), and is raised.

    Raises:
        NotMounted: nothing was mounted.
    """
    check(options)
    root_fd = os.open(options.entry, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        hide_descriptors()
        os.chdir("/")
        os.umask(0)
        ground = GitGround(root_fd, served.holdings.now_s)
        async with trio.open_nursery() as nursery:  # both wait for git
            nursery.start_soon(ground.load)
            nursery.start_soon(served.beforehand)
        await _serve_over(root_fd, ground, options, served)
        ground.close()
    finally:
        os.close(root_fd)


async def _serve_over(
    root_fd: int, ground: GitGround, options: MountOptions, served: Served
) -> None:
    gate = Gate(
        served.holdings, served.refusals or RefusalLog(served.holdings.refused), served.intents
    )
    served.treat(gate)
    # Once it is mounted, nothing here may touch the mountpoint.
    mountpoint, in_place = options.real_mountpoint, options.in_place
    foreign, watched = served.foreign, is_local(root_fd)
    handshake = Handshake(connect(options))
    notices = Notices(handshake.libfuse_fd)
    sharing = Sharing(root_fd)
    judge = foreign.judge if foreign is not None and watched else None
    cache = FuseCache(notices)
    tree = _tree(mountpoint, root_fd, ground, gate, cache, sharing, served.control, judge)
    served.serves(tree)
    served.holdings.when_given(partial(cut_off, tree))
    latency = latency_of(options.cpu_latency)
    pump = Pump(handshake, notices.begin, latency)
    _init(Operations(tree, xattrs=options.xattrs), handshake.libfuse_fd, pump, options)
    tasks = [] if foreign is None else foreign.tasks(tree, watched=watched)
    tasks += [latency.run] if latency else []

    def begin_redirecting(ours: Mount) -> Redirecting | None:
        if not options.redirects:
            return None
        return begin(
            tree,
            Where(ours, notices),
            served.redirected,
            git_too=lambda: in_place and sharing.is_alone(),
        )

    beside = Beside([tree.outside.run, tree.listings.tidy, *tasks], cache, begin_redirecting)
    stop_waiting = (lambda: None) if gate.obtainer is None else gate.obtainer.stop
    await _serve_mounted(mountpoint, options, served.ready, beside, stop_waiting)
    if options.covers_dead:
        await trio.to_thread.run_sync(clear_dead, mountpoint)
    tree.close()
    sharing.close()


def _tree(
    mountpoint: str,
    root_fd: int,
    ground: GitGround,
    gate: Gate,
    cache: FuseCache,
    sharing: Sharing,
    control: Mapping[str, Callable[[], bytes]],
    judge: Foreign | None,
) -> Tree:
    """The tree of one mount; `judge` tells own changes from others', where they can be watched."""
    changes = ChangeLog(secrets.token_hex(16), finder(root_fd))
    gate.intents.follow(changes.turn)
    gate.intents.share(sharing.is_alone)
    beneath = WorkTree(root_fd, (os.fsencode(mountpoint),))
    gate.guard = GitGuard(beneath, gate, ground, sharing.is_alone)
    files = ControlDir(
        control,
        os.geteuid(),
        os.getegid(),
        changes,
        lambda: tree.outside.settle(),
        finder_of_all(root_fd),
        gate.refusals.before_reading,
    )
    tree = build_tree(
        root_fd,
        gate,
        ground,
        files,
        for_others=os.geteuid() == 0,
        descriptors=raise_file_limit(),
        cache=cache,
        changes=changes,
        watched=is_local(root_fd),
        judge=judge,
    )
    if gate.obtainer is not None:
        tree.readings = Readings()
    return tree


def hide_descriptors() -> None:
    """Keep other processes of the same user out of /proc/PID/fd, where the tree beneath lies open.

    Agents run as the daemon's user. Not dumpable (prctl(2)), the daemon can be neither traced nor have
    its descriptors opened, except by root.
    """
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def raise_file_limit() -> int:
    """Allow as many descriptors as the hard limit does; returns how many."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _init(operations: Operations, fd: int, pump: Pump, options: MountOptions) -> None:
    # The module global that pyfuse3 waits by; its own `pyfuse3.asyncio` replaces it likewise.
    vars(pyfuse3)["trio"] = PumpedTrio(pump)
    try:
        # libfuse takes a connection that is mounted already by this name.
        pyfuse3.init(operations, f"/dev/fd/{fd}", set())
    except RuntimeError as error:
        raise NotMounted(f"mount on {options.mountpoint} failed: {error}") from error


class Beside(NamedTuple):
    """What runs beside the handlers while they serve."""

    tasks: Sequence[Callable[[], Awaitable[None]]]
    cache: FuseCache
    begin_redirecting: Callable[[Mount], Redirecting | None]


async def _serve_mounted(
    mountpoint: str,
    options: MountOptions,
    ready: Callable[[], None],
    beside: Beside,
    stop_waiting: Callable[[], None],
) -> None:
    redirecting = None
    try:
        ours = top_at(mountpoint)
        if ours is None:
            raise NotMounted(f"{mountpoint} vanished while it was mounted")
        raise_read_ahead(ours.device)
        async with trio.open_nursery() as nursery:
            beside.cache.start()
            for task in beside.tasks:
                nursery.start_soon(task)
            redirecting = beside.begin_redirecting(ours)
            ending = partial(unmount, mountpoint, ours, options.unmount_within_s, redirecting)
            await nursery.start(_unmount_on_signal, mountpoint, ending, stop_waiting)
            if redirecting is not None:
                nursery.start_soon(redirecting.run)
            spare_the_collector()
            give_back()
            ready()
            await _until_unmounted(mountpoint, ours)
            nursery.cancel_scope.cancel()
    finally:
        beside.cache.stop()
        # Never let libfuse unmount: after a fault the dead mount keeps the tree closed, and after an
        # orderly end there is nothing of ours left to unmount.
        pyfuse3.close(unmount=False)
        if redirecting is not None:
            redirecting.close()


async def _until_unmounted(mountpoint: str, ours: Mount) -> None:
    try:
        await pyfuse3.main(max_tasks=_REQUESTS_AT_ONCE)
    except* ConnectionAbortedError:
        # A connection that is unmounted while requests wait (a process with many open files has just
        # ended) is aborted by the kernel. So is one that somebody aborts; then the mount is still there.
        there = top_at(mountpoint)
        if there is not None and there.device == ours.device:
            raise


async def _unmount_on_signal(
    mountpoint: str,
    ending: Callable[[trio.Event], Awaitable[None]],
    stop_waiting: Callable[[], None],
    task_status: trio.TaskStatus[None],
) -> None:
    with trio.open_signal_receiver(*_SIGNALS) as signals:
        task_status.started()
        hurry = trio.Event()
        async with trio.open_nursery() as nursery:
            async for number in signals:
                words = f"{signal.Signals(number).name}: unmounting {mountpoint}"
                note(log, Event.UNMOUNTED, words, mountpoint=mountpoint)
                stop_waiting()
                if hurry.is_set():
                    continue
                if nursery.child_tasks:
                    hurry.set()
                else:
                    nursery.start_soon(_unmount_and_end, ending, hurry)


async def _unmount_and_end(
    ending: Callable[[trio.Event], Awaitable[None]], hurry: trio.Event
) -> None:
    await ending(hurry)
    pyfuse3.terminate()
