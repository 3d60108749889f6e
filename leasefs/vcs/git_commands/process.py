"""A git process as proc(5) shows it.

Whether a process is git is a hint and no more: a copy under another name, or a program with git's code built in
(libgit2, jj, dulwich), looks like any other program. For those, each write is judged by itself, as ever.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

#: the most that is read of a command line and of an environment; execve(2) allows more than anyone sends to git
LIMIT_BYTES = 2 << 20

# Beside `GIT_*`: where git finds the user's own configuration.
_KEPT = (b"HOME", b"XDG_CONFIG_HOME")


@dataclass(frozen=True, slots=True)
class GitProcess:
    """`cwd` and `root` are absolute, as the process sees them: where it is, and where the tree's root is.

    `environ` is what concerns git: `GIT_*`, HOME and XDG_CONFIG_HOME.
    """

    argv: tuple[bytes, ...]
    cwd: bytes
    root: bytes
    environ: dict[bytes, bytes] = field(default_factory=dict)
    pid: int = 0


def may_be_git(pid: int) -> bool:
    """Whether the process is worth reading: one readlink(2). False also if it is gone or not ours to see."""
    try:
        program = os.readlink(f"/proc/{pid}/exe".encode())
    except OSError:
        return False
    # An upgrade replaces the program of those that run.
    name = os.path.basename(program.removesuffix(b" (deleted)"))
    return name == b"git" or name.startswith(b"git-")


def read_process(pid: int, root: bytes) -> GitProcess | None:
    """Read a process for which `may_be_git` holds; None if it is gone, not ours to see, or has ended.

    What is longer than `LIMIT_BYTES` is cut, and `argv` then empty: nobody can say what it means.
    """
    try:
        command_line = _read(pid, "cmdline")
        environment = _read(pid, "environ")
        cwd = os.readlink(f"/proc/{pid}/cwd".encode())
    except OSError:
        return None
    cut = len(command_line) > LIMIT_BYTES or len(environment) > LIMIT_BYTES
    words = () if cut else tuple(command_line.split(b"\0")[:-1])
    return GitProcess(words, cwd, root, _concerning(environment), pid)


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read(LIMIT_BYTES + 1)


def _concerning(environment: bytes) -> dict[bytes, bytes]:
    pairs = (item.partition(b"=") for item in environment.split(b"\0"))
    return {name: value for name, _, value in pairs if name.startswith(b"GIT_") or name in _KEPT}
