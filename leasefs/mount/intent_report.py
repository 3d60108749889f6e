"""Telling the ledger what changed and what became of it, in batches, never making a write wait (P8).

Notes and settlements go out in the order in which they were made: a path that was committed and then changed
again must not be settled by what was seen before. What the ledger has not answered stays in the journal, and
whoever mounts this tree next sends it.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import trio

from leasefs.client import api
from leasefs.client.pauses import Pauses
from leasefs.core.errors import InvalidRequest, LeasefsError
from leasefs.core.paths import text
from leasefs.vcs.beneath import open_directory

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from leasefs.client.transport import Transport
    from leasefs.mount.journal import Header, Journal, Note

log = logging.getLogger(__name__)

IN_ONE_REPORT = 500
# As JSON a byte of a path is six characters at most, and the ledger takes 1 MiB in one request.
PATH_CHARACTERS_IN_ONE_REPORT = 100_000
GATHER_S = 0.2
# Less than the mount's loop gives to requests in one go.
_MEASURED_AT_ONCE = 64
_RETRY = Pauses(0.2, 5.0)
_TIMEOUT_S = 10.0


class Settlement(NamedTuple):
    """What became of a path's intent, seen at `as_of_wall_s`; `after` is the last note made before that was told."""

    after: int
    as_of_wall_s: float
    told: Note


def settled(
    path: bytes,
    outcome: str,
    commit: str = "",
    blob: str = "",
    *,
    done: bool = False,
    leases: Iterable[str] = (),
) -> Note:
    """What the ledger is told of a path that has come to this outcome (`core.commands.Settlement`)."""
    return {
        "leases": sorted(leases),
        "path": text(path),
        "outcome": outcome,
        "commit": commit,
        "blob": blob,
        "done": done,
    }


class Author(NamedTuple):
    """Who made a change, as a note names it that is not of the mount which reports it."""

    agent: str
    harness: str


class IntentReport:
    """Sends one mount's journal to the ledger."""

    def __init__(
        self,
        journal: Journal,
        header: Header,
        transport: Transport,
        root_fd: int,
    ) -> None:
        """`root_fd` is the tree beneath, borrowed."""
        self._journal = journal
        self._header = header
        self._transport = transport
        self._root_fd = root_fd
        self._settled: deque[Settlement] = deque()
        self._some = trio.Event()
        self._sending = trio.Lock()

    def wake(self) -> None:
        """There is something to tell."""
        self._some.set()

    def settle(self, settlements: Sequence[Settlement]) -> None:
        """Tell what became of these paths, after the notes made before."""
        self._settled.extend(settlements)
        self._some.set()

    async def run(self) -> None:
        """Report what comes, for ever; no failure of the ledger ends it."""
        failures = 0
        while True:
            await self._some.wait()
            await trio.sleep(GATHER_S)
            self._some = trio.Event()
            try:
                await self._report_until(self._journal.last)
            except LeasefsError as error:
                log.info("intents not reported yet: %s", error.message)
                self._some.set()
                await trio.sleep(_RETRY.after_s(failures))
                failures += 1
            else:
                failures = 0

    async def flush(self) -> None:
        """Report all there is, now.

        Raises:
            LeasefsError: the ledger did not take it; what it has not answered is still in the journal.
        """
        async with self._sending:
            while await self._one_report():
                pass

    async def _report_until(self, last: int) -> None:
        """Report what there was by now; what comes meanwhile gathers for the next time."""
        async with self._sending:
            while min(self._journal.unanswered(1), default=last + 1) <= last or self._settled:
                if not await self._one_report():
                    return
        if self._journal.unanswered(1):
            self._some.set()

    async def _one_report(self) -> bool:
        until = self._settled[0].after if self._settled else None
        notes = self._journal.unanswered(IN_ONE_REPORT)
        if until is not None:
            notes = {number: note for number, note in notes.items() if number <= until}
        if notes:
            await self._send_notes(notes)
        elif self._settled:
            await self._send_settled()
        else:
            return False
        return True

    async def _send_notes(self, notes: dict[int, Note]) -> None:
        await tell(self._send, self._header, await self._measured(notes.values()))
        try:
            self._journal.answered(max(notes))
        except OSError as error:
            # Then the next mount tells them once more, which changes nothing.
            log.warning("the journal cannot say what the ledger has: %s", error.strerror)

    async def _measured(self, notes: Iterable[Note]) -> list[Note]:
        """The notes with the sizes that their paths have now, 0 for what is not there.

        They changed just now, so that nothing has to be read from a disk. A thread that asks for hundreds would fight
        the requests of the meantime for the interpreter, at each of its system calls.
        """
        by_path = [(os.fsencode(note["path"]).rstrip(b"/"), note) for note in notes]
        paths = sorted({path for path, _ in by_path}, key=_directory_of)
        sizes: dict[bytes, int] = {}
        for at in range(0, len(paths), _MEASURED_AT_ONCE):
            sizes |= _sizes_bytes(self._root_fd, paths[at : at + _MEASURED_AT_ONCE])
            await trio.lowlevel.checkpoint()
        return [{**note, "size": sizes[path]} for path, note in by_path]

    async def _send_settled(self) -> None:
        first = next(iter(self._journal.unanswered(1)), None)
        seen_at_s = self._settled[0].as_of_wall_s
        batch: list[Settlement] = []
        for one in self._settled:
            early = first is None or one.after < first
            if len(batch) == IN_ONE_REPORT or one.as_of_wall_s != seen_at_s or not early:
                break
            batch.append(one)
        told = [one.told for one in batch]
        try:
            await self._send(api.settle_intents(self._header.tree, told, as_of_wall_s=seen_at_s))
        except InvalidRequest as error:
            log.warning("the ledger does not settle %d intents: %s", len(batch), error.message)
        for _ in batch:
            self._settled.popleft()

    async def _send(self, call: api.Call) -> api.Body:
        return await self._transport.send(call, timeout_s=_TIMEOUT_S)


async def tell(
    send: Callable[[api.Call], Awaitable[api.Body]],
    header: Header,
    notes: Sequence[Note],
    *,
    recovered: bool = False,
) -> list[Note]:
    """Report notes in their order; returns what the ledger says of those that are stale.

    They are of the header's mount, `recovered` if that is dead, but for those that name another `agent`: what a
    dead mount changed. One that the ledger does not take is left out: sent again it would be refused again, and
    hold up all that comes after.

    Raises:
        LeasefsError: the ledger does not answer.
    """
    stale: list[Note] = []
    own = Author(header.agent, header.harness) if recovered else None
    for author, batch in _batches(notes):
        stale += await _tell_batch(send, header, batch, author or own)
    return stale


async def _tell_batch(
    send: Callable[[api.Call], Awaitable[api.Body]],
    header: Header,
    batch: Sequence[Note],
    author: Author | None,
) -> list[Note]:
    call = api.report_intents(
        header.tree,
        [{key: note[key] for key in note if key not in Author._fields} for note in batch],
        host=header.host,
        root=header.root,
        recovered=author is not None,
        **(author or Author("", ""))._asdict(),
    )
    try:
        answer = await send(call)
    except InvalidRequest as error:
        if len(batch) == 1:
            log.warning("the ledger does not take %r: %s", batch[0]["path"], error.message)
            return []
        # All or none: those that can be true must not be lost with the one that cannot.
        half = len(batch) // 2
        first = await _tell_batch(send, header, batch[:half], author)
        return first + await _tell_batch(send, header, batch[half:], author)
    return list(answer.get("stale", ()))


def _batches(notes: Sequence[Note]) -> Iterator[tuple[Author | None, Sequence[Note]]]:
    """Runs of notes of one author that fit into a request, in their order."""
    for name, run in groupby(notes, key=lambda note: (note.get("agent"), note.get("harness"))):
        author = Author(str(name[0]), str(name[1])) if name[0] else None
        left = list(run)
        while left:
            count = _fitting(left)
            yield author, left[:count]
            del left[:count]


def _fitting(notes: Iterable[Note]) -> int:
    """How many of these notes, one at least, fit into one request."""
    room, count = PATH_CHARACTERS_IN_ONE_REPORT, 0
    for note in notes:
        if room <= 0 or count == IN_ONE_REPORT:
            break
        count += 1
        room -= len(note["path"]) + len(note["other"])
    return count


def _sizes_bytes(root_fd: int, paths: Iterable[bytes]) -> dict[bytes, int]:
    """By path. The way down to a directory is gone once, for all of its paths in a row."""
    sizes = dict.fromkeys(paths, 0)
    for above, below in groupby(list(sizes), key=_directory_of):
        with suppress(OSError):
            directory_fd = open_directory(root_fd, above)
            try:
                for path in below:
                    sizes[path] = _size_bytes(directory_fd, path[len(above) :].lstrip(b"/"))
            finally:
                os.close(directory_fd)
    return sizes


def _directory_of(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def _size_bytes(directory_fd: int, name: bytes) -> int:
    try:
        return os.stat(name, dir_fd=directory_fd, follow_symlinks=False).st_size
    except OSError:
        return 0
