"""Finding, and telling, what no lease stood for although it came through this mount.

Two things get past the gate on purpose. Git may move history to any path of an agent's own tree: what then still
differs from HEAD was more than history. And the git directory needs no lease, so a commit made with `--no-verify`
gets past the hooks: it is found when its branch moves.
"""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import TYPE_CHECKING

import trio

from leasefs.client import api
from leasefs.core.errors import LeasefsError
from leasefs.core.paths import text
from leasefs.vcs.errors import VcsError
from leasefs.vcs.gitdir import find_git

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasefs.client.transport import Transport
    from leasefs.core.globs import Glob
    from leasefs.mount.intents import IntentLog
    from leasefs.vcs.worktree import WorkTree

log = logging.getLogger(__name__)

# Git moves HEAD last; until then what it wrote differs from it.
AFTER_GIT_S = 0.5
_TIMEOUT_S = 10.0
_IN_ONE_REPORT = 500
_BRANCHES = b"refs/heads/"

Refs = dict[bytes, str]


class Unleased:
    """Looks after each change of the git directory."""

    def __init__(
        self,
        intents: IntentLog,
        tree: WorkTree,
        tree_id: str,
        transport: Transport,
        wall_s: Callable[[], float],
        globs: Callable[[], Sequence[Glob]],
    ) -> None:
        """`globs` are those of all leases that this mount has, or had: one may be given back right after a commit."""
        self._intents = intents
        self._tree = tree
        self._tree_id = tree_id
        self._transport = transport
        self._wall_s = wall_s
        self._globs = globs
        self._refs: Refs | None = None
        self._due = trio.Event()

    def git_changed(self) -> None:
        """The git directory changed."""
        self._due.set()

    async def run(self) -> None:
        """Look for ever. What cannot be told now is logged, and told no more."""
        while True:
            try:
                await self._look()
            except (VcsError, LeasefsError, OSError) as error:
                log.warning("what no lease stood for cannot be told: %s", error)
            await self._due.wait()
            self._due = trio.Event()
            await trio.sleep(AFTER_GIT_S)

    async def _look(self) -> None:
        moved, self._intents.history = self._intents.history, set()
        if moved:
            await self._look_at_history(moved)
        before = self._refs
        self._refs = await trio.to_thread.run_sync(_branches, self._tree)
        if before is not None:
            for ref, commit in self._refs.items():
                if before.get(ref) != commit and self._intents.made_commits(ref):
                    await self._look_at_commits(ref, before.get(ref), commit)

    async def _look_at_history(self, moved: set[bytes]) -> None:
        busy, differing = await trio.to_thread.run_sync(_differing, self._tree, sorted(moved))
        if busy:
            self._intents.history |= (
                moved  # in the middle of a command: its end changes the directory, too
            )
            return
        held = partial(_is_held, self._globs())
        await self._tell([path for path in differing if not held(path)], "git", "")

    async def _look_at_commits(self, ref: bytes, old: str | None, new: str) -> None:
        held = partial(_is_held, self._globs())
        paths = await trio.to_thread.run_sync(_authored, self._tree, ref, old, new, held)
        await self._tell(paths, "commit", f"{new[:12]} on {text(ref)}")

    async def _tell(self, paths: list[bytes], how: str, about: str) -> None:
        for start in range(0, len(paths), _IN_ONE_REPORT):
            part = paths[start : start + _IN_ONE_REPORT]
            log.warning("no lease stood for %d paths: %s", len(part), about or how)
            changes = [self._change(path) for path in part]
            call = api.report_foreign_writes(self._tree_id, changes, how=how, about=about)
            await self._transport.send(call, timeout_s=_TIMEOUT_S)

    def _change(self, path: bytes) -> api.Body:
        return {"path": text(path), "what": "modified", "wall_s": self._wall_s()}


def _is_held(globs: Sequence[Glob], path: bytes) -> bool:
    return any(glob.matches(path) for glob in globs)


def _branches(tree: WorkTree) -> Refs:
    """Blocks: where each branch is."""
    from leasefs.vcs.plumbing import run_git

    gitdir = find_git(tree.root_fd, tree.around())
    if gitdir is None:
        return {}
    with gitdir:
        lines = run_git(gitdir, ["for-each-ref", "--format=%(objectname) %(refname)", "refs/heads"])
    pairs = (line.split(b" ", 1) for line in lines.splitlines())
    return {name: commit.decode() for commit, name in pairs}


def _differing(tree: WorkTree, paths: list[bytes]) -> tuple[bool, list[bytes]]:
    """Blocks: whether git is at work, and the paths that are not as HEAD has them."""
    from leasefs.vcs.reconcile import standings

    gitdir = find_git(tree.root_fd, tree.around())
    if gitdir is None:
        return False, []
    with gitdir:
        busy = "index.lock" in os.listdir(gitdir.fd)
    found = standings(tree, paths, {})
    return busy, [path for path, one in found.items() if one is not None and one.dirty]


def _authored(
    tree: WorkTree, ref: bytes, old: str | None, new: str, held: Callable[[bytes], bool]
) -> list[bytes]:
    """Blocks: what the commits hold that no lease covered."""
    from leasefs.vcs.commit_paths import unleased_in

    gitdir = find_git(tree.root_fd, tree.around())
    if gitdir is None:
        return []
    with gitdir:
        return unleased_in(gitdir, old, new, held, ref=text(ref))
