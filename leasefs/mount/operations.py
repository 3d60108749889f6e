"""The FUSE handlers: decode, call, encode. The only module, with `boundary` and `serve`, that knows pyfuse3.

Each handler is classed below as one that reads or one that changes the tree; a test compares the two
lists with pyfuse3's own, so that a new handler cannot slip past the gate unnoticed.
"""

# ruff: noqa: D102 - the handlers are named and explained by pyfuse3.Operations

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING, Any

import pyfuse3
from pyfuse3 import (
    EntryAttributes,
    FileInfo,
    FUSEError,
    ReaddirToken,
    RequestContext,
    SetattrFields,
    StatvfsData,
)

from leasefs.core.policy import Op
from leasefs.mount import attributes, naming, opening, reading, renaming
from leasefs.mount.attributes import Change
from leasefs.mount.boundary import at_once, boundary, changing
from leasefs.mount.inodes import CONTROL_NUMBER

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from leasefs.mount.tree import Entry, Tree

log = logging.getLogger(__name__)

READS = frozenset(
    {
        "access",
        "flush",
        "forget",
        "fsync",
        "fsyncdir",
        "getattr",
        "getxattr",
        "init",
        "listxattr",
        "lookup",
        "opendir",
        "poll",
        "read",
        "readdir",
        "readlink",
        "release",
        "releasedir",
        "stacktrace",
        "statfs",
    }
)
CHANGES = frozenset(
    {
        "create",
        "link",
        "mkdir",
        "mknod",
        "open",
        "removexattr",
        "rename",
        "rmdir",
        "setattr",
        "setxattr",
        "symlink",
        "unlink",
        "write",
    }
)


def _fill(shown: EntryAttributes, entry: Entry) -> EntryAttributes:
    found = entry.stat
    shown.st_ino = entry.number
    shown.entry_timeout = entry.entry_s
    # pyfuse3 sends `st_ino` as the number. Where users see another one, the kernel is to ask for it.
    shown.attr_timeout = entry.attr_s if entry.number == entry.shown else 0.0
    shown.st_mode = found.st_mode
    shown.st_nlink = found.st_nlink
    shown.st_uid = found.st_uid
    shown.st_gid = found.st_gid
    shown.st_rdev = found.st_rdev
    shown.st_size = found.st_size
    shown.st_blksize = found.st_blksize
    shown.st_blocks = found.st_blocks
    shown.st_atime_ns = found.st_atime_ns
    shown.st_mtime_ns = found.st_mtime_ns
    shown.st_ctime_ns = found.st_ctime_ns
    return shown


def _shown(entry: Entry) -> EntryAttributes:
    return _fill(EntryAttributes(), entry)


def _attributes(entry: Entry) -> EntryAttributes:
    shown = _fill(EntryAttributes(), entry)
    shown.st_ino = entry.shown
    shown.attr_timeout = entry.attr_s
    return shown


def _nothing(for_s: float) -> EntryAttributes:
    shown = EntryAttributes()
    shown.st_ino = 0
    shown.entry_timeout = for_s
    return shown


def _info(opened: opening.Opened) -> FileInfo:
    return FileInfo(fh=opened.handle, keep_cache=opened.keep_cache, direct_io=opened.direct_io)


def _change(attr: EntryAttributes, fields: SetattrFields) -> Change:
    return Change(
        mode=attr.st_mode if fields.update_mode else None,
        uid=attr.st_uid if fields.update_uid else None,
        gid=attr.st_gid if fields.update_gid else None,
        size=attr.st_size if fields.update_size else None,
        atime_ns=attr.st_atime_ns if fields.update_atime else None,
        mtime_ns=attr.st_mtime_ns if fields.update_mtime else None,
    )


class Operations(pyfuse3.Operations):
    """The handlers of one mount."""

    supports_dot_lookup = False
    enable_writeback_cache = False  # with it a refused write would report success
    enable_acl = True  # the kernel then judges by the lower ACLs, not by mode bits alone

    def __init__(self, tree: Tree, *, xattrs: bool) -> None:
        """Without `xattrs` the kernel is told that there are none, and stops asking."""
        super().__init__()
        self.tree = tree
        self.xattrs = xattrs

    # -- reading -------------------------------------------------------------------------------

    @at_once
    def lookup(self, parent_inode: int, name: bytes, ctx: RequestContext) -> EntryAttributes:
        entry = reading.lookup(self.tree, parent_inode, name, ctx.pid)
        if entry is None:
            return _nothing(reading.nothing_s(self.tree, parent_inode))
        return _fill(EntryAttributes(), entry)

    async def forget(self, inode_list: Sequence[tuple[int, int]]) -> None:
        try:
            for number, lookups in inode_list:
                self.tree.forget(number, lookups)
        except Exception:
            # There is nobody to answer, and an exception here would end the mount.
            log.exception("forget failed")

    @at_once
    def getattr(self, inode: int, ctx: RequestContext) -> EntryAttributes:
        return _attributes(reading.getattr_(self.tree, inode))

    @at_once
    def readlink(self, inode: int, ctx: RequestContext) -> bytes:
        return reading.readlink(self.tree, inode)

    @at_once
    def opendir(self, inode: int, ctx: RequestContext) -> int:
        return reading.open_directory(self.tree, inode)

    @at_once
    def readdir(self, fh: int, start_id: int, token: ReaddirToken) -> None:
        tree, reply = self.tree, pyfuse3.readdir_reply
        for item, after in reading.list_directory(tree, fh, start_id, _shown):
            # `shown` is what `_shown` made: listings know no form of ours.
            taken = reply(token, item.name, item.shown, after)  # type: ignore[arg-type]
            reading.took(tree, item, taken=taken)
            if not taken:
                return

    @at_once
    def releasedir(self, fh: int) -> None:
        opening.release(self.tree, fh)

    @at_once
    def read(self, fh: int, off: int, size: int) -> bytes:
        return reading.read(self.tree, fh, off, size)

    @at_once
    def flush(self, fh: int) -> None:
        # Nothing is buffered here; the kernel then sends no more of these, one request per close.
        raise FUSEError(errno.ENOSYS)

    @at_once
    def release(self, fh: int) -> None:
        opening.release(self.tree, fh)

    @boundary
    async def fsync(self, fh: int, datasync: bool) -> None:
        await opening.sync(self.tree, fh, data_only=datasync)

    @boundary
    async def fsyncdir(self, fh: int, datasync: bool) -> None:
        await opening.sync(self.tree, fh, data_only=datasync)

    @at_once
    def statfs(self, ctx: RequestContext) -> StatvfsData:
        found = reading.statfs(self.tree)
        shown = StatvfsData()
        shown.f_bsize, shown.f_frsize = found.f_bsize, found.f_frsize
        shown.f_blocks, shown.f_bfree, shown.f_bavail = (
            found.f_blocks,
            found.f_bfree,
            found.f_bavail,
        )
        shown.f_files, shown.f_ffree, shown.f_favail = found.f_files, found.f_ffree, found.f_favail
        shown.f_namemax = found.f_namemax
        return shown

    @at_once
    def getxattr(self, inode: int, name: bytes, ctx: RequestContext) -> bytes:
        if not self.xattrs:
            raise FUSEError(errno.ENOSYS)
        return reading.get_xattr(self.tree, inode, name)

    @at_once
    def listxattr(self, inode: int, ctx: RequestContext) -> list[bytes]:
        if not self.xattrs:
            raise FUSEError(errno.ENOSYS)
        return reading.list_xattrs(self.tree, inode)

    # -- changing ------------------------------------------------------------------------------

    def open(self, inode: int, flags: int, ctx: RequestContext) -> Coroutine[Any, Any, FileInfo]:
        if inode >= CONTROL_NUMBER and self.tree.control.owns(inode):
            return self._open_control(inode, flags, ctx)
        return self._open_file(inode, flags, ctx)

    @boundary
    async def _open_control(self, inode: int, flags: int, ctx: RequestContext) -> FileInfo:
        return _info(await opening.open_control(self.tree, inode, flags, ctx))

    @changing
    def _open_file(self, inode: int, flags: int, ctx: RequestContext) -> FileInfo:
        fh, keep_cache, direct_io = opening.open_file(self.tree, inode, flags, ctx)
        return FileInfo(fh=fh, keep_cache=keep_cache, direct_io=direct_io)

    @changing
    def create(
        self, parent_inode: int, name: bytes, mode: int, flags: int, ctx: RequestContext
    ) -> tuple[FileInfo, EntryAttributes]:
        opened, entry = opening.create(self.tree, parent_inode, name, mode, flags, ctx)
        return _info(opened), _fill(EntryAttributes(), entry)

    @boundary
    async def write(self, fh: int, off: int, buf: bytes) -> int:
        file = self.tree.handles.file(fh)
        if not self.tree.gate.may_write(file):
            await opening.check_handle(self.tree, Op.WRITE, file)
        return opening.write(self.tree, file, off, buf)

    def setattr(
        self,
        inode: int,
        attr: EntryAttributes,
        fields: SetattrFields,
        fh: int | None,
        ctx: RequestContext,
    ) -> Coroutine[Any, Any, EntryAttributes]:
        change = _change(attr, fields)
        if fh is None:
            return self._set_attributes(inode, change, ctx)
        return self._set_by_handle(inode, change, fh, ctx)

    @changing
    def _set_attributes(self, inode: int, change: Change, ctx: RequestContext) -> EntryAttributes:
        return _attributes(attributes.set_attributes(self.tree, inode, change, ctx))

    @boundary
    async def _set_by_handle(
        self, inode: int, change: Change, fh: int, ctx: RequestContext
    ) -> EntryAttributes:
        return _attributes(await attributes.set_by_handle(self.tree, inode, change, fh, ctx))

    @changing
    def mknod(
        self, parent_inode: int, name: bytes, mode: int, rdev: int, ctx: RequestContext
    ) -> EntryAttributes:
        entry = naming.mknod(self.tree, parent_inode, name, mode, rdev, ctx)
        return _fill(EntryAttributes(), entry)

    @changing
    def mkdir(
        self, parent_inode: int, name: bytes, mode: int, ctx: RequestContext
    ) -> EntryAttributes:
        entry = naming.mkdir(self.tree, parent_inode, name, mode, ctx)
        return _fill(EntryAttributes(), entry)

    @changing
    def symlink(
        self, parent_inode: int, name: bytes, target: bytes, ctx: RequestContext
    ) -> EntryAttributes:
        entry = naming.symlink(self.tree, parent_inode, name, target, ctx)
        return _fill(EntryAttributes(), entry)

    @changing
    def link(
        self, inode: int, new_parent_inode: int, new_name: bytes, ctx: RequestContext
    ) -> EntryAttributes:
        entry = naming.link(self.tree, inode, new_parent_inode, new_name, ctx)
        return _fill(EntryAttributes(), entry)

    @changing
    def unlink(self, parent_inode: int, name: bytes, ctx: RequestContext) -> None:
        naming.unlink(self.tree, parent_inode, name, ctx)

    @changing
    def rmdir(self, parent_inode: int, name: bytes, ctx: RequestContext) -> None:
        naming.rmdir(self.tree, parent_inode, name, ctx)

    @changing
    def rename(
        self,
        parent_inode_old: int,
        name_old: bytes,
        parent_inode_new: int,
        name_new: bytes,
        flags: int,
        ctx: RequestContext,
    ) -> None:
        old, new = (parent_inode_old, name_old), (parent_inode_new, name_new)
        renaming.rename(self.tree, old, new, flags, ctx)

    @boundary
    async def setxattr(self, inode: int, name: bytes, value: bytes, ctx: RequestContext) -> None:
        if not self.xattrs:
            raise FUSEError(errno.ENOSYS)
        await attributes.set_xattr(self.tree, inode, name, value, ctx)

    @boundary
    async def removexattr(self, inode: int, name: bytes, ctx: RequestContext) -> None:
        if not self.xattrs:
            raise FUSEError(errno.ENOSYS)
        await attributes.remove_xattr(self.tree, inode, name, ctx)
