"""Git commands end whole or are refused whole.

Git rewrites file after file and undoes nothing when one is refused. So the first change that a git process makes
through a mount is answered only when it is known what the whole command would do (`leasefs.vcs.git_commands`).

In a tree that other mounts share, a command that would rewrite, delete or stage a path outside this mount's
leases may change nothing at all, its lock files included. In a tree of its own, an agent's git may move committed
history into any path: that is not authoring. What then differs from HEAD outside the leases is told.

A process is git by its program's name; a copy under another name is any other program, and each of its changes
is judged by itself.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

import trio

from leasefs.core.paths import shown
from leasefs.core.policy import Allowed, Op, Place, Reason, Refused, Target, Verdict
from leasefs.mount.errnos import Refusal
from leasefs.mount.gate import Wanting
from leasefs.vcs.errors import VcsError
from leasefs.vcs.git_commands.effects import Nothing, Paths, Unknown
from leasefs.vcs.git_commands.process import may_be_git, read_process
from leasefs.vcs.gitdir import find_git

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from leasefs.mount.gate import Gate
    from leasefs.mount.ground import Ground
    from leasefs.vcs.git_commands.effects import Effect
    from leasefs.vcs.worktree import WorkTree

log = logging.getLogger(__name__)

# For so long a process is taken for what it was; numbers come round again much later.
_KNOWN_FOR_S = 2.0
_PROCESSES = 4096
_NAMES_TOLD = 20
_FREE = Allowed(None)
_REFS = b".git/refs/heads/"
# What needs a lease and has none, as opposed to what may never be changed.
_UNLEASED = frozenset({Reason.NOT_LEASED, Reason.TREE_NOT_LEASED, Reason.ALIAS_NOT_LEASED})


class Guard(Protocol):
    """What the gate needs."""

    def weigh(
        self, pid: int, op: Op, targets: Sequence[Target], verdict: Verdict, now_s: float
    ) -> Verdict:
        """The verdict, in the light of what the process is about to do. Raises `Wanting` to find that out."""
        ...


class _Command:
    """A process that is git, and what is known of its command."""

    __slots__ = ("effect", "moves_history", "outside")

    def __init__(self) -> None:
        self.effect: Effect | None = None
        self.moves_history = False
        # In a shared tree: why it is refused whole, the first paths that are in the way.
        self.outside: list[bytes] = []


class GitGuard:
    """The guard of one mount."""

    def __init__(
        self, tree: WorkTree, gate: Gate, ground: Ground, is_alone: Callable[[], bool]
    ) -> None:
        """A guard that knows no process yet.

        Args:
            tree: the tree beneath, and where it is shown.
            gate: whose leases count, and who hears of refusals and of what git moved.
            ground: says what is scratch.
            is_alone: whether no other mount shares the tree now.
        """
        self._tree = tree
        self._gate = gate
        self._ground = ground
        self._is_alone = is_alone
        self._known: OrderedDict[int, tuple[float, _Command | None]] = OrderedDict()

    def weigh(
        self, pid: int, op: Op, targets: Sequence[Target], verdict: Verdict, now_s: float
    ) -> Verdict:
        """See `Guard`."""
        command = self._command(pid, now_s)
        if command is None:
            return verdict
        if op is Op.RENAME and targets[-1].path.startswith(_REFS):
            self._gate.intents.ref_moves(targets[-1].path)
        if self._is_alone():
            return self._in_own_tree(pid, command, targets, verdict)
        if command.effect is None:
            raise Wanting(lambda: self._judge(pid, command, shared=True))
        if command.outside:
            return Refused(Reason.GIT_COMMAND, op, command.outside[0])
        return verdict

    def _command(self, pid: int, now_s: float) -> _Command | None:
        until_s, command = self._known.get(pid, (0.0, None))
        if now_s < until_s:
            return command
        if not may_be_git(pid):
            command = None
        elif command is None:
            command = _Command()
        self._known[pid] = now_s + _KNOWN_FOR_S, command
        if len(self._known) > _PROCESSES:
            self._known.popitem(last=False)
        return command

    def _in_own_tree(
        self, pid: int, command: _Command, targets: Sequence[Target], verdict: Verdict
    ) -> Verdict:
        if not isinstance(verdict, Refused) or verdict.reason not in _UNLEASED:
            return verdict
        if command.effect is None:
            raise Wanting(lambda: self._judge(pid, command, shared=False))
        names = [target.path for target in targets]
        if not command.moves_history or not all(_holds(command.effect, name) for name in names):
            return verdict
        self._gate.intents.moved(names)
        return _FREE

    async def _judge(self, pid: int, command: _Command, *, shared: bool) -> None:
        root = self._tree.shown_at[0]
        effects, command.moves_history = await trio.to_thread.run_sync(
            _effects, pid, root, self._tree, shared, abandon_on_cancel=True
        )
        if shared:
            command.outside = await self._outside(effects)
            for path in command.outside[1:_NAMES_TOLD]:
                refused = Refused(Reason.GIT_COMMAND, Op.CREATE, path)
                self._gate.refusals.add(Refusal(refused), pid)
        command.effect = effects[0]

    async def _outside(self, effects: Iterable[Effect]) -> list[bytes]:
        """What it would change that is not under our leases; the tree itself if nobody knows."""
        found: set[bytes] = set()
        for effect in effects:
            if isinstance(effect, Unknown):
                log.warning("a git command is refused: %s; %s", effect.reason, effect.advice)
                found.add(b".")
            elif isinstance(effect, Paths):
                found |= {path for path in effect.paths if not await self._is_ours(path)}
        return sorted(found)

    async def _is_ours(self, path: bytes) -> bool:
        view, now_s = self._gate.holdings.view, self._gate.holdings.now_s()
        if path.endswith(b"/"):
            if view.covers_tree(path[:-1], now_s):
                return True
        elif view.writable(path, now_s) is not None:
            return True
        while True:
            try:
                place = self._ground.place(path.rstrip(b"/"), is_dir=path.endswith(b"/"))
            except Wanting as wanting:
                await wanting.fetch()
            else:
                return place is not Place.TREE


def _holds(effect: Effect, path: bytes) -> bool:
    if isinstance(effect, Paths):
        if path in effect.paths:
            return True
        above = path.rpartition(b"/")[0]
        while above:
            # Directories on the way are made and removed with what is in them.
            if above + b"/" in effect.paths:
                return True
            above = above.rpartition(b"/")[0]
        return any(one.startswith(path + b"/") for one in effect.paths)
    return isinstance(effect, Unknown)


def _effects(pid: int, root: bytes, tree: WorkTree, shared: bool) -> tuple[list[Effect], bool]:
    """Blocks: what the process would do, to the working tree and, where others share it, to the index."""
    # Read when first needed: a mount is to be usable before.
    from leasefs.vcs.git_commands.judging import judge, staged_by
    from leasefs.vcs.git_commands.moving import moves_history

    process = read_process(pid, root)
    try:
        gitdir = find_git(tree.root_fd, tree.around())
    except VcsError as error:
        return [Unknown(str(error))], False
    if process is None or gitdir is None:
        return [Nothing()], False
    with gitdir:
        effects = [judge(process, gitdir, tree.root_fd)]
        if shared:
            effects.append(staged_by(process, gitdir, tree.root_fd))
        moves = not shared and moves_history(process, gitdir, tree.root_fd)
    command = b" ".join(process.argv)[:200]
    log.info("git[%d] %s: %s", pid, shown(command), [type(one).__name__ for one in effects])
    return effects, moves
