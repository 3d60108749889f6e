"""Run git as the caller would at a shell: in their working tree, with their environment and configuration.

That is what a hook needs (git tells it the index of the commit by GIT_INDEX_FILE, githooks(5)) and what `leasefs fresh`
compares: contents as git would store them. What the mount asks runs through `plumbing`, which trusts nothing of this.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from leasefs.vcs.errors import GitFailed

if TYPE_CHECKING:
    from collections.abc import Sequence


def own_git(
    arguments: Sequence[str | bytes],
    *,
    directory: str | None = None,
    stdin: bytes = b"",
    absent_status: int = 0,
    timeout_s: float = 60,
) -> bytes:
    """Run `git ARGUMENTS` in `directory` (default: here) and return its standard output.

    `absent_status` is an exit status that means "nothing there" and gives b"" (0: none does).

    Raises:
        GitFailed: git is not installed, took longer than `timeout_s`, or ended with another status.
    """
    shown = "git " + " ".join(os.fsdecode(argument) for argument in arguments)[:200]
    try:
        done = subprocess.run(
            ["git", "--no-pager", *arguments],
            cwd=directory,
            env=os.environ | {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
            input=stdin,
            capture_output=True,
            timeout=timeout_s,
            check=False,
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
