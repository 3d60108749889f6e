"""Which paths are scratch: ignored by git's rules, and neither tracked nor above something tracked.

The rules are gitignore(5)'s: for each directory on the way down, the deepest `.gitignore` with a matching rule decides,
then `info/exclude`, then `core.excludesFile`; what lies in an ignored directory is ignored and cannot be taken back.
Every doubt answers "not scratch", which asks for a lease.

Answers are remembered, so nothing here notices a change by itself: the mount calls `invalidate` when a `.gitignore` or
a directory changes, `set_tracked` when the index did, `refresh_excludes` for the files outside the tree's own. All of
it may be called from several threads.
"""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leasefs.core.paths import is_normal
from leasefs.vcs.beneath import NotRegular, TooLarge, open_directory, read_file
from leasefs.vcs.errors import RulesRefused
from leasefs.vcs.excludes import Excludes, load_excludes
from leasefs.vcs.ignore_file import FILE_LIMIT_BYTES, Cost, IgnoreFile, compile_rules, refused_file

if TYPE_CHECKING:
    from leasefs.vcs.gitdir import GitDir
    from leasefs.vcs.tracked import TrackedPaths

_ANSWERS = 1 << 16
_DIRECTORIES = 1 << 14
_SETS = 256
_PROBLEMS = 100
# Want of something that is there again in a moment: not an answer to remember.
_PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN})


@dataclass(frozen=True, slots=True)
class _Directory:
    """What rules hold for the names in one directory; `files` deepest first, `excludes` last."""

    ignored: bool
    files: tuple[IgnoreFile, ...]
    cost: Cost

    def ignores(self, path: bytes, is_dir: bool) -> bool:
        if self.ignored:
            return True
        for file in self.files:
            verdict = file.verdict(path, is_dir)
            if verdict is not None:
                return verdict
        return False


class IgnoreRules:
    """Answers `is_scratch` for one working tree. Memory is bounded: a full cache is emptied and filled anew."""

    def __init__(
        self,
        root_fd: int,
        gitdir: GitDir | None,
        tracked: TrackedPaths,
        excludes: Excludes | None = None,
    ) -> None:
        """Without a git directory nothing is scratch. Both descriptors stay the caller's, open as long as this is used.

        Unless `excludes` are given, they are read now, which runs git: a worker thread's job.
        """
        self._root_fd = root_fd
        self._gitdir = gitdir
        self._tracked = tracked
        self._lock = threading.Lock()
        self._generation = 0
        self._answers: tuple[dict[bytes, bool], dict[bytes, bool]] = ({}, {})
        self._directories: dict[bytes, _Directory] = {}
        self._files: dict[bytes, IgnoreFile] = {}
        self._sets = 0
        self._excludes = excludes or Excludes(distrust="not a git working tree: nothing is scratch")
        if excludes is None:
            self.refresh_excludes()

    @property
    def problems(self) -> list[str]:
        """What was left out or refused in the files read so far, for people."""
        excludes = self._excludes
        with self._lock:
            files = [*excludes.files, *self._files.values()]
        found = [problem for file in files for problem in file.problems]
        return [*filter(None, [excludes.distrust]), *found[:_PROBLEMS]]

    def is_scratch(self, path: bytes, is_dir: bool) -> bool:
        """Whether `path` may be changed without a lease.

        A dictionary lookup when asked before. The first question in a directory reads the `.gitignore` files above it
        (see `prepare`). `is_dir` is what lstat says, or what the path is about to become: a symbolic link is a file.
        For a directory, True means that all of it is scratch.
        """
        answer = self._answers[is_dir].get(path)
        return self._ask(path, is_dir) if answer is None else answer

    def scratch_directory(self, path: bytes) -> bool:
        """Whether directory `path` is scratch as a whole: itself ignored, and nothing in it tracked."""
        return self.is_scratch(path, is_dir=True)

    def is_prepared(self, directory: bytes) -> bool:
        """Whether names in `directory` can be answered without reading a file."""
        if self._excludes.distrust is not None:
            return True
        known, found = self._nearest(directory)
        return found is not None and (known == directory or found.ignored)

    def prepare(self, directory: bytes) -> None:
        """Read and compile the ignore files that hold in `directory`; up to about a second if they are huge.

        Raises:
            OSError: descriptors or memory ran out; nothing is remembered then.
        """
        self._directory(directory)

    def invalidate(self, path: bytes) -> None:
        """Forget what depends on `path`: a `.gitignore` that changed, or a directory that came, went or moved."""
        parent, _, name = path.rpartition(b"/")
        below = parent if name == b".gitignore" else path
        with self._lock:
            self._generation += 1
            self._forget_answers()
            _drop_below(self._directories, below)
            _drop_below(self._files, below)
            self._sets = sum(file.cost.sets for file in self._files.values())

    def set_tracked(self, tracked: TrackedPaths) -> None:
        """Use another state of the index from now on."""
        with self._lock:
            skipped = self._tracked.skipped_ignore_files
            self._tracked = tracked
            self._generation += 1
            self._forget_answers()
            if skipped != tracked.skipped_ignore_files:
                self._forget_everything()

    def refresh_excludes(self) -> None:
        """Read `info/exclude`, `core.excludesFile` and the configuration again. Runs git: a worker thread's job."""
        if self._gitdir is None:
            return
        excludes = load_excludes(self._root_fd, self._gitdir)
        with self._lock:
            self._excludes = excludes
            self._forget_everything()

    def _ask(self, path: bytes, is_dir: bool) -> bool:
        generation = self._generation
        answer = self._answer(path, is_dir)
        with self._lock:
            if generation == self._generation:
                answers = self._answers[is_dir]
                if len(answers) >= _ANSWERS:
                    answers.clear()
                answers[path] = answer
        return answer

    def _answer(self, path: bytes, is_dir: bool) -> bool:
        if self._excludes.distrust is not None or not _well_formed(path) or _is_git(path):
            return False
        parent, _, name = path.rpartition(b"/")
        directory = self._directory(parent)
        if name == b".gitignore" and not directory.ignored:
            # It is read, so it decides about other paths, though it may be ignored itself (`.*`).
            return False
        # Most paths are not ignored, and need no search of the index.
        return directory.ignores(path, is_dir) and not self._concerns_tracked(path)

    def _concerns_tracked(self, path: bytes) -> bool:
        tracked = self._tracked
        return (
            tracked.is_tracked(path)
            or tracked.has_tracked_below(path)
            or tracked.is_below_tracked(path)
        )

    def _directory(self, path: bytes) -> _Directory:
        """The rules in directory `path`, built from the nearest ancestor whose rules are known."""
        generation = self._generation
        known, found = self._nearest(path)
        if found is None:
            found = self._root()
            self._remember(b"", found, generation)
        # Below an ignored directory nothing is read or remembered: its answer is theirs.
        while known != path and not found.ignored:
            end = path.find(b"/", len(known) + 1 if known else 0)
            known = path if end < 0 else path[:end]
            found = self._descend(found, known)
            self._remember(known, found, generation)
        return found

    def _nearest(self, path: bytes) -> tuple[bytes, _Directory | None]:
        """`path` or its closest ancestor whose rules are known, or the root if none are."""
        while (found := self._directories.get(path)) is None and path:
            path = path.rpartition(b"/")[0]
        return path, found

    def _root(self) -> _Directory:
        excludes = self._excludes
        return self._with_ignore_file(_Directory(False, excludes.files, excludes.cost), b"")

    def _descend(self, parent: _Directory, path: bytes) -> _Directory:
        if parent.ignores(path, is_dir=True):
            return _Directory(True, (), Cost())
        return self._with_ignore_file(parent, path)

    def _with_ignore_file(self, parent: _Directory, path: bytes) -> _Directory:
        file = self._load(path)
        if file is None:
            return parent
        cost = parent.cost + file.cost
        if not cost.fits():
            shown = os.fsdecode(_ignore_path(path))
            file = refused_file(file.base, f"{shown} and those above it are too complex; not used")
            cost = parent.cost
        with self._lock:
            self._files[path] = file
            self._sets += file.cost.sets
        return _Directory(False, (file, *parent.files), cost)

    def _load(self, directory: bytes) -> IgnoreFile | None:
        """The rules of one `.gitignore`; None if git would see none. Like git, no symbolic link is followed."""
        path = _ignore_path(directory)
        base = path.removesuffix(b".gitignore")
        shown = os.fsdecode(path)
        try:
            content = self._read(directory)
        except (NotRegular, TooLarge) as error:
            if isinstance(error, NotRegular):
                return None
            return refused_file(base, f"{shown} is {error}; nothing here is scratch")
        except OSError as error:
            if error.errno in _PASSING:
                raise
            return refused_file(base, f"{shown} cannot be read: {error.strerror}")
        if content is None:
            if path not in self._tracked.skipped_ignore_files:
                return None
            return refused_file(base, f"{shown} is left out of the tree by a sparse checkout")
        try:
            return compile_rules(base, content, shown)
        except RulesRefused as error:
            return refused_file(base, str(error))

    def _read(self, directory: bytes) -> bytes | None:
        try:
            directory_fd = open_directory(self._root_fd, directory)
        except FileNotFoundError:
            return None
        try:
            return read_file(directory_fd, b".gitignore", FILE_LIMIT_BYTES)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
                return None
            raise
        finally:
            os.close(directory_fd)

    def _remember(self, path: bytes, directory: _Directory, generation: int) -> None:
        with self._lock:
            if generation != self._generation:
                return
            if len(self._directories) >= _DIRECTORIES or self._sets > _SETS:
                self._forget_everything()
                return
            self._directories[path] = directory

    def _forget_answers(self) -> None:
        for answers in self._answers:
            answers.clear()

    def _forget_everything(self) -> None:
        self._generation += 1
        self._forget_answers()
        self._directories.clear()
        self._files.clear()
        self._sets = 0


def _drop_below(known: dict[bytes, Any], directory: bytes) -> None:
    prefix = directory + b"/" if directory else b""
    for name in [name for name in known if name == directory or name.startswith(prefix)]:
        del known[name]


def _ignore_path(directory: bytes) -> bytes:
    return directory + b"/.gitignore" if directory else b".gitignore"


def _is_git(path: bytes) -> bool:
    return path == b".git" or path.startswith(b".git/")


def _well_formed(path: bytes) -> bool:
    """Not absolute, empty, or with NUL or dot components; such a path comes from no kernel and is no one's scratch."""
    return path != b"" and is_normal(path)
