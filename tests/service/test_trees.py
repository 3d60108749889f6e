"""Intents, settlements, foreign writes and rescues over the wire, built by the client's own calls (P8, P9)."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import api
from leasefs.core.events import Granted, Released
from leasefs.core.state import State
from leasefs.service.entries import record_again, recorded_of
from leasefs.service.recovery import recover
from leasefs.store.port import Entry

if TYPE_CHECKING:
    from leasefs.testing.asgi import AsgiClient

TREE: dict[str, Any] = {"host": "build-3", "root": "/home/ann/r\udce9po"}


async def send(agent: AsgiClient, call: api.Call) -> api.Body:
    """As a transport does; raises what the ledger refused."""
    reply = await agent.ask(call.method, call.path, raw=api.encode(call))
    return api.answer(call, reply.status, reply.body)


async def claimed(agent: AsgiClient, *globs: str, key: str = "k") -> api.Body:
    return await send(agent, api.claim(globs, key=key))


def note(lease: api.Body, path: str, **more: Any) -> api.Body:
    fields = {"path": path, "kind": "modify", "lease": lease["lease"], "token": lease["token"]}
    return {**fields, "wall_s": 5.0, **more}


def rescue_of(lease: api.Body, **more: Any) -> api.Body:
    return {
        "id": lease["lease"],
        "tree": "t-1",
        "lease": lease["lease"],
        "agent": lease["agent"],
        "ref": "refs/leasefs/rescue/L",
        "commit": "c1",
        "paths": 1,
        **more,
    }


def test_from_the_first_byte_to_the_landing(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann = await ledger.agent("ann")
            lease = await claimed(ann, "src/**")
            name = "src/caf\udce9"
            notes = [note(lease, name, pid=7, program="vi", size=3), note(lease, "src/b")]
            answer = await send(ann, api.report_intents("t-1", notes, **TREE))
            assert answer == {"accepted": 2, "stale": []}
            found = await send(ann, api.intents("t", agent="ann", tree="t-1", state="dirty"))
            assert found["total"] == 2
            assert found["intents"][1]["path"] == name
            assert {key: found["intents"][1][key] for key in TREE} == TREE
            status = await send(ann, api.status())
            assert (status["dirty"], status["unlanded"], status["rescues"]) == (2, 0, 0)
            settled = [
                {"path": name, "outcome": "committed", "commit": "c1", "blob": "b1"},
                {"path": "src/b", "outcome": "clean"},
            ]
            answer = await send(ann, api.settle_intents("t-1", settled, as_of_wall_s=5.0))
            assert answer == {"settled": 2, "ended": 1}
            (one,) = (await send(ann, api.intents(lease=lease["lease"])))["intents"]
            assert (one["state"], one["commit"], one["blob"]) == ("committed", "c1", "b1")
            landed = [{"path": name, "outcome": "landed"}]
            await send(ann, api.settle_intents("t-1", landed))
            assert await send(ann, api.intents()) == {"intents": [], "total": 0}

    asyncio.run(main())


def test_the_oldest_are_listed_first_and_all_are_counted(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann = await ledger.agent("ann")
            lease = await claimed(ann, "**")
            notes = [note(lease, f"x{n}", wall_s=100.0 - n) for n in range(20)]
            await send(ann, api.report_intents("t-1", notes, **TREE))
            found = await send(ann, api.intents("t", limit="3"))
            assert [one["path"] for one in found["intents"]] == ["x19", "x18", "x17"]
            assert found["total"] == 20
            assert (await send(ann, api.intents("other")))["total"] == 0

    asyncio.run(main())


def test_the_gate_refuses_and_says_why(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann = await ledger.agent("ann")
            lease = await claimed(ann, "src/**")
            await send(ann, api.report_intents("t-1", [note(lease, "src/a")], **TREE))
            refused = await ann.ask("DELETE", f"/v1/leases/{lease['lease']}?key=r")
            assert (refused.status, refused.code) == (409, "dirty")
            assert refused.json["error"]["details"]["paths"] == ["src/a"]
            assert (await send(ann, api.lease(lease["lease"])))["state"] == "granted"
            call = api.release(lease["lease"], key="r", dirty="keep", note="caf\udce9: b follows")
            assert (await send(ann, call))["state"] == "ended"
            assert (await send(ann, call))["state"] == "ended", "P6"
            bob = await ledger.agent("bob")
            heritage = (await claimed(bob, "src/a"))["inherits"]
            assert heritage["note"]["text"] == "caf\udce9: b follows"
            assert heritage["note"]["agent"] == "ann"
            assert [one["path"] for one in heritage["uncommitted"]] == ["src/a"]

    asyncio.run(main())


def test_a_batch_passes_the_same_gate(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann = await ledger.agent("ann")
            lease = await claimed(ann, "src/**")
            await send(ann, api.report_intents("t-1", [note(lease, "src/a")], **TREE))
            release = {"op": "release", "lease": lease["lease"], "key": "r"}
            answer = await send(ann, api.batch([release, {**release, "dirty": "force"}]))
            assert [item["status"] for item in answer["answers"]] == [409, 200]

    asyncio.run(main())


def test_a_dead_mounts_journal_and_its_rescue(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            lease = await claimed(ann, "src/**")
            await send(ann, api.end_session("session-ann"))
            call = api.report_intents(
                "t-1", [note(lease, "src/a")], **TREE, recovered=True, agent="ann", harness="h"
            )
            assert len((await send(bob, call))["stale"]) == 1
            (one,) = (await send(bob, api.intents("t")))["intents"]
            assert (one["agent"], one["fenced"], one["recovered"]) == ("ann", True, True)
            answer = await send(bob, api.report_rescue(rescue_of(lease), ["src/a", "src/b"]))
            assert (answer["ended"], answer["rescue"]["by"]) == (1, "bob")
            assert answer["rescue"]["globs"] == ["src/a"], "nobody remembers the lease"
            (kept,) = (await send(bob, api.rescues("t")))["rescues"]
            assert kept == answer["rescue"]
            told = (await claimed(bob, "src/*"))["inherits"]["rescues"]
            assert [one["id"] for one in told] == [lease["lease"]]
            assert await send(bob, api.drop_rescue(lease["lease"])) == {"dropped": True}
            assert await send(bob, api.drop_rescue(lease["lease"])) == {"dropped": False}

    asyncio.run(main())


def test_foreign_writes_name_the_holder(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            lease = await claimed(ann, "src/**")
            changes = [{"path": path, "what": "deleted", "wall_s": 1.0} for path in ("src/a", "b")]
            answer = await send(bob, api.report_foreign_writes("t-1", changes))
            held = {"path": "src/a", "agent": "ann", "lease": lease["lease"]}
            assert answer == {"held": [held]}
            page = await send(bob, api.events(types=["foreign-writes"], territory="t"))
            assert [one["holder"] for one in page["events"][0]["event"]["changes"]] == [
                {"agent": "ann", "lease": lease["lease"]},
                None,
            ]

    asyncio.run(main())


def test_a_holder_hears_of_foreign_writes_in_its_own_events(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            names = "ann", "bob", "eve"
            ann, bob, _ = [await ledger.agent(name) for name in names]
            await claimed(ann, "src/**")
            changes = [{"path": "src/a", "what": "deleted", "wall_s": 1.0}]
            await send(bob, api.report_foreign_writes("t-1", changes, events_lost=True))
            sessions = (await send(ann, api.sessions()))["sessions"]
            of = {one["agent"]: one["session"] for one in sessions}
            for name, heard in zip(names, (1, 1, 0), strict=True):
                call = api.events(types=["foreign-writes"], session=of[name])
                events = (await send(ann, call))["events"]
                assert len(events) == heard
                assert all(one["event"]["events_lost"] for one in events)

    asyncio.run(main())


def test_a_started_ledger_knows_it_all_again(serving: Any) -> None:
    """P11: intents, rescues and notes are in the log."""

    async def main() -> None:
        async with serving() as ledger:
            ann = await ledger.agent("ann")
            lease = await claimed(ann, "src/**")
            notes = [note(lease, "src/\udce9"), note(lease, "src/b")]
            await send(ann, api.report_intents("t-1", notes, **TREE))
            await send(ann, api.report_rescue(rescue_of(lease), ["src/b"]))
            await send(ann, api.release(lease["lease"], key="r", dirty="force", note="n"))
            assert recover(ledger.store).state == ledger.writer.durable
            assert ledger.writer.durable != State()

    asyncio.run(main())


def test_events_written_before_intents_are_read() -> None:
    """The log is for ever: what an older ledger wrote lacks the newer fields."""
    claim = {
        "id": "L2",
        "territory": "t",
        "session": "session-a",
        "agent": "a",
        "harness": "h",
        "globs": ["x"],
        "mode": "exclusive",
        "ttl_s": 60.0,
        "priority": 0,
        "claimed_at_s": 1.0,
        "claimed_seq": 2,
        "note": "",
    }
    released = {
        "lease": "L2",
        "agent": "a",
        "token": 2,
        "reason": "released",
        "key": "",
        "request": "",
    }
    for seq, type_, fields, event_type in (
        (2, "granted", {"claim": claim, "key": "k", "request": "r"}, Granted),
        (3, "released", released, Released),
    ):
        stored = {"at_s": 1.0, "wall_s": 1.0, "territory": "t", "session": "session-a"}
        data = json.dumps({**stored, "event": {"type": type_, **fields}}).encode()
        entry = Entry(seq, data)
        assert isinstance(recorded_of(entry).event, event_type)
        assert record_again(entry).type == type_


NOTE = {"path": "x", "kind": "modify", "lease": "L2", "token": 2, "wall_s": 1.0}
REPORT: dict[str, Any] = {"tree": "t-1", "host": "h", "root": "/r", "notes": [NOTE]}
SETTLED: dict[str, Any] = {"tree": "t-1", "settled": [{"path": "x", "outcome": "clean"}]}
FOREIGN: dict[str, Any] = {
    "tree": "t-1",
    "changes": [{"path": "x", "what": "created", "wall_s": 1.0}],
}
RESCUE: dict[str, Any] = {"rescue": rescue_of({"lease": "L2", "agent": "ann"})}


def _notes(**fields: object) -> Any:
    return {**REPORT, "notes": [{**NOTE, **fields}]}


def _settled(**fields: object) -> Any:
    return {**SETTLED, "settled": [{**SETTLED["settled"][0], **fields}]}


def _rescue(**fields: object) -> Any:
    return {"rescue": {**RESCUE["rescue"], **fields}}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("intents", {}),
        ("intents", {**REPORT, "notes": [NOTE] * 5_001}),
        ("intents", {**REPORT, "notes": None}),
        ("intents", {**REPORT, "tree": ""}),
        ("intents", {**REPORT, "tree": "t" * 600}),
        ("intents", {**REPORT, "root": "r" * 70_000}),
        ("intents", {**REPORT, "agent": "bob"}),
        ("intents", {**REPORT, "recovered": True, "agent": "a/b"}),
        ("intents", {**REPORT, "recovered": True, "harness": "x\n"}),
        ("intents", {**REPORT, "session": "session-bob"}),
        ("intents", _notes(path="/x")),
        ("intents", _notes(path="../x")),
        ("intents", _notes(path="a//b")),
        ("intents", _notes(path="a\0")),
        ("intents", _notes(path="n" * 70_000)),
        ("intents", _notes(path="\ud800")),
        ("intents", _notes(other="/x")),
        ("intents", _notes(kind="steal")),
        ("intents", _notes(lease="")),
        ("intents", _notes(lease="L" * 100)),
        ("intents", _notes(token=-1)),
        ("intents", _notes(token=2**63)),
        ("intents", _notes(pid=-1)),
        ("intents", _notes(size=-1)),
        ("intents", _notes(program="p" * 20_000)),
        ("intents", _notes(wall_s=1e13)),
        ("intents", _notes(agent="bob")),
        ("intents", _notes(fenced=False)),
        ("intents/settled", {**SETTLED, "settled": SETTLED["settled"] * 5_001}),
        ("intents/settled", {**SETTLED, "tree": ""}),
        ("intents/settled", _settled(path="../x")),
        ("intents/settled", _settled(outcome="rescued")),
        ("intents/settled", _settled(outcome="committed")),
        ("intents/settled", _settled(outcome="committed", commit="c" * 65)),
        ("intents/settled", _settled(done=True)),
        ("foreign-writes", {**FOREIGN, "changes": FOREIGN["changes"] * 5_001}),
        ("foreign-writes", {**FOREIGN, "changes": [{"path": "/x", "what": "mode", "wall_s": 0}]}),
        ("foreign-writes", {**FOREIGN, "changes": [{"path": "x", "what": "eaten", "wall_s": 0}]}),
        ("rescues", {}),
        ("rescues", _rescue(by="bob")),
        ("rescues", _rescue(id="a/b")),
        ("rescues", _rescue(agent="")),
        ("rescues", _rescue(commit="")),
        ("rescues", _rescue(names=["x"] * 51)),
        ("rescues", _rescue(names=["/x"])),
        ("rescues", _rescue(globs=["../x"])),
        ("rescues", _rescue(globs=["x"] * 257)),
        ("rescues", _rescue(territory="other")),
        ("rescues", {**RESCUE, "contained": ["x"] * 100_001}),
        ("rescues", {**RESCUE, "contained": ["/x"]}),
        ("rescues", {**RESCUE, "contained": "x"}),
    ],
    ids=lambda value: str(value)[:70],
)
def test_hostile_reports_are_400_and_change_nothing(serving: Any, path: str, body: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann = await ledger.agent("ann")
            await claimed(ann, "**")
            before = ledger.writer.durable
            reply = await ann.ask("POST", f"/v1/{path}", body)
            assert reply.status == 400, reply.body
            assert len(reply.body) < 5_000
            assert ledger.writer.durable is before

    asyncio.run(main())


@pytest.mark.parametrize(
    "call", [REPORT, SETTLED, FOREIGN, RESCUE], ids=lambda body: str(body)[:20]
)
def test_reports_need_a_session(serving: Any, call: api.Body) -> None:
    async def main() -> None:
        async with serving() as ledger:
            path = next(
                path
                for key, path in (
                    ("notes", "intents"),
                    ("settled", "intents/settled"),
                    ("changes", "foreign-writes"),
                    ("rescue", "rescues"),
                )
                if key in call
            )
            assert (await ledger.client.ask("POST", f"/v1/{path}", call)).status == 401

    asyncio.run(main())


@pytest.mark.parametrize(
    "query",
    ["require=all", "dirty=ignore", "dirty=rescue", "note=" + "n" * 2_001, "on_dirty=keep"],
)
def test_hostile_releases_are_400(serving: Any, query: str) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann = await ledger.agent("ann")
            lease = await claimed(ann, "x")
            reply = await ann.ask("DELETE", f"/v1/leases/{lease['lease']}?key=r&{query}")
            assert (reply.status, reply.code) == (400, "invalid")
            assert (await send(ann, api.lease(lease["lease"])))["state"] == "granted"

    asyncio.run(main())


@pytest.mark.parametrize("query", ["state=lost", "limit=0", "limit=10001", "path=x"])
def test_hostile_questions_are_400(serving: Any, query: str) -> None:
    async def main() -> None:
        async with serving() as ledger:
            assert (await ledger.client.ask("GET", f"/v1/intents?{query}")).status == 400

    asyncio.run(main())


def test_the_longest_batch_is_taken(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann = await ledger.agent("ann")
            lease = await claimed(ann, "**")
            notes = [note(lease, f"d{n % 70}/f{n}") for n in range(5_000)]
            answer = await send(ann, api.report_intents("t-1", notes, **TREE))
            assert answer["accepted"] == 5_000
            settled = [{"path": one["path"], "outcome": "clean"} for one in notes]
            assert (await send(ann, api.settle_intents("t-1", settled)))["ended"] == 5_000

    asyncio.run(main())
