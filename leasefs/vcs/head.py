"""The commit that HEAD names, read from files alone: two small reads where git itself would be a process.

gitrepository-layout(5): HEAD holds `ref: refs/heads/NAME` or, detached, a commit; the branch is a file in the
common directory, or a line of `packed-refs`. Other ref formats (reftable) are not read: the answer is "" then,
as for a branch without a commit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from leasefs.vcs.beneath import read_file

if TYPE_CHECKING:
    from leasefs.vcs.gitdir import GitDir

_LOOSE_LIMIT_BYTES = 4096
_PACKED_LIMIT_BYTES = 1 << 24
_COMMIT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# refs of this worktree alone stand in its own directory (git-worktree(1), REFS).
_OWN = (b"refs/bisect/", b"refs/worktree/", b"refs/rewritten/")
_DEEPEST = 5


def head_commit(gitdir: GitDir) -> str:
    """The commit that HEAD names; "" if it names none yet, or cannot be read so."""
    text = _read(gitdir.fd, b"HEAD")
    for _ in range(_DEEPEST):
        if not text.startswith(b"ref: "):
            return text.decode() if _COMMIT.fullmatch(text) else ""
        name = text[5:].strip()
        if not name.startswith(b"refs/") or b".." in name:
            return ""
        directory_fd = gitdir.fd if name.startswith(_OWN) else gitdir.common_fd
        text = _read(directory_fd, name) or _packed(gitdir, name)
    return ""


def _read(directory_fd: int, name: bytes) -> bytes:
    try:
        return read_file(directory_fd, name, _LOOSE_LIMIT_BYTES).strip()
    except OSError:
        return b""


def _packed(gitdir: GitDir, name: bytes) -> bytes:
    try:
        packed = read_file(gitdir.common_fd, b"packed-refs", _PACKED_LIMIT_BYTES)
    except OSError:
        return b""
    found = re.search(rb"^([0-9a-f]+) " + re.escape(name) + rb"$", packed, re.MULTILINE)
    return found[1] if found else b""
