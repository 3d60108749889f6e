"""Telling the kernel that what it has cached is no longer so, without ever waiting for it.

What may wait inside the kernel is told by a thread (see `notices`), and a second time a moment later: a
look-up that was answered just before may reach the kernel's cache just after.

The kernel holds the lock of a directory while it waits for us to make, remove or rename a name in it. While such a
request waits for its lease, which may be long, what is to be told of that directory is kept back: the thread would
wait as well, and all other news behind it; and could not even be killed, so that a daemon killed meanwhile would
never end, and nobody's wait for it.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections import Counter, deque
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Protocol

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from leasefs.mount.notices import Notices

log = logging.getLogger(__name__)

# A client that was answered before the first notice has used the answer by then.
AGAIN_AFTER_S = 1.0


class _Notice(NamedTuple):
    """Something to tell, and the directory whose lock telling it takes, if it does."""

    tell: Callable[[], None]
    directory: int | None = None


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

    def kept_back(self, directories: Iterable[int]) -> contextlib.AbstractContextManager[None]:
        """While a request waits for which the kernel holds these directories' locks, they are not spoken of."""
        ...

    async def settled(self) -> None:
        """Wait until the kernel has been told all that was asked for up to now, and is not kept back."""
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

    def kept_back(self, directories: Iterable[int]) -> contextlib.AbstractContextManager[None]:
        """There is nothing to speak of."""
        return contextlib.nullcontext()

    async def settled(self) -> None:
        """Nothing is cached."""


class FuseCache:
    """The cache of one mount."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._queue: queue.SimpleQueue[_Notice | _Milestone | None] = queue.SimpleQueue()
        self._over = False
        self._forgets_all: bool | None = None
        # Directories that requests wait in, how many, and what is to be told of each when none does any more.
        self._lock = threading.Lock()
        self._waited_in: Counter[int] = Counter()
        self._kept: dict[int, list[_Notice]] = {}
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
        _tell(_Notice(partial(self._notices.inode, number, pages=False)))

    def drop_attributes(self, number: int) -> None:
        """In the thread."""
        self._queue.put(_Notice(partial(self._notices.inode, number, pages=False)))

    def drop_inode(self, number: int) -> None:
        """In the thread."""
        self._queue.put(_Notice(partial(self._notices.inode, number, pages=True)))

    def expire_name(self, directory: int, name: bytes) -> None:
        """In the thread."""
        self._queue.put(_Notice(partial(self._notices.expire, directory, name), directory))

    def expire_all_names(self) -> bool:
        """At once."""
        return _tell(_Notice(self._notices.all_entries))

    @contextlib.contextmanager
    def kept_back(self, directories: Iterable[int]) -> Iterator[None]:
        """Told as soon as the last such request is answered."""
        held = set(directories)
        with self._lock:
            self._waited_in.update(held)
        try:
            yield
        finally:
            with self._lock:
                self._waited_in.subtract(held)
                free = [number for number in held if not self._waited_in[number]]
                for number in free:
                    del self._waited_in[number]
                    for notice in self._kept.pop(number, ()):
                        self._queue.put(notice)

    def _is_kept_back(self, notice: _Notice) -> bool:
        if notice.directory is None:
            return False
        with self._lock:
            if notice.directory not in self._waited_in:
                return False
            self._kept.setdefault(notice.directory, []).append(notice)
        return True

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
                notice = again.popleft()[1]
                if not self._is_kept_back(notice):
                    _tell(notice)
                continue
            if notice is None or self._over:
                return
            if isinstance(notice, _Milestone):
                notice.reached()
                continue
            if self._is_kept_back(notice):
                continue
            _tell(notice)
            again.append((monotonic() + AGAIN_AFTER_S, notice))


def _tell(notice: _Notice) -> bool:
    try:
        notice.tell()
    except FileNotFoundError:
        return True  # the kernel has nothing cached there
    except OSError as error:
        log.debug("a notice could not be given: %s", error)
        return False
    return True
