"""Asking a mount whether it is served, without waiting for one that is not."""

from __future__ import annotations

import errno
import os
import threading
from typing import NamedTuple

from leasefs.client.find import MountFound, facts_of, live_mounts

ANSWER_TIMEOUT_S = 3.0


class Said(NamedTuple):
    """`errno` is 0 if it answered, ENOTCONN if it is dead, None if it is silent.

    `facts` is what it says of itself, if anything.
    """

    errno: int | None
    facts: MountFound | None = None


def ask(mountpoint: str) -> Said:
    """What the mount answers within `ANSWER_TIMEOUT_S` seconds."""
    answer: list[Said] = []

    def wait() -> None:
        try:
            os.statvfs(mountpoint)  # never answered from the kernel's caches, as stat is
            answer.append(Said(0, _facts(mountpoint)))
        except OSError as error:
            answer.append(Said(error.errno or errno.EIO))

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    waiting.join(ANSWER_TIMEOUT_S)
    return answer[0] if answer else Said(None)


def registered_daemon(mountpoint: str) -> MountFound | None:
    """The live daemon behind the mount, if it is in our registry; the mount is not asked."""
    return next((found for found in live_mounts() if found.mountpoint == mountpoint), None)


def _facts(mountpoint: str) -> MountFound | None:
    try:
        return facts_of(mountpoint)
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            raise
        return None
