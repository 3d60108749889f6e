"""Whether a check need be run again: its content and command line against those of its last success.

The ledger keeps digests, so that it can say on any host whether something changed. What changed is told from a list of
this host's own last success, kept in the state directory; it decides nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from leasefs.client import api_fresh, paths
from leasefs.client.blocking import Link
from leasefs.client.names import agent_name, host_name
from leasefs.client.own_name import named_or_own
from leasefs.core.errors import InvalidRequest, LeasefsError, LedgerUnavailable
from leasefs.core.paths import shown, text
from leasefs.vcs.errors import VcsError
from leasefs.vcs.tree_content import Content, content_of
from leasefs_cli.durations import in_words
from leasefs_cli.place import mount_near

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leasefs.core.globs import Glob

PATHS_SHOWN = 3
_PATHS_TOLD = 50
_LISTS_KEPT = 128
_TIMEOUT_S = 10.0


class Ground(NamedTuple):
    """The tree that a check is about, who runs it, and the ledger that is asked: itself, also in a mount."""

    root: str
    source: str
    territory: str
    agent: str
    link: Link


class Check(NamedTuple):
    """What is to be run, under which name, because of what."""

    key: str
    globs: tuple[Glob, ...]
    command_line: tuple[str, ...]

    def command_digest(self, root: str) -> str:
        """The command line and where in the tree it is run."""
        where = os.path.relpath(os.path.realpath("."), os.path.realpath(root))
        said = "\0".join((where, *self.command_line))
        return hashlib.sha256(said.encode("utf-8", "surrogateescape")).hexdigest()


class Reason(NamedTuple):
    """Why the check is to be run, or, with code `fresh`, why not. `changed` are the first paths that differ."""

    code: str
    words: str
    changed: tuple[str, ...] = ()

    @property
    def is_fresh(self) -> bool:
        """Whether there is nothing to run."""
        return self.code == "fresh"


def ground() -> Ground:
    """The tree here.

    Raises:
        InvalidRequest: there is none.
    """
    found = mount_near()
    if found is not None:
        link = Link(found.ledger, timeout_s=_TIMEOUT_S)
        return Ground(found.mountpoint, found.source, found.territory, found.agent, link)
    from leasefs.client.embedded import ledger_link
    from leasefs_cli.tree import find_tree

    tree = find_tree(None)
    if tree is None:
        raise InvalidRequest(
            f"{os.getcwd()} is in no repository; go to one, or put a `.leasefs.toml` at its root"
        )
    return Ground(tree.root, "", tree.territory, _who_asks(), ledger_link(timeout_s=_TIMEOUT_S))


def _who_asks() -> str:
    """A ledger that is away cannot say, and then nothing is recorded."""
    try:
        return named_or_own()
    except LedgerUnavailable:
        return agent_name()


def taken(root: str, globs: Sequence[Glob]) -> Content:
    """The content now; what keeps it from being told is its doubt."""
    try:
        return content_of(root, globs)
    except (VcsError, OSError) as error:
        return Content({}, f"what is there cannot be told: {error}")


def reason(here: Ground, check: Check, content: Content) -> Reason:
    """Ask the ledger. Whatever cannot be known is a reason to run."""
    if content.doubt:
        return Reason("doubt", f"{content.doubt}, so nothing is known to be fresh")
    try:
        found = here.link.send(api_fresh.fresh(here.territory, check.key))["fresh"]
    except LeasefsError as error:
        return Reason("ledger", f"whether it is fresh could not be asked: {error.message}")
    if not found:
        return Reason("never", "it never succeeded under this key")
    return _compared(here, check, content, found[0])


def _compared(here: Ground, check: Check, content: Content, last: Mapping[str, Any]) -> Reason:
    since = f"it succeeded {in_words(last['ago_s'])} ago (by {last['agent']} on {last['host']})"
    if content.digest != last["content"]:
        before = _List(here, check.key).read(last["content"])
        if before is None:
            return Reason(
                "changed", f"something changed since {since}; which paths is not known here"
            )
        changed = differences(before, content.files)
        return Reason("changed", f"{first_of(changed)} since {since}", changed[:_PATHS_TOLD])
    if check.command_digest(here.root) != last["command"]:
        return Reason("command", f"the command line is not the one with which {since}")
    return Reason("fresh", f"nothing changed since {since}")


def record(here: Ground, check: Check, content: Content, took_s: float) -> str:
    """Remember a success. Why it could not be, or ""."""
    call = api_fresh.record_fresh(
        territory=here.territory,
        key=check.key,
        content=content.digest,
        command=check.command_digest(here.root),
        globs=[glob.text for glob in check.globs],
        files=len(content.files),
        agent=here.agent,
        host=host_name(),
        took_s=took_s,
    )
    try:
        here.link.send(call)
    except LeasefsError as error:
        return error.message
    _List(here, check.key).write(content)
    return ""


def differences(before: Mapping[bytes, bytes], after: Mapping[bytes, bytes]) -> tuple[str, ...]:
    """The paths that are not the same in both, in order; a program's spelling of them."""
    changed = {path for path, _ in before.items() ^ after.items()}
    return tuple(text(path) for path in sorted(changed))


def first_of(changed: Sequence[str]) -> str:
    """`src/a, src/b, src/c and 4 more changed`."""
    first = ", ".join(shown(os.fsencode(path)) for path in changed[:PATHS_SHOWN])
    more = len(changed) - PATHS_SHOWN
    return f"{first} and {more} more changed" if more > 0 else f"{first} changed"


class _List:
    """The file that lists the content of this host's last success under a key: its digest, then paths and blobs."""

    def __init__(self, here: Ground, key: str) -> None:
        named = hashlib.sha256(f"{here.territory}\0{key}".encode("utf-8", "surrogateescape"))
        self._directory = paths.private_dir(os.path.join(paths.state_dir(), "fresh"))
        self._path = os.path.join(self._directory, named.hexdigest()[:32])

    def read(self, digest: str) -> dict[bytes, bytes] | None:
        """The files of the content with this digest; None if it is not the one listed."""
        try:
            with open(self._path, "rb") as file:
                head, *fields = zlib.decompress(file.read()).split(b"\0")
        except (OSError, zlib.error):
            return None
        if head.decode("ascii", "replace") != digest:
            return None
        return dict(zip(fields[0:-1:2], fields[1::2], strict=True))

    def write(self, content: Content) -> None:
        """List this content. Not being able to only costs words later."""
        rows = b"".join(b"%b\0%b\0" % row for row in content.files.items())
        draft = f"{self._path}.{os.getpid()}"
        with contextlib.suppress(OSError):
            with open(draft, "wb") as file:
                file.write(zlib.compress(content.digest.encode() + b"\0" + rows, 1))
            os.replace(draft, self._path)
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        found = [entry for entry in os.scandir(self._directory) if entry.is_file()]
        found.sort(key=lambda entry: entry.stat().st_mtime_ns)
        for entry in found[:-_LISTS_KEPT]:
            os.unlink(entry.path)
