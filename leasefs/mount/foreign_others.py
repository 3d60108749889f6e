"""What other mounts of the same tree did: their changes look foreign from here, and are not.

Each mount knows its own changes for sure, so each judges what it may change: a path that a live mount of this tree
holds, or the companion of one, is left to it. For what it did under a lease that it has not any more there is its
journal, written before each change, and what the ledger has heard since.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from leasefs.client import api
from leasefs.client.find import live_mounts
from leasefs.core.carving import Carved
from leasefs.core.companions import companion_of
from leasefs.core.globs import parse_glob
from leasefs.core.held import HeldLease, HeldView
from leasefs.core.lease import Mode
from leasefs.mount.foreign_lately import LEASE_EVENTS, HeldLately

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from leasefs.client.transport import Transport
    from leasefs.mount.journal import Header

_SUFFIX = ".journal"
# A note is made before its change; this is how long before, at most, if the change is to be explained by it.
_EARLIER_S = 5.0
# Notes of that many paths are remembered, and that much of a ledger's log is read to catch up with it.
_MOST_NOTES = 100_000
_MOST_EVENTS = 5_000
_PAGE = 500
# A mount that went in this time may have made the change.
_REMEMBERED_S = 10.0
# Who is there changes seldom; what is not explained otherwise is judged by a look of its own.
_LOOK_EVERY_S = 2.0
_TIMEOUT_S = 10.0
_FOREVER_S = 1e18
_TYPES = ("intents-noted", "intents-settled", "foreign-writes", *LEASE_EVENTS)


class _Read(NamedTuple):
    """How far a journal has been read."""

    inode: int
    offset: int


class Others:
    """Knows what the other mounts of one tree did lately."""

    def __init__(
        self, header: Header, journals: str, transport: Transport, now_s: Callable[[], float]
    ) -> None:
        """Knows of nobody yet.

        Args:
            header: says which tree it is, and which mount this one is.
            journals: the directory of the journals of all its mounts.
            transport: to the ledger.
            now_s: of a clock that never goes back.
        """
        self._header = header
        self._journals = journals
        self._transport = transport
        self._now_s = now_s
        self._read: dict[str, _Read] = {}
        # The sessions of other mounts of the tree, and when they were seen last; of all this user's mounts.
        self._seen: dict[str, float] = {}
        self._looked_s = float("-inf")
        self._known_here: set[str] = set()
        # When others changed a path last, as far as was heard; what ends in a slash, all below.
        self._noted: dict[bytes, float] = {}
        # When others reported a foreign write.
        self._reported: dict[bytes, float] = {}
        self._seq = 0
        self._lately = HeldLately()

    async def look(self) -> int:
        """Look who is there, before somebody goes; returns how many report the same before this mount does."""
        if self._now_s() - self._looked_s >= _LOOK_EVERY_S:
            await trio.to_thread.run_sync(self._look_who_is_there)
        live = (one for one, seen_s in self._seen.items() if seen_s == self._looked_s)
        return sum(session < self._header.session for session in live)

    async def written_down(self, suspected: Mapping[bytes, float]) -> set[bytes]:
        """Those of the paths, each with the time of its change, that the journals here explain: nearly always all.

        Where forty agents share a tree, each sees all that the others do. So nobody is asked for these.
        """
        await trio.to_thread.run_sync(self._read_journals)
        return {path for path, wall_s in suspected.items() if self._is_known(path, wall_s)}

    async def theirs(self, suspected: Mapping[bytes, float], now_s: float) -> set[bytes]:
        """Those of the paths, each with the time of its change, that other mounts changed, or reported, or judge.

        Raises:
            LeasefsError: the ledger cannot be asked.
        """
        await trio.to_thread.run_sync(self._look_who_is_there)
        view = await self._view() if self._seen else HeldView()
        theirs = {
            path
            for path, wall_s in suspected.items()
            if self._is_known(path, wall_s)
            or view.writable(path, now_s) is not None
            or companion_of(path, view, now_s) is not None
        }
        if len(theirs) < len(suspected):
            theirs |= await self._told(suspected)
        return theirs

    async def _told(self, suspected: Mapping[bytes, float]) -> set[bytes]:
        """Those that the ledger has heard of, from this tree's mounts or for agents whose mounts are another user's."""
        hidden = await self._hidden()
        dirty: set[bytes] = set()
        if self._seen or hidden:
            await self._catch_up()
        for agent in hidden:
            dirty |= await self._dirty(agent)
        return {
            path
            for path, wall_s in suspected.items()
            if self._is_known(path, wall_s)
            or any(one in dirty for one in _with_ancestors(path))
            or self._was_theirs(path, wall_s)
        }

    def _was_theirs(self, path: bytes, wall_s: float) -> bool:
        """Whether others held the path at that time, and not this mount.

        Leases that writes claim are given back within moments, and of the files that atomic saves leave and take away
        again no journal tells.
        """
        if not self._lately.was_held(self._seen, path, wall_s):
            return False
        return not self._lately.held(self._header.session, path, wall_s)

    def _is_known(self, path: bytes, wall_s: float) -> bool:
        when = (self._noted.get(one, 0.0) for one in _with_ancestors(path))
        since = wall_s - _EARLIER_S
        return max(when) >= since or self._reported.get(path, 0.0) >= wall_s - 1.0

    # -- the journals of this user's mounts ----------------------------------------------------

    def _read_journals(self) -> set[str]:
        """Blocks; reads what is new, of dead mounts as well. The names of the journals."""
        names = {name for name in os.listdir(self._journals) if name.endswith(_SUFFIX)}
        names.discard(self._header.session + _SUFFIX)
        for name in names:
            with suppress(FileNotFoundError):
                self._read_journal(name)
        self._read = {name: read for name, read in self._read.items() if name in names}
        return names

    def _look_who_is_there(self) -> None:
        """Blocks; which mounts of this tree live, by their journals and the registry."""
        names = self._read_journals()
        self._looked_s = now_s = self._now_s()
        self._known_here = {mount.session for mount in live_mounts()}
        here = {session for session in self._known_here if session + _SUFFIX in names}
        seen = {one: seen_s for one, seen_s in self._seen.items() if now_s - seen_s < _REMEMBERED_S}
        self._seen = seen | dict.fromkeys(here, now_s)

    def _read_journal(self, name: str) -> None:
        path = os.path.join(self._journals, name)
        found = os.stat(path, follow_symlinks=False)
        if self._read.get(name) == (found.st_ino, found.st_size):
            return
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            inode = os.fstat(fd).st_ino
            before = self._read.get(name, _Read(inode, 0))
            offset = before.offset if before.inode == inode else 0
            file.seek(offset)
            whole = file.read().rpartition(b"\n")[0]
        self._read[name] = _Read(inode, offset + len(whole) + bool(whole))
        for line in whole.split(b"\n"):
            with suppress(ValueError, KeyError, TypeError):
                note = json.loads(line)
                self._note(note["path"], note["wall_s"])

    def _note(self, path: str, wall_s: float) -> None:
        raw = os.fsencode(path)
        self._noted[raw] = max(wall_s, self._noted.get(raw, 0.0))
        if len(self._noted) > _MOST_NOTES:
            oldest = sorted(self._noted, key=self._noted.__getitem__)[: _MOST_NOTES // 2]
            for one in oldest:
                del self._noted[one]

    # -- the ledger ----------------------------------------------------------------------------

    async def _catch_up(self) -> None:
        """Read what the ledger heard from others about this tree."""
        head = int((await self._ask(api.status()))["seq"])
        self._seq = max(self._seq, head - _MOST_EVENTS)
        if head < self._seq:
            self._seq = 0  # another log than before
        while self._seq < head:
            call = api.events(
                after=self._seq, territory=self._header.territory, types=_TYPES, limit=_PAGE
            )
            page = await self._ask(call)
            events = page["events"]
            for one in events:
                self._heard(one)
            self._seq = max(self._seq + 1, int(page.get("next", head)))

    def _heard(self, recorded: api.Body) -> None:
        event = recorded["event"]
        if event["type"] in LEASE_EVENTS:
            self._lately.heard(recorded)
            return
        if event["tree"] != self._header.tree or event["session"] == self._header.session:
            return
        if event["type"] == "intents-noted":
            for intent in event["intents"]:
                self._note(intent["path"], intent["last_wall_s"])
        elif event["type"] == "intents-settled":
            for settled in event["settled"]:
                self._note(settled["path"], recorded["wall_s"])
        elif event.get("how", "beside") in {"beside", "observed"}:
            for change in event["changes"]:
                self._reported[os.fsencode(change["path"])] = change["wall_s"]
            if len(self._reported) > _MOST_NOTES:
                self._reported.clear()

    async def _hidden(self) -> set[str]:
        """The agents whose mounts on this host may be of this tree, but are another user's."""
        sessions = (await self._ask(api.sessions(self._header.territory)))["sessions"]
        return {
            one["agent"]
            for one in sessions
            if (one["kind"], one["host"]) == ("mount", self._header.host)
            and one["session"] != self._header.session
            and one["session"] not in self._known_here
        }

    async def _view(self) -> HeldView:
        """What the other mounts of the tree hold, without what they delegated to others than themselves."""
        answer = await self._ask(api.leases(self._header.territory))
        leases: list[dict[str, Any]] = answer["leases"]
        theirs = [
            one
            for one in leases
            if one["session"] in self._seen and one["mode"] == Mode.EXCLUSIVE.value
        ]
        ids = {one["lease"] for one in theirs}
        away = [one for one in leases if one.get("parent") in ids and one["lease"] not in ids]
        return HeldView(
            (
                HeldLease(
                    one["lease"],
                    one["token"],
                    tuple(map(parse_glob, one["globs"])),
                    Mode(one["mode"]),
                    one["ttl_s"],
                    _FOREVER_S,
                )
                for one in theirs
            ),
            carved=[
                Carved(one["parent"], tuple(map(parse_glob, one["globs"])), "", one["lease"])
                for one in away
            ],
        )

    async def _dirty(self, agent: str) -> set[bytes]:
        """What an agent has uncommitted in this tree under leases that it still holds."""
        header = self._header
        call = api.intents(territory=header.territory, tree=header.tree, agent=agent, state="dirty")
        answer = await self._ask(call)
        return {os.fsencode(one["path"]) for one in answer["intents"] if one["held"]}

    async def _ask(self, call: api.Call) -> api.Body:
        return await self._transport.send(call, timeout_s=_TIMEOUT_S)


def _with_ancestors(path: bytes) -> Iterable[bytes]:
    """The path, and the directories above it, each with its slash."""
    yield path
    at = path.rfind(b"/", 0, len(path) - 1)
    while at >= 0:
        yield path[: at + 1]
        at = path.rfind(b"/", 0, at)
