"""Telling the kernel that what it has cached is no longer so, without ever waiting for it.

What may wait inside the kernel is told by a thread (see `notices`), and a second time a moment later: a
look-up that was answered just before may reach the kernel's cache just after.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Protocol

import trio

if TYPE_CHECKING:
    from leasefs.mount.notices import Notices

log = logging.getLogger(__name__)

# A client that was answered before the first notice has used the answer by then.
AGAIN_AFTER_S = 1.0

_Notice = Callable[[], None]


class _Milestone(NamedTuple):
    """A place in the queue, and what to do when it is reached."""

    reached: Callable[[], None]


class KernelCache(Protocol):
    """What the operations and the watcher need to tell the kernel."""

    @property
    def forgets_all(self) -> bool:
        """Whether `expire_all_names` works: else nobody can take back that a name is not there."""
        ...

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

    async def settled(self) -> None:
        """Wait until the kernel has been told all that was asked for up to now."""
        ...


class Uncached:
    """No kernel: for operations that run without a mount."""

    forgets_all = True

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

    async def settled(self) -> None:
        """Nothing is cached."""


class FuseCache:
    """The cache of one mount."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._queue: queue.SimpleQueue[_Notice | _Milestone | None] = queue.SimpleQueue()
        self._over = False
        self._forgets_all: bool | None = None
        self._thread = threading.Thread(target=self._run, name="invalidation", daemon=True)

    def start(self) -> None:
        """Begin to tell. Only once requests are served."""
        self._thread.start()

    @property
    def forgets_all(self) -> bool:
        """Tried once, when somebody wants to know; costs nothing while little is cached."""
        if self._forgets_all is None:
            self._forgets_all = self.expire_all_names()
        return self._forgets_all

    def stop(self) -> None:
        """Tell nothing any more. Waits for a notice that is being given, unless the mount is at fault.

        It then waits itself, for a request that nobody serves, until the connection is closed.
        """
        self._over = True
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join(AGAIN_AFTER_S)

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

    async def settled(self) -> None:
        """Does not wait for what is told a second time."""
        told, loop = trio.Event(), trio.lowlevel.current_trio_token()

        def tell_all() -> None:
            with contextlib.suppress(trio.RunFinishedError):
                loop.run_sync_soon(told.set)

        self._queue.put(_Milestone(tell_all))
        await told.wait()

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
            if isinstance(notice, _Milestone):
                notice.reached()
                continue
            _tell(notice)
            again.append((monotonic() + AGAIN_AFTER_S, notice))


def _tell(notice: _Notice) -> bool:
    try:
        notice()
    except FileNotFoundError:
        return True  # the kernel has nothing cached there
    except OSError as error:
        log.debug("a notice could not be given: %s", error)
        return False
    return True
