"""Which territory a working tree belongs to (design: `.leasefs.toml`, else `origin`, else the path)."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from typing import Literal

from leasefs.vcs.beneath import NotRegular, TooLarge, read_file
from leasefs.vcs.errors import BadTerritoryFile
from leasefs.vcs.gitdir import GitDir, find_git
from leasefs.vcs.remotes import local_name, normalise_remote_url, origin_url

FILE_NAME = ".leasefs.toml"
_FILE_LIMIT_BYTES = 1 << 16
_ID_LIMIT_CHARACTERS = 512


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
    configured = _configured(root_fd, f"{root_path}/{FILE_NAME}")
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


def _configured(root_fd: int, shown: str) -> str | None:
    try:
        content = read_file(root_fd, os.fsencode(FILE_NAME), _FILE_LIMIT_BYTES)
        settings = tomllib.loads(content.decode())
    except FileNotFoundError:
        return None
    except (NotRegular, TooLarge) as error:
        raise BadTerritoryFile(f"{shown} is {error}") from error
    except OSError as error:
        raise BadTerritoryFile(f"{shown} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadTerritoryFile(f"{shown} is not TOML: {error}") from error
    for key in settings:
        if key != "territory":
            where = _line_of(content.decode(), key)
            raise BadTerritoryFile(
                f"{shown}{where}: unknown key {key!r}; `territory` is the only one"
            )
    if "territory" not in settings:
        return None
    return _checked(settings["territory"], shown + _line_of(content.decode(), "territory"))


def _checked(value: object, shown: str) -> str:
    if not isinstance(value, str):
        raise BadTerritoryFile(f"{shown}: `territory` must be a string, not {type(value).__name__}")
    if (
        not value
        or value != value.strip()
        or not value.isprintable()
        or len(value) > _ID_LIMIT_CHARACTERS
    ):
        raise BadTerritoryFile(
            f"{shown}: `territory` must be 1 to {_ID_LIMIT_CHARACTERS} printable characters, no blanks around it"
        )
    return value


def _line_of(text: str, key: str) -> str:
    """`:LINE` where a top-level key or table of that name seems to stand, or "" (tomllib keeps no positions)."""
    wanted = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[=.\]]""")
    for number, line in enumerate(text.splitlines(), 1):
        if wanted.match(line):
            return f":{number}"
    return ""


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
