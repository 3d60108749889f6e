"""Finding, and telling, what no lease stood for although it came through this mount.

What a mount that only observes lets pass is told at once. Else two things get past the gate on purpose. Git may move history to any path of an agent's own tree: what then still
differs from HEAD was more than history. And the git directory needs no lease, so a commit made with `--no-verify`
gets past the hooks: it is found when its branch moves.
"""

from __future__ import annotations

import errno
import logging
import os
from functools import partial
from typing import TYPE_CHECKING

import trio

from leasefs.client import api
from leasefs.core.errors import InvalidRequest, LeasefsError
from leasefs.core.paths import text
from leasefs.vcs.branches import HEAD, Branches, branches_of, checked_out
from leasefs.vcs.errors import VcsError
from leasefs.vcs.git_commands.process import may_be_git
from leasefs.vcs.gitdir import find_git

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from leasefs.client.transport import Transport
    from leasefs.core.globs import Glob
    from leasefs.core.held import HeldLease
    from leasefs.mount.intents import IntentLog
    from leasefs.vcs.worktree import WorkTree

log = logging.getLogger(__name__)

# Git moves HEAD last; until then what it wrote differs from it.
AFTER_GIT_S = 0.5
# A command may stand still for long, as while its editor is open.
LOOK_AGAIN_S = 2.0
_TIMEOUT_S = 10.0
# A lease may be given back right after the commit under it.
_HELD_LATELY_S = 10.0
_IN_ONE_REPORT = 200
_REPORTS = 200

Report = tuple[str, str, list[bytes]]


class HeldLately:
    """The globs of the leases that a mount has, or had a moment ago."""

    def __init__(self) -> None:
        self._globs: dict[int, tuple[Glob, ...]] = {}
        self._left_s: dict[int, float] = {}

    def note(
        self, leases: Iterable[HeldLease], now_s: float, uncommitted: Container[int] = ()
    ) -> None:
        """These are held now, and no others; of those with the tokens `uncommitted` there is work to be committed."""
        held = {lease.token: lease.globs for lease in leases}
        self._globs |= held
        gone = {token for token in self._globs.keys() - held.keys() if token not in uncommitted}
        self._left_s = {token: self._left_s.get(token, now_s) for token in gone}
        for token, left_s in list(self._left_s.items()):
            if now_s - left_s > _HELD_LATELY_S:
                del self._left_s[token], self._globs[token]

    def globs(self) -> list[Glob]:
        """All of them, as of the last `note`."""
        return [glob for globs in self._globs.values() for glob in globs]


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
        """`globs` are those under which this mount works, or has lately (`HeldLately`)."""
        self._intents = intents
        self._tree = tree
        self._tree_id = tree_id
        self._transport = transport
        self._wall_s = wall_s
        self._globs = globs
        # Git is asked of all branches soon, but a commit may come sooner.
        self._first = checked_out(tree)
        self._branches: Branches | None = None
        self._untold: list[Report] = []
        self._observed: dict[bytes, None] = {}
        self._due = trio.Event()
        intents.history_moves = self.git_changed

    def git_changed(self) -> None:
        """The git directory changed, or git writes where no lease is."""
        self._due.set()

    def observed(self, paths: Iterable[bytes]) -> None:
        """These changed although no lease covers them: the mount refuses nothing."""
        self._observed.update(dict.fromkeys(paths))
        self._due.set()

    @property
    def knows_branches(self) -> bool:
        """Whether moves of branches are noticed from now on."""
        return self._branches is not None

    async def run(self) -> None:
        """Look for ever. What cannot be told while the ledger is away is told when it is back."""
        while True:
            self._take_observed()
            try:
                await self._look()
                await self._tell()
            except (VcsError, LeasefsError, OSError) as error:
                log.warning("what no lease stood for cannot be told yet: %s", error)
            await self._until_due()
            await trio.sleep(AFTER_GIT_S)

    def _take_observed(self) -> None:
        seen, self._observed = list(self._observed), {}
        for start in range(0, len(seen), _IN_ONE_REPORT):
            self._untold.append(("observed", "", seen[start : start + _IN_ONE_REPORT]))
        del self._untold[:-_REPORTS]

    async def _until_due(self) -> None:
        waits = self._untold or self._intents.history
        with trio.move_on_after(LOOK_AGAIN_S if waits else float("inf")):
            await self._due.wait()
        self._due = trio.Event()

    async def _look(self) -> None:
        await self._look_at_history()
        before, now = self._branches, await trio.to_thread.run_sync(branches_of, self._tree)
        self._branches = now
        if before is None:
            before = Branches(now.tips | self._first.tips, self._first.ours, now.inside_tree)
            if HEAD in now.tips and HEAD not in self._first.tips:
                del before.tips[HEAD]
        for ref, commit in now.tips.items():
            old = before.tips.get(ref)
            if old != commit and self._came_through_here(ref, before, now):
                await self._look_at_commits(ref, old, commit)

    def _came_through_here(self, ref: bytes, before: Branches, now: Branches) -> bool:
        moved = self._intents.made_commits(ref)
        if now.inside_tree and not self._intents.sees_no_refs():
            return moved
        return ref in before.ours | now.ours

    async def _look_at_history(self) -> None:
        """Once whoever moved it is done: until then it need not be what HEAD says."""
        movers = self._intents.movers
        movers -= {pid for pid in movers if not may_be_git(pid)}
        if movers or not self._intents.history:
            return
        moved, self._intents.history = self._intents.history, set()
        try:
            differing = await trio.to_thread.run_sync(_differing, self._tree, sorted(moved))
        except VcsError:
            self._intents.history |= moved
            raise
        held = partial(_is_held, self._globs())
        self._find("git", "", [path for path in differing if not held(path)])

    async def _look_at_commits(self, ref: bytes, old: str | None, new: str) -> None:
        held = partial(_is_held, self._globs())
        paths = await trio.to_thread.run_sync(_authored, self._tree, ref, old, new, held)
        self._find("commit", f"{new[:12]} on {text(ref)}", paths)

    def _find(self, how: str, about: str, paths: list[bytes]) -> None:
        if paths:
            log.warning("no lease stood for %d paths: %s", len(paths), about or how)
        for start in range(0, len(paths), _IN_ONE_REPORT):
            self._untold.append((how, about, paths[start : start + _IN_ONE_REPORT]))
        del self._untold[:-_REPORTS]

    async def _tell(self) -> None:
        while self._untold:
            how, about, paths = self._untold[0]
            changes = await trio.to_thread.run_sync(self._changes, paths)
            call = api.report_foreign_writes(self._tree_id, changes, how=how, about=about)
            try:
                await self._transport.send(call, timeout_s=_TIMEOUT_S)
            except InvalidRequest as error:
                log.warning("the ledger does not take what no lease stood for: %s", error.message)
            self._untold.pop(0)

    def _changes(self, paths: list[bytes]) -> list[api.Body]:
        """Blocks: what there is to tell of each path."""
        wall_s = self._wall_s()
        return [
            {"path": text(path), "what": _what(self._tree.root_fd, path), "wall_s": wall_s}
            for path in paths
        ]


def _what(root_fd: int, path: bytes) -> str:
    try:
        os.stat(path, dir_fd=root_fd, follow_symlinks=False)
    except OSError as error:
        return "deleted" if error.errno in {errno.ENOENT, errno.ENOTDIR} else "modified"
    return "modified"


def _is_held(globs: Sequence[Glob], path: bytes) -> bool:
    return any(glob.matches(path) for glob in globs)


def _differing(tree: WorkTree, paths: list[bytes]) -> list[bytes]:
    """Blocks: the paths that are not as HEAD has them."""
    from leasefs.vcs.reconcile import standings

    found = standings(tree, paths, {})
    return [path for path, one in found.items() if one is not None and one.dirty]


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
