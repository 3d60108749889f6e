"""The journal: what is about to change, on disk before it does (P8).

One file for each mount, in a directory for each tree: a header, then a line of JSON for each first change
of a clean path, and lines that say up to which of them the ledger has answered. A line is one write(2) to
the page cache, made before the change: `kill -9` at any instruction leaves it, and so does the end of the
process in any other way. A line cut short by a full disk or a power cut is recognised and left out: its
change was never made. The owner holds flock(2) on the file, so who gets the lock knows that it is dead.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from typing import TYPE_CHECKING, NamedTuple, Self

from leasefs.client.paths import private_dir, state_dir
from leasefs.mount.journal_lines import Note, read_line, to_line, to_note_line

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

__all__ = [
    "DeadJournal",
    "Header",
    "Journal",
    "Left",
    "Note",
    "dead_journals",
    "journals_dir",
    "remove_drafts",
    "untold_of_others",
]


_SUFFIX = ".journal"
# Its name while it is written, which nobody takes for that of a dead mount's.
_DRAFT = ".new"
_VERSION = 1
_TO_LOCK = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TO_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# What the ledger has answered is cut off at the front once there is this much of it.
_CUT_FROM_BYTES = 1 << 20


class Header(NamedTuple):
    """Whose journal it is: the mount's agent and session, and the tree as the ledger is told of it."""

    tree: str
    root: str
    host: str
    territory: str
    agent: str
    harness: str
    session: str


class Left(NamedTuple):
    """What a dead mount's journal holds: what the ledger has not answered, oldest first; and all its leases.

    `damaged`: how many lines say nothing.
    """

    header: Header
    notes: list[Note]
    tokens: frozenset[int]
    damaged: int = 0


def journals_dir(tree: str) -> str:
    """The directory of the journals of one tree. Raises Denied as `client.paths.private_dir`."""
    return private_dir(os.path.join(state_dir(), "journals", tree))


class Journal:
    """The journal of a live mount. `note` before the change, `answered` when the ledger has it."""

    def __init__(self, directory: str, header: Header) -> None:
        """Begin a journal. Raises OSError if the disk does not take it."""
        self._path = os.path.join(directory, header.session + _SUFFIX)
        self._header = header
        self._fd = _begin(self._path, header)
        self._size_bytes = os.fstat(self._fd).st_size
        self._cut_from_bytes = _CUT_FROM_BYTES
        self._unanswered: dict[int, Note] = {}
        self._tokens: set[int] = set()
        self._next = 1

    def note(self, note: Note) -> int:
        """Write one intent; returns its number. The change may be made only after this returned.

        Raises:
            OSError: it is not on disk, and so the change must not be made (ENOSPC, EIO).
        """
        number = self._next
        self._write(to_note_line(number, note))
        self._unanswered[number] = note
        self._tokens.add(note["token"])
        self._next += 1
        return number

    def look_after(self, token: int) -> None:
        """Write that what was changed under this lease of a dead mount is ours to look after. Raises OSError."""
        if token not in self._tokens:
            self._write(to_line({"tokens": [token]}))
            self._tokens.add(token)

    @property
    def size_bytes(self) -> int:
        """How long it is."""
        return self._size_bytes

    @property
    def untold(self) -> int:
        """How many notes the ledger has not answered."""
        return len(self._unanswered)

    @property
    def last(self) -> int:
        """The number of the last note, 0 if there was none."""
        return self._next - 1

    def unanswered(self, most: int) -> dict[int, Note]:
        """The oldest notes that the ledger has not answered, by number."""
        taken: dict[int, Note] = {}
        for number, note in self._unanswered.items():
            if len(taken) == most:
                break
            taken[number] = note
        return taken

    def answered(self, number: int) -> None:
        """The ledger has all notes up to this one. Raises OSError if only we know that."""
        for known in [n for n in self._unanswered if n <= number]:
            del self._unanswered[known]
        if self._size_bytes >= self._cut_from_bytes:
            self._cut()
        else:
            self._write(to_line({"answered": number}))

    def sync(self) -> None:
        """Bring it to the disk itself; blocks."""
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Let go of it, and remove it if the ledger has all."""
        if not self._unanswered:
            os.unlink(self._path)
        os.close(self._fd)

    def _write(self, raw: bytes) -> None:
        done = os.write(self._fd, raw)
        self._size_bytes += done
        if done < len(raw):
            # The rest found no room; what is there is no line, and the next one must begin anew.
            os.ftruncate(self._fd, self._size_bytes - done)
            self._size_bytes -= done
            raise OSError(28, os.strerror(28), self._path)

    def _cut(self) -> None:
        lines: list[Note] = [{"tokens": sorted(self._tokens)}]
        lines += [{"n": number, **note} for number, note in self._unanswered.items()]
        fd = _begin(self._path, self._header, lines)
        os.close(self._fd)
        self._fd, self._size_bytes = fd, os.fstat(fd).st_size
        # While the ledger is away nothing can be left out; to write all of it each time would take ever longer.
        self._cut_from_bytes = max(_CUT_FROM_BYTES, 2 * self._size_bytes)


class DeadJournal:
    """A journal whose mount is gone, locked against others who would replay it."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def left(self) -> Left | None:
        """What is to be replayed; None if it is no journal that we can read."""
        with open(os.dup(self._fd), "rb") as file:
            lines = file.read().split(b"\n")[
                :-1
            ]  # what follows the last newline was never finished
        return _left([read_line(line) for line in lines])

    def remove(self) -> None:
        """The ledger has all of it, whoever told it: two mounts that begin at once may both have."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def dead_journals(directory: str) -> Generator[DeadJournal, None, None]:
    """The journals of mounts that are gone, oldest first, each locked while it is looked at."""
    names = [name for name in os.listdir(directory) if name.endswith(_SUFFIX)]
    for name in sorted(names, key=lambda name: _begun_ns(os.path.join(directory, name))):
        path = os.path.join(directory, name)
        fd = _opened(path, _TO_LOCK)
        if fd is None:
            continue
        if _lock(fd) and _is_at(fd, path):
            with DeadJournal(path, fd) as dead:
                yield dead
        else:
            os.close(fd)


def _opened(path: str, flags: int) -> int | None:
    """None if it is gone, or is no file of ours: whoever put that there must not keep a tree from being mounted."""
    try:
        fd = os.open(path, flags)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def _begun_ns(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_mtime_ns
    except FileNotFoundError:
        return 0


def untold_of_others(directory: str, own_session: str) -> list[Left]:
    """What the mounts of other sessions have written down and not told the ledger, whether they run, sleep or are gone.

    Nothing is locked and nothing changes; `tokens` are those of these notes alone.
    """
    found: list[Left] = []
    for name in sorted(os.listdir(directory)):
        if name.endswith(_SUFFIX) and name != own_session + _SUFFIX:
            fd = _opened(os.path.join(directory, name), _TO_READ)
            if fd is None:
                continue
            with open(fd, "rb") as file:
                left = _untold(file.read())
            if left is not None and left.notes:
                found.append(left)
    return found


def _untold(raw: bytes) -> Left | None:
    """As `_left`, but reads from the end, and only what it takes: journals are long and nearly all of it is told."""
    first, *others = raw.split(b"\n")[:-1] or [b""]
    lines: list[Note] = []
    answered = 0
    for line in map(read_line, reversed(others)):
        answered = max(answered, line.get("answered", 0))
        if line.get("n", answered + 1) <= answered:
            break
        lines.append(line)
    left = _left([read_line(first), *reversed(lines)])
    return left and left._replace(tokens=frozenset(note["token"] for note in left.notes))


def remove_drafts(directory: str) -> None:
    """Remove what a mount left that was killed while it began a journal. No change was made under one."""
    for name in os.listdir(directory):
        if name.endswith(_SUFFIX + _DRAFT):
            path = os.path.join(directory, name)
            fd = _opened(path, _TO_LOCK)
            if fd is None:
                continue
            # Whoever has written its first line has locked it before.
            if os.fstat(fd).st_size and _lock(fd) and _is_at(fd, path):
                os.unlink(path)
            os.close(fd)


def _begin(path: str, header: Header, lines: Iterable[Note] = ()) -> int:
    """A journal of these lines, locked, at this name once it is whole. Raises OSError."""
    draft = path + _DRAFT
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
    fd = os.open(draft, flags, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        raw = b"".join(map(to_line, ({"journal": _VERSION, **header._asdict()}, *lines)))
        _write_whole(fd, raw, draft)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        os.close(fd)
        raise
    return fd


def _write_whole(fd: int, raw: bytes, path: str) -> None:
    if os.write(fd, raw) < len(raw):
        raise OSError(28, os.strerror(28), path)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(fd: int, path: str) -> bool:
    """Whether the file was not removed or replaced before we had the lock."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(fd))


def _left(lines: list[Note]) -> Left | None:
    if not lines or lines[0].get("journal") != _VERSION:
        return None
    try:
        header = Header(**{name: str(lines[0][name]) for name in Header._fields})
    except KeyError:
        return None
    answered = max((line["answered"] for line in lines if "answered" in line), default=0)
    notes = [line for line in lines if "n" in line]
    tokens = {note["token"] for note in notes}.union(*(line.get("tokens", ()) for line in lines))
    left = [{key: n[key] for key in n if key != "n"} for n in notes if n["n"] > answered]
    return Left(header, left, frozenset(tokens), lines.count({}))
