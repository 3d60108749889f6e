"""Tell git that a mount knows what changed: `core.fsmonitor` and `core.untrackedCache`, while it is mounted.

The hook is one line of shell in the configuration itself, not a file: git run on the bare tree must not execute
whatever a repository has at that name. There the line fails without a word, and git looks at everything (fsmonitor.c).
It answers version 2 alone: git before 2.26 asks for version 1, whose answer it would misread.

All mounts of a working tree set the same text. Each holds a shared lock on the git directory (flock(2)), which ends
with its process however that ends; who finds itself alone at its end takes the settings away, those left by a crash
included. Somebody's own `core.fsmonitor`, at whatever level, is left alone.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from leasefs.vcs.errors import GitFailed
from leasefs.vcs.gitdir import git_at
from leasefs.vcs.own_settings import NotSet, OwnConfig, own_config
from leasefs.vcs.plumbing import configured, is_true

if TYPE_CHECKING:
    from leasefs.vcs.gitdir import GitDir

# Git appends ` "$@"`: the version and the token (fsmonitor.c, run-command.c). What follows the `#` is how we know our
# own, and what else we set along with it.
HOOK = 'test "$1" = 2 && exec cat ".leasefs/changes-$2" 2>/dev/null # leasefs'
_AND_CACHE = " (and core.untrackedCache)"
HOOK_AND_CACHE = HOOK + _AND_CACHE

_MONITOR, _CACHE = "core.fsmonitor", "core.untrackedCache"
_MANY_FILES = "feature.manyFiles"  # git-config(1): it implies an untracked cache
_OURS = b"# leasefs"


class Fsmonitor:
    """The settings of one mount, from `switch_on` to `switch_off`. The git directory stays the caller's, and open."""

    def __init__(self, own: OwnConfig, lock_fd: int, *, cached: bool = False) -> None:
        """`cached`: `core.untrackedCache` is of our making, whatever becomes of the mark that says so."""
        self._own = own
        self._lock_fd = lock_fd
        self._cached = cached

    def switch_off(self) -> None:
        """Take the settings away unless another mount of this tree still needs them; call it once.

        Raises:
            VcsError: git could not; the next mount of the tree takes away at its end what is left.
        """
        try:
            if _lock(self._lock_fd, fcntl.LOCK_EX):
                _take_away(self._own, cached=self._cached)
        finally:
            os.close(self._lock_fd)


def switch_on(gitdir: GitDir) -> Fsmonitor:
    """Make git ask the mount that is about to be made over the tree of `gitdir`.

    Raises:
        NotSet: somebody's own setting is left alone, or it cannot be set.
    """
    own = own_config(gitdir)
    lock_fd = _open_lock(gitdir)
    try:
        cached = _set(own, lock_fd)
    except BaseException as error:
        os.close(lock_fd)
        if isinstance(error, GitFailed):
            raise NotSet(f"the repository's configuration cannot be read: {error}") from error
        raise
    return Fsmonitor(own, lock_fd, cached=cached)


def sweep(source: str) -> None:
    """Take away what a mount of `source` that crashed left behind, unless another one of it lives.

    Raises:
        VcsError: it cannot be looked for, or is still there.
        OSError: `source` cannot be opened.
    """
    gitdir = git_at(source)
    if gitdir is not None:
        with gitdir:
            Fsmonitor(own_config(gitdir), _open_lock(gitdir)).switch_off()


def is_left_behind(source: str) -> bool:
    """Whether a mount of `source` that is gone left its settings there. Nothing is changed.

    Raises:
        VcsError: it cannot be looked for.
        OSError: `source` cannot be opened.
    """
    gitdir = git_at(source)
    if gitdir is None:
        return False
    with gitdir:
        if not any(_OURS in value for value in own_config(gitdir).values(_MONITOR)):
            return False
        lock_fd = _open_lock(gitdir)
        try:
            return _lock(lock_fd, fcntl.LOCK_EX)
        finally:
            os.close(lock_fd)


def _open_lock(gitdir: GitDir) -> int:
    # Opened anew: a duplicate of the descriptor would share its locks.
    return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=gitdir.fd)


def _lock(fd: int, kind: int) -> bool:
    """Whether the lock could be had at once. Nobody is waited for: any reader may hold it for ever."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise NotSet(f"the git directory cannot be locked: {error.strerror}") from error
    return True


def _set(own: OwnConfig, lock_fd: int) -> bool:
    """Set what is missing; whether `core.untrackedCache` is now set by us."""
    if not _lock(lock_fd, fcntl.LOCK_SH):
        raise NotSet("another mount of this tree is just ending")
    configuration = _read(own)
    # The last one is what every git of ours is told on its command line: nothing.
    everywhere = configuration[_MONITOR][:-1]
    if any(_OURS not in value for value in everywhere):
        raise NotSet("core.fsmonitor is set already")
    here = own.values(_MONITOR)
    if here and set(here) <= {HOOK.encode(), HOOK_AND_CACHE.encode()}:
        return HOOK_AND_CACHE.encode() in here
    if here:
        _take_away(own)  # of another version
        configuration = _read(own)
    wanted = _wanted(own, configuration)
    own.add(wanted)
    return _CACHE in wanted


def _read(own: OwnConfig) -> dict[str, list[bytes]]:
    return configured(own.gitdir, _MONITOR, _CACHE, _MANY_FILES, owner=own.owner)


def _wanted(own: OwnConfig, configuration: dict[str, list[bytes]]) -> dict[str, str]:
    # Those that mounts of other working trees of the clone set will go with them.
    theirs = sum(_set_a_cache(value) for value in configuration[_MONITOR])
    if len(configuration[_CACHE]) > theirs or _has_many_files(own, configuration):
        return {_MONITOR: HOOK}
    return {_MONITOR: HOOK_AND_CACHE, _CACHE: "true"}


def _set_a_cache(hook: bytes) -> bool:
    """Whether it was one of ours, of any version, that set `core.untrackedCache` as well."""
    return hook.endswith(_OURS + _AND_CACHE.encode())


def _has_many_files(own: OwnConfig, configuration: dict[str, list[bytes]]) -> bool:
    return bool(configuration[_MANY_FILES]) and is_true(own.gitdir, _MANY_FILES, owner=own.owner)


def _take_away(own: OwnConfig, *, cached: bool = False) -> None:
    ours = [value for value in own.values(_MONITOR) if _OURS in value]
    cached = cached or any(map(_set_a_cache, ours))
    patterns = {_MONITOR: _OURS.decode()} if ours else {}
    if cached:
        patterns[_CACHE] = "^true$"
    if patterns:
        own.remove(patterns)
    if cached:
        own.drop_untracked_cache()
