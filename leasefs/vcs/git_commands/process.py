"""A git process as proc(5) shows it.

Whether a process is git is a hint and no more: a copy under another name, or a program with git's code built in
(libgit2, jj, dulwich), looks like any other program. For those, each write is judged by itself, as ever.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

#: the most that is read of a command line and of an environment; execve(2) allows more than anyone sends to git
LIMIT_BYTES = 2 << 20

# Beside `GIT_*`: where git finds the user's own configuration, and where a shell says that it is.
_KEPT = (b"HOME", b"XDG_CONFIG_HOME", b"PWD")


@dataclass(frozen=True, slots=True)
class GitProcess:
    """`cwd` and `root` are absolute, as the process sees them: where it is, and where the tree's root is.

    `environ` is what concerns git: `GIT_*`, HOME, XDG_CONFIG_HOME and PWD. `arrived`: it has followed its -C already.
    """

    argv: tuple[bytes, ...]
    cwd: bytes
    root: bytes
    environ: dict[bytes, bytes] = field(default_factory=dict)
    pid: int = 0
    arrived: bool = False


def may_be_git(pid: int) -> bool:
    """Whether the process is worth reading: one readlink(2). False also if it is gone.

    Of another user's process nothing but its name can be seen, the first 15 bytes of it (proc_pid_comm(5)).
    """
    try:
        program = os.readlink(f"/proc/{pid}/exe")
    except PermissionError:
        return _names_git(_comm(pid))
    except OSError:
        return False
    # An upgrade replaces the program of those that run.
    return _names_git(program[program.rfind("/") + 1 :].removesuffix(" (deleted)"))


def _comm(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return os.fsdecode(file.read().rstrip(b"\n"))
    except OSError:
        return ""


def _names_git(program: str) -> bool:
    return program == "git" or program.startswith("git-")


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


def at_work_in(process: GitProcess, directory: bytes | None) -> GitProcess:
    """The process as it began: git goes to the root of the working tree before it changes anything (setup.c).

    `directory`: where it was seen while it still looked for its repository. Where nobody saw that, the shell's word
    is taken, if it leads here: whoever starts git otherwise, with relative paths, is taken to have meant the root.
    """
    if directory is not None:
        return replace(process, cwd=directory, arrived=True)
    told = process.environ.get(b"PWD", b"")
    if process.cwd != process.root or not (told + b"/").startswith(process.root + b"/"):
        return process
    return replace(process, cwd=told)


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read(LIMIT_BYTES + 1)


def _concerning(environment: bytes) -> dict[bytes, bytes]:
    pairs = (item.partition(b"=") for item in environment.split(b"\0"))
    return {name: value for name, _, value in pairs if name.startswith(b"GIT_") or name in _KEPT}
