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


@asynccontextmanager
async def git_told(source: str, *, wanted: bool) -> AsyncIterator[str]:
    """While the block runs, git asks the mount over `source` what changed; gives "on", or why it does not.

    Enter it before mounting. Git works without it as well, so nothing of this stops a mount; what
    could not be taken away at the end is logged.
    """
    if not wanted:
        yield "off: not wanted"
        return
    with _git_of(source) as gitdir:
        setting, said = await trio.to_thread.run_sync(_switch_on, gitdir)
        try:
            yield said
        finally:
            if setting is not None:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(_switch_off, setting, source)


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


def _switch_on(gitdir: GitDir | None) -> tuple[Fsmonitor | None, str]:
    if gitdir is None:
        return None, "off: no git directory"
    try:
        return switch_on(gitdir), "on"
    except NotSet as error:
        return None, f"off: {error}"


def _switch_off(setting: Fsmonitor, source: str) -> None:
    try:
        setting.switch_off()
    except VcsError as error:
        log.warning("git's settings for the mount of %s are left behind: %s", source, error)
