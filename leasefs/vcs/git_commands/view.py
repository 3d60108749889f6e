"""What git says about a repository, for one command that is about to run in it. Nothing is changed by asking.

Only `ls-files` is asked about the working tree: run in its root it stays there, where other commands go to the root by a
path, which may lead through our mount and wait for the very request that made us ask (read-cache's setup_work_tree()).
"""

from __future__ import annotations

import os
import re
import stat
import time
from typing import TYPE_CHECKING

from leasefs.vcs.errors import GitFailed
from leasefs.vcs.git_commands.effects import CannotTell
from leasefs.vcs.git_commands.pathspecs import Pathspecs
from leasefs.vcs.plumbing import run_git

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from leasefs.vcs.git_commands.line import Line
    from leasefs.vcs.git_commands.place import Place
    from leasefs.vcs.git_commands.process import GitProcess

Names = frozenset[bytes]

_32 = 0xFFFFFFFF  # the index keeps so many bits
_SKIP_WORKTREE = 1 << 30  # read-cache-ll.h: CE_SKIP_WORKTREE
_STAT = re.compile(
    rb"([^\0]+)\0  ctime: (\d+):\d+\n  mtime: (\d+):\d+\n  dev: \d+\tino: (\d+)\n"
    rb"  uid: (\d+)\tgid: (\d+)\n"
    rb"  size: (\d+)\tflags: ([0-9a-f]+)\n"
)
# Filters are programs: not run. A file that needs one and whose times say nothing counts as changed.
_FILTER = re.compile(rb"filter\..*\.(clean|smudge|process)", re.DOTALL)
_REQUIRED = re.compile(rb"filter\..*\.required", re.DOTALL)
_CONFIG = (b"GIT_CONFIG", b"HOME", b"XDG_CONFIG_HOME")
# What of the process's own settings our questions need; none of them starts a program.
_PASSED_ON = (
    b"core.excludesfile core.ignorecase core.filemode core.symlinks core.sparsecheckout core.sparsecheckoutcone "
    b"merge.renames merge.directoryrenames merge.renamelimit diff.renames diff.renamelimit"
).split()


class View:
    """The repository of one command; `timeout_s` bounds all questions together."""

    def __init__(self, place: Place, process: GitProcess, line: Line, timeout_s: float) -> None:
        self.place = place
        self.process = process
        self._deadline_s = time.monotonic() + timeout_s
        self._owner = os.fstat(place.gitdir.fd)
        self._variables = dict(line.variables)
        self._settings: list[str] = []
        self.config = self._read_config(line)
        self._settings = self._passed_on()
        literal = self._variables.get("GIT_LITERAL_PATHSPECS", "0") not in {"", "0", "false", "no"}
        self.pathspecs = Pathspecs(place, literal)

    def ask(
        self,
        *arguments: str | bytes,
        tree: bool = False,
        absent_status: int = 0,
        stdin: bytes = b"",
        variables: Mapping[str, str] | None = None,
    ) -> bytes:
        """Ask git. `tree`: with the working tree at hand, for `ls-files` alone.

        Raises:
            GitFailed: as `run_git`.
            CannotTell: the time is up.
        """
        return run_git(
            self.place.gitdir,
            [*self._settings, *(os.fsdecode(word) for word in arguments)],
            timeout_s=self.left_s(),
            absent_status=absent_status,
            owner=self._owner,
            tree_fd=self.place.tree.root_fd if tree else None,
            stdin=stdin,
            variables=self._variables | dict(variables or {}),
        )

    def left_s(self) -> float:
        """Seconds left for questions; CannotTell if there are none."""
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise CannotTell("git took too long to say what it would change")
        return left_s

    def names(
        self, *arguments: str | bytes, specs: Sequence[bytes] = (), tree: bool = False
    ) -> Names:
        """The paths that a command lists with -z."""
        listed = self.ask(*arguments, "--", *specs, tree=tree)
        return frozenset(listed.split(b"\0")[:-1])

    def setting(self, key: bytes) -> bytes | None:
        """The last value of a key in lower case (its middle part as it is written); None if unset."""
        return self.config.get(key, [None])[-1]

    def flag(self, key: bytes, *, default: bool = False) -> bool:
        """A setting as a boolean (git-config(1)); one without `=` is on."""
        value = self.setting(key)
        if value is None:
            return default
        return value.lower() not in {b"false", b"no", b"off", b"0", b""}

    def commit(self, name: bytes) -> str | None:
        """The commit that `name` means; None if it means none."""
        return self._object(name, b"^{commit}")

    def treeish(self, name: bytes) -> str | None:
        """The tree that `name` means, of a commit or a tree; None if it means none."""
        return self._object(name, b"^{tree}")

    def names_a_tag(self, name: bytes) -> bool:
        """Whether `name` means an annotated tag."""
        return self._object(name, b"^{tag}") is not None

    def head(self) -> str:
        """The tree of HEAD, the empty one before the first commit."""
        return self.treeish(b"HEAD") or self.empty()

    def empty(self) -> str:
        """The id of the empty tree."""
        return self.ask("hash-object", "-t", "tree", "--stdin").decode().strip()

    def between(self, one: str, other: str, specs: Sequence[bytes] = ()) -> Names:
        """Paths that differ between two trees."""
        if one == other:
            return frozenset()
        return self.names(
            "diff-tree", "-r", "-z", "--name-only", "--no-renames", one, other, specs=specs
        )

    def touched(self, commits: Sequence[str]) -> Names:
        """Every path that one of the commits changed, against any of its parents."""
        if not commits:
            return frozenset()
        options = ("-r", "-m", "-z", "--root", "--name-only", "--no-renames", "--no-commit-id")
        given = "".join(f"{commit}\n" for commit in commits).encode()
        return frozenset(self.ask("diff-tree", *options, "--stdin", stdin=given).split(b"\0")[:-1])

    def staged(self, against: str | None = None, specs: Sequence[bytes] = ()) -> Names:
        """Paths at which the index differs from a tree, HEAD's if none is given."""
        return self.names(*_INDEX, "--name-only", against or self.head(), specs=specs)

    def only_in_index(self, against: str, specs: Sequence[bytes] = ()) -> Names:
        """Paths of the index that a tree does not have."""
        return self.names(*_INDEX, "--name-only", "--diff-filter=A", against, specs=specs)

    def unmerged(self, specs: Sequence[bytes] = ()) -> Names:
        """Paths in conflict."""
        listed = self.names("ls-files", "-u", "-z", specs=specs, tree=True)
        return frozenset(entry.partition(b"\t")[2] for entry in listed)

    def tracked(self, specs: Sequence[bytes] = ()) -> Names:
        """Paths of the index."""
        return self.names("ls-files", "-z", specs=specs, tree=True)

    def submodules(self, specs: Sequence[bytes] = ()) -> Names:
        """Paths of the index that are submodules."""
        listed = self.names("ls-files", "-s", "-z", specs=specs, tree=True)
        return frozenset(e.partition(b"\t")[2] for e in listed if e.startswith(b"160000 "))

    def others(self, *options: str, specs: Sequence[bytes] = ()) -> Names:
        """Untracked paths, ignored ones too unless the options say otherwise."""
        return self.names("ls-files", "-o", "-z", *options, specs=specs, tree=True)

    def dirty(self, specs: Sequence[bytes] = ()) -> Names:
        """Tracked paths that git would write anew to make them what the index says.

        Submodules that are there stay as they are. Those of other content, and those that only look so: git goes by the file's times and size (ie_match_stat()).
        """
        listed = self.ask("ls-files", "-z", "--debug", "--", *specs, tree=True)
        entries = _STAT.findall(listed)
        if len(entries) != listed.count(b"\n  mtime: ") or bool(entries) != bool(listed):
            return self.tracked(specs)  # another format, or a name that looks like one
        looks = frozenset(entry[0] for entry in entries if self._looks_changed(*entry))
        found = looks | self.modified(specs)
        kept = {path for path in found if self.place.tree.kind(path) == stat.S_IFDIR}
        return found - (kept & self.submodules()) if kept else found

    def modified(self, specs: Sequence[bytes] = ()) -> Names:
        """Tracked paths whose content or mode is not what the index says, submodules at another commit among them."""
        return self.names("ls-files", "-m", "-z", specs=specs, tree=True)

    def widened(self, paths: Names) -> Names:
        """With what stands in the way of `paths`: a directory where a file goes, a file where a directory goes."""
        known = self.submodules() if paths else frozenset()
        found = set(paths)
        parents: dict[bytes, bool] = {}
        for path in paths:
            if path.endswith(b"/"):
                continue
            if path not in known and self.place.tree.kind(path) == stat.S_IFDIR:
                found.add(path + b"/")
            found |= {above for above in _above(path) if self._is_file(above, parents)}
        return frozenset(found)

    def _is_file(self, path: bytes, seen: dict[bytes, bool]) -> bool:
        if path not in seen:
            seen[path] = self.place.tree.kind(path) not in {None, stat.S_IFDIR}
        return seen[path]

    def _looks_changed(self, name: bytes, *fields: bytes) -> bool:
        *numbers, flags = fields
        ctime, mtime, *others = map(int, numbers)
        try:
            found = os.stat(name, dir_fd=self.place.tree.root_fd, follow_symlinks=False)
        except OSError:
            return not int(flags, 16) & _SKIP_WORKTREE
        if stat.S_ISDIR(found.st_mode):
            return False  # a submodule, or what `ls-files -m` tells
        now = [found.st_ino & _32, found.st_uid, found.st_gid, found.st_size & _32]
        if mtime != found.st_mtime_ns // 10**9 or others[-1] != now[-1]:
            return True
        if self.setting(b"core.checkstat") == b"minimal":
            return False
        trusted = self.flag(b"core.trustctime", default=True)
        return others != now or (trusted and ctime != found.st_ctime_ns // 10**9)

    def _object(self, name: bytes, kind: bytes) -> str | None:
        if name.startswith(b"-"):
            return None
        if b"@{" in name or b":" in name:
            # Where it means nothing with the suffix, git would take all in the braces for a date, and after a colon
            # the suffix is part of a path.
            name = (self._parsed(name) or "").encode()
        return self._parsed(name + kind) if name else None

    def _parsed(self, name: bytes) -> str | None:
        arguments = ("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        try:
            found = self.ask(*arguments).decode().split()
        except GitFailed:
            self.left_s()
            return None
        return found[-1] if found else None

    def _read_config(self, line: Line) -> dict[bytes, list[bytes]]:
        given = {
            os.fsdecode(name): os.fsdecode(value)
            for name, value in self.process.environ.items()
            if name.startswith(_CONFIG)
        }
        settings = [word for setting in line.settings for word in ("-c", setting)]
        found: dict[bytes, list[bytes]] = {}
        listed = self.ask(*settings, "config", "-z", "--list", variables=given)
        for item in listed.split(b"\0")[:-1]:
            key, given_value, value = item.partition(b"\n")
            found.setdefault(key, []).append(value if given_value else b"true")
        return found

    def _passed_on(self) -> list[str]:
        chosen = [(key, self.config[key][-1]) for key in _PASSED_ON if key in self.config]
        chosen += [(key, b"") for key in self.config if _FILTER.fullmatch(key)]
        chosen += [(key, b"false") for key in self.config if _REQUIRED.fullmatch(key)]
        return [word for key, value in chosen for word in ("-c", os.fsdecode(key + b"=" + value))]


_INDEX = ("diff-index", "--cached", "-z", "--no-renames")


def _above(path: bytes) -> Iterable[bytes]:
    end = path.rfind(b"/")
    while end > 0:
        yield path[:end]
        end = path.rfind(b"/", 0, end)
