"""Where settings of one working tree go in its repository's configuration, and setting them so that no trace is left.

A working tree's own configuration is (git-worktree(1), git-config(1)):

- `config.worktree`, where the repository has `extensions.worktreeConfig`;
- `config` of a main working tree;
- for a linked one a file of ours in its git directory, included from the common `config` on the condition that git
  works with that very git directory ("Conditional includes").
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.vcs.beneath import read_file
from leasefs.vcs.errors import GitFailed, VcsError
from leasefs.vcs.plumbing import is_true, run_git

if TYPE_CHECKING:
    from leasefs.vcs.gitdir import GitDir

INCLUDED = "leasefs.config"
WORKTREE = "config.worktree"
_TIMEOUT_S = 10.0
_LIMIT_BYTES = 1 << 20
_ATTEMPTS = 3  # somebody else's `git config` holds the file's lock for a moment
_ABSENT = 1  # git-config(1): no such key, or no such file
_NOTHING_UNSET = 5  # git-config(1): "you try to unset an option which does not exist"

Settings = dict[str, str]


class NotSet(VcsError):
    """Nothing was set, and why; git works as it does without a mount."""


@dataclass(frozen=True, slots=True)
class OwnConfig:
    """One working tree's own configuration file; `include` is the key and value that bring a file of ours in."""

    gitdir: GitDir
    directory_fd: int
    name: str
    owner: os.stat_result
    include: tuple[str, str] | None

    def values(self, key: str) -> list[bytes]:
        """The values of `key` in this file alone; GitFailed if it cannot be read."""
        arguments = ["config", "--file", self._settings_path, "-z", "--get-all", key]
        return self._git(arguments, absent_status=_ABSENT).split(b"\0")[:-1]

    def add(self, settings: Settings) -> None:
        """Set keys that are not set here.

        Raises:
            NotSet: git could not take them away again without leaving a trace, or cannot write there.
        """
        try:
            self._check_undoable(dict([self.include]) if self.include else settings)
            self._create()
            for key, value in settings.items():
                self._git(["config", "--file", self._settings_path, key, value])
            if self.include:
                self._git(["config", "--file", self._path, *self.include])
        except (GitFailed, OSError) as error:
            with suppress(GitFailed, OSError):
                self.remove(dict.fromkeys(settings, ""))
            raise NotSet(f"the repository's configuration cannot be changed: {error}") from error

    def remove(self, patterns: dict[str, str]) -> None:
        """Take away what `add` set: of each key the values that match its regular expression.

        Raises:
            GitFailed: git cannot.
        """
        if self.include:
            self._unset(self._path, self.include[0])
            with suppress(FileNotFoundError):
                os.unlink(INCLUDED, dir_fd=self.gitdir.fd)
            return
        for key, pattern in patterns.items():
            self._unset(self._path, key, pattern)
        if self.name == WORKTREE and not self._content():
            # An empty one says as much as none, and it is we who made it.
            with suppress(FileNotFoundError):
                os.unlink(WORKTREE, dir_fd=self.directory_fd)

    def drop_untracked_cache(self) -> None:
        """Take git's list of untracked files out of the index: it would warn at another path of the tree."""
        self._git(["update-index", "--no-untracked-cache"])

    @property
    def _path(self) -> str:
        return f"/proc/self/fd/{self.directory_fd}/{self.name}"

    @property
    def _settings_path(self) -> str:
        return f"{self.gitdir.git_path}/{INCLUDED}" if self.include else self._path

    def _git(self, arguments: list[str], *, absent_status: int = 0) -> bytes:
        for attempt in range(_ATTEMPTS):
            try:
                return run_git(
                    self.gitdir,
                    arguments,
                    timeout_s=_TIMEOUT_S,
                    absent_status=absent_status,
                    owner=self.owner,
                )
            except GitFailed:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _unset(self, path: str, key: str, pattern: str = "") -> None:
        arguments = ["config", "--file", path, "--unset-all", key, pattern]
        self._git(arguments, absent_status=_NOTHING_UNSET)

    def _create(self) -> None:
        """Make the file that may be missing, readable to whom the configuration is: git keeps the mode."""
        name = INCLUDED if self.include else self.name
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = self.gitdir.fd if self.include else self.directory_fd
        try:
            file_fd = os.open(name, flags, 0o600, dir_fd=fd)
        except FileExistsError:
            return
        try:
            if not os.geteuid():
                os.fchown(file_fd, self.owner.st_uid, self.owner.st_gid)
            os.fchmod(file_fd, stat.S_IMODE(self.owner.st_mode))
        finally:
            os.close(file_fd)

    def _content(self) -> bytes:
        try:
            return read_file(self.directory_fd, self.name.encode(), _LIMIT_BYTES)
        except FileNotFoundError:
            return b""

    def _check_undoable(self, settings: Settings) -> None:
        """Try it on a copy: where the last line has no end, for one, git would leave one there."""
        before = self._content()
        with tempfile.TemporaryDirectory(prefix="leasefs-") as directory:
            copy = f"{directory}/config"
            with open(copy, "wb") as file:
                file.write(before)
            for key, value in settings.items():
                run_git(self.gitdir, ["config", "--file", copy, key, value], timeout_s=_TIMEOUT_S)
            for key in settings:
                arguments = ["config", "--file", copy, "--unset-all", key]
                run_git(self.gitdir, arguments, timeout_s=_TIMEOUT_S)
            with open(copy, "rb") as file:
                after = file.read()
        if before != after:
            raise NotSet(f"git could not take a setting out of `{self.name}` again without a trace")


def own_config(gitdir: GitDir) -> OwnConfig:
    """The configuration of the working tree that `gitdir` belongs to.

    Raises:
        NotSet: it cannot be found out, or it is not ours to write.
    """
    try:
        owner = os.stat("config", dir_fd=gitdir.common_fd, follow_symlinks=False)
        per_worktree = is_true(gitdir, "extensions.worktreeConfig")
    except (OSError, GitFailed) as error:
        raise NotSet(f"the repository's configuration cannot be read: {error}") from error
    if not stat.S_ISREG(owner.st_mode):
        raise NotSet("the repository's configuration is not a regular file")
    if os.geteuid() not in {0, owner.st_uid}:
        raise NotSet("the repository's configuration belongs to somebody else")
    if per_worktree:
        return OwnConfig(gitdir, gitdir.fd, WORKTREE, owner, None)
    if os.path.samestat(os.fstat(gitdir.fd), os.fstat(gitdir.common_fd)):
        return OwnConfig(gitdir, gitdir.fd, "config", owner, None)
    return OwnConfig(gitdir, gitdir.common_fd, "config", owner, _inclusion(gitdir))


def _inclusion(gitdir: GitDir) -> tuple[str, str]:
    common, own = (os.readlink(f"/proc/self/fd/{fd}") for fd in (gitdir.common_fd, gitdir.fd))
    if not own.startswith(f"{common}/") or "\n" in own:
        raise NotSet(f"git cannot be told of the git directory {own!r} by a condition")
    # The condition is a pattern; a backslash takes the meaning from its special characters.
    pattern = re.sub(r"([*?\[\]\\])", r"\\\1", own)
    return f"includeIf.gitdir:{pattern}.path", f"{own[len(common) + 1 :]}/{INCLUDED}"
