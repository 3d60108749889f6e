"""Which working tree something is about: an id that is the same on every day and for every user of a host."""

from __future__ import annotations

import os
from hashlib import sha256

from leasefs.client.names import host_name

_MACHINE_ID = "/etc/machine-id"
_DIGITS = 16


def tree_id(root_fd: int) -> str:
    """The id of the tree open at `root_fd`: its host, its place, and the inode there.

    A tree that moves, or is copied or made anew in its place, is another one: what was uncommitted in the
    old one is not in it. Device numbers are left out, they may differ after each boot.
    """
    place = os.readlink(f"/proc/self/fd/{root_fd}".encode())
    facts = (_machine(), str(os.fstat(root_fd).st_ino).encode(), place)
    return "t-" + sha256(b"\0".join(facts)).hexdigest()[:_DIGITS]


def _machine() -> bytes:
    """machine-id(5); the host's name where there is none, as in many containers."""
    try:
        with open(_MACHINE_ID, "rb") as file:
            known = file.read(64).strip()
    except OSError:
        known = b""
    return known or host_name().encode()
