"""Git commands end whole or are refused whole.

Git rewrites file after file and undoes nothing when one is refused. So the first change that a git process makes
through a mount is answered only when it is known what the whole command would do (`leasefs.vcs.git_commands`).

In a tree that other mounts share, a command that would rewrite, delete or stage a path outside this mount's
leases may change nothing at all, its lock files included; nor may what it starts. What a commit takes in is looked
at once more when its branch is about to move: the index that all share may have changed since.

In a tree of its own, an agent's git may move committed history into any path: that is not authoring. What then
differs from HEAD outside the leases is told.

A process is git by its program's name; a copy under another name is any other program, and each of its changes
is judged by itself.
"""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import trio

from leasefs.core.policy import Allowed, Op, Place, Reason, Refused, Target, Verdict
from leasefs.mount.errnos import Refusal
from leasefs.mount.gate import Unsettled, Wanting
from leasefs.mount.git_processes import Identity, ancestors, identity, root_seen_by
from leasefs.mount.git_refs import HEAD, LOGS, REFS, Move, authored_by, move_ahead
from leasefs.vcs.errors import VcsError
from leasefs.vcs.git_commands.effects import Nothing, Paths, Unknown
from leasefs.vcs.git_commands.process import at_work_in, may_be_git, read_process
from leasefs.vcs.gitdir import find_git

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from leasefs.mount.gate import Gate
    from leasefs.mount.ground import Ground
    from leasefs.vcs.git_commands.effects import Effect
    from leasefs.vcs.worktree import WorkTree

log = logging.getLogger(__name__)

# Git commands that are at work at the same time, in all mounts of an agent, are far fewer.
_PROCESSES = 1024
_NAMES_TOLD = 20
_FREE = Allowed(None)
_LOCK = b".lock"
GIT_STARTS_WITH = frozenset({b"HEAD", b".git"})
# What needs a lease and has none, as opposed to what may never be changed.
_UNLEASED = frozenset(
    {Reason.NOT_LEASED, Reason.LAPSED, Reason.TREE_NOT_LEASED, Reason.ALIAS_NOT_LEASED}
)
# As for any other change, the ledger is not waited for any longer.
_CONFIRM_WITHIN_S = 2.0

R = TypeVar("R")
_UNSEEN = Unknown(
    "the process runs as a user whose processes this mount may not look at",
    "run git as the user who mounted the tree",
)
_DIRECTORIES = frozenset({Op.MKDIR, Op.RMDIR})


class Guard(Protocol):
    """What the gate needs."""

    def weigh(
        self, pid: int, op: Op, targets: Sequence[Target], verdict: Verdict, now_s: float
    ) -> Verdict:
        """The verdict, in the light of what the process is about to do. Raises `Wanting` to find that out."""
        ...

    def looks_for_git(self, pid: int, path: bytes | None) -> None:
        """The process opens `path`, what git reads first of a repository, by name one of `GIT_STARTS_WITH`.

        Raises:
            Wanting: what it is about to do has to be found out now, because it will do it out of sight.
            Unsettled: it is refused.
        """
        ...


class _Command:
    """A process that is git, and what is known of its command."""

    __slots__ = ("directory", "is_known", "moves", "moves_history", "process", "refusals")

    def __init__(self, process: Identity) -> None:
        self.process = process
        # Where it was started, or was led by -C.
        self.directory: bytes | None = None
        # In a tree of its own.
        self.moves_history: bool | None = None
        # In a shared one: why it is refused whole, if it is, a few of the paths that are in the way; and the same
        # for each branch that it is about to move.
        self.refusals: tuple[Refused, ...] | None = None
        self.moves: dict[Move, tuple[Refused, ...]] = {}
        # Whether what it does by itself is all that is done, whatever helpers it starts.
        self.is_known = False


class GitGuard:
    """The guard of one mount."""

    def __init__(
        self, tree: WorkTree, gate: Gate, ground: Ground, is_alone: Callable[[float], bool]
    ) -> None:
        """A guard that knows no process yet.

        Args:
            tree: the tree beneath, and where it is shown.
            gate: whose leases count, and who hears of refusals and of what git moved.
            ground: says what is scratch.
            is_alone: whether no other mount shares the tree, at this time.
        """
        self._tree = tree
        self._gate = gate
        self._ground = ground
        self._is_alone = is_alone
        self._known: OrderedDict[int, _Command] = OrderedDict()
        # Judging reads the memory of processes, which can be made to take for ever; the other threads are not for that.
        self._threads = trio.CapacityLimiter(8)

    def weigh(
        self, pid: int, op: Op, targets: Sequence[Target], verdict: Verdict, now_s: float
    ) -> Verdict:
        """See `Guard`."""
        if not targets:
            return verdict  # a file without a name: no command will ever be about it
        goal = targets[-1].path
        if (goal.startswith(REFS) or goal == HEAD) and not goal.endswith(_LOCK):
            self._gate.intents.ref_moves(goal)
        alone = self._is_alone(now_s)
        if alone and not (isinstance(verdict, Refused) and verdict.reason in _UNLEASED):
            return verdict
        command = self._command(pid)
        if command is None:
            return verdict
        if alone:
            return self._in_own_tree(pid, command, op, targets, verdict)
        if command.moves_history is not None:
            # It began alone: what it wrote since would be taken for what it is about to do.
            return verdict
        return self._in_shared_tree(pid, command, op, goal, verdict)

    def looks_for_git(self, pid: int, path: bytes | None) -> None:
        """See `Guard`. Git goes to the root of the tree next, and then nobody can tell where it came from.

        A `.git` file leads to where its locks are made unseen, so there git is stopped before it knows.
        """
        if self._is_alone(self._gate.holdings.now_s()):
            return
        command = self._command(pid)
        if command is None:
            return
        if command.directory is None:
            # Of another user's process nothing is known later, either.
            with suppress(OSError):
                command.directory = os.readlink(f"/proc/{pid}/cwd".encode())
        if path == b".git":
            if command.refusals is None:
                raise Wanting(lambda: self._judge(pid, command))
            if command.refusals and not self._gate.passes(command.refusals[0], (), pid):
                raise Unsettled(command.refusals[0])

    def _command(self, pid: int) -> _Command | None:
        if not may_be_git(pid):
            return None
        process, known = identity(pid), self._known.get(pid)
        if process is None:
            return None
        if known is None or not known.process.is_same(process):
            known = self._known[pid] = _Command(process)
        self._known.move_to_end(pid)
        if len(self._known) > _PROCESSES:
            self._known.popitem(last=False)
        return known

    # -- a tree of its own -------------------------------------------------------------------------

    def _in_own_tree(
        self, pid: int, command: _Command, op: Op, targets: Sequence[Target], verdict: Verdict
    ) -> Verdict:
        if command.moves_history is None:
            raise Wanting(lambda: self._learn_whether_it_moves(pid, command))
        if not command.moves_history:
            return verdict
        if op not in _DIRECTORIES:
            self._gate.intents.moved([target.path for target in targets], pid)
        return _FREE

    async def _learn_whether_it_moves(self, pid: int, command: _Command) -> None:
        command.moves_history = await self._in_thread(_moves_history, pid, self._tree)

    # -- a shared tree -----------------------------------------------------------------------------

    def _in_shared_tree(
        self, pid: int, command: _Command, op: Op, goal: bytes, verdict: Verdict
    ) -> Verdict:
        if command.refusals is None:
            raise Wanting(lambda: self._judge(pid, command))
        if command.refusals:
            return replace(command.refusals[0], op=op)
        if goal.startswith(LOGS) or (op is Op.RENAME and goal.startswith(REFS)):
            move = move_ahead(self._tree.root_fd, goal)
            if move is not None and move not in command.moves:
                raise Wanting(lambda: self._judge_move(pid, command, move))
            if move is not None and command.moves[move]:
                return replace(command.moves[move][0], op=op)
        return verdict

    async def _judge(self, pid: int, command: _Command) -> None:
        """What it would do, unless what started it is refused already: then that is what is refused."""
        for above in reversed(list(ancestors(command.process.parent))):
            starter = self._command(above)
            if starter is None:
                continue
            if starter.refusals is None:
                await self._judge_alone(above, starter)
            if starter.refusals:
                command.refusals = starter.refusals
                return
        await self._judge_alone(pid, command)

    async def _judge_alone(self, pid: int, command: _Command) -> None:
        effects = await self._in_thread(_effects, pid, command.directory, self._tree)
        vague = any(isinstance(one, Unknown) or one == Nothing(delegates=True) for one in effects)
        command.is_known = not vague
        starter = self._known.get(command.process.parent)
        if starter is not None and starter.is_known:
            # `git stash -- PATHS` has `git apply` read a patch from it; what it is about was judged already.
            effects = [one for one in effects if not isinstance(one, Unknown)]
        command.refusals = await self._refusals(pid, effects)

    async def _judge_move(self, pid: int, command: _Command, move: Move) -> None:
        authored = await self._in_thread(authored_by, self._tree, move)
        effect = Paths(authored) if isinstance(authored, frozenset) else Unknown(authored)
        command.moves[move] = await self._refusals(pid, [effect])

    async def _refusals(self, pid: int, effects: Iterable[Effect]) -> tuple[Refused, ...]:
        """What is refused of it; all but the first is told here, that one when it is refused."""
        found: list[Refused] = []
        paths: set[bytes] = set()
        for effect in effects:
            if isinstance(effect, Unknown):
                detail = f"{effect.reason}: {effect.advice}"
                found.append(Refused(Reason.GIT_UNKNOWN, Op.CREATE, b".", detail=detail))
            elif isinstance(effect, Paths):
                paths |= await self._outside(effect)
        found += [Refused(Reason.GIT_COMMAND, Op.CREATE, path) for path in sorted(paths)]
        for refused in reversed(found[1:_NAMES_TOLD]):
            self._gate.refusals.add(Refusal(refused), pid)
        return tuple(found[:1])

    async def _outside(self, effect: Paths) -> set[bytes]:
        """Those that are not ours; whether what has lapsed still is, the ledger is asked once."""
        tracked = effect.tracked
        found = await self._not_ours(effect.paths, tracked=tracked)
        holdings, obtainer = self._gate.holdings, self._gate.obtainer
        if found and obtainer is not None:
            await obtainer.take_back(found)
            found = await self._not_ours(found, tracked=tracked)
        if not any(holdings.view.lapsed(path.rstrip(b"/"), holdings.now_s()) for path in found):
            return found
        with trio.move_on_after(_CONFIRM_WITHIN_S):
            await holdings.revalidate()
        return await self._not_ours(found, tracked=tracked)

    async def _not_ours(self, paths: Iterable[bytes], *, tracked: bool) -> set[bytes]:
        return {path for path in paths if not await self._is_ours(path, tracked=tracked)}

    async def _is_ours(self, path: bytes, *, tracked: bool) -> bool:
        view, now_s = self._gate.holdings.view, self._gate.holdings.now_s()
        if path.endswith(b"/"):
            if view.covers_tree(path[:-1], now_s):
                return True
        elif view.writable(path, now_s) is not None:
            return True
        while not tracked:
            try:
                place = self._ground.place(path.rstrip(b"/"), is_dir=path.endswith(b"/"))
            except Wanting as wanting:
                await wanting.fetch()
            else:
                return place is not Place.TREE
        return False

    async def _in_thread(self, ask: Callable[..., R], *arguments: object) -> R:
        return await trio.to_thread.run_sync(
            ask, *arguments, abandon_on_cancel=True, limiter=self._threads
        )


def _effects(pid: int, directory: bytes | None, tree: WorkTree) -> list[Effect]:
    """Blocks: what the process would do to the working tree, and to the index or in a commit."""
    # Read when first needed: a mount is to be usable before.
    from leasefs.vcs.git_commands.judging import judge, staged_by

    process = read_process(pid, root_seen_by(pid, tree.shown_at[0]))
    if process is None:
        return [_UNSEEN]
    process = at_work_in(process, directory)
    try:
        gitdir = find_git(tree.root_fd, tree.around())
    except VcsError as error:
        return [Unknown(str(error))]
    with gitdir or nullcontext():
        found = [ask(process, gitdir, tree.root_fd) for ask in (judge, staged_by)]
    log.info("git[%d]: %s", pid, [type(one).__name__ for one in found])
    return found


def _moves_history(pid: int, tree: WorkTree) -> bool:
    """Blocks: whether the process moves commits into the tree."""
    from leasefs.vcs.git_commands.moving import moves_history

    process = read_process(pid, root_seen_by(pid, tree.shown_at[0]))
    try:
        gitdir = find_git(tree.root_fd, tree.around())
    except VcsError as error:
        log.info("git[%d] is judged like any program: %s", pid, error)
        return False
    if process is None:
        return False
    with gitdir or nullcontext():
        return moves_history(process, gitdir, tree.root_fd)
