"""What changed in a mount since a token: the answer to git's `core.fsmonitor` hook, version 2.

Plain Python, no FUSE, no system calls. Rules, each from git's sources (fsmonitor.c, dir.c, read-cache.c):

- Git asks before it scans and keeps the token of that answer with what it then saw. So a change made
  after an answer must be in every later answer for its token; one too many costs a look, one too few
  is a file that git never sees.
- A name makes git look at the tracked path, at what is tracked below it, and at the list of untracked
  files of the directory that holds it. The list of a directory itself is read anew only for a name
  *in* it, which is what `_INSIDE` is for.
- Nothing reads a whole tree of such lists anew: where a directory moved, each one below is named.
- On "everything" git forgets what it knows of tracked files, but not its lists of untracked ones: if the
  command that asked does not look for those (git add), the next one trusts them again. So the token of such an
  answer is a weak one, and the answer for a weak token names every directory there is.
- Names that may not be in an index (`.git` and what other systems take for it) are passed over by git.

Epochs are the tokens: each answer ends one. A path is kept with the epoch in which it changed last, so
that the answer for a token is what has a greater one. Outside of here a token is a number, 0 for none of ours.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# A name in a directory that makes git read the directory's list of untracked files again.
_INSIDE = b"/.leasefs"
_EVERYTHING = b"/\0"
_GIT = b".git"
# What verify_path() (read-cache.c) takes for a git directory, `.git` itself included, in lower case.
_LIKE_GIT = re.compile(rb"(?:\A|[/\\])(?:\.git|git~1)[. ]*(?:[/\\:]|\Z)")
# Characters that HFS+ does not see (core.protectHFS), or their first bytes.
_UNSEEN = re.compile(rb"\xe2\x80[\x8c-\x8f\xaa-\xae]|\xe2\x81[\xaa-\xaf]|\xef\xbb\xbf")
_TOKEN = re.compile(rb"leasefs:([0-9a-f]{1,64}):([1-9][0-9]{0,16})(w?)")
# More doubtful paths than this are named one by one no longer.
_MOST_DOUBTS = 1000
# Nor are moved directories in which there is more to look at while the mount's loop stands still.
_MOST_TREES = 200
_MOST_BELOW = 1000


class ChangeLog:
    """Which paths changed in which epoch.

    Complete only while `covered`: until whoever watches the tree beneath says so, every answer is
    "everything". `epoch` ends with each answer; who noted a path in this epoch need not note it again.
    """

    def __init__(
        self,
        mount_id: str,
        directories_below: Callable[[bytes], Iterable[bytes] | None] | None = None,
        *,
        most: int = 20_000,
    ) -> None:
        """An empty log.

        Args:
            mount_id: hexadecimal, unguessable, another one for each mount: tokens of others mean nothing.
            directories_below: the directories that are now below a path, itself not included, or None
                if they are too many to say. Without it, a directory that moves changes everything.
            most: how many paths are remembered; older tokens are answered with "everything".
        """
        self.epoch = 1
        self.covered = False
        self._id = mount_id.encode()
        self._below = directories_below
        self._most = most
        # Tokens from before this epoch are answered with "everything".
        self._floor = 1
        # The epoch of the last change, oldest first. A name with a trailing slash: all below it, too.
        self._noted: dict[bytes, int] = {}
        self._doubted: set[bytes] = set()
        # Names the directories in which changes pass us by; git looks at what it tracks there each time.
        self.unseen: Callable[[], Iterable[bytes]] = tuple

    def turn(self) -> int:
        """End the epoch, for somebody else who wants to hear of each path again; returns the next one's number."""
        self.epoch += 1
        return self.epoch

    # -- what changed --------------------------------------------------------------------------

    def changed(self, path: bytes) -> None:
        """The file, symlink or other thing at `path` was made, changed or removed."""
        if self._noted.get(path) != self.epoch:
            self._note(path)

    def directory_changed(self, path: bytes) -> None:
        """A directory was made or removed at `path`, empty as mkdir and rmdir have it."""
        self.changed(path)
        self.changed(path + _INSIDE)

    def tree_changed(self, path: bytes) -> None:
        """Anything at or below `path` may have changed: a directory moved, or its mode did."""
        if self._below is None or not path:
            self.everything()
            return
        self.directory_changed(path)
        self.changed(path + b"/")

    def everything(self) -> None:
        """Nobody can tell what changed: events were lost, or a change has no path here."""
        self._floor = self.epoch
        self._noted.clear()

    def doubt(self, path: bytes) -> None:
        """This file may change without anybody telling (it has names outside the tree): always look."""
        if len(self._doubted) < _MOST_DOUBTS:
            self._doubted.add(path)
        else:
            self.uncover()

    def cover(self) -> None:
        """From now on every change is noted, those made beneath the mount included."""
        self.everything()
        self.covered = True

    def uncover(self) -> None:
        """Changes beneath the mount may be missed from now on."""
        self.covered = False

    def _note(self, path: bytes) -> None:
        if not path:
            self.everything()
            return
        if b"\\" in path or b"~" in path or b".g" in path.lower() or not path.isascii():
            if path.startswith(b".git/") or path == _GIT:
                return  # git does not ask for its own directory
            visible = _visible(path)
            if visible is None:
                self.everything()
                return
            if visible != path:
                self.directory_changed(visible)
                return
        self._noted.pop(path, None)
        self._noted[path] = self.epoch
        if len(self._noted) > self._most:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        # Many at once: taking one at a time from the front of a dict is slow.
        self._floor = next(islice(self._noted.values(), self._most // 4, None))
        for path, epoch in list(self._noted.items()):
            if epoch > self._floor:
                break
            del self._noted[path]

    # -- what is asked -------------------------------------------------------------------------

    def number_of(self, token: bytes) -> int:
        """The number for `answer`: twice the epoch that the token ended, and one more if it is weak."""
        match = _TOKEN.fullmatch(token)
        if match is None or match[1] != self._id:
            return 0
        return 2 * int(match[2]) + bool(match[3])

    def is_weak(self, number: int) -> bool:
        """Whether the answer has to name every directory."""
        return bool(number & 1) and self._is_known(number)

    def answer(self, number: int, directories: Iterable[bytes] | None = None) -> bytes:
        """What changed since the token of this number was given, in the format of the hook.

        A new token, NUL, and each path ended by NUL (githooks(5), fsmonitor-watchman); `/` is
        "everything". Ends the epoch.

        Args:
            number: of the token that git shows.
            directories: for a weak token all that are in the tree but the root, found since it was asked;
                None if they are too many to say.
        """
        paths = self._paths(number, directories)
        weak = b"w" if paths is None else b""
        token = b"leasefs:%s:%d%s\0" % (self._id, self.epoch, weak)
        self.epoch += 1
        return token + (_EVERYTHING if paths is None else b"".join(p + b"\0" for p in paths))

    def _is_known(self, number: int) -> bool:
        # Tokens from the time before the tree was covered are below the floor, see `cover`.
        return self.covered and self._floor <= number >> 1 < self.epoch

    def _paths(self, number: int, directories: Iterable[bytes] | None) -> list[bytes] | None:
        if not self._is_known(number):
            return None
        paths = self._since(number >> 1)
        if paths is None:
            return None
        paths += self._doubted
        paths += [path + b"/" for path in self.unseen()]
        if not self.is_weak(number):
            return paths
        if directories is None:
            return None
        return [*paths, _INSIDE[1:], *(directory + _INSIDE for directory in directories)]

    def _since(self, epoch_ended: int) -> list[bytes] | None:
        found = []
        for path, epoch in reversed(self._noted.items()):
            if epoch <= epoch_ended:
                break
            found.append(path)
        below = self._below_trees(sorted(path for path in found if path.endswith(b"/")))
        return None if below is None else found + below

    def _below_trees(self, trees: list[bytes]) -> list[bytes] | None:
        """What makes git read each list below these anew, once for those that are in one another."""
        found: list[bytes] = []
        last = None
        for tree in trees[: _MOST_TREES + 1]:
            if last is not None and tree.startswith(last):
                continue
            last = tree
            below = self._below(tree[:-1]) if self._below is not None else None
            if below is None or len(found) > _MOST_BELOW:
                return None
            found += [directory + _INSIDE for directory in below]
        return found if len(trees) <= _MOST_TREES else None


def _visible(path: bytes) -> bytes | None:
    """The path, or the nearest above it of which git can be told; None if there is none.

    A change inside a nested repository's `.git` may make its directory one, or one no more.
    """
    above, inside, _ = (path + b"/").partition(b"/.git/")
    told = above if inside else path
    return None if _LIKE_GIT.search(_UNSEEN.sub(b"", told).lower()) else told
