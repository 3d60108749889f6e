"""Whether files of the working tree are what a commit has at their paths, many at a time."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leasefs.vcs.conversion import POINTER_LIMIT_BYTES, conversions, is_lfs_content
from leasefs.vcs.index_file import read_index
from leasefs.vcs.plumbing import run_git
from leasefs.vcs.tree_files import Looker, open_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from leasefs.vcs.conversion import Conversion
    from leasefs.vcs.objects import Entry, Objects
    from leasefs.vcs.worktree import Repository

_SETTINGS = r"^core\.(filemode|symlinks|autocrlf)$"
_NOT_SET = 1


@dataclass(frozen=True, slots=True)
class Settings:
    """What the configuration says about files (git-config(1), core.*)."""

    file_mode: bool = True
    symlinks: bool = True
    line_ends: bool = False  # core.autoCRLF is "true" or "input"


@dataclass(slots=True)
class Comparison:
    """Files whose bytes are to be compared with a blob of the same path, and which of them are equal."""

    repository: Repository
    objects: Objects
    settings: Settings
    equal: set[bytes] = field(default_factory=set)

    def run(self, wanted: Mapping[bytes, Entry]) -> None:
        """Compare each regular file with its entry; the handful of git processes does not grow with their number.

        Raises:
            GitFailed: git cannot be asked.
        """
        sizes = self._sizes({entry.blob for entry in wanted.values()})
        for path, entry in wanted.items():
            if self._is_raw(path, entry.blob, sizes.get(entry.blob)):
                self.equal.add(path)
        others = {path: entry for path, entry in wanted.items() if path not in self.equal}
        found = conversions(self.repository, others, autocrlf=self.settings.line_ends)
        doubtful = {
            path: entry
            for path, entry in others.items()
            if found[path].filter or found[path]
            if not self._is_converted(path, entry, sizes.get(entry.blob), found[path])
        }
        self._ask_index(doubtful)

    def _is_raw(self, path: bytes, blob: str, size: int | None) -> bool:
        with open_file(self.repository.root_fd, path) as file:
            if file is None or (size is not None and file.size != size):
                return False
            with suppress(OSError):  # what cannot be read is not known to be equal
                return file.blob(len(blob)) == blob
        return False

    def _is_converted(
        self, path: bytes, entry: Entry, size: int | None, conversion: Conversion
    ) -> bool:
        """Whether what git would store is the entry; adds the path to the equal ones then."""
        with open_file(self.repository.root_fd, path) as file:
            if file is None:
                return False
            same = False
            with suppress(OSError):
                if not conversion.filter:
                    same = file.converts_to(entry.blob, conversion)
                elif size is not None and size <= POINTER_LIMIT_BYTES:
                    pointer = self.objects.content(entry.blob)
                    same = is_lfs_content(pointer, file.fd, file.size) and file.is_unchanged()
        if same:
            self.equal.add(path)
        return same

    def _ask_index(self, doubtful: Mapping[bytes, Entry]) -> None:
        """What is not known here is as git last saw it, if nothing has touched the file since."""
        if not doubtful:
            return
        index = read_index(self.repository.gitdir, doubtful.__contains__)
        with Looker(self.repository.root_fd) as looker:
            for path, entry in doubtful.items():
                seen, status = index.entries.get(path), looker.look(path)
                if seen is None or status is None or seen.blob != entry.blob:
                    continue
                if seen.stands_for(status, index.written_ns):
                    self.equal.add(path)

    def _sizes(self, blobs: set[str]) -> dict[str, int]:
        """Of a partial clone's blobs only those that are there: an id tells a content apart without its object."""
        if not blobs:
            return {}
        output = run_git(
            self.repository.gitdir,
            ["cat-file", "--batch-check=%(objectname) %(objectsize)", "--buffer"],
            owner=self.repository.owner,
            stdin=b"".join(blob.encode() + b"\n" for blob in blobs),
        )
        sizes = {}
        for line in output.decode().splitlines():
            blob, size = line.split(" ")
            if size.isdigit():
                sizes[blob] = int(size)
        return sizes


def read_settings(repository: Repository) -> Settings:
    """The configuration that comparing needs.

    Raises:
        GitFailed: it cannot be read.
    """
    output = run_git(
        repository.gitdir,
        ["config", "-z", "--get-regexp", _SETTINGS],
        absent_status=_NOT_SET,
        owner=repository.owner,
    )
    said = dict(_settings(output))
    line_ends = said.get("core.autocrlf", "false").lower()
    return Settings(
        _is_true(said.get("core.filemode", "true")),
        _is_true(said.get("core.symlinks", "true")),
        line_ends == "input" or _is_true(line_ends),
    )


def _settings(output: bytes) -> Iterator[tuple[str, str]]:
    for record in output.split(b"\0")[:-1]:
        key, separator, value = record.decode(errors="replace").partition("\n")
        yield key, value if separator else "true"


def _is_true(value: str) -> bool:
    """A boolean of git-config(1)."""
    return value.lower() in {"true", "yes", "on"} or (value.lstrip("+-0").isdigit())
