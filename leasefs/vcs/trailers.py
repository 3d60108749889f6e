"""Add trailers to the message of a commit that is being made (git-interpret-trailers(1)), in the commit-msg hook."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from leasefs.vcs.errors import GitFailed
from leasefs.vcs.own_git import own_git

if TYPE_CHECKING:
    from collections.abc import Iterable

# What `git commit --verbose` puts below this line is no part of the message (wt-status.c).
_SCISSORS = re.compile(rb"^. -{24} >8 -{24}$", re.MULTILINE)


def add_trailers(message_path: str, key: str, values: Iterable[str]) -> None:
    """Add `KEY: VALUE` for each value that is not there yet.

    A message without a word stays so, because git gives up a commit by that.

    Raises:
        GitFailed: the message cannot be read, or git cannot change it.
    """
    wanted = [part for value in values for part in ("--trailer", f"{key}: {value}")]
    if not wanted or not _says_anything(message_path):
        return
    options = ["--in-place", "--no-divider", "--if-exists", "addIfDifferent"]
    own_git(["interpret-trailers", *options, *wanted, "--", message_path])


def _says_anything(message_path: str) -> bool:
    try:
        with open(message_path, "rb") as file:
            message = file.read()
    except OSError as error:
        raise GitFailed(f"{message_path!r} cannot be read: {error.strerror}") from error
    message = _SCISSORS.split(message, maxsplit=1)[0]
    return bool(own_git(["stripspace", "--strip-comments"], stdin=message))
