"""Which paths git tracks: the index, held as one block of bytes and searched by halving.

A million names as Python objects would take over a hundred megabytes; one block and an array of offsets take little
more than the names themselves, and since git lists the index in byte order both questions are a binary search.
"""

from __future__ import annotations

import os
from array import array
from dataclasses import dataclass
from itertools import accumulate
from operator import le
from typing import TYPE_CHECKING

from leasefs.vcs.errors import GitFailed
from leasefs.vcs.plumbing import run_git

if TYPE_CHECKING:
    from leasefs.vcs.gitdir import GitDir

_TAG = 2  # each entry of `ls-files -t` starts with a letter and a space
_SLICE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class IndexStamp:
    """What changes whenever git writes the index (it writes a new file and renames it over the old)."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int


def index_stamp(gitdir: GitDir) -> IndexStamp | None:
    """Stamp of the index as it is now; None if there is none yet (nothing was ever added)."""
    try:
        status = os.stat(b"index", dir_fd=gitdir.fd)
    except FileNotFoundError:
        return None
    return IndexStamp(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


class TrackedPaths:
    """The names of one state of the index, in git's order. Safe to share between threads: it never changes."""

    __slots__ = ("_block", "_starts", "skipped_ignore_files", "stamp")

    def __init__(self, listing: bytes, stamp: IndexStamp | None) -> None:
        """Take the output of `git ls-files -t -z`.

        Raises:
            GitFailed: the listing is not in byte order, so no search of it could be trusted.
        """
        self._block = listing
        self._starts = _starts(listing)
        self.stamp = stamp
        #: tracked `.gitignore` files that a sparse checkout leaves out of the tree; their rules still count for git
        self.skipped_ignore_files = _skipped_ignore_files(listing)

    def __len__(self) -> int:
        return max(len(self._starts) - 1, 0)

    def is_tracked(self, path: bytes) -> bool:
        """Whether `path` itself is an entry of the index (a file, a symbolic link, or a submodule)."""
        at = self._first_at_or_after(path)
        return at < len(self) and self._entry(at) == path

    def has_tracked_below(self, directory: bytes) -> bool:
        """Whether an entry lies below `directory` (b"" is the root)."""
        if not directory:
            return len(self) > 0
        prefix = directory + b"/"
        at = self._first_at_or_after(prefix)
        return at < len(self) and self._entry(at).startswith(prefix)

    def count_below(self, directory: bytes) -> int:
        """How many entries lie below `directory` (b"" is the root)."""
        if not directory:
            return len(self)
        # "0" is what comes after "/".
        return self._first_at_or_after(directory + b"0") - self._first_at_or_after(directory + b"/")

    def is_below_tracked(self, path: bytes) -> bool:
        """Whether an entry is an ancestor of `path`: it lies in a submodule, which has its own index and rules."""
        end = path.find(b"/")
        while end > 0:
            if self.is_tracked(path[:end]):
                return True
            end = path.find(b"/", end + 1)
        return False

    def is_current(self, gitdir: GitDir) -> bool:
        """Whether the index is still the one these names came from (one stat)."""
        return index_stamp(gitdir) == self.stamp

    def _entry(self, at: int) -> bytes:
        return self._block[self._starts[at] + _TAG : self._starts[at + 1] - 1]

    def _first_at_or_after(self, path: bytes) -> int:
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle) < path:
                low = middle + 1
            else:
                high = middle
        return low


def load_tracked(gitdir: GitDir, *, timeout_s: float = 60) -> TrackedPaths:
    """Ask git for the index, sparse and unmerged entries included. Blocks: call it in a worker thread.

    Raises:
        GitFailed: the index cannot be read, or git took longer than `timeout_s` seconds.
    """
    # Taken first: if the index changes meanwhile, the stamp is the older one and is_current() says no.
    stamp = index_stamp(gitdir)
    return TrackedPaths(run_git(gitdir, ["ls-files", "-t", "-z"], timeout_s=timeout_s), stamp)


def _starts(listing: bytes) -> array[int]:
    """Where each entry starts, and the end; slice by slice, so that few names are objects at any time."""
    starts = array("I" if len(listing) < 1 << 32 else "Q", [0] if listing else [])
    at, last = 0, b""
    while at < len(listing):
        cut = listing.find(b"\0", at + _SLICE_BYTES)
        end = len(listing) if cut < 0 else cut + 1
        entries = listing[at : end - 1].split(b"\0")
        names = [last, *(entry[_TAG:] for entry in entries)]
        if not all(map(le, names, names[1:])):
            raise GitFailed("git ls-files did not list the index in byte order")
        starts.extend(accumulate((len(entry) + 1 for entry in entries), initial=at))
        starts.pop(-len(entries) - 1)
        at, last = end, names[-1]
    return starts


def _skipped_ignore_files(listing: bytes) -> frozenset[bytes]:
    found = set()
    at = listing.find(b".gitignore\0")
    while at >= 0:
        end = at + len(b".gitignore")
        start = listing.rfind(b"\0", 0, at) + 1
        entry = listing[start:end]
        if entry.startswith(b"S ") and (entry == b"S .gitignore" or entry.endswith(b"/.gitignore")):
            found.add(entry[_TAG:])
        at = listing.find(b".gitignore\0", end)
    return frozenset(found)


#: the index of a tree that is not git's, or in which nothing was ever added
NOTHING_TRACKED = TrackedPaths(b"", None)
