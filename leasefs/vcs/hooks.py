"""Install our hooks in a repository, say how they stand, and take them away so that no trace is left (githooks(5)).

All working trees of a clone share `hooks` in its common git directory. Where `core.hooksPath` or a symbolic link leads
git to another directory, other repositories may use that one too, or its files may be tracked: nothing is written there
unless the caller says so.

Every file is replaced by a rename, because a shell reads the hook that it is running bit by bit. The order of steps
leaves the former hook in force, or kept, whenever we are stopped in between; doing it again goes on from there.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.vcs.errors import VcsError
from leasefs.vcs.hook_script import (
    KEPT_IN,
    NAMES,
    has_lines,
    is_own,
    lines,
    own_script,
    takes_lines,
    with_lines,
    without_lines,
)
from leasefs.vcs.own_git import own_git

if TYPE_CHECKING:
    from collections.abc import Iterator

_LIMIT_BYTES = 1 << 20
_EXECUTABLE = 0o111


class HookProblem(VcsError):
    """A hook cannot be installed or taken away; what stood there stands there still."""


@dataclass(frozen=True, slots=True)
class HooksPlace:
    """The directory that git runs hooks from. `shared` says in words why it may not be this repository's alone."""

    directory: str
    shared: str = ""


@dataclass(frozen=True, slots=True)
class HookState:
    """How one hook stands: `installed`, `changed` (ours, but not as we would write it now) or `missing`; why in `detail`."""

    name: str
    state: str
    path: str
    detail: str = ""


def hooks_place(directory: str = ".") -> HooksPlace:
    """Where git, run in `directory`, looks for hooks.

    Raises:
        GitFailed: it is in no repository.
    """
    asked = ["rev-parse", "--git-common-dir", "--git-path", "hooks"]
    common, found = map(os.fsdecode, own_git(asked, directory=directory).split(b"\n")[:2])
    place = os.path.realpath(os.path.join(directory, found))
    if place == os.path.join(os.path.realpath(os.path.join(directory, common)), "hooks"):
        return HooksPlace(place)
    asked = ["config", "--show-scope", "-z", "--get", "core.hooksPath"]
    scope, _, value = own_git(asked, directory=directory, absent_status=1).partition(b"\0")
    if not value:
        return HooksPlace(place, f"the hooks of this repository are a link to {place}")
    said = os.fsdecode(value.rstrip(b"\0"))
    return HooksPlace(place, f"core.hooksPath ({scope.decode()}) is {said!r}")


def status(place: HooksPlace) -> list[HookState]:
    """How each of our hooks stands."""
    return [_Hook(place.directory, name).state() for name in NAMES]


def install(place: HooksPlace) -> list[HookState]:
    """Make each of our hooks `installed`; done twice, it changes nothing.

    Raises:
        HookProblem: one cannot be.
    """
    with _explained(place.directory):
        for name in NAMES:
            _Hook(place.directory, name).install()
    return status(place)


def uninstall(place: HooksPlace) -> list[str]:
    """Take ours away; everything else stays or is put back. What could not be put back is said in words.

    Raises:
        HookProblem: the directory cannot be written.
    """
    with _explained(place.directory):
        left = [_Hook(place.directory, name).uninstall() for name in NAMES]
        with contextlib.suppress(OSError):  # not empty, or not there
            os.rmdir(os.path.join(place.directory, KEPT_IN))
    return [words for words in left if words]


@contextlib.contextmanager
def _explained(directory: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename or directory
        raise HookProblem(f"{where!r} cannot be changed: {error.strerror}") from error


class _Hook:
    def __init__(self, directory: str, name: str) -> None:
        self._directory = directory
        self._name = name
        self._path = os.path.join(directory, name)
        self._kept = os.path.join(directory, KEPT_IN, name)

    def state(self) -> HookState:
        script = self._script()
        if script is None or not has_lines(script):
            found = "another hook is there" if os.path.lexists(self._path) else ""
            return HookState(self._name, "missing", self._path, found)
        if lines(self._name) not in script:
            return HookState(self._name, "changed", self._path, "`leasefs hooks install` renews it")
        if not os.stat(self._path).st_mode & _EXECUTABLE:
            return HookState(
                self._name, "changed", self._path, "it is not executable: git skips it"
            )
        return HookState(self._name, "installed", self._path, self._company(script))

    def _company(self, script: bytes) -> str:
        if os.path.lexists(self._kept):
            return f"goes on with {self._kept}"
        return "" if is_own(script, self._name) else "in a script of yours"

    def install(self) -> None:
        state = self.state()
        if state.state == "installed":
            return
        script = self._script()
        if script is not None and (has_lines(script) or self._is_plain(script)):
            self._renew(script)
            return
        os.makedirs(self._directory, exist_ok=True)
        if os.path.lexists(self._path):
            self._keep()
        kept = os.path.lexists(self._kept)
        self._write(own_script(self._name, then_kept=kept), None)

    def _renew(self, script: bytes) -> None:
        """Put our lines, as they are now, into what is there. Ours must run, whatever the script's mode was."""
        before = os.stat(self._path)
        if is_own(script, self._name):
            script = own_script(self._name, then_kept=os.path.lexists(self._kept))
        else:
            script = with_lines(script, self._name)
        self._write(script, before)

    def uninstall(self) -> str:
        """Words about what is left, or ""."""
        script = self._script()
        kept = os.path.lexists(self._kept)
        if script is None or not has_lines(script):
            if not kept:
                return ""
            if os.path.lexists(self._path):
                return f"{self._path} is not ours any more; what stood there before is {self._kept}"
        elif not is_own(script, self._name):
            self._write(without_lines(script), os.stat(self._path))
            return f"what stood at {self._path} before is {self._kept}" if kept else ""
        if kept:
            self._put_back()
        else:
            os.unlink(self._path)
        return ""

    def _script(self) -> bytes | None:
        """The hook's text; None if nothing is there, or nothing that our lines could be in."""
        try:
            found = os.lstat(self._path)
            if not stat.S_ISREG(found.st_mode) or found.st_size > _LIMIT_BYTES:
                return None
            with open(self._path, "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _is_plain(self, script: bytes) -> bool:
        """Whether our lines may go into it: git runs it, and it is under no other name."""
        found = os.stat(self._path)
        return takes_lines(script) and bool(found.st_mode & _EXECUTABLE) and found.st_nlink == 1

    def _keep(self) -> None:
        """Let what is there be found in `before-leasefs/`, too; it is replaced at its own name in the next step."""
        if os.path.lexists(self._kept):
            raise HookProblem(
                f"{self._kept} is still there from an earlier time, and {self._path} is another hook; "
                "remove the one that you do not need"
            )
        os.makedirs(os.path.dirname(self._kept), exist_ok=True)
        if os.path.islink(self._path):
            target = os.readlink(self._path)
            os.symlink(target if os.path.isabs(target) else f"../{target}", self._kept)
        else:
            os.rename(self._path, self._kept)

    def _put_back(self) -> None:
        if not os.path.islink(self._kept):
            os.rename(self._kept, self._path)
            return
        target = os.readlink(self._kept)
        draft = self._draft()
        os.symlink(target if os.path.isabs(target) else target.removeprefix("../"), draft)
        os.rename(draft, self._path)
        os.unlink(self._kept)

    def _write(self, script: bytes, before: os.stat_result | None) -> None:
        """Replace the hook. Mode and owner stay; of a new one they are as the directory's."""
        draft = self._draft()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(draft, flags, 0o777)
        try:
            with open(descriptor, "wb") as file:
                file.write(script)
                owner = before or os.stat(self._directory)
                if not os.geteuid():
                    os.fchown(descriptor, owner.st_uid, owner.st_gid)
                if before is not None:
                    mode = stat.S_IMODE(before.st_mode)
                    os.fchmod(descriptor, mode | (mode & 0o444) >> 2 if has_lines(script) else mode)
            os.rename(draft, self._path)
        except BaseException:
            os.unlink(draft)
            raise

    def _draft(self) -> str:
        draft = os.path.join(self._directory, f".{self._name}.leasefs-{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        return draft
