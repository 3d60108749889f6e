"""Opening, creating and writing files: where most changes pass."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

import trio

from leasefs.core.policy import Allowed, Op, Place, Target
from leasefs.mount.binding import bind
from leasefs.mount.gate import Unsettled, Wanting
from leasefs.mount.git_guard import GIT_STARTS_WITH
from leasefs.mount.handles import OpenFile, OpenVirtual
from leasefs.mount.lower import reopen, stale
from leasefs.mount.outside import stamp
from leasefs.mount.owner import take_set_ids
from leasefs.mount.reading import look_again

if TYPE_CHECKING:
    from leasefs.mount.handles import Handle
    from leasefs.mount.inodes import Node
    from leasefs.mount.shapes import Caller
    from leasefs.mount.tree import Entry, Tree

# Of the caller's flags only these are passed on. Creation is done apart and exclusively, truncation
# after the check, O_DIRECT would need aligned buffers, and appends are made by each write, since a
# mapping written through the same descriptor has to land where it belongs (pwrite(2), BUGS).
_PASSED_ON = os.O_ACCMODE | os.O_SYNC | os.O_DSYNC | os.O_NOATIME
_ANEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

# Asking what ground a path is at each write would cost a build a third of its speed; what git ignores
# and tracks is itself looked at once in a second only.
_GROUND_STAYS_S = 0.05

# Opens with none of these change nothing.
_MAY_CHANGE = os.O_ACCMODE | os.O_TRUNC

# Looked up in its class, a member takes Python 3.11 longer than all that is done with it (`policy.Op`).
_CREATE = Op.CREATE
_TRUNCATE = Op.TRUNCATE
_OPEN = Op.OPEN
_TREE = Place.TREE


_new = tuple.__new__  # see `tree.Entry`


class Opened(NamedTuple):
    """An open file's handle, and whether the pages that the kernel has of it are still right."""

    handle: int
    keep_cache: bool
    direct_io: bool = False


def wants_write(flags: int) -> bool:
    """Whether an open with these flags may change the file."""
    return flags & _MAY_CHANGE != os.O_RDONLY


async def open_control(tree: Tree, number: int, flags: int, caller: Caller) -> Opened:
    """Open a control file, as it is once all that was done until now is known."""
    if wants_write(flags):
        tree.subject(number, _OPEN, caller.pid)
    content = await tree.control.read(number)
    return Opened(tree.handles.add(OpenVirtual(content)), keep_cache=False, direct_io=True)


def open_file(tree: Tree, number: int, flags: int, caller: Caller) -> Opened:
    """Open an existing file. O_TRUNC acts after the check (it reaches us: FUSE_ATOMIC_O_TRUNC)."""
    node = tree.inodes.get(number) or tree.node(number)
    if flags & _MAY_CHANGE:
        opened = _open_to_write(tree, node, flags, caller)
    else:
        if node.name in GIT_STARTS_WITH and tree.gate.guard is not None:
            tree.gate.guard.looks_for_git(caller.pid, tree.inodes.path(node))
        fd, found = tree.lower.open(node, flags & _PASSED_ON, caller.pid)
        if tree.readings is not None:
            for path in tree.inodes.paths(node):
                tree.readings.read(path, caller.pid, found)
        opened = _opened(tree, OpenFile(fd, node, flags, b"", caller.pid), found)
    retries = tree.lower.retries
    if retries.told or retries.held:
        retries.served(caller.pid, node)
        if tree.gate.obtainer is not None:
            tree.gate.obtainer.came_back(caller.pid)
    return opened


def _open_to_write(tree: Tree, node: Node, flags: int, caller: Caller) -> Opened:
    parent, name = node.parent, node.name
    if parent is None or node.linked or node.kind != stat.S_IFREG:
        return _open_by_all_names(tree, node, flags, caller)
    target = tree.target(parent, name, None)
    try:
        allowed = tree.gate.admit(_TRUNCATE if flags & os.O_TRUNC else _OPEN, (target,), caller.pid)
    except Unsettled:
        if tree.gate.obtainer is None:
            tree.stat(node)  # whoever means a file that is gone is not refused another one's name
        # Else the lease comes first: what the thread finds when it looks again stays there while it is held.
        raise
    fd, found = tree.lower.open(node, flags & _PASSED_ON, caller.pid)
    if found.st_nlink != 1 or node.parent is not parent or node.name != name:
        # It has other names than were judged; nothing is changed yet.
        os.close(fd)
        node.linked = found.st_nlink > 1
        return _open_by_all_names(tree, node, flags, caller)
    file = OpenFile(fd, node, flags, target.path, caller.pid)
    return _open_allowed(tree, file, found, allowed, caller)


def _open_by_all_names(tree: Tree, node: Node, flags: int, caller: Caller) -> Opened:
    op = _TRUNCATE if flags & os.O_TRUNC else _OPEN
    targets = tree.content_target(node, tree.stat(node))
    allowed = tree.gate.admit(op, targets, caller.pid)
    named = node.parent is not None
    path = targets[0].path if targets and named else b""
    fd, found = tree.lower.open(node, flags & _PASSED_ON, caller.pid)
    if named and node.parent is None:
        # Others took its name in between; it may have another one by now.
        os.close(fd)
        return _open_by_all_names(tree, node, flags, caller)
    if not found.st_nlink and tree.gate.obtainer is not None and tree.lower.retries.is_held(node):
        # It was replaced while its lease was waited for: what is written there, nobody would ever see.
        os.close(fd)
        raise stale("something else has its name by now")
    return _open_allowed(tree, OpenFile(fd, node, flags, path, caller.pid), found, allowed, caller)


def _open_allowed(
    tree: Tree, file: OpenFile, found: os.stat_result, allowed: Allowed, caller: Caller
) -> Opened:
    fd, node, flags, path = file.fd, file.node, file.flags, file.path
    try:
        if flags & os.O_TRUNC:
            _truncate(tree, node, fd, flags, caller)
            tree.changed(allowed, path)
            found = os.fstat(fd)
    except BaseException:
        os.close(fd)
        raise
    if file.writes:
        _bind(tree, file, found, allowed, caller, is_noted=bool(flags & os.O_TRUNC))
    tree.links.touched(node, found)
    if flags & os.O_TRUNC:
        # After it the kernel itself forgets size, times and pages (fuse_open, fs/fuse/file.c).
        return _opened(tree, file, found, told=True)
    tree.ground.changed(path)
    return _opened(tree, file, found)


def _truncate(tree: Tree, node: Node, fd: int, flags: int, caller: Caller) -> None:
    node.told = None
    tree.outside.changed_here(node)
    if tree.owner.disarms(caller) and take_set_ids(fd, caller.pid):
        tree.cache.drop_attributes_now(node.number)  # size and times the kernel forgets by itself
    if flags & os.O_ACCMODE != os.O_RDONLY:
        os.ftruncate(fd, 0)
        return
    writable = reopen(fd, os.O_WRONLY)
    try:
        os.ftruncate(writable, 0)
    finally:
        os.close(writable)


def _bind(
    tree: Tree,
    file: OpenFile,
    found: os.stat_result,
    allowed: Allowed,
    caller: Caller,
    *,
    is_noted: bool,
) -> None:
    """`is_noted`: it was changed by being opened, so its first write has nothing to note in this epoch."""
    file.disarms = tree.owner.disarms(caller)
    bind(tree, file, allowed, found, file.path)
    if is_noted and not file.aliased:
        file.noted = tree.changes.epoch


def _opened(tree: Tree, file: OpenFile, found: os.stat_result, *, told: bool = False) -> Opened:
    """`told` says that the kernel knows these attributes, or asks for them before it uses them."""
    node = file.node
    pages_of = (found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    same = node.stamp == pages_of
    node.stamp = pages_of
    if not same and not told and node.told != stamp(found):
        # Somebody else changed it and no event has told yet: the reader is to see the new size (close-to-open).
        node.told = None
        tree.cache.drop_attributes_now(node.number)
    return _new(Opened, (tree.handles.add(file), same, False))


def create(
    tree: Tree, parent_number: int, name: bytes, mode: int, flags: int, caller: Caller
) -> tuple[Opened, Entry]:
    """Create a file and open it in one step, with the access asked for whatever its mode.

    A file that appeared meanwhile is opened instead, unless O_EXCL says otherwise, and only under
    the check that opening it needs.
    """
    parent = tree.directory(parent_number, name, _CREATE, caller.pid)
    target = tree.target(parent, name, None)
    allowed = tree.gate.admit(_CREATE, (target,), caller.pid)
    try:
        fd, found = _create(tree, parent, name, mode, flags, caller)
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        instead = _open_instead(tree, parent, name, flags, caller)
        if instead is None:
            return create(tree, parent_number, name, mode, flags, caller)
        return instead
    if not allowed.by_name:
        tree.arrived(allowed, target, found)
    tree.changed(allowed, target.path)
    node = tree.new_node(parent, name, found)
    entry = tree.told(node, found)
    file = OpenFile(fd, node, flags, target.path, caller.pid)
    if file.writes:
        tree.outside.changed_here(node)
        _bind(tree, file, found, allowed, caller, is_noted=True)
    return _opened(tree, file, found, told=True), entry


def _create(
    tree: Tree, parent: Node, name: bytes, mode: int, flags: int, caller: Caller
) -> tuple[int, os.stat_result]:
    directory = tree.lower.directory(parent)
    ours = flags & _PASSED_ON | _ANEW
    permissions = tree.owner.mode_for(caller, mode)
    umask = os.umask(caller.umask)
    try:
        fd = os.open(name, ours, permissions, dir_fd=directory)
    finally:
        os.umask(umask)
    try:
        tree.lower.for_a_handle(fd)
    except OSError:
        os.unlink(name, dir_fd=directory)
        raise
    try:
        return fd, tree.owner.adopt_file(fd, directory, caller)
    except BaseException:
        os.close(fd)
        os.unlink(name, dir_fd=directory)
        raise


def _open_instead(
    tree: Tree, parent: Node, name: bytes, flags: int, caller: Caller
) -> tuple[Opened, Entry] | None:
    """None if what was there is gone again."""
    entry = look_again(tree, parent, name, caller.pid)
    if entry is None:
        return None
    if not stat.S_ISREG(entry.stat.st_mode):
        tree.forget(entry.number, 1)
        raise stale("something else was created meanwhile")
    try:
        return open_file(tree, entry.number, flags, caller), entry
    except BaseException:
        tree.forget(entry.number, 1)
        raise


def write(tree: Tree, file: OpenFile, offset: int, data: bytes) -> int:
    """Write all of `data`, where `Gate.may_write` or `check_handle` has just allowed it (P2)."""
    if file.noted != tree.changes.epoch:
        tree.note(file)
    append = file.appends_only and _only_appends(tree, file)
    if file.disarms:
        _disarm(tree, file)
    done = _write_all(file, offset, data, append=append)
    file.node.told = None
    if file.token:
        tree.gate.holdings.wrote(file.token)
    if file.aliased:
        tree.links.touched(file.node, os.fstat(file.fd))
    return done


def _disarm(tree: Tree, file: OpenFile) -> None:
    if take_set_ids(file.fd, file.pid):
        tree.cache.drop_attributes_now(file.node.number)


def _only_appends(tree: Tree, file: OpenFile) -> bool:
    # Pages written through a mapping may be sent by any handle that can write. Such a mapping needs
    # one opened O_RDWR; without one every write here is an append, and the file's end is the lower
    # file's: the kernel's idea of the size is up to a second old when others append as well.
    return all(other.appends_only or not other.writes for other in tree.handles.files_of(file.node))


def _write_all(file: OpenFile, offset: int, data: bytes, *, append: bool) -> int:
    """Write `data`; returns how many bytes, fewer only if the file system had no room for the rest."""
    flags = os.RWF_APPEND if append else 0
    total = 0
    while total < len(data):
        try:
            total += os.pwritev(file.fd, [data[total:]], offset + total, flags)
        except OSError:
            if not total:
                raise
            break  # what is written is written: write(2) tells so, and the next one fails
    return total


async def check_handle(tree: Tree, op: Op, file: OpenFile) -> None:
    """The full check of a change through a handle, where `Gate.may_write` could not say yes.

    Raises:
        Refusal: LAPSED while the lease is not confirmed, LOST when it is gone.
    """
    if file.token == 0 and not file.aliased and not file.unsure:
        if _is_still_free(tree, file):
            return
        file.unsure = True
    if file.token != 0:
        await tree.gate.require_write(op, file)
    if file.aliased or file.unsure:
        judged: list[Target] = []

        def describe() -> list[Target]:
            judged[:] = tree.content_target(file.node, tree.stat(file.node))
            return judged

        allowed = await tree.gate.require(op, file.pid, describe)
        path = judged[0].path if judged else file.path
        bind(tree, file, allowed, os.fstat(file.fd), path)


def _is_still_free(tree: Tree, file: OpenFile) -> bool:
    """Whether a file that was opened on ground that needs no lease is still there, and so is the ground.

    Others may have moved it into the tree, given it a name there, or made git track it.
    """
    if os.readlink(f"/proc/self/fd/{file.fd}") != file.text or os.fstat(file.fd).st_nlink > 1:
        return False
    now_s = tree.gate.holdings.now_s()
    if now_s - file.ground_seen_s < _GROUND_STAYS_S:
        return True
    try:
        free = tree.ground.place(file.path, is_dir=False) is not _TREE
    except Wanting:
        return False
    file.ground_seen_s = now_s
    return free


def release(tree: Tree, handle: int) -> None:
    """The last user of a handle closed it."""
    if tree.readings is not None:
        _note_own(tree, tree.handles.get(handle))
    closed = tree.handles.pop(handle)
    if not isinstance(closed, OpenFile):
        return
    if closed.use_id:
        tree.gate.holdings.writer_closed(closed.use_id)
        closed.use_id = 0
    if closed.aliased:
        # What was written under another name of it shows at this close.
        tree.outside.changed_here(closed.node)


def _note_own(tree: Tree, closing: Handle) -> None:
    if isinstance(closing, OpenFile) and closing.writes:
        tree.wrote_own(closing.node, os.fstat(closing.fd))


async def sync(tree: Tree, handle: int, *, data_only: bool) -> None:
    """Bring a file or directory to disk, in a worker thread."""
    opened = tree.handles.get(handle)
    if isinstance(opened, OpenVirtual):
        return
    call = os.fdatasync if data_only else os.fsync
    await trio.to_thread.run_sync(call, opened.fd)
