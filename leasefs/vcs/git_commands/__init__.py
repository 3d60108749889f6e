"""From the real command of a git process, and the state of the repository, to the set of paths that it would change.

Git rewrites files in the middle of a command, and does not undo what it has done when one of them is refused. To refuse
such a command whole, its paths must be known before the first of them: they are worked out here by asking git itself,
without changing anything. Knows no ledger and no mount.

The names below are read when they are first used: a mount looks at processes long before it has to judge one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasefs.vcs.git_commands.effects import Effect, Nothing, Paths, Unknown
    from leasefs.vcs.git_commands.judging import judge, staged_by
    from leasefs.vcs.git_commands.moving import moves_history
    from leasefs.vcs.git_commands.process import GitProcess, may_be_git, read_process

__all__ = [
    "Effect",
    "GitProcess",
    "Nothing",
    "Paths",
    "Unknown",
    "judge",
    "may_be_git",
    "moves_history",
    "read_process",
    "staged_by",
]

_MODULES = {
    "effects": ("Effect", "Nothing", "Paths", "Unknown"),
    "judging": ("judge", "staged_by"),
    "moving": ("moves_history",),
    "process": ("GitProcess", "may_be_git", "read_process"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
