"""A tool that changes a tree at random and knows, system call by system call, what must be there afterwards.

What it saw acknowledged is its `state`. The one call that the end of a mount cut off may have been made or not:
then the tree is one of `possible()`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Mapping

_GONE = (errno.ENOTCONN, errno.ECONNABORTED)
# Some that git ignores, some that are awkward: the parts of names that files and directories get.
# `.gitignore` is left alone: it says of paths that nobody touches whether they are anybody's work.
_KEPT = ".gitignore"
_NAMES = ["a", "b", "c.txt", "d.log", "-e", "f g", "h\ni", "j\udcff", ":k", "l.o"]
_DIRECTORIES = ["x", "y y", "z\udcfe", "src"]
_MOST_FILES = 30
_MOST_DEPTH = 3
_HANDLES = 3


class Thing(NamedTuple):
    """What is at a path: kind is file, link or dir; content a file's bytes, or a link's text."""

    kind: str
    content: bytes = b""
    is_executable: bool = False


State = dict[str, Thing]


class MountGone(Exception):
    """A call was cut off by the end of the mount."""


class _Handle:
    def __init__(self, fd: int, path: str | None) -> None:
        self.fd = fd
        # None once the file has lost its name.
        self.path = path


class RandomWriter:
    """Writes below `root`. `touched` are the paths that it changed, `cut_off` those that it may have."""

    def __init__(self, root: str, state: State, rng: random.Random) -> None:
        self.root = root
        self.state = dict(state)
        self.touched: set[str] = set()
        self.cut_off: set[str] = set()
        self.calls = 0
        self._rng = rng
        self._if_made: State | None = None
        self._handles: list[_Handle] = []

    def possible(self) -> list[State]:
        """The states that the tree may be in."""
        return [self.state] if self._if_made is None else [self.state, self._if_made]

    def close(self) -> None:
        """Let go of what is open."""
        for handle in self._handles:
            with contextlib.suppress(OSError):
                os.close(handle.fd)
        self._handles.clear()

    def step(self, at_head: Mapping[str, Thing]) -> None:
        """Do one of the things that tools do. Raises MountGone."""
        doings: list[Callable[[], None]] = [
            *[self._create] * 4,
            *[self._overwrite] * 3,
            self._append,
            self._by_handle,
            *[self._save] * 2,
            *[self._rename_file] * 2,
            *[self._rename_directory] * 2,
            *[self._unlink] * (1 if len(self._files()) < _MOST_FILES else 8),
            self._symlink,
            self._chmod,
            self._mkdir,
            self._rmdir,
            lambda: self._as_at_head(at_head),
        ]
        self._rng.choice(doings)()

    # -- one call ------------------------------------------------------------------------------

    def _do(self, call: Callable[[], object], changes: Mapping[str, Thing | None]) -> object:
        """Make a call after which these paths are so; None is for a path that is gone."""
        things = {**self.state, **changes}
        after = {path: thing for path, thing in things.items() if thing is not None}
        try:
            result = call()
        except OSError as error:
            if error.errno in _GONE:
                self._if_made, self.cut_off = after, set(changes)
                raise MountGone from error
            raise
        self.state = after
        self.touched |= changes.keys()
        self.calls += 1
        return result

    def _at(self, path: str) -> str:
        return os.path.join(self.root, path)

    def _open(self, path: str, flags: int, thing: Thing) -> int:
        fd = self._do(lambda: os.open(self._at(path), flags, 0o644), {path: thing})
        assert isinstance(fd, int)
        return fd

    def _write(self, fd: int, path: str, content: bytes, before: Thing) -> None:
        after = before._replace(content=before.content + content)
        try:
            self._do(lambda: os.write(fd, content), {path: after})
        except MountGone:
            with contextlib.suppress(OSError):
                os.close(fd)
            raise
        if len(self._handles) < _HANDLES and self._rng.random() < 0.3:
            self._handles.append(_Handle(fd, path))
        else:
            self._close(fd)

    def _close(self, fd: int) -> None:
        # What it held was acknowledged before; a mount that ended meanwhile is met by the next call.
        with contextlib.suppress(OSError):
            os.close(fd)

    # -- what tools do -------------------------------------------------------------------------

    def _files(self) -> list[str]:
        things = self.state.items()
        return sorted(path for path, thing in things if thing.kind == "file" and path != _KEPT)

    def _directories(self) -> list[str]:
        return sorted(path for path, thing in self.state.items() if thing.kind == "dir")

    def _some_file(self) -> str | None:
        files = self._files()
        return self._rng.choice(files) if files else None

    def _new_name(self, names: list[str]) -> str | None:
        above = self._rng.choice(["", *self._directories()])
        name = self._rng.choice(names) + self._rng.choice(["", "", "1", "2"])
        path = f"{above}/{name}" if above else name
        return None if path in self.state or path.count("/") > _MOST_DEPTH else path

    def _bytes(self) -> bytes:
        return b"%d\n" % self._rng.randrange(10**9)

    def _create(self) -> None:
        if (path := self._new_name(_NAMES)) is not None:
            fd = self._open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, Thing("file"))
            self._write(fd, path, self._bytes(), self.state[path])

    def _overwrite(self) -> None:
        if (path := self._some_file()) is not None:
            self._fill(path, self._bytes())

    def _fill(self, path: str, content: bytes) -> None:
        empty = self.state[path]._replace(content=b"")
        fd = self._open(path, os.O_WRONLY | os.O_TRUNC, empty)
        self._forget_handles(path)  # theirs would be holes
        self._write(fd, path, content, empty)

    def _forget_handles(self, path: str) -> None:
        for handle in [one for one in self._handles if one.path == path]:
            self._handles.remove(handle)
            self._close(handle.fd)

    def _as_at_head(self, at_head: Mapping[str, Thing]) -> None:
        """Make a path what HEAD has, by hand."""
        same = [
            path
            for path in self._files()
            if path in at_head and at_head[path].kind == "file" and at_head[path].content
        ]
        if same:
            path = self._rng.choice(sorted(same))
            self._fill(path, at_head[path].content)
            if self.state[path].is_executable != at_head[path].is_executable:
                self._set_mode(path)

    def _append(self) -> None:
        if (path := self._some_file()) is not None:
            self._forget_handles(path)
            before = self.state[path]
            fd = self._open(path, os.O_WRONLY | os.O_APPEND, before)
            self._write(fd, path, self._bytes(), before)

    def _by_handle(self) -> None:
        if not self._handles:
            return
        handle = self._rng.choice(self._handles)
        if handle.path is None:
            with contextlib.suppress(OSError):
                os.write(handle.fd, b"x")
            return
        content, before = self._bytes(), self.state[handle.path]
        after = before._replace(content=before.content + content)
        self._do(lambda: os.pwrite(handle.fd, content, len(before.content)), {handle.path: after})

    def _save(self) -> None:
        """As most editors do: a new file, renamed onto the old one."""
        path = self._some_file()
        if path is None or (draft := path + ".tmp") in self.state:
            return
        fd = self._open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, Thing("file"))
        self._write(fd, draft, self._bytes(), self.state[draft])
        self._move(draft, path)

    def _move(self, old: str, new: str) -> None:
        changes = {old: None, new: self.state[old]}
        self._do(lambda: os.rename(self._at(old), self._at(new)), changes)
        for handle in self._handles:
            if handle.path == new:
                handle.path = None
            elif handle.path == old:
                handle.path = new

    def _rename_file(self) -> None:
        old = self._some_file()
        new = self._some_file() if self._rng.random() < 0.4 else self._new_name(_NAMES)
        if old is not None and new is not None and old != new:
            self._move(old, new)

    def _rename_directory(self) -> None:
        directories = self._directories()
        new = self._new_name(_DIRECTORIES)
        if not directories or new is None:
            return
        old = self._rng.choice(directories)
        if f"{new}/".startswith(f"{old}/"):
            return
        below = [path for path in self.state if path == old or path.startswith(f"{old}/")]
        moved = {path: new + path[len(old) :] for path in below}
        changes: dict[str, Thing | None] = dict.fromkeys(moved)
        changes |= {goal: self.state[path] for path, goal in moved.items()}
        self._do(lambda: os.rename(self._at(old), self._at(new)), changes)
        for handle in self._handles:
            handle.path = moved.get(handle.path, handle.path) if handle.path else None

    def _unlink(self) -> None:
        things = self.state.items()
        names = sorted(path for path, thing in things if thing.kind != "dir" and path != _KEPT)
        if names:
            path = self._rng.choice(names)
            self._do(lambda: os.unlink(self._at(path)), {path: None})
            for handle in self._handles:
                if handle.path == path:
                    handle.path = None

    def _symlink(self) -> None:
        if (path := self._new_name(_NAMES)) is not None:
            text = self._rng.choice(["a", "../nowhere", "/etc/passwd"])
            link = Thing("link", text.encode())
            self._do(lambda: os.symlink(text, self._at(path)), {path: link})

    def _chmod(self) -> None:
        if (path := self._some_file()) is not None:
            self._set_mode(path)

    def _set_mode(self, path: str) -> None:
        after = self.state[path]._replace(is_executable=not self.state[path].is_executable)
        mode = 0o755 if after.is_executable else 0o644
        self._do(lambda: os.chmod(self._at(path), mode), {path: after})

    def _mkdir(self) -> None:
        if (path := self._new_name(_DIRECTORIES)) is not None:
            self._do(lambda: os.mkdir(self._at(path)), {path: Thing("dir")})

    def _rmdir(self) -> None:
        empty = [
            path
            for path in self._directories()
            if not any(other.startswith(f"{path}/") for other in self.state)
        ]
        if empty:
            path = self._rng.choice(empty)
            self._do(lambda: os.rmdir(self._at(path)), {path: None})


def state_of(root: str) -> State:
    """All that is below `root` but its git directory."""
    found: State = {}
    for at, directories, files in os.walk(root):
        if at == root and ".git" in directories:
            directories.remove(".git")
        for name in (*directories, *files):
            full = os.path.join(at, name)
            found[os.path.relpath(full, root)] = _thing(full)
    return found


def _thing(full: str) -> Thing:
    mode = os.lstat(full).st_mode
    if stat.S_ISLNK(mode):
        return Thing("link", os.readlink(os.fsencode(full)))
    if stat.S_ISDIR(mode):
        return Thing("dir")
    with open(full, "rb") as file:
        return Thing("file", file.read(), bool(mode & 0o100))


def differences(states: Iterable[State], found: State) -> list[str]:
    """How `found` differs from the nearest of these states; nothing if it is one of them."""
    told = [
        sorted(
            f"{path!r}: {state.get(path)} became {found.get(path)}"
            for path in state.keys() | found.keys()
            if state.get(path) != found.get(path)
        )
        for state in states
    ]
    return min(told, key=len)
