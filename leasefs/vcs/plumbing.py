"""Run git as a child that asks nothing, hooks nothing, fetches nothing and ends in time.

The child inherits the git directory's descriptors and is told `GIT_DIR=/proc/self/fd/N`. Naming GIT_DIR, GIT_COMMON_DIR
and GIT_WORK_TREE outright keeps git from looking for a repository, so it neither walks the tree (which may lie under our
own mount) nor makes its ownership check (safe.directory concerns discovery only: checked with git 2.39 as root on
another user's clone). GIT_COMMON_DIR matters in a linked worktree: without it git resolves `commondir` to a real path,
which an in-place mount would cover. GIT_WORK_TREE overrides a submodule's `core.worktree` for the same reason.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from leasefs.vcs.errors import GitFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leasefs.vcs.gitdir import GitDir

_QUIET = ("core.fsmonitor=", "core.hooksPath=/dev/null", "protocol.allow=never")
_NOT_SET = (
    1  # git-config(1): "the section or key is invalid", also what --get answers for an absent key
)


def run_git(
    gitdir: GitDir,
    arguments: Sequence[str],
    *,
    timeout_s: float = 60,
    absent_status: int = 0,
    owner: os.stat_result | None = None,
    tree_fd: int | None = None,
    stdin: bytes | int = b"",
    variables: Mapping[str, str] = MappingProxyType({}),
    pass_fds: Sequence[int] = (),
) -> bytes:
    """Run `git ARGUMENTS` on `gitdir` and return its standard output.

    Args:
        gitdir: which repository; the working tree itself is out of the child's reach, unless `tree_fd` says otherwise.
        arguments: a plumbing command and its options.
        timeout_s: seconds after which the child is killed.
        absent_status: an exit status that means "nothing there" and gives b"" (0: none does).
        owner: run as the user and group that own this, if we are root: what git writes is theirs then, and a
            link that they made leads root nowhere.
        tree_fd: the root of the working tree, for `ls-files` alone: other commands change to the tree by its path
            (setup_work_tree()), which may lead into our own mount.
        stdin: what the child reads: bytes, or a descriptor.
        variables: set for the child beside our own.
        pass_fds: descriptors that the child inherits besides.

    Raises:
        GitFailed: git is not installed, took longer, or ended with another status; the message quotes git.
    """
    shown = "git " + " ".join(arguments)
    in_tree = {} if tree_fd is None else {"GIT_WORK_TREE": "."}
    try:
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            command_line(arguments),
            cwd="/" if tree_fd is None else f"/proc/self/fd/{tree_fd}",
            capture_output=True,
            timeout=timeout_s,
            check=False,
            **({"stdin": stdin} if isinstance(stdin, int) else {"input": stdin}),
            **child_options(
                gitdir, owner, environment=in_tree | dict(variables), pass_fds=pass_fds
            ),
        )
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"{shown} took longer than {timeout_s:g} s and was ended") from error
    except OSError as error:
        raise GitFailed(f"git cannot be run: {error.strerror}; install git") from error
    if absent_status and done.returncode == absent_status:
        return b""
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[:500]
        raise GitFailed(f"{shown} ended with status {done.returncode}: {said}")
    return done.stdout


def command_line(arguments: Sequence[str]) -> list[str]:
    """`git ARGUMENTS`, with what keeps it quiet."""
    options = [part for setting in _QUIET for part in ("-c", setting)]
    return ["git", "--no-pager", *options, *arguments]


def child_options(
    gitdir: GitDir,
    owner: os.stat_result | None,
    *,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> dict[str, Any]:
    """What `subprocess.Popen` needs to run git on `gitdir` as `run_git` does.

    `environment` is added to what names the repository; `pass_fds` to the descriptors that the child inherits.
    """
    umask = _umask_of(owner)
    if os.geteuid() or (owner and not owner.st_uid):
        owner = None
    return {
        "umask": umask,
        "env": _environment(gitdir) | _home_of(owner) | dict(environment or {}),
        "pass_fds": (gitdir.fd, gitdir.common_fd, *pass_fds),
        "user": owner.st_uid if owner else None,
        "group": owner.st_gid if owner else None,
        "extra_groups": [] if owner else None,
    }


def config_values(
    gitdir: GitDir,
    key: str,
    kind: Literal["bool", "path"] | None = None,
    *,
    owner: os.stat_result | None = None,
) -> list[bytes]:
    """All values of a configuration key, lowest precedence first; [] if it is not set.

    Raises:
        GitFailed: the configuration cannot be read, or a value is not of the asked kind.
    """
    typed = [f"--type={kind}"] if kind else []
    arguments = ["config", "-z", *typed, "--get-all", key]
    output = run_git(gitdir, arguments, absent_status=_NOT_SET, owner=owner)
    return output.split(b"\0")[:-1]


def is_true(gitdir: GitDir, key: str, *, owner: os.stat_result | None = None) -> bool:
    """Whether a configuration key is set to what git takes for true. Raises as `config_values`."""
    return config_values(gitdir, key, "bool", owner=owner)[-1:] == [b"true"]


def configured(
    gitdir: GitDir, *keys: str, owner: os.stat_result | None = None
) -> dict[str, list[bytes]]:
    """The values of several keys as they stand, by one run of git; of a key that is not set, none.

    A key that stands there without a value has b"". Only for keys without a subsection.

    Raises:
        GitFailed: the configuration cannot be read.
    """
    # git-config(1): names are matched with section and variable in lower case.
    names = {key.lower(): key for key in keys}
    pattern = f"^({'|'.join(re.escape(name) for name in names)})$"
    arguments = ["config", "-z", "--get-regexp", pattern]
    output = run_git(gitdir, arguments, absent_status=_NOT_SET, owner=owner)
    found: dict[str, list[bytes]] = {key: [] for key in keys}
    for one in output.split(b"\0")[:-1]:
        name, _, value = one.partition(b"\n")
        found[names[name.decode()]].append(value)
    return found


def _umask_of(owner: os.stat_result | None) -> int:
    """A umask that gives others what they have of `owner`; -1 for our own.

    Ours would not do: a mount sets its process's to each caller's around what it creates for them.
    """
    if owner is None:
        return -1
    umask = 0
    for shift in (0, 3):
        others = owner.st_mode >> shift & 0o7
        umask |= ((0 if others & 4 else 0o5) | (0 if others & 2 else 0o2)) << shift
    return umask


def _home_of(owner: os.stat_result | None) -> dict[str, str]:
    """Where git finds the owner's own configuration; ours may not be readable to them."""
    if owner is None:
        return {}
    try:
        home = pwd.getpwuid(owner.st_uid).pw_dir
    except KeyError:
        home = "/nonexistent"
    return {"HOME": home, "XDG_CONFIG_HOME": f"{home}/.config"}


def _environment(gitdir: GitDir) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {
        "LC_ALL": "C",
        "GIT_DIR": gitdir.git_path,
        "GIT_COMMON_DIR": gitdir.common_path,
        "GIT_WORK_TREE": "/",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        # A hostile configuration must not make a query start a transport; no protocol is allowed at all.
        "GIT_ALLOW_PROTOCOL": "",
    }
