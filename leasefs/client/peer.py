"""Who is at the other end of a Unix socket (SO_PEERCRED, unix(7)); the kernel says so, not the peer."""

from __future__ import annotations

import os
import socket
import struct
from typing import NamedTuple, Protocol

_UCRED = struct.Struct("iII")


class Peer(NamedTuple):
    """The process that connected, or that listens, as it was at that moment."""

    pid: int
    uid: int
    gid: int


class _HasOptions(Protocol):
    def getsockopt(self, level: int, option: int, buflen: int, /) -> bytes: ...


def peer_of(connection: _HasOptions) -> Peer:
    """The peer of a connected Unix socket."""
    return Peer(
        *_UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    )


# The account that the machine's own ledger runs as; only root can make one of this name.
LEDGER_ACCOUNT = "leasefs"


def may_be_ledger(uid: int) -> bool:
    """Whether this user's process may be handed secrets as a ledger: root, this user itself, or the ledger's account."""
    if uid in {0, os.geteuid()}:
        return True
    import pwd  # seldom needed

    try:
        return pwd.getpwnam(LEDGER_ACCOUNT).pw_uid == uid
    except KeyError:
        return False
