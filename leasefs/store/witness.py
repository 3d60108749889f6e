"""What the owner last acknowledged, in ``<db>.head`` beside the ledger.

A log that lost its end (its ``-wal`` removed or cut, an older copy put back) is sound in itself, and
would hand out its numbers, and so its fencing tokens, a second time. The witness is written after each
commit and not synced: it outlives the process, and after a power cut it is at worst older. Since the
commit was synced before, a log that ends before its witness has lost events that were acknowledged.
"""

from __future__ import annotations

import logging
import os
import re

from leasefs.store.sqlite_log import Bound

_log = logging.getLogger(__name__)

SUFFIX = ".head"
_FORM = re.compile(rb"([0-9]{20}) ([0-9a-f]{16})\n")
_FORM_BYTES = 38


class HeadWitness:
    """The open witness file of one ledger, in the hands of its owner."""

    def __init__(self, db_path: str) -> None:
        """Open or create it.

        Raises:
            OSError: it cannot be.
        """
        self._path = db_path + SUFFIX
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self._path, flags, 0o600)

    def recorded(self) -> Bound | None:
        """The last event known to be acknowledged; None if there is no legible record."""
        raw = os.pread(self._fd, _FORM_BYTES + 1, 0)
        match = _FORM.fullmatch(raw)
        if match is None:
            if raw:
                _log.warning("%s is illegible and bears no witness", self._path)
                os.ftruncate(self._fd, 0)  # or its rest would spoil the next record
            return None
        return Bound(int(match[1]), bytes.fromhex(match[2].decode()))

    def record(self, head: Bound) -> None:
        """Note that ``head`` is durable. A failure is logged only: the append itself did happen."""
        try:
            os.pwrite(self._fd, b"%020d %b\n" % (head.seq, head.sum.hex().encode()), 0)
        except OSError as error:
            _log.warning("%s could not be written: %s", self._path, error)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)
