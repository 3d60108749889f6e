"""Trees for tests of the mount: made on the source side, compared on the source side."""

from __future__ import annotations

import os
import stat
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = 65534

GIT_SETTINGS = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def environment() -> dict[str, str]:
    """For tools under test: git with an identity in trees of any owner, plain messages, no home."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    tools = {"LC_ALL": "C.UTF-8", "HOME": "/nonexistent", "TERM": "xterm", "PATH": path}
    return {**os.environ, **GIT_SETTINGS, **tools}


def git(tree: Path, *arguments: str) -> str:
    """Run git in `tree` and return what it prints; what it says when it fails is noted with the error."""
    try:
        done = subprocess.run(
            ["git", "-C", str(tree), *arguments],
            check=True,
            capture_output=True,
            text=True,
            env=environment(),
        )
    except subprocess.CalledProcessError as error:
        error.add_note(error.stderr)
        raise
    return done.stdout


def give(tree: Path, uid: int) -> None:
    """Make everything in `tree` belong to a user."""
    for directory, names, files in os.walk(tree):
        for name in [".", *names, *files]:
            os.chown(os.path.join(directory, name), uid, uid, follow_symlinks=False)


def snapshot(tree: Path) -> dict[str, tuple[object, ...]]:
    """Every path with kind, mode, owner, times, content and extended attributes: what must not change."""
    return {
        str(path.relative_to(tree)): _described(path) for path in [tree, *sorted(tree.rglob("*"))]
    }


def _described(path: Path) -> tuple[object, ...]:
    found = path.lstat()
    content: object = None
    if stat.S_ISREG(found.st_mode):
        content = path.read_bytes()
    elif stat.S_ISLNK(found.st_mode):
        content = os.readlink(path)
    attributes = {
        name: os.getxattr(path, name, follow_symlinks=False)
        for name in os.listxattr(path, follow_symlinks=False)
    }
    return (
        oct(found.st_mode),
        found.st_uid,
        found.st_gid,
        found.st_nlink,
        found.st_mtime_ns,
        content,
        attributes,
    )
