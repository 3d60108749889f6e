"""Notice that a git directory changed: HEAD, the index, refs, an operation begun or ended. Objects are not watched.

watchdog's observer is not what is used of it, but the layer below (`InotifyFD`): the observer tells nobody of lost
events (IN_Q_OVERFLOW), holds back half of a rename for half a second, and takes two threads for each directory. The
directories are named through their descriptors, `/proc/self/fd/N/.`: that leads past a mount that covers their path,
and into no link (both tested). What an event says is not looked at: git is asked in any case.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from watchdog.observers.inotify_c import (
    CallbackId,
    InotifyConstants,
    InotifyEvent,
    InotifyFD,
    Mask,
    WatchDescriptor,
)

from leasefs.vcs.beneath import open_directory
from leasefs.vcs.errors import VcsError
from leasefs.vcs.worktree import WorkTree, open_nested, open_repository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leasefs.vcs.worktree import Repository

log = logging.getLogger(__name__)

# A git command makes dozens of changes; the first is waited for that long before anybody is told.
_GATHER_S = 0.05
# How often a change is supposed where not everything can be watched.
_SUPPOSE_S = 2.0
# How often it is made sure that watching goes on.
_CHECK_S = 30.0
_MOST_DIRECTORIES = 2048

_NAMES = (
    InotifyConstants.IN_CREATE
    | InotifyConstants.IN_DELETE
    | InotifyConstants.IN_MOVED_FROM
    | InotifyConstants.IN_MOVED_TO
)
_FLAGS = InotifyConstants.IN_ONLYDIR | InotifyConstants.IN_DONT_FOLLOW
_IN_GIT = Mask(
    _NAMES
    | _FLAGS
    | InotifyConstants.IN_CLOSE_WRITE
    | InotifyConstants.IN_DELETE_SELF
    | InotifyConstants.IN_MOVE_SELF
)
_IN_TREE = Mask(_NAMES | _FLAGS)
# Below these everything is watched; `reftable` takes the place of `refs` where a repository has it.
_REFS = (b"refs", b"reftable")


class GitWatch:
    """Calls `changed`, which must not raise, from a thread of its own some moments after a change, once for many.

    A directory that is replaced by another is noticed, and the new one watched. Lost events count as a change, and
    where not all can be watched a change is supposed every two seconds.
    """

    def __init__(self, tree: WorkTree, changed: Callable[[], None]) -> None:
        """`tree` stays the caller's, who may close it once this is stopped."""
        self._tree = WorkTree(os.dup(tree.root_fd), tree.shown_at)
        self._changed = changed
        self._nested: set[bytes] = set()
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._ended = threading.Event()
        self._watches: dict[tuple[int, int], WatchDescriptor] = {}
        self._inotify: InotifyFD | None = None
        self._callback = _Callback(self._woken, self._forget)
        #: why a change is merely supposed every two seconds; None if all is watched
        self.problem: str | None = None
        self._thread = threading.Thread(target=self._run, name="git-watch", daemon=True)

    def start(self) -> None:
        """Watch from now on: what changes after this returns is noticed."""
        try:
            self._inotify = InotifyFD()
            self._inotify.start()
        except OSError as error:
            self.problem = f"git's directory cannot be watched: {error.strerror}"
        self._look()
        self._thread.start()

    def stop(self) -> None:
        """Watch nothing any more. Returns at once; a call of `changed` that has begun may go on."""
        with self._lock:  # nobody adds a watch to a descriptor that is being closed
            self._ended.set()
        self._woken.set()
        if self._inotify is not None:
            self._inotify.stop()

    def join(self, timeout_s: float) -> bool:
        """Wait until the thread has ended; whether it has."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def add(self, directory: bytes) -> None:
        """Watch the repository at `directory` of the tree as well (a submodule, a clone in the tree)."""
        with self._lock:
            self._nested.add(directory)
        self._look()

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                woken = self._woken.wait(_SUPPOSE_S if self.problem else _CHECK_S)
                if not self._ended.wait(_GATHER_S) and (woken or self._is_doubtful()):
                    self._woken.clear()
                    # First, so that what lies in a new directory is asked for by whoever is told.
                    self._look()
                    self._changed()
        finally:
            os.close(self._tree.root_fd)

    def _is_doubtful(self) -> bool:
        if self._inotify is not None and not self._inotify.is_alive():
            self.problem = "git's directory is not watched any more: an error of inotify"
        return self.problem is not None

    def _look(self) -> None:
        """Watch what is to be watched now, and nothing else."""
        with self._lock:
            if self._inotify is None or self._ended.is_set():
                return
            known, self._watches = self._watches, {}
            try:
                self.problem = self._watch_all(self._inotify, known)
            except (VcsError, OSError) as error:
                self.problem = f"git's directory cannot be watched: {error}"
            stale = set(known.values()) - set(self._watches.values())
            self._inotify.remove_callbacks([(watch, self._callback.id) for watch in stale])

    def _watch_all(
        self, inotify: InotifyFD, known: dict[tuple[int, int], WatchDescriptor]
    ) -> str | None:
        """Why that is not all, if so. A tree without a repository lacks nothing: its coming is noticed."""
        adding = _Adding(inotify, self._callback, known, self._watches)
        adding.add(self._tree.root_fd, _IN_TREE)
        self._callback.root = adding.last
        with open_repository(self._tree.root_fd, self._tree.around()) as repository:
            if repository:
                adding.add_repository(repository)
        for directory in self._nested:
            with open_nested(self._tree.root_fd, directory, self._tree.around()) as repository:
                if repository:
                    adding.add_repository(repository)
        return adding.problem

    def _forget(self, watch: WatchDescriptor) -> None:
        with self._lock:
            for key in [key for key, one in self._watches.items() if one == watch]:
                del self._watches[key]


class _Callback:
    """What `InotifyFD` calls, in its thread."""

    def __init__(self, woken: threading.Event, forget: Callable[[WatchDescriptor], None]) -> None:
        self._woken = woken
        self._forget = forget
        self.id = CallbackId(id(self))
        self.root: WatchDescriptor | None = None

    def on_event(self, event: InotifyEvent) -> None:
        """Something happened to a name. Locks come and go without a change; of the tree, `.git` alone is of interest."""
        if event.wd == self.root and event.name != b".git":
            return
        if not event.name.endswith(b".lock"):
            self._woken.set()

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        """A directory is gone."""
        self._forget(wd)
        self._woken.set()

    def on_queue_overflow(self) -> None:
        """Events were lost."""
        self._woken.set()


class _Adding:
    """Adds directories to the watched ones, as long as there is room."""

    def __init__(
        self,
        inotify: InotifyFD,
        callback: _Callback,
        known: dict[tuple[int, int], WatchDescriptor],
        watches: dict[tuple[int, int], WatchDescriptor],
    ) -> None:
        self._inotify = inotify
        self._callback = callback
        self._known = known
        self._watches = watches
        self.problem: str | None = None
        self.last: WatchDescriptor | None = None

    def add_repository(self, repository: Repository) -> None:
        """The git directory of the worktree, the common one, and what lies below `refs` and the like."""
        for directory_fd in {repository.gitdir.fd, repository.gitdir.common_fd}:
            self.add(directory_fd, _IN_GIT)
            with suppress(OSError):  # logs may be switched off (core.logAllRefUpdates)
                logs_fd = open_directory(directory_fd, b"logs")
                try:
                    self.add(logs_fd, _IN_GIT)
                finally:
                    os.close(logs_fd)
            for name in _REFS:
                for found_fd in _walk(directory_fd, name):
                    self.add(found_fd, _IN_GIT)

    def add(self, directory_fd: int, mask: Mask) -> None:
        status = os.fstat(directory_fd)
        key = (status.st_dev, status.st_ino)
        self.last = self._watches.get(key)
        if self.last is not None:
            return
        if key in self._known:
            self.last = self._watches[key] = self._known[key]
            return
        if len(self._watches) >= _MOST_DIRECTORIES:
            self.problem = f"git has more than {_MOST_DIRECTORIES} directories of refs"
            return
        path = b"/proc/self/fd/%d/." % directory_fd
        try:
            watch = self._inotify.add_callback(path, mask, self._callback, self._callback.id)
        except OSError as error:
            self.problem = f"git's directory cannot be watched: {error.strerror}"
            return
        self.last = self._watches[key] = watch


def _walk(directory_fd: int, name: bytes) -> Iterator[int]:
    """Descriptors of the directory `name` and of all below, one at a time."""
    waiting = [name]
    while waiting:
        path = waiting.pop()
        try:
            found_fd = open_directory(directory_fd, path)
        except OSError:
            continue  # not there, or gone meanwhile: the directory above is watched
        try:
            yield found_fd
            waiting += [path + b"/" + below for below in _directories(found_fd)]
        finally:
            os.close(found_fd)


def _directories(directory_fd: int) -> list[bytes]:
    with suppress(OSError), os.scandir(f"/proc/self/fd/{directory_fd}/.") as entries:
        return [os.fsencode(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]
    return []
