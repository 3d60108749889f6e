"""The least that a file system on pyfuse3 can do: what a mount costs before anybody checks anything.

Each handler makes the one system call that its request stands for, by the path that the number stands for,
and forgets nothing. It is right only while nobody renames a directory, links a file or touches the tree
beneath: enough for `scripts/bench_mount`, which times it beside the real mount. What is slow here is slow
because of the kernel, libfuse, pyfuse3 and the interpreter.
"""

# ruff: noqa: D102 - the handlers are named and explained by pyfuse3.Operations

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

import pyfuse3
import trio
from pyfuse3 import EntryAttributes, FileInfo, FUSEError

from leasefs.mount.connection import connect, raise_read_ahead
from leasefs.mount.cpu_latency import latency_of
from leasefs.mount.handshake import Handshake
from leasefs.mount.mountinfo import top_at
from leasefs.mount.mountpoint import MountOptions
from leasefs.mount.pump import Pump, PumpedTrio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyfuse3 import ReaddirToken, RequestContext, SetattrFields

_FOR_S = 3600.0


class LeastOperations(pyfuse3.Operations):
    """Handlers over the tree at `root_fd`."""

    supports_dot_lookup = False

    def __init__(self, root_fd: int) -> None:
        """`root_fd` stays the caller's."""
        super().__init__()
        self._root_fd = root_fd
        self._paths = {1: b"."}

    def _attributes(self, found: os.stat_result, number: int) -> EntryAttributes:
        shown = EntryAttributes()
        shown.st_ino = number
        shown.entry_timeout = shown.attr_timeout = _FOR_S
        shown.st_mode, shown.st_nlink = found.st_mode, found.st_nlink
        shown.st_uid, shown.st_gid, shown.st_rdev = found.st_uid, found.st_gid, found.st_rdev
        shown.st_size, shown.st_blocks = found.st_size, found.st_blocks
        shown.st_blksize = found.st_blksize
        shown.st_atime_ns, shown.st_mtime_ns = found.st_atime_ns, found.st_mtime_ns
        shown.st_ctime_ns = found.st_ctime_ns
        return shown

    def _look(self, path: bytes) -> EntryAttributes:
        found = os.stat(path, dir_fd=self._root_fd, follow_symlinks=False)
        self._paths[found.st_ino] = path
        return self._attributes(found, found.st_ino)

    async def lookup(self, parent_inode: int, name: bytes, ctx: RequestContext) -> EntryAttributes:
        try:
            return self._look(self._paths[parent_inode] + b"/" + name)
        except FileNotFoundError:
            nothing = EntryAttributes()
            nothing.st_ino = 0
            nothing.entry_timeout = _FOR_S
            return nothing

    async def forget(self, inode_list: Sequence[tuple[int, int]]) -> None:
        return

    async def getattr(self, inode: int, ctx: RequestContext) -> EntryAttributes:
        found = os.stat(self._paths[inode], dir_fd=self._root_fd, follow_symlinks=False)
        return self._attributes(found, inode)

    async def setattr(
        self,
        inode: int,
        attr: EntryAttributes,
        fields: SetattrFields,
        fh: int | None,
        ctx: RequestContext,
    ) -> EntryAttributes:
        if fields.update_size:
            fd = os.open(self._paths[inode], os.O_WRONLY, dir_fd=self._root_fd)
            os.ftruncate(fd, attr.st_size)
            os.close(fd)
        if fields.update_mode:
            os.chmod(self._paths[inode], attr.st_mode & 0o7777, dir_fd=self._root_fd)
        if fields.update_atime or fields.update_mtime:
            times_ns = attr.st_atime_ns, attr.st_mtime_ns
            os.utime(self._paths[inode], ns=times_ns, dir_fd=self._root_fd, follow_symlinks=False)
        return await self.getattr(inode, ctx)

    async def opendir(self, inode: int, ctx: RequestContext) -> int:
        return os.open(self._paths[inode], os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._root_fd)

    async def readdir(self, fh: int, start_id: int, token: ReaddirToken) -> None:
        above = os.readlink(b"/proc/self/fd/%d" % fh)
        root = os.readlink(b"/proc/self/fd/%d" % self._root_fd)
        below = b"." + above.removeprefix(root)
        for at, name in enumerate(sorted(os.listdir(fh))[start_id:], start_id + 1):
            raw = os.fsencode(name)
            if not pyfuse3.readdir_reply(token, raw, self._look(below + b"/" + raw), at):
                return

    async def releasedir(self, fh: int) -> None:
        os.close(fh)

    async def open(self, inode: int, flags: int, ctx: RequestContext) -> FileInfo:
        wanted = flags & (os.O_ACCMODE | os.O_TRUNC)
        return FileInfo(fh=os.open(self._paths[inode], wanted, dir_fd=self._root_fd))

    async def create(
        self, parent_inode: int, name: bytes, mode: int, flags: int, ctx: RequestContext
    ) -> tuple[FileInfo, EntryAttributes]:
        path = self._paths[parent_inode] + b"/" + name
        fd = os.open(path, flags & os.O_ACCMODE | os.O_CREAT, mode, dir_fd=self._root_fd)
        found = os.fstat(fd)
        self._paths[found.st_ino] = path
        return FileInfo(fh=fd), self._attributes(found, found.st_ino)

    async def mkdir(
        self, parent_inode: int, name: bytes, mode: int, ctx: RequestContext
    ) -> EntryAttributes:
        path = self._paths[parent_inode] + b"/" + name
        os.mkdir(path, mode, dir_fd=self._root_fd)
        return self._look(path)

    async def rmdir(self, parent_inode: int, name: bytes, ctx: RequestContext) -> None:
        os.rmdir(self._paths[parent_inode] + b"/" + name, dir_fd=self._root_fd)

    async def symlink(
        self, parent_inode: int, name: bytes, target: bytes, ctx: RequestContext
    ) -> EntryAttributes:
        path = self._paths[parent_inode] + b"/" + name
        os.symlink(target, path, dir_fd=self._root_fd)
        return self._look(path)

    async def readlink(self, inode: int, ctx: RequestContext) -> bytes:
        return os.readlink(self._paths[inode], dir_fd=self._root_fd)

    async def read(self, fh: int, off: int, size: int) -> bytes:
        return os.pread(fh, size, off)

    async def write(self, fh: int, off: int, buf: bytes) -> int:
        return os.pwrite(fh, buf, off)

    async def flush(self, fh: int) -> None:
        raise FUSEError(errno.ENOSYS)

    async def fsync(self, fh: int, datasync: bool) -> None:
        os.fsync(fh)

    async def release(self, fh: int) -> None:
        os.close(fh)

    async def unlink(self, parent_inode: int, name: bytes, ctx: RequestContext) -> None:
        os.unlink(self._paths[parent_inode] + b"/" + name, dir_fd=self._root_fd)

    async def rename(
        self,
        parent_inode_old: int,
        name_old: bytes,
        parent_inode_new: int,
        name_new: bytes,
        flags: int,
        ctx: RequestContext,
    ) -> None:
        old = self._paths[parent_inode_old] + b"/" + name_old
        new = self._paths[parent_inode_new] + b"/" + name_new
        os.rename(old, new, src_dir_fd=self._root_fd, dst_dir_fd=self._root_fd)
        self._paths[os.stat(new, dir_fd=self._root_fd).st_ino] = new

    async def getxattr(self, inode: int, name: bytes, ctx: RequestContext) -> bytes:
        # ENOSYS would end such questions; a tree that has extended attributes must answer them.
        raise FUSEError(errno.ENODATA)


async def _serve(source: str, mountpoint: str, cpu_latency: str = "any") -> None:
    options = MountOptions(source, mountpoint, "least")
    root_fd = os.open(source, os.O_RDONLY | os.O_DIRECTORY)
    handshake = Handshake(connect(options))
    latency = latency_of(cpu_latency)
    vars(pyfuse3)["trio"] = PumpedTrio(Pump(handshake, latency=latency))
    pyfuse3.init(LeastOperations(root_fd), f"/dev/fd/{handshake.libfuse_fd}", set())
    mount = top_at(options.real_mountpoint)
    if mount is not None:
        raise_read_ahead(mount.device)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    async with trio.open_nursery() as nursery:
        if latency is not None:
            nursery.start_soon(latency.run)
        await pyfuse3.main()
        nursery.cancel_scope.cancel()
    pyfuse3.close(unmount=False)


if __name__ == "__main__":
    trio.run(_serve, sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "any")
