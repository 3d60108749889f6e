"""The name under which a ledger is found.

Who cleans up /tmp or a run directory may remove it while the ledger runs: then nobody finds this ledger, and
nobody can start another, because this one has the store. So it ends, and the next command starts one anew.
"""

from __future__ import annotations

import asyncio
import os

LOOK_EVERY_S = 2.0


class SocketName:
    """The path of a bound socket, for as long as it is that socket's."""

    def __init__(self, path: str) -> None:
        """`path` was bound just now."""
        self._path = path
        self._inode = _inode(path)

    def is_ours(self) -> bool:
        """Whether the path still leads to our socket."""
        return self._inode is not None and _inode(self._path) == self._inode

    async def lost(self) -> None:
        """Return when it does not any more."""
        while self.is_ours():  # noqa: ASYNC110 -- the removal of a name gives no sign to who listens
            await asyncio.sleep(LOOK_EVERY_S)

    def remove(self) -> None:
        """Take the name away, unless somebody else did."""
        if self.is_ours():
            os.unlink(self._path)


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
