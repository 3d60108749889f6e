"""Git's settings for a mounted tree: made before the mount is, and taken away after it, beneath it."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import trio

from leasefs.vcs.errors import VcsError
from leasefs.vcs.fsmonitor import Fsmonitor, switch_on
from leasefs.vcs.gitdir import git_at
from leasefs.vcs.own_settings import NotSet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from leasefs.vcs.gitdir import GitDir

log = logging.getLogger(__name__)


class Telling:
    """Git's settings of one mount, from `begin` to `end`."""

    def __init__(self, source: str, gitdir: GitDir | None, *, wanted: bool) -> None:
        """Nothing is set yet. `gitdir` is None if there is none that can be used."""
        self._source = source
        self._gitdir = gitdir
        self._wanted = wanted
        self._setting: Fsmonitor | None = None

    async def begin(self) -> str:
        """Have git ask the mount over `source` what changed; gives "on", or why it does not.

        Call it before mounting, or not at all. Git works without it as well, so nothing of this stops a mount.
        """
        if not self._wanted:
            return "off: not wanted"
        if self._gitdir is None:
            return "off: no git directory"
        try:
            self._setting = await trio.to_thread.run_sync(switch_on, self._gitdir)
        except NotSet as error:
            return f"off: {error}"
        return "on"

    async def end(self) -> None:
        """Take away what was set. What could not be taken away is logged."""
        if self._setting is not None:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(_switch_off, self._setting, self._source)


@asynccontextmanager
async def telling_git(source: str, *, wanted: bool) -> AsyncIterator[Telling]:
    """Find the git directory of `source` before the tree is mounted over, and clean up when the block ends."""
    with _git_of(source) as gitdir:
        telling = Telling(source, gitdir, wanted=wanted)
        try:
            yield telling
        finally:
            await telling.end()


@contextmanager
def _git_of(source: str) -> Iterator[GitDir | None]:
    gitdir = None
    try:
        gitdir = git_at(source)
    except (OSError, VcsError) as error:
        log.info("%s: its git directory cannot be used: %s", source, error)
    try:
        yield gitdir
    finally:
        if gitdir is not None:
            gitdir.close()


def _switch_off(setting: Fsmonitor, source: str) -> None:
    try:
        setting.switch_off()
    except VcsError as error:
        log.warning("git's settings for the mount of %s are left behind: %s", source, error)
