"""Commits and trees of a repository, read through one `git cat-file --batch`.

Names of paths never go to git: a tree is asked for by its id and searched here, so a name may hold anything.
"""

from __future__ import annotations

import re
import subprocess
import threading
from typing import IO, TYPE_CHECKING, NamedTuple, Self

from leasefs.vcs.errors import GitFailed
from leasefs.vcs.plumbing import child_options, command_line

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from leasefs.vcs.gitdir import GitDir

TREE = 0o040000
SYMLINK = 0o120000
GITLINK = 0o160000
EXECUTABLE = 0o100755

_TIMEOUT_S = 120.0
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# What a line of the request may hold: no blank, which ends a name, and nothing git would take apart.
_NAME = re.compile(r"[!-~\x80-\U0010ffff]+")
_TREES = 4096


class Entry(NamedTuple):
    """What a commit has at a path: a mode of git's (0o100644, 0o100755, SYMLINK, GITLINK, TREE) and an object's id."""

    mode: int
    blob: str


def is_id(text: str) -> bool:
    """Whether `text` is a whole object id."""
    return _ID.fullmatch(text) is not None


class Objects:
    """The objects of one repository, while it is open (a context manager). Not for several threads at once."""

    def __init__(self, gitdir: GitDir, owner: os.stat_result | None = None) -> None:
        """Start git.

        Raises:
            GitFailed: it is not installed.
        """
        try:
            self._child: subprocess.Popen[bytes] = subprocess.Popen(
                command_line(["cat-file", "--batch"]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                **child_options(gitdir, owner),
            )
        except OSError as error:
            raise GitFailed(f"git cannot be run: {error.strerror}; install git") from error
        self._timer = threading.Timer(_TIMEOUT_S, self._child.kill)
        self._timer.daemon = True
        self._timer.start()
        self._trees: dict[str, dict[bytes, Entry]] = {}
        self._roots: dict[str, str | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        self._child.kill()
        for stream in (self._child.stdin, self._child.stdout):
            if stream:
                stream.close()
        self._child.wait()

    def commit(self, name: str) -> str:
        """The id of the commit that `name` (an id or a whole ref) leads to; "" if there is none.

        Raises:
            GitFailed: git ended or took too long.
        """
        found = self._ask(f"{name}^{{commit}}") if _NAME.fullmatch(name) else None
        return found[0] if found else ""

    def entry(self, commit: str, path: bytes) -> Entry | None:
        """What `commit` has at `path`; None if nothing.

        Raises:
            GitFailed: the commit or a tree of it is missing (a partial clone, a broken repository).
        """
        tree = self._root(commit)
        *above, name = path.split(b"/")
        for part in above:
            found = self._tree(tree).get(part)
            if found is None or found.mode != TREE:
                return None
            tree = found.blob
        return self._tree(tree).get(name)

    def content(self, blob: str) -> bytes:
        """The content of a blob, all of it in memory.

        Raises:
            GitFailed: it is missing.
        """
        found = self._ask(blob)
        if found is None:
            raise GitFailed(f"object {blob} is missing in the repository")
        return found[2]

    def _root(self, commit: str) -> str:
        if commit not in self._roots:
            found = self._ask(f"{commit}^{{tree}}") if is_id(commit) else None
            self._roots[commit] = found[0] if found else None
            if found:
                self._remember(found[0], found[2])
        root = self._roots[commit]
        if root is None:
            raise GitFailed(f"commit {commit!r} is missing in the repository")
        return root

    def _tree(self, tree: str) -> dict[bytes, Entry]:
        if tree not in self._trees:
            found = self._ask(tree)
            if found is None or found[1] != b"tree":
                raise GitFailed(f"tree {tree} is missing in the repository")
            self._remember(tree, found[2])
        return self._trees[tree]

    def _remember(self, tree: str, content: bytes) -> None:
        if len(self._trees) >= _TREES:
            self._trees.clear()
        self._trees[tree] = parse_tree(content, len(tree) // 2)

    def _ask(self, name: str) -> tuple[str, bytes, bytes] | None:
        """Id, type and content; None if it is missing."""
        requests, answers = self._pipes()
        try:
            requests.write(name.encode(errors="surrogateescape") + b"\n")
            requests.flush()
            header = answers.readline().rstrip(b"\n")
            fields = header.rsplit(b" ", 2)
            if len(fields) == 3 and fields[2].isdigit():
                size = int(fields[2])
                content = answers.read(size)
                if len(content) == size and answers.read(1) == b"\n":
                    return fields[0].decode(), fields[1], content
            elif header.endswith((b" missing", b" ambiguous")):
                return None
        except OSError as error:
            raise GitFailed(f"git cat-file cannot be asked: {error.strerror}") from error
        raise GitFailed("git cat-file ended, or took too long and was ended")

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        requests, answers = self._child.stdin, self._child.stdout
        assert requests is not None  # noqa: S101 - both were asked for
        assert answers is not None  # noqa: S101
        return requests, answers


def parse_tree(content: bytes, id_bytes: int) -> dict[bytes, Entry]:
    """The entries of a tree object: for each a mode, a blank, the name, NUL, and the id as bytes."""
    entries, at = {}, 0
    while at < len(content):
        space = content.index(b" ", at)
        end = content.index(b"\0", space)
        after = end + 1 + id_bytes
        entries[content[space + 1 : end]] = Entry(
            int(content[at:space], 8), content[end + 1 : after].hex()
        )
        at = after
    return entries
