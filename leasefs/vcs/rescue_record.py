"""What a rescue says of itself: the message of its commit, and that message read back.

The message is for people first. After it comes a block in JSON, in ASCII alone, with what git's trees cannot hold: full
modes, directories, what is gone, and what a path was before.
"""

from __future__ import annotations

import json
import re
import stat
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from leasefs.core.paths import shown, text
from leasefs.vcs.errors import VcsError

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = 1
PREFIX = "refs/leasefs/rescue/"
#: the last part of a rescue's ref; a lease's id is one, too
RESCUE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,109}")
_TRAILER = "\n\nLeasefs-Rescue: "
_LISTED = 50
_SUBJECT_CHARACTERS = 100


class NotARescue(VcsError):
    """A commit whose message is not that of a rescue, or not of a kind that we know."""


class Kind(StrEnum):
    """What lay at a path."""

    FILE = "file"
    SYMLINK = "symlink"
    DIRECTORY = "directory"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class About:
    """Whose work a rescue is, and why it was made; `wall_s` is seconds since the epoch, for reading only."""

    lease: str
    token: int
    agent: str
    harness: str = ""
    globs: tuple[str, ...] = ()
    reason: str = ""
    wall_s: float = 0.0
    territory: str = ""
    tree: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class KeptPath:
    """One path of a rescue.

    `mode` is st_mode as stat(2) gives it (0 if absent), `size` the bytes of a file or of a link's text, `blob` the
    object that holds them. `base` and `base_mode` are what HEAD had there, by git's modes ("" and 0: nothing). `gone`
    is, for what is absent, the outermost directory above it that was absent too ("" if there was none).
    """

    path: bytes
    kind: Kind
    mode: int = 0
    size: int = 0
    blob: str = ""
    base: str = ""
    base_mode: int = 0
    gone: bytes = b""

    @property
    def permissions(self) -> int:
        """The bits that chmod(2) takes, set-id and sticky bits included."""
        return stat.S_IMODE(self.mode)

    @property
    def change(self) -> str:
        """What was done to the path, in one word."""
        if self.kind is Kind.ABSENT:
            return "deleted" if self.base_mode else "gone"
        if self.kind is Kind.DIRECTORY:
            return "directory"
        if not self.base_mode:
            return "created"
        if stat.S_IFMT(self.mode) != stat.S_IFMT(self.base_mode):
            return "retyped"
        return "mode" if self.base == self.blob else "modified"


@dataclass(frozen=True, slots=True)
class Problem:
    """A path that is not in the rescue as it was, and why."""

    path: bytes
    why: str


@dataclass(frozen=True, slots=True)
class Rescue:
    """A rescue of a repository. `id` is the last part of its ref; `parent` the HEAD it was made at, or "".

    A ref at which no rescue lies has no paths, and a problem that says so.
    """

    id: str
    ref: str
    commit: str
    parent: str
    about: About
    paths: tuple[KeptPath, ...] = field(default=())
    problems: tuple[Problem, ...] = field(default=())

    def holds(self, path: bytes) -> KeptPath | None:
        """The entry of `path`, or None."""
        return next((kept for kept in self.paths if kept.path == path), None)


def message(about: About, paths: Iterable[KeptPath], problems: Iterable[Problem]) -> str:
    """The message of a rescue's commit; ASCII alone."""
    kept, wrong = list(paths), list(problems)
    lines = [_subject(about, len(kept)), "", *_prose(about), ""]
    lines += [f"  {entry.change:<9} {shown(entry.path)}" for entry in kept[:_LISTED]]
    if len(kept) > _LISTED:
        lines.append(f"  and {len(kept) - _LISTED} more")
    if wrong:
        lines += ["", "Not kept as it was:"]
        lines += [f"  {shown(problem.path)}: {problem.why}" for problem in wrong[:_LISTED]]
        if len(wrong) > _LISTED:
            lines.append(f"  and {len(wrong) - _LISTED} more")
    prose = "\n".join(lines).encode("ascii", "backslashreplace").decode()
    return prose + _TRAILER + _json(about, kept, wrong) + "\n"


def _subject(about: About, count: int) -> str:
    paths = "1 path" if count == 1 else f"{count} paths"
    subject = f"rescue of {paths} of {shown(about.agent.encode(errors='surrogateescape'))}"
    return f"{subject[:_SUBJECT_CHARACTERS]} ({about.lease})"


def _prose(about: About) -> list[str]:
    who = f"{about.agent} ({about.harness})" if about.harness else about.agent
    globs = " ".join(about.globs) or "no globs"
    told = [
        f"Uncommitted work of {who} under lease {about.lease}, token {about.token}: {globs}.",
        f"Kept because: {about.reason}." if about.reason else "",
        f"`leasefs rescue apply {about.lease}` writes it back. The tree of this commit is HEAD with these paths.",
    ]
    return [shown(line.encode(errors="surrogateescape")) for line in told if line]


def _json(about: About, paths: list[KeptPath], problems: list[Problem]) -> str:
    """One object, a line for each path: as continuation lines, so that it stays one trailer."""
    head = json.dumps({"version": VERSION, **asdict(about)})[:-1]
    entries = ",\n  ".join(json.dumps(_entry(kept)) for kept in paths)
    wrong = json.dumps([[text(problem.path), problem.why] for problem in problems])
    return f'{head},\n "problems": {wrong},\n "paths": [\n  {entries}\n ]}}'


def _entry(kept: KeptPath) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": text(kept.path), "kind": kept.kind.value}
    if kept.kind is not Kind.ABSENT:
        entry["mode"] = f"{kept.mode:06o}"
    if kept.blob:
        entry |= {"size": kept.size, "blob": kept.blob}
    if kept.base_mode:
        entry |= {"base": kept.base, "base_mode": f"{kept.base_mode:06o}"}
    if kept.gone:
        entry["gone"] = text(kept.gone)
    return entry


def parse(content: str) -> tuple[About, tuple[KeptPath, ...], tuple[Problem, ...]]:
    """Read what `message` wrote.

    Raises:
        NotARescue: it is another message, or of a later version.
    """
    _, found, block = content.rpartition(_TRAILER)
    if not found:
        raise NotARescue("the commit is not one of leasefs")
    try:
        said: dict[str, Any] = json.loads(block)
        version = said.pop("version")
        if version != VERSION:
            raise NotARescue(f"it is of version {version}, which this leasefs does not know")
        paths = tuple(_kept(entry) for entry in said.pop("paths"))
        problems = tuple(Problem(_bytes(path), str(why)) for path, why in said.pop("problems"))
        about = About(**{**said, "globs": tuple(map(str, said["globs"]))})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotARescue("the commit's message does not say what it holds") from error
    return about, paths, problems


def _kept(entry: dict[str, Any]) -> KeptPath:
    return KeptPath(
        path=_bytes(entry["path"]),
        kind=Kind(entry["kind"]),
        mode=int(entry.get("mode", "0"), 8),
        size=int(entry.get("size", 0)),
        blob=str(entry.get("blob", "")),
        base=str(entry.get("base", "")),
        base_mode=int(entry.get("base_mode", "0"), 8),
        gone=_bytes(entry.get("gone", "")),
    )


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
