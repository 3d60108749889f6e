"""The repository that a shell outside any mount stands in."""

from __future__ import annotations

import os
from typing import NamedTuple

from leasefs.core.errors import InvalidRequest
from leasefs.vcs.errors import VcsError
from leasefs.vcs.gitdir import find_git
from leasefs.vcs.head import head_commit
from leasefs.vcs.territory import territory_of

_MARKS = (".leasefs.toml", ".git")


class Tree(NamedTuple):
    """A working tree's root and the id of its territory."""

    root: str
    territory: str


def find_tree(path: str | None) -> Tree | None:
    """The tree at or above `path` (default: the current directory), or None.

    Raises:
        InvalidRequest: its territory cannot be told; the message says what to repair.
    """
    place = find_root(path)
    if place is None:
        return None
    root_fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return Tree(place, territory_of(root_fd, place).id)
    except VcsError as error:
        raise InvalidRequest(str(error), path=place) from error
    finally:
        os.close(root_fd)


def find_root(path: str | None) -> str | None:
    """The root of the tree at or above `path` (default: the current directory), or None."""
    place = os.path.realpath(path or ".")
    while not any(os.path.lexists(os.path.join(place, mark)) for mark in _MARKS):
        if place == "/":
            return None
        place = os.path.dirname(place)
    return place


def checked_out(root: str) -> str:
    """The commit that is checked out in the tree at `root`; "" if none is, or it cannot be told."""
    root_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        git = find_git(root_fd)
        if git is None:
            return ""
        with git:
            return head_commit(git)
    except VcsError:
        return ""
    finally:
        os.close(root_fd)
