"""From a directory to a served mount, and down again."""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import signal
from typing import TYPE_CHECKING

import pyfuse3
import trio

from leasefs.core.errors import NotMounted
from leasefs.mount.control_dir import ControlDir
from leasefs.mount.gate import Gate
from leasefs.mount.inodes import Inodes
from leasefs.mount.links import LinkedNames
from leasefs.mount.lower import Lower
from leasefs.mount.mountinfo import Mount, top_at
from leasefs.mount.mountpoint import MountOptions, check, fuse_options, mount_as_root
from leasefs.mount.operations import Operations
from leasefs.mount.owner import Owner
from leasefs.mount.refusals import RefusalLog
from leasefs.mount.scratch import GitGround
from leasefs.mount.tree import Tree
from leasefs.mount.unmounting import unmount

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from leasefs.mount.ground import Ground
    from leasefs.mount.holdings import Holdings

log = logging.getLogger(__name__)

_PR_SET_DUMPABLE = 4
_libc = ctypes.CDLL(None)

_SIGNALS = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


def build_tree(
    root_fd: int,
    gate: Gate,
    ground: Ground,
    control: ControlDir,
    *,
    for_others: bool,
    directories: int = 1024,
) -> Tree:
    """Put a tree together over an open root directory; at most `directories` descriptors are kept."""
    inodes = Inodes(os.fstat(root_fd))
    lower = Lower(root_fd, inodes, directories=directories)
    return Tree(
        inodes=inodes,
        lower=lower,
        gate=gate,
        ground=ground,
        links=LinkedNames(lower, inodes, skip=b".git" if ground.is_git_root(b".git") else None),
        owner=Owner(for_others),
        control=control,
    )


async def serve(
    options: MountOptions,
    holdings: Holdings,
    control: Mapping[str, Callable[[], bytes]],
    ready: Callable[[], None],
    refusals: RefusalLog | None = None,
) -> None:
    """Mount, call `ready` when requests are served, and return once unmounted.

    SIGTERM, SIGINT and SIGHUP unmount; a second one does so at once. Any exception that ends the loop
    leaves the mount in place and dead, so that the tree stays closed (P12), and is raised.

    Raises:
        NotMounted: nothing was mounted.
    """
    check(options)
    mountpoint = options.real_mountpoint
    root_fd = os.open(options.source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        hide_descriptors()
        os.chdir("/")
        os.umask(0)
        ground = GitGround(root_fd, holdings.now_s)
        await ground.load()
        gate = Gate(holdings, refusals or RefusalLog(holdings.refused))
        tree = build_tree(
            root_fd,
            gate,
            ground,
            ControlDir(control, os.geteuid(), os.getegid()),
            for_others=options.for_others,
            directories=raise_file_limit() // 4,
        )
        _mount(Operations(tree, xattrs=options.xattrs), options)
        await _serve_mounted(mountpoint, options, ready)
        tree.handles.close_all()
        tree.lower.close()
        ground.close()
    finally:
        os.close(root_fd)


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


def _mount(operations: Operations, options: MountOptions) -> None:
    mountpoint = options.real_mountpoint
    if os.geteuid() == 0:
        # libfuse takes a connection that is mounted already by this name.
        mountpoint = f"/dev/fd/{mount_as_root(options)}"
    try:
        pyfuse3.init(operations, mountpoint, fuse_options(options))
    except RuntimeError as error:
        raise NotMounted(f"mount on {options.mountpoint} failed: {error}") from error


async def _serve_mounted(mountpoint: str, options: MountOptions, ready: Callable[[], None]) -> None:
    try:
        ours = top_at(mountpoint)
        if ours is None:
            raise NotMounted(f"{mountpoint} vanished while it was mounted")
        async with trio.open_nursery() as nursery:
            await nursery.start(_unmount_on_signal, mountpoint, ours, options.unmount_within_s)
            ready()
            await _until_unmounted(mountpoint, ours)
            nursery.cancel_scope.cancel()
    finally:
        # Never let libfuse unmount: after a fault the dead mount keeps the tree closed, and after an
        # orderly end there is nothing of ours left to unmount.
        pyfuse3.close(unmount=False)


async def _until_unmounted(mountpoint: str, ours: Mount) -> None:
    try:
        await pyfuse3.main()
    except* ConnectionAbortedError:
        # A connection that is unmounted while requests wait (a process with many open files has just
        # ended) is aborted by the kernel. So is one that somebody aborts; then the mount is still there.
        there = top_at(mountpoint)
        if there is not None and there.device == ours.device:
            raise


async def _unmount_on_signal(
    mountpoint: str, ours: Mount, within_s: float, task_status: trio.TaskStatus[None]
) -> None:
    with trio.open_signal_receiver(*_SIGNALS) as signals:
        task_status.started()
        hurry = trio.Event()
        async with trio.open_nursery() as nursery:
            async for number in signals:
                log.info("%s: unmounting %s", signal.Signals(number).name, mountpoint)
                if hurry.is_set():
                    continue
                if nursery.child_tasks:
                    hurry.set()
                else:
                    nursery.start_soon(_unmount_and_end, mountpoint, ours, within_s, hurry)


async def _unmount_and_end(
    mountpoint: str, ours: Mount, within_s: float, hurry: trio.Event
) -> None:
    await unmount(mountpoint, ours, within_s, hurry)
    pyfuse3.terminate()
