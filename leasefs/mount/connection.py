"""Making the FUSE mount itself: a descriptor of /dev/fuse that is mounted at a place.

As root by mount(2), as anyone else by fusermount3(1), which passes the descriptor through a socket.
libfuse takes either by the name /dev/fd/N.
"""

from __future__ import annotations

import array
import ctypes
import os
import socket
import subprocess
from typing import TYPE_CHECKING

from leasefs.core.errors import NotMounted

if TYPE_CHECKING:
    from leasefs.mount.mountpoint import MountOptions

_MS_NOSUID = 2
_MS_NODEV = 4
# With this flag the kernel leaves the umask to us (fuse_fill_super_common: dont_mask), which default
# ACLs need; mount(8) and fusermount3 have no word for it.
_MS_POSIXACL = 1 << 16
_FUSERMOUNT_TIMEOUT_S = 20
# One read of a file that is read in order brings this much.
_READ_AHEAD_KIB = 1024

_libc = ctypes.CDLL(None, use_errno=True)


def connect(options: MountOptions) -> int:
    """Mount, and return the connection's descriptor. Nothing answers there yet.

    Raises:
        NotMounted: the kernel or fusermount3 refused; says why.
    """
    if os.geteuid() == 0:
        return _mount_as_root(options)
    return _mount_as_user(options)


def fuse_options(options: MountOptions) -> set[str]:
    """Options of the mount, in fusermount3's words."""
    found = {f"fsname=leasefs:{options.agent}", "subtype=leasefs", "default_permissions"}
    if options.for_others:
        found.add("allow_other")
    return found


def _mount_as_root(options: MountOptions) -> int:
    fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    data = f"fd={fd},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other"
    failed = _libc.mount(
        b"leasefs:" + os.fsencode(options.agent),
        os.fsencode(options.real_mountpoint),
        b"fuse.leasefs",
        ctypes.c_ulong(_MS_NOSUID | _MS_NODEV | _MS_POSIXACL),
        data.encode("ascii"),
    )
    if failed:
        code = ctypes.get_errno()
        os.close(fd)
        raise NotMounted(f"mount on {options.mountpoint} failed: {os.strerror(code)}")
    return fd


def _mount_as_user(options: MountOptions) -> int:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        done = subprocess.run(
            [
                "fusermount3",
                "-o",
                ",".join(sorted(fuse_options(options))),
                "--",
                options.real_mountpoint,
            ],
            env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())},
            pass_fds=[theirs.fileno()],
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_FUSERMOUNT_TIMEOUT_S,
            check=False,
        )
        theirs.close()
        if done.returncode:
            why = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
            raise NotMounted(f"mount on {options.mountpoint} failed: {why}")
        return _received(ours, options)


def _received(ours: socket.socket, options: MountOptions) -> int:
    fds = array.array("i")
    _, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_LEN(fds.itemsize))
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: fds.itemsize])
    if not fds:
        raise NotMounted(f"mount on {options.mountpoint} failed: fusermount3 passed no connection")
    os.set_inheritable(fds[0], False)
    return fds[0]


def raise_read_ahead(device: str) -> None:
    """Let the kernel read further ahead on the mount with this major:minor, where we may say so."""
    try:
        with open(f"/sys/class/bdi/{device}/read_ahead_kb", "w", encoding="ascii") as file:
            file.write(f"{_READ_AHEAD_KIB}\n")
    except OSError:
        return  # only root may, and only where /sys is writable; the default is slower, not wrong
