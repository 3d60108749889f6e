"""A real git working tree for tests, opened the way the mount opens it, with git itself as the oracle."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.vcs.gitdir import GitDir, find_git
from leasefs.vcs.ignore import IgnoreRules
from leasefs.vcs.tracked import NOTHING_TRACKED, load_tracked

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import ExitStack

_IDENTITY = (
    "-c",
    "user.name=t",
    "-c",
    "user.email=t@example.org",
    "-c",
    "protocol.file.allow=always",
)


@dataclass(frozen=True)
class GitTree:
    """A directory, by absolute path. What is opened here is closed with `resources`."""

    path: bytes
    resources: ExitStack

    def git(self, *arguments: str | bytes, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> bytes:
        """Run git in the tree; an exit status that is not `ok` fails the test with git's words."""
        done = subprocess.run(
            ["git", *_IDENTITY, *arguments],
            cwd=self.path,
            input=stdin,
            capture_output=True,
            check=False,
        )
        assert done.returncode in ok, done.stderr
        return done.stdout

    def write(self, name: bytes, content: bytes = b"") -> None:
        """Write a file, making the directories above it."""
        full = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(content)

    def track(self, *names: bytes) -> None:
        """Write empty files and add them to the index, ignored or not."""
        for name in names:
            self.write(name)
        self.git("update-index", "--add", "-z", "--stdin", stdin=b"".join(n + b"\0" for n in names))

    def open_root(self) -> int:
        """A descriptor of the root."""
        root_fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        self.resources.callback(os.close, root_fd)
        return root_fd

    def open_git(self) -> GitDir:
        """The tree's git directory."""
        gitdir = find_git(self.open_root())
        assert gitdir is not None, "no git repository here"
        return self.resources.enter_context(gitdir)

    def rules(self) -> IgnoreRules:
        """The tree's ignore rules, with the index as it is now."""
        root_fd = self.open_root()
        gitdir = find_git(root_fd)
        if gitdir is None:
            return IgnoreRules(root_fd, None, NOTHING_TRACKED)
        self.resources.enter_context(gitdir)
        return IgnoreRules(root_fd, gitdir, load_tracked(gitdir))

    def ignored_by_git(self, paths: Iterable[bytes]) -> set[bytes]:
        """The oracle: `git check-ignore`, which names nothing that is tracked or above something tracked."""
        asked = b"".join(path + b"\0" for path in paths)
        output = self.git("check-ignore", "-z", "--stdin", "-v", "-n", stdin=asked, ok=(0, 1))
        fields = output.split(b"\0")[:-1]
        answers = zip(fields[0::4], fields[2::4], fields[3::4], strict=True)
        return {path for source, rule, path in answers if source and not rule.startswith(b"!")}
