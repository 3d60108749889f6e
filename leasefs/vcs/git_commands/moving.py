"""Which commands move committed history into the working tree, and author nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.vcs.git_commands.effects import CannotTell, Effect, Nothing, Paths
from leasefs.vcs.git_commands.judging import TIMEOUT_S, weigh
from leasefs.vcs.git_commands.line import parse_line

if TYPE_CHECKING:
    from leasefs.vcs.git_commands.line import Line
    from leasefs.vcs.git_commands.process import GitProcess
    from leasefs.vcs.git_commands.view import View
    from leasefs.vcs.gitdir import GitDir

# Left out is what brings bytes that are in no commit: apply, checkout-index, mv, rm, clean, stash.
_MOVERS = frozenset(
    b"am bisect bisect--helper checkout cherry-pick merge pull read-tree rebase reset restore revert "
    b"sparse-checkout submodule submodule--helper switch worktree".split()
)
_MOVES, _STAYS = Paths(frozenset()), Nothing()


def moves_history(
    process: GitProcess, repository: GitDir | None, root_fd: int, *, timeout_s: float = TIMEOUT_S
) -> bool:
    """Whether the process moves commits into the tree: what it writes is in some commit, or is a conflict of such.

    By its name alone if that is git's own; an alias is looked up in the repository.
    """
    try:
        if parse_line(process).name in _MOVERS:
            return True
    except CannotTell:
        return False
    effect = weigh(process, repository, root_fd, timeout_s, _moves, frozenset())
    return isinstance(effect, Paths)


def _moves(view: View, line: Line) -> Effect:
    return _MOVES if line.name in _MOVERS else _STAYS
