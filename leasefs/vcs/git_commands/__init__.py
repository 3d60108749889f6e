"""From the real command of a git process, and the state of the repository, to the set of paths that it would change.

Git rewrites files in the middle of a command, and does not undo what it has done when one of them is refused. To refuse
such a command whole, its paths must be known before the first of them: they are worked out here by asking git itself,
without changing anything. Knows no ledger and no mount.
"""

from __future__ import annotations

from leasefs.vcs.git_commands.effects import Effect, Nothing, Paths, Unknown
from leasefs.vcs.git_commands.judging import judge, staged_by
from leasefs.vcs.git_commands.process import GitProcess, may_be_git, read_process

__all__ = [
    "Effect",
    "GitProcess",
    "Nothing",
    "Paths",
    "Unknown",
    "judge",
    "may_be_git",
    "read_process",
    "staged_by",
]
