"""The API as a caller sees it, without sockets."""

from __future__ import annotations

import asyncio
import os
import pwd
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core import errors
from leasefs.service.errors_http import STATUS
from leasefs.store.errors import StoreCorrupt, StoreFull
from leasefs.store.memory import MemoryStore

if TYPE_CHECKING:
    from leasefs.testing.asgi import AsgiClient


def _claim(glob: str = "src/**", key: str = "k", **fields: object) -> Any:
    return {"key": key, "globs": [glob], **fields}


def test_claim_look_release(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            agent = await ledger.agent("ann")
            granted = await agent.ask("POST", "/v1/leases", _claim(note="why"))
            assert granted.status == 201
            lease = granted.json["lease"]
            assert granted.json["state"] == "granted"
            assert granted.json["token"] > 0
            assert (await agent.ask("GET", f"/v1/leases/{lease}")).json["note"] == "why"
            listed = (await agent.ask("GET", "/v1/leases?territory=t")).json["leases"]
            assert [item["lease"] for item in listed] == [lease]
            assert (await agent.ask("GET", "/v1/leases?territory=other")).json == {"leases": []}
            who = (await agent.ask("GET", "/v1/who?territory=t&path=src/a/b")).json["leases"]
            assert [item["agent"] for item in who] == ["ann"]
            released = await agent.ask("DELETE", f"/v1/leases/{lease}?key=r")
            assert (released.status, released.json["state"]) == (200, "ended")
            assert (await agent.ask("GET", f"/v1/leases/{lease}")).json["state"] == "ended"

    asyncio.run(main())


def test_sent_twice_it_acts_once_and_answers_the_same(serving: Any) -> None:
    """P6."""

    async def main() -> None:
        async with serving() as ledger:
            agent = await ledger.agent("ann")
            assert (await ledger.agent("ann")).credentials == agent.credentials
            first = await agent.ask("POST", "/v1/leases", _claim())
            assert (await agent.ask("POST", "/v1/leases", _claim())).body == first.body
            reused = await agent.ask("POST", "/v1/leases", _claim("other/**"))
            assert (reused.status, reused.code) == (400, "key-reused")
            for _ in range(2):
                reply = await agent.ask("DELETE", "/v1/leases/L2?key=r")
                assert (reply.status, reply.json["state"]) == (200, "ended")
            assert ledger.writer.durable.seq == 3

    asyncio.run(main())


def test_a_conflict_says_who_holds_what_and_until_when(serving: Any) -> None:
    """P10."""

    async def main() -> None:
        async with serving() as ledger:
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            await ann.ask("POST", "/v1/leases", _claim(ttl_s=600))
            refused = await bob.ask("POST", "/v1/leases", _claim("src/x.py"))
            assert (refused.status, refused.code) == (409, "conflict")
            assert "held by ann" in refused.json["error"]["message"]
            assert refused.json["error"]["details"]["blockers"][0]["witness"] == "src/x.py"
            waiting = await bob.ask("POST", "/v1/leases", _claim("src/x.py", "k2", wait=True))
            assert (waiting.status, waiting.json["state"]) == (202, "waiting")
            assert waiting.json["position"] == 1
            queue = (await ann.ask("GET", "/v1/queue?territory=t")).json["waiters"]
            assert [item["lease"] for item in queue] == [waiting.json["lease"]]
            cycle = await ann.ask("POST", "/v1/leases", _claim("src/y", "k3"))
            assert cycle.status == 201

    asyncio.run(main())


def test_a_deadlock_is_refused(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            await ann.ask("POST", "/v1/leases", _claim("a/**"))
            await bob.ask("POST", "/v1/leases", _claim("b/**"))
            waits = await ann.ask("POST", "/v1/leases", _claim("b/x", "k2", wait=True))
            assert waits.status == 202
            closed = await bob.ask("POST", "/v1/leases", _claim("a/x", "k2", wait=True))
            assert (closed.status, closed.code) == (409, "deadlock")

    asyncio.run(main())


def test_a_long_poll_is_answered_by_the_grant(serving: Any, until: Any) -> None:
    """P7: a release reaches the next waiter by push."""

    async def main() -> None:
        async with serving() as ledger:
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            held = (await ann.ask("POST", "/v1/leases", _claim())).json["lease"]
            waits = (await bob.ask("POST", "/v1/leases", _claim(wait=True))).json["lease"]
            polls = [
                asyncio.create_task(_patient(bob, f"/v1/leases/{waits}?wait_s=300"))
                for _ in range(3)
            ]
            await until(lambda: ledger.hub._waiting)
            await ann.ask("DELETE", f"/v1/leases/{held}?key=r")
            async with asyncio.timeout(10):
                for poll in polls:
                    status, body = await poll
                    assert (status, body["state"]) == (200, "granted")
            assert ledger.hub._waiting == {}

    asyncio.run(main())


def test_a_long_poll_ends_in_time_and_when_its_caller_leaves(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            await ann.ask("POST", "/v1/leases", _claim())
            waits = (await bob.ask("POST", "/v1/leases", _claim(wait=True))).json["lease"]
            async with asyncio.timeout(10):
                _, body = await _patient(bob, f"/v1/leases/{waits}?wait_s=0.01")
                assert body["state"] == "waiting"
                # AsgiClient's caller hangs up as soon as its request is read.
                with pytest.raises(IndexError):
                    await bob.ask("GET", f"/v1/leases/{waits}?wait_s=300")
            assert ledger.hub._waiting == {}

    asyncio.run(main())


async def _patient(client: AsgiClient, path: str) -> Any:
    """Ask, and stay on the line."""
    reply = await client.ask("GET", path, stay=asyncio.Event().wait)
    return reply.status, reply.json


def test_heartbeat_renews_and_tells_what_is_lost(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            kept = (await ann.ask("POST", "/v1/leases", _claim("a/**", ttl_s=10))).json
            lost = (await ann.ask("POST", "/v1/leases", _claim("b/**", "k2", ttl_s=10))).json
            ledger.clock.advance(11)
            await ledger.timers.look()
            assert (await bob.ask("POST", "/v1/leases", _claim("b/**"))).status == 201
            beat = {
                "renew": [
                    {"lease": item["lease"], "token": item["token"], "kept_by": ["1 vi a/x"]}
                    for item in (kept, lost)
                ]
            }
            answer = await ann.ask("POST", "/v1/sessions/session-ann/heartbeat", beat)
            assert answer.json["renewed"] == [
                {"lease": kept["lease"], "token": kept["token"], "ttl_s": 10.0}
            ]
            assert answer.json["lost"][0]["lease"] == lost["lease"]
            assert "taken by bob" in answer.json["lost"][0]["reason"]
            seen = (await bob.ask("GET", f"/v1/leases/{kept['lease']}")).json
            assert seen["kept_by"] == ["1 vi a/x"]

    asyncio.run(main())


def test_revocation_names_the_operator(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann = await ledger.agent("ann")
            lease = (await ann.ask("POST", "/v1/leases", _claim())).json["lease"]
            path = f"/v1/leases/{lease}/revoke"
            revoked = await ledger.client.ask("POST", path, {"by": "release manager"})
            assert (revoked.status, revoked.json["state"]) == (200, "revoked")
            page = (await ann.ask("GET", "/v1/events?types=revoked")).json
            assert (
                page["events"][0]["event"]["by"]
                == f"{pwd.getpwuid(os.geteuid()).pw_name} (release manager)"
            )
            assert page["events"][0]["session"] == "session-ann"
            assert (await ledger.client.ask("POST", path)).status == 200
            gone = await ledger.client.ask("POST", "/v1/leases/L999/revoke", {})
            assert (gone.status, gone.code) == (404, "unknown-lease")

    asyncio.run(main())


def test_refusals_go_into_the_history(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann = await ledger.agent("ann")
            refusal = {
                "path": "caf\udce9",
                "op": "open",
                "reason": "not-leased",
                "errno": "EACCES",
                "pid": 7,
                "program": "sed",
                "wall_s": 1.5,
            }
            reply = await ann.ask("POST", "/v1/refusals", {"refusals": [refusal]})
            assert reply.json == {"ok": True}
            page = (await ann.ask("GET", "/v1/events?types=writes-refused")).json
            assert page["events"][0]["event"]["refusals"] == [{**refusal, "observed": False}]
            assert page["events"][0]["territory"] == "t"

    asyncio.run(main())


def test_a_batch_decides_each_alone_and_commits_once(serving: Any) -> None:
    class Counting(MemoryStore):
        appends = 0

        def append(self, after_seq: int, data: Any) -> Any:
            self.appends += 1
            return super().append(after_seq, data)

    async def main() -> None:
        store = Counting()
        async with serving(store) as ledger:
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            await bob.ask("POST", "/v1/leases", _claim("taken/**"))
            before = store.appends
            requests = [
                {"op": "claim", **_claim("a/**", "k1")},
                {"op": "claim", **_claim("taken/x", "k2")},
                {"op": "claim", **_claim("taken/x", "k3", wait=True)},
                {"op": "claim", **_claim("../x", "k4")},
                {"op": "release", "lease": "L4", "key": "k5"},
                {"op": "release", "lease": "L999", "key": "k6"},
            ]
            reply = await ann.ask("POST", "/v1/batch", {"requests": requests})
            statuses = [item["status"] for item in reply.json["answers"]]
            assert statuses == [201, 409, 202, 400, 200, 404]
            assert reply.json["answers"][1]["body"]["error"]["code"] == "conflict"
            assert store.appends == before + 1
            assert (await ann.ask("POST", "/v1/batch", {"requests": []})).json == {"answers": []}

    asyncio.run(main())


def test_names_that_are_not_utf8_go_through(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            granted = await ann.ask("POST", "/v1/leases", _claim("caf\udce9/**"))
            assert granted.json["globs"] == ["caf\udce9/**"]
            assert b"\\udce9" in granted.body
            who = (await bob.ask("GET", "/v1/who?territory=t&path=caf%E9/x")).json["leases"]
            assert [item["lease"] for item in who] == [granted.json["lease"]]
            refused = await bob.ask("POST", "/v1/leases", _claim("caf\udce9/menu"))
            assert refused.json["error"]["details"]["blockers"][0]["glob"] == "caf\udce9/**"
            events = (await bob.ask("GET", "/v1/events?types=granted")).json["events"]
            assert events[0]["event"]["claim"]["globs"] == ["caf\udce9/**"]

    asyncio.run(main())


def test_status_counts(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            await ann.ask("POST", "/v1/leases", _claim(ttl_s=5))
            await ann.ask("POST", "/v1/leases", _claim("docs/**", "k2", ttl_s=500))
            await bob.ask("POST", "/v1/leases", _claim("docs/x", wait=True))
            ledger.clock.advance(95)
            status = (await bob.ask("GET", "/v1/status")).json
            counts = {
                name: status[name]
                for name in ("sessions", "live_sessions", "leases", "lapsed", "waiters")
            }
            assert counts == {
                "sessions": 2,
                "live_sessions": 0,
                "leases": 2,
                "lapsed": 1,
                "waiters": 1,
            }
            assert (status["protocol"], status["started_ago_s"]) == ("1.0", 95.0)
            assert status["territories"] == ["t"]
            health = await bob.ask("GET", "/healthz")
            assert (health.status, health.body) == (200, b"ok\n")

    asyncio.run(main())


def test_a_store_that_cannot_write_or_read_is_503(serving: Any) -> None:
    class Broken(MemoryStore):
        writing = reading = None

        def append(self, after_seq: int, data: Any) -> Any:
            if self.writing:
                raise self.writing
            return super().append(after_seq, data)

        def read(self, after_seq: int, limit: int) -> Any:
            if self.reading:
                raise self.reading
            return super().read(after_seq, limit)

    async def main() -> None:
        store = Broken()
        async with serving(store) as ledger:
            ann = await ledger.agent("ann")
            store.writing = StoreFull("/ledger")
            store.reading = StoreCorrupt("/ledger", "event 1 is missing")
            full = await ann.ask("POST", "/v1/leases", _claim())
            assert (full.status, full.code) == (503, "unavailable")
            assert "free space" in full.json["error"]["message"]
            batch = {"requests": [{"op": "claim", **_claim()}]}
            assert (await ann.ask("POST", "/v1/batch", batch)).json["answers"][0]["status"] == 503
            unreadable = await ann.ask("GET", "/v1/events")
            assert (unreadable.status, unreadable.code) == (503, "unavailable")
            assert (await ann.ask("GET", "/v1/leases")).json == {"leases": []}
            store.writing = store.reading = None
            assert (await ann.ask("POST", "/v1/leases", _claim())).status == 201

    asyncio.run(main())


def test_a_bug_of_ours_is_500_and_in_the_log(
    serving: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ledger.app._ledger = None
            assert (await ledger.client.ask("GET", "/healthz")).status == 500

    asyncio.run(main())
    assert "failed" in caplog.text


def test_every_code_has_a_status() -> None:
    def below(cls: Any) -> Any:
        return {cls, *(found for sub in cls.__subclasses__() for found in below(sub))}

    codes = {cls.code for cls in below(errors.LeasefsError) if cls.__module__ == errors.__name__}
    assert codes == set(STATUS)
    assert all(400 <= status < 600 for status in STATUS.values())
