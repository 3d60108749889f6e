"""Which territory a working tree belongs to (design: `.leasefs.toml`, else `origin`, else the path)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from leasefs.vcs.gitdir import GitDir, find_git
from leasefs.vcs.project_file import read_project_file
from leasefs.vcs.remotes import local_name, normalise_remote_url, origin_url


@dataclass(frozen=True, slots=True)
class Territory:
    """A territory's id and where it comes from. Two trees are one territory if and only if the ids are equal."""

    id: str
    source: Literal["config", "origin", "path"]


def territory_of(root_fd: int, root_path: str) -> Territory:
    """The territory of the tree open at `root_fd`; `root_path` is what messages call it. Runs git, so it blocks.

    Raises:
        BadTerritoryFile: `.leasefs.toml` is unreadable, not TOML, or has an unknown or ill-typed key.
        BadGitFile: `.git` is there and leads nowhere.
        BadRemoteUrl: the URL of `origin` names nothing; set `territory` in `.leasefs.toml`.
        GitFailed: git cannot read its configuration.
    """
    configured = read_project_file(root_fd, root_path).territory
    if configured is not None:
        return Territory(configured, "config")
    gitdir = find_git(root_fd)
    if gitdir is None:
        return Territory(_path_id(_real_path(root_fd)), "path")
    with gitdir:
        main_tree = _main_tree(gitdir)
        url = origin_url(gitdir)
    if url is None:
        return Territory(_path_id(main_tree), "path")
    return Territory(_origin_id(url, main_tree), "origin")


def _main_tree(gitdir: GitDir) -> bytes:
    """The main working tree, which all worktrees of a clone share; for a bare clone the clone itself."""
    common = gitdir.common_real_path()
    return common.removesuffix(b"/.git") or b"/"


def _origin_id(url: str, main_tree: bytes) -> str:
    name = normalise_remote_url(url)
    is_relative_path = ":" not in url.partition("/")[0] and not url.startswith("/")
    if is_relative_path:
        return _path_id(os.path.normpath(os.path.join(main_tree, os.fsencode(url))))
    return name


def _path_id(path: bytes) -> str:
    """Named like a local remote, so that a clone of a local repository meets that repository."""
    return local_name(path.decode(errors="surrogateescape"))


def _real_path(root_fd: int) -> bytes:
    return os.readlink(f"/proc/self/fd/{root_fd}".encode())
