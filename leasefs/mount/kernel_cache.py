"""Telling the kernel that what it has cached is no longer so, without ever waiting for it.

What may wait inside the kernel is told by a thread (see `notices`), and a second time a moment later: a
look-up that was answered just before may reach the kernel's cache just after.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from leasefs.mount.notices import Notices

log = logging.getLogger(__name__)

# A client that was answered before the first notice has used the answer by then.
_AGAIN_AFTER_S = 1.0

_Notice = Callable[[], None]


class KernelCache(Protocol):
    """What the operations and the watcher need to tell the kernel."""

    def drop_attributes_now(self, number: int) -> None:
        """The attributes of the inode that is being asked about are not what the kernel believes."""
        ...

    def drop_attributes(self, number: int) -> None:
        """The attributes of an inode are not what the kernel believes."""
        ...

    def drop_inode(self, number: int) -> None:
        """The attributes and the bytes of an inode are not what the kernel believes."""
        ...

    def expire_name(self, directory: int, name: bytes) -> None:
        """The kernel must ask again what is at a name, absence included."""
        ...

    def expire_all_names(self) -> bool:
        """The kernel must ask again about every name. False if this kernel cannot be told so."""
        ...


class Uncached:
    """No kernel: for operations that run without a mount."""

    def drop_attributes_now(self, number: int) -> None:
        """Nothing is cached."""

    def drop_attributes(self, number: int) -> None:
        """Nothing is cached."""

    def drop_inode(self, number: int) -> None:
        """Nothing is cached."""

    def expire_name(self, directory: int, name: bytes) -> None:
        """Nothing is cached."""

    def expire_all_names(self) -> bool:
        """Nothing is cached."""
        return True


class FuseCache:
    """The cache of one mount."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._queue: queue.SimpleQueue[_Notice | None] = queue.SimpleQueue()
        self._over = False
        self._thread = threading.Thread(target=self._run, name="invalidation", daemon=True)

    def start(self) -> None:
        """Begin to tell. Only once requests are served."""
        self._thread.start()

    def stop(self) -> None:
        """Tell nothing any more. Waits for a notice that is being given, unless the mount is at fault.

        It then waits itself, for a request that nobody serves, until the connection is closed.
        """
        self._over = True
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join(_AGAIN_AFTER_S)

    def drop_attributes_now(self, number: int) -> None:
        """Only from a handler that serves this very inode: the caller's reference keeps it in place."""
        _tell(partial(self._notices.inode, number, pages=False))

    def drop_attributes(self, number: int) -> None:
        """In the thread."""
        self._queue.put(partial(self._notices.inode, number, pages=False))

    def drop_inode(self, number: int) -> None:
        """In the thread."""
        self._queue.put(partial(self._notices.inode, number, pages=True))

    def expire_name(self, directory: int, name: bytes) -> None:
        """In the thread."""
        self._queue.put(partial(self._notices.expire, directory, name))

    def expire_all_names(self) -> bool:
        """At once."""
        return _tell(self._notices.all_entries)

    def _run(self) -> None:
        again: deque[tuple[float, _Notice]] = deque()
        while True:
            wait_s = max(0.0, again[0][0] - monotonic()) if again else None
            try:
                notice = self._queue.get(timeout=wait_s)
            except queue.Empty:
                _tell(again.popleft()[1])
                continue
            if notice is None or self._over:
                return
            _tell(notice)
            again.append((monotonic() + _AGAIN_AFTER_S, notice))


def _tell(notice: _Notice) -> bool:
    try:
        notice()
    except FileNotFoundError:
        return True  # the kernel has nothing cached there
    except OSError as error:
        log.debug("a notice could not be given: %s", error)
        return False
    return True
