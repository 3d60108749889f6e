"""Random histories: what is called dirty is what differs from HEAD in bytes or mode, however it came about.

What is said of clean paths is checked, too: a commit that is named holds just what is there, HEAD's history has it, and
it is newer than the one at which the path was first dirty.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasefs.testing.git_tree import GitTree
from leasefs.vcs.reconcile import Seen, Standing, WorkTree, dirty_below, standings

if TYPE_CHECKING:
    from collections.abc import Callable

PATHS = [b"a", b"b", b"d/c", b"d/e", b"b/x"]
CONTENTS = [b"", b"1\n", b"2\n", b"1\n2\n"]
Entry = tuple[bytes, bytes] | None


class History:
    """A repository, and of each dirty path the HEAD at which it became so."""

    def __init__(self, tree: GitTree) -> None:
        self.tree = tree
        self.first: dict[bytes, str] = {}
        self.held: dict[bytes, Seen] = {}
        tree.git("init", "-q", "-b", "main")

    # -- what is done ------------------------------------------------------------------------------

    def edit(self, path: bytes, content: bytes) -> None:
        full = os.path.join(self.tree.path, path)
        above = os.path.dirname(full)
        if os.path.isdir(full) or os.path.isfile(above):
            return
        if os.path.islink(full):
            os.unlink(full)  # what it leads to is another path, or the link itself
        self.tree.write(path, content)

    def remove(self, path: bytes, _content: bytes) -> None:
        full = os.path.join(self.tree.path, path)
        if os.path.lexists(full) and not os.path.isdir(full):
            os.unlink(full)
            if path.startswith(b"b/"):
                os.rmdir(os.path.dirname(full))

    def make_executable(self, path: bytes, _content: bytes) -> None:
        full = os.path.join(self.tree.path, path)
        if os.path.isfile(full) and not os.path.islink(full):
            os.chmod(full, os.stat(full).st_mode ^ 0o111)

    def make_link(self, path: bytes, _content: bytes) -> None:
        full = os.path.join(self.tree.path, path)
        if os.path.isfile(full):
            os.unlink(full)
            os.symlink("a", full)

    def revert_by_hand(self, path: bytes, _content: bytes) -> None:
        entry = self.committed(self.head()).get(path)
        if entry and entry[0] != b"120000":
            self.remove(path, b"")
            self.edit(path, self.tree.git("cat-file", "blob", entry[1].decode()))

    def add(self, path: bytes, _content: bytes) -> None:
        self.git("add", "--", path)

    def commit_path(self, path: bytes, _content: bytes) -> None:
        self.git("commit", "-q", "-m", "x", "--", path)

    def git(self, *arguments: str | bytes) -> None:
        """A command that may be refused: that is a history as well."""
        self.tree.git("-c", "core.editor=true", *arguments, ok=(0, 1, 128))

    # -- what is there -------------------------------------------------------------------------------

    def head(self) -> str:
        return self.tree.git("rev-parse", "-q", "--verify", "HEAD", ok=(0, 1)).decode().strip()

    def committed(self, commit: str) -> dict[bytes, tuple[bytes, bytes]]:
        if not commit:
            return {}
        listing = self.tree.git("ls-tree", "-r", "-z", commit).split(b"\0")[:-1]
        heads = [record.partition(b"\t") for record in listing]
        return {path: (head.split()[0], head.split()[2]) for head, _, path in heads}

    def present(self) -> dict[bytes, tuple[bytes, bytes]]:
        found = {}
        for path in PATHS:
            full = os.path.join(self.tree.path, path)
            if os.path.islink(full):
                found[path] = (b"120000", self.blob(os.readlink(full)))
            elif os.path.isfile(full):
                mode = b"100755" if os.stat(full).st_mode & 0o100 else b"100644"
                with open(full, "rb") as file:
                    found[path] = (mode, self.blob(file.read()))
        return found

    def blob(self, content: bytes) -> bytes:
        return self.tree.git("hash-object", "--stdin", stdin=content).strip()

    # -- and what must be said of it -------------------------------------------------------------------

    def check(self) -> None:
        head = self.head()
        committed, present = self.committed(head), self.present()
        differs = {path for path in PATHS if committed.get(path) != present.get(path)}
        for path in differs:
            self.first.setdefault(path, self.before)
        seen = {path: Seen(commit) for path, commit in self.first.items()} | {
            path: one for path, one in self.held.items() if path not in self.first
        }
        root_fd = os.open(self.tree.path, os.O_PATH)
        try:
            found = standings(WorkTree(root_fd), PATHS, seen)
            below = dirty_below(WorkTree(root_fd), [b""])
        finally:
            os.close(root_fd)
        assert {path for path, one in found.items() if one and one.dirty} == differs
        assert set(below) == differs
        assert all(found[path] == Standing(dirty=below[path]) for path in differs)
        for path, one in found.items():
            if one and path not in differs and path in seen:
                self.check_clean(path, one, seen[path], present.get(path), head)

    def check_clean(self, path: bytes, one: Standing, seen: Seen, entry: Entry, head: str) -> None:
        since = seen.commit or ""
        if one.commit:
            at_commit = self.committed(one.commit).get(path)
            if seen.blob is None:
                assert at_commit == entry
                assert self.is_ancestor(one.commit, head)
                assert not since or not self.is_ancestor(one.commit, since)
            assert one.blob.encode() == (at_commit[1] if at_commit else b"")
            self.held[path] = Seen(one.commit, one.blob)
        elif seen.blob is None:
            same_before = self.committed(since).get(path) == entry
            assert same_before or (since and self.is_ancestor(head, since))
            self.held.pop(path, None)
        else:
            assert one.dropped
            assert not self.is_on_a_branch(since)
            self.held.pop(path, None)
        self.first.pop(path, None)

    def is_ancestor(self, commit: str, of: str) -> bool:
        base = self.tree.git("merge-base", commit, of, ok=(0, 1)).decode().strip()
        return base == commit

    def is_on_a_branch(self, commit: str) -> bool:
        return bool(self.tree.git("branch", "-a", "--contains", commit, "--format=x"))

    def act(self, name: str, path: bytes, content: bytes) -> None:
        self.before = self.head()
        acts: dict[str, Callable[[bytes, bytes], None]] = {
            "edit": self.edit,
            "remove": self.remove,
            "make executable": self.make_executable,
            "make a link": self.make_link,
            "revert by hand": self.revert_by_hand,
            "add": self.add,
            "commit path": self.commit_path,
        }
        if name in acts:
            acts[name](path, content)
        else:
            self.git(*COMMANDS[name])
        self.check()


COMMANDS = {
    "add all": ["add", "-A"],
    "commit": ["commit", "-q", "-m", "x"],
    "commit all": ["commit", "-q", "-a", "-m", "x"],
    "amend": ["commit", "-q", "-a", "--amend", "-m", "y"],
    "stash": ["stash", "push", "-q"],
    "stash all": ["stash", "push", "-q", "-u"],
    "pop": ["stash", "pop", "-q"],
    "soft reset": ["reset", "-q", "--soft", "HEAD~"],
    "mixed reset": ["reset", "-q", "HEAD~"],
    "hard reset": ["reset", "-q", "--hard", "HEAD~"],
    "hard reset here": ["reset", "-q", "--hard"],
    "undo reset": ["reset", "-q", "--hard", "ORIG_HEAD"],
    "new branch": ["switch", "-q", "-c", "side"],
    "to main": ["switch", "-q", "main"],
    "to side": ["switch", "-q", "side"],
    "detach": ["checkout", "-q", "--detach"],
    "rebase": ["rebase", "-q", "main"],
    "abort": ["rebase", "--abort"],
    "merge": ["merge", "-q", "-m", "m", "side"],
    "merge main": ["merge", "-q", "-m", "m", "main"],
    "pick": ["cherry-pick", "side"],
    "quit": ["cherry-pick", "--quit"],
}
EDITS = ["edit", "edit", "edit", "remove", "make executable", "make a link", "revert by hand"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from([*EDITS, "add", "commit path", "commit all", "add all", *COMMANDS]),
        st.sampled_from(PATHS),
        st.sampled_from(CONTENTS),
    ),
    min_size=4,
    max_size=14,
)


@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(STEPS)
def test_dirty_is_what_differs_from_head(steps: list[tuple[str, bytes, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as directory, ExitStack() as resources:
        history = History(GitTree(os.fsencode(directory), resources))
        history.act("edit", b"a", b"1\n")
        history.act("edit", b"d/c", b"1\n")
        for name in ("add all", "commit"):
            history.act(name, b"", b"")
        for step in steps:
            history.act(*step)
