"""Asking a mount whether it is served, without waiting for one that is not."""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from leasefs.client.find import MountFound, facts_of, live_mounts

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

ANSWER_TIMEOUT_S = 3.0


class Said(NamedTuple):
    """`errno` is 0 if it answered, ENOTCONN if it is dead, None if it is silent.

    `facts` is what it says of itself, if anything.
    """

    errno: int | None
    facts: MountFound | None = None


def ask(mountpoint: str) -> Said:
    """What the mount answers within `ANSWER_TIMEOUT_S` seconds."""

    def question() -> Said:
        try:
            os.statvfs(mountpoint)  # never answered from the kernel's caches, as stat is
            return Said(0, _facts(mountpoint))
        except OSError as error:
            return Said(error.errno or errno.EIO)

    return in_time(question) or Said(None)


def in_time(question: Callable[[], T]) -> T | None:
    """What `question` says within `ANSWER_TIMEOUT_S` seconds; it may never come back, and raises nothing.

    A mount that has just answered may be stopped by the time of the next question.
    """
    answer: list[T] = []
    waiting = threading.Thread(target=lambda: answer.append(question()), daemon=True)
    waiting.start()
    waiting.join(ANSWER_TIMEOUT_S)
    return answer[0] if answer else None


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
