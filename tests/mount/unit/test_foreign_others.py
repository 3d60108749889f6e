"""What other mounts of a tree explain: by what they hold, by their journals, by what the ledger heard."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from leasefs.mount import foreign_others
from leasefs.mount.foreign_others import Others
from leasefs.mount.journal import Header, Journal

if TYPE_CHECKING:
    from leasefs.client.api import Body, Call

pytestmark = pytest.mark.trio

NOW_S = 1_000.0
OURS = Header("t-1", "/r", "h", "terr", "a", "x", "S-2")


class Bench:
    """A ledger with what is put into it, and the journals of live mounts."""

    def __init__(self, journals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = NOW_S
        self.journals = str(journals)
        self.live: list[str] = [OURS.session]
        self.sessions: list[Body] = []
        self.leases: list[Body] = []
        self.intents: list[Body] = []
        self.events: list[Body] = []
        self.asked: list[str] = []
        monkeypatch.setattr(
            foreign_others,
            "live_mounts",
            lambda: [SimpleNamespace(session=session) for session in self.live],
        )
        transport: Any = self
        self.others = Others(OURS, self.journals, transport, lambda: self.now_s)

    async def send(self, call: Call, *, timeout_s: float) -> Body:
        url = urlsplit(call.path)
        self.asked.append(url.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        match url.path:
            case "/v1/status":
                return {"seq": len(self.events)}
            case "/v1/events":
                after = int(query["after"])
                return {"events": self.events[after:], "next": len(self.events)}
            case "/v1/sessions":
                return {"sessions": self.sessions}
            case "/v1/leases":
                return {"leases": self.leases}
        found = [one for one in self.intents if one["agent"] == query["agent"]]
        return {"intents": found}

    def mount(self, session: str) -> Journal:
        self.live.append(session)
        return Journal(self.journals, OURS._replace(session=session, agent=session))

    async def theirs(self, *paths: bytes) -> set[bytes]:
        return await self.others.theirs(dict.fromkeys(paths, NOW_S), NOW_S)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def note(path: str, wall_s: float = NOW_S) -> dict[str, Any]:
    return {"path": path, "wall_s": wall_s, "token": 1}


def replace(journal: Path) -> None:
    draft = journal.parent / "draft"
    draft.write_bytes(b"\0\n[1]\n" + json.dumps(note("b")).encode() + b'\n{"path": "half')
    draft.replace(journal)


async def test_alone_in_a_tree_hardly_anybody_is_asked(bench: Bench) -> None:
    assert await bench.theirs(b"a") == set()
    assert bench.asked == ["/v1/sessions"]
    assert await bench.others.look() == 0


async def test_what_a_live_mount_holds_and_its_companions_are_left_to_it(bench: Bench) -> None:
    bench.mount("S-1")
    lease = {
        "lease": "L1",
        "token": 1,
        "globs": ["src/**", "one.py"],
        "mode": "exclusive",
        "ttl_s": 60.0,
    }
    bench.leases = [{**lease, "session": "S-1"}, {**lease, "session": "S-9", "globs": ["**"]}]
    paths = b"src/a", b"one.py", b".one.py.swp", b"two.py"
    assert await bench.theirs(*paths) == set(paths[:3])
    assert await bench.others.look() == 1


async def test_what_a_live_mount_delegated_is_left_to_who_has_it_now(bench: Bench) -> None:
    """A write beside all mounts on ground of ours is not the former holder's, whose lease covers it, too."""
    bench.mount("S-1")
    bench.mount("S-3")
    whole = {"mode": "exclusive", "ttl_s": 60.0, "parent": ""}
    bench.leases = [
        {**whole, "lease": "L1", "token": 1, "session": "S-1", "globs": ["src/**"]},
        {
            **whole,
            "lease": "L2",
            "token": 2,
            "session": OURS.session,
            "globs": ["src/a/**"],
            "parent": "L1",
        },
        {
            **whole,
            "lease": "L3",
            "token": 3,
            "session": "S-3",
            "globs": ["src/b/**"],
            "parent": "L1",
        },
    ]
    paths = b"src/x", b"src/a/x", b"src/b/x"
    assert await bench.theirs(*paths) == {b"src/x", b"src/b/x"}


def granted(lease: str, session: str, *globs: str, mode: str = "exclusive") -> Body:
    claim = {"id": lease, "session": session, "globs": globs, "mode": mode, "ttl_s": 30.0}
    return {"seq": 7, "wall_s": NOW_S - 3, "event": {"type": "granted", "claim": claim}}


def over(lease: str, wall_s: float = NOW_S - 0.1, how: str = "released") -> Body:
    return {"seq": 8, "wall_s": wall_s, "event": {"type": how, "lease": lease}}


async def test_what_was_held_a_moment_ago_and_its_companions_are_left_to_who_held_it(
    bench: Bench,
) -> None:
    """Leases that writes claim are over at once, and no journal tells of the drafts of a save."""
    for session in ("S-1", "S-3"):
        bench.mount(session)
    bench.events = [
        granted("L1", "S-1", "one.py"),
        granted("L2", "S-3", "two.py"),
        granted("L3", "S-3", "long-ago.py"),
        granted("L4", "S-9", "elsewhere.py"),
        granted("L5", "S-1", "read.py", mode="shared"),
        granted("L6", OURS.session, "ours.py"),
        granted("L7", "S-1", "**"),
        over("L1"),
        over("L2", how="expired"),
        over("L3", NOW_S - 2),
        *map(over, ("L4", "L5", "L6")),
    ]
    mine = b"one.py", b"two.py", b".one.py.swp", b"one.py.tmp5"
    others = b"long-ago.py", b"elsewhere.py", b"read.py", b"ours.py", b"three.py"
    assert await bench.theirs(*mine, *others) == set(mine), "L7 is live: /v1/leases says what of it"


async def test_what_happens_once_the_ground_is_ours_is_not_the_former_holders(
    bench: Bench,
) -> None:
    bench.mount("S-1")
    ours = granted("L2", OURS.session, "one.py")
    bench.events = [
        granted("L1", "S-1", "*.py"),
        over("L1", NOW_S - 0.1),
        {**ours, "wall_s": NOW_S - 0.05},
    ]
    assert await bench.theirs(b"one.py", b".one.py.swp", b"two.py") == {b"two.py"}


async def test_a_journal_explains_what_was_noted_just_before(bench: Bench) -> None:
    journal = bench.mount("S-3")
    journal.note(note("fresh"))
    journal.note(note("moved/"))
    journal.note(note("long ago", NOW_S - 60))
    assert await bench.theirs(b"fresh", b"moved/a/b", b"long ago") == {b"fresh", b"moved/a/b"}
    journal.note(note("later"))
    assert await bench.theirs(b"later") == {b"later"}
    assert await bench.others.look() == 0


async def test_a_mount_that_went_just_now_is_remembered(bench: Bench) -> None:
    journal = bench.mount("S-1")
    journal.note(note("a"))
    await bench.others.look()
    journal.answered(journal.last)
    journal.close()
    bench.live.remove("S-1")
    settled = {"type": "intents-settled", "tree": "t-1", "session": "S-1"}
    bench.events = [{"wall_s": NOW_S, "event": {**settled, "settled": [{"path": "b"}]}}]
    assert os.listdir(bench.journals) == []
    assert await bench.theirs(b"a", b"b", b"c") == {b"a", b"b"}


async def test_a_journal_that_was_cut_or_is_no_journal(bench: Bench) -> None:
    journal = bench.mount("S-1")
    journal.note(note("a"))
    await bench.others.look()
    replace(Path(bench.journals, "S-1.journal"))
    assert await bench.theirs(b"a", b"b", b"half") == {b"a", b"b"}


async def test_another_users_mount_is_known_by_what_the_ledger_has_of_it(bench: Bench) -> None:
    there = {"kind": "mount", "host": "h", "session": "S-7", "agent": "root"}
    elsewhere = {**there, "host": "other", "session": "S-8", "agent": "far"}
    bench.sessions = [there, elsewhere, {**there, "session": OURS.session, "agent": "a"}]
    bench.intents = [
        {"agent": "root", "path": "a", "held": True},
        {"agent": "root", "path": "dir/", "held": True},
        {"agent": "root", "path": "abandoned", "held": False},
        {"agent": "far", "path": "b", "held": True},
    ]
    assert await bench.theirs(b"a", b"dir/x", b"b", b"abandoned") == {b"a", b"dir/x"}


async def test_what_another_mount_has_told_is_not_told_again(bench: Bench) -> None:
    bench.mount("S-1")
    told = {"type": "foreign-writes", "tree": "t-1", "session": "S-1"}
    changes = [{"path": "a", "wall_s": NOW_S + 0.01}, {"path": "b", "wall_s": NOW_S - 20}]
    bench.events = [
        {"wall_s": NOW_S, "event": {**told, "changes": changes}},
        {
            "wall_s": NOW_S,
            "event": {**told, "tree": "t-2", "changes": [{**changes[0], "path": "c"}]},
        },
    ]
    assert await bench.theirs(b"a", b"b", b"c") == {b"a"}
