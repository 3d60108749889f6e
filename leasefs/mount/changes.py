"""What changed in a mount since a token: the answer to git's `core.fsmonitor` hook, version 2.

Plain Python, no FUSE, no system calls. Rules, each from git's sources (fsmonitor.c, dir.c, read-cache.c):

- Git asks before it scans and keeps the token of that answer with what it then saw. So a change made
  after an answer must be in every later answer for its token; one too many costs a look, one too few
  is a file that git never sees.
- A name makes git look at the tracked path, at what is tracked below it, and at the list of untracked
  files of the directory that holds it. The list of a directory itself is read anew only for a name
  *in* it, which is what `_INSIDE` is for.
- Nothing reads a whole tree of such lists anew: where a directory moved, each one below is named.
- Names that may not be in an index (`.git` and what other systems take for it) are passed over by git.

Epochs are the tokens: each answer ends one. A path is kept with the epoch in which it changed last, so
that the answer for a token is what has a greater one.
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
_TOKEN = re.compile(rb"leasefs:([0-9a-f]{1,64}):([1-9][0-9]{0,17})")


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

    def cover(self) -> None:
        """From now on every change is noted, those made beneath the mount included."""
        self.everything()
        self.covered = True

    def uncover(self) -> None:
        """Changes beneath the mount may be missed from now on."""
        self.covered = False

    def _note(self, path: bytes) -> None:
        if path.startswith(b".git/") or path == _GIT:
            return  # git does not ask for its own directory
        if not path:
            self.everything()
            return
        if b"\\" in path or b"~" in path or b".g" in path.lower() or not path.isascii():
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
        """The epoch that the token ended, or 0 if it is none of this log's."""
        match = _TOKEN.fullmatch(token)
        return int(match[2]) if match is not None and match[1] == self._id else 0

    def since(self, token: bytes) -> bytes:
        """What changed since the token was given, in the format of the hook."""
        return self.answer(self.number_of(token))

    def answer(self, number: int) -> bytes:
        """As `since`, for `number_of` the token.

        A new token, NUL, and each path ended by NUL (githooks(5), fsmonitor-watchman); `/` is
        "everything". Ends the epoch.
        """
        ended = self.epoch
        self.epoch += 1
        token = b"leasefs:%s:%d\0" % (self._id, ended)
        # A token from the time before the tree was covered is below the floor, see `cover`.
        if not self.covered or not self._floor <= number < ended:
            return token + _EVERYTHING
        paths = self._since(number)
        return token + (_EVERYTHING if paths is None else b"".join(p + b"\0" for p in paths))

    def _since(self, number: int) -> list[bytes] | None:
        found = []
        for path, epoch in reversed(self._noted.items()):
            if epoch <= number:
                break
            found.append(path)
            if path.endswith(b"/"):
                below = self._below(path[:-1]) if self._below is not None else None
                if below is None:
                    return None
                found += [directory + _INSIDE for directory in below]
        return found


def _visible(path: bytes) -> bytes | None:
    """The path, or the nearest above it of which git can be told; None if there is none.

    A change inside a nested repository's `.git` may make its directory one, or one no more.
    """
    seen = _UNSEEN.sub(b"", path)
    match = _LIKE_GIT.search(seen.lower())
    if match is None:
        return path
    above, component = path[: match.start()], path[match.start() :]
    nested = seen == path and (component == b"/.git" or component.startswith(b"/.git/"))
    return above if nested else None
