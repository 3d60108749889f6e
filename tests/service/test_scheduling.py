"""Recall, delegation, regions, admission and freezes as a caller sees them, without sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leasefs.client import api, api_scheduling
from leasefs.testing.asgi import AsgiClient


async def _send(caller: AsgiClient, call: api.Call) -> api.Body:
    reply = await caller.ask(call.method, call.path, call.body)
    return api.answer(call, reply.status, reply.body)


async def _refused(caller: AsgiClient, call: api.Call) -> tuple[int, str]:
    reply = await caller.ask(call.method, call.path, call.body)
    return reply.status, reply.code


async def _wait(caller: AsgiClient, lease: str) -> Any:
    return await _send(caller, api.lease(lease))


def test_a_release_grants_the_next_waiter_in_the_same_append_and_tells_it_by_push(
    serving: Any, until: Any
) -> None:
    """P7: on release the next waiter is granted in the same decision, and told what the holder left."""

    async def main() -> None:
        async with serving() as ledger:
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            held = await _send(ann, api.claim(["src/**"], key="k"))
            waits = await _send(bob, api.claim(["src/a"], key="k", wait=True))
            appends: list[list[str]] = []
            ledger.writer.listen(
                lambda records, state: appends.append([record.type for record in records])
            )
            path = f"/v1/leases/{waits['lease']}?wait_s=300"
            poll = asyncio.create_task(bob.ask("GET", path, stay=asyncio.Event().wait))
            await until(lambda: ledger.hub._waiting)
            await _send(ann, api.release(held["lease"], key="r", commit="c0ffee"))
            async with asyncio.timeout(10):
                body = (await poll).json
            assert appends == [["released", "granted"]]
            assert body["state"] == "granted"
            note = body["inherits"]["note"]
            assert (note["agent"], note["text"], note["commit"]) == ("ann", "", "c0ffee")

    asyncio.run(main())


def test_a_claim_that_recalls_and_the_ground_that_comes_back(serving: Any) -> None:
    """P7: the recalled holder yields, the higher claim is served, and the ground comes back by itself."""

    async def main() -> None:
        async with serving() as ledger:
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            held = (await _send(bob, api.claim(["src/**"], key="k")))["lease"]
            wish = api.claim(["src/a"], key="k", wait=True, priority=20, recall_within_s=30.0)
            waits = await _send(ann, wish)
            assert waits["state"] == "waiting"
            assert waits["waits_for"][0]["yields_in_s"] == 30.0
            recall = (await _wait(bob, held))["recall"]
            assert (recall["by"], recall["yields_in_s"], recall["cold"]) == ("ann", 30.0, False)
            beat = {"lease": held, "token": 0}
            beat["token"] = (await _wait(bob, held))["token"]
            renewed = (await _send(bob, api.heartbeat("session-bob", [beat])))["renewed"]
            assert renewed[0]["recall"]["by"] == "ann"
            wish = api_scheduling.more_time(held, 10.0, key="m")
            more = await _send(bob, wish)
            assert (more["recall"]["yields_in_s"], more["recall"]["may_ask_for_s"]) == (40.0, 0.0)
            again = await _send(bob, wish)
            assert again["recall"] == more["recall"], "sent twice it acts once (P6)"
            other = api_scheduling.more_time(held, 20.0, key="m")
            assert (await _refused(bob, other))[1] == "key-reused"
            twice = api_scheduling.more_time(held, 10.0, key="n")
            assert (await _refused(bob, twice))[1] == "invalid"
            await _send(bob, api.release(held, key="r", again=True))
            assert (await _wait(ann, waits["lease"]))["state"] == "granted"
            (back,) = (await _send(bob, api.queue()))["waiters"]
            assert (back["agent"], back["resumes"]) == ("bob", held)
            await _send(ann, api.release(waits["lease"], key="r"))
            assert (await _wait(bob, back["lease"]))["state"] == "granted"

    asyncio.run(main())


def test_a_recall_that_is_not_answered_is_a_revocation_at_its_deadline(serving: Any) -> None:
    """P7, with nobody but the timers to act; the ground opens when its holder drops it (P3)."""

    async def main() -> None:
        async with serving() as ledger:
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob", kind="mount")
            held = (await _send(bob, api.claim(["src/**"], key="k")))["lease"]
            wish = api.claim(["src/a"], key="k", wait=True, priority=20, recall_within_s=30.0)
            waits = (await _send(ann, wish))["lease"]
            ledger.clock.advance(29.9)
            await ledger.timers.look()
            assert (await _wait(bob, held))["state"] == "granted"
            ledger.clock.advance(0.2)
            await ledger.timers.look()
            assert (await _wait(bob, held))["state"] == "revoked"
            assert (await _wait(ann, waits))["state"] == "waiting"
            await _send(bob, api.heartbeat("session-bob", dropped=[held]))
            assert (await _wait(ann, waits))["state"] == "granted"
            (back,) = (await _send(bob, api.queue()))["waiters"]
            assert back["resumes"] == held

    asyncio.run(main())


def test_equal_priority_never_recalls_and_a_recall_without_waiting_is_no_claim(
    serving: Any,
) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            held = (await _send(bob, api.claim(["src/**"], key="k")))["lease"]
            await _send(ann, api.claim(["src/a"], key="k", wait=True, recall_within_s=0.0))
            assert (await _wait(bob, held))["recall"] is None
            hasty = api.claim(["src/a"], key="k2", priority=20, recall_within_s=0.0)
            assert await _refused(ann, hasty) == (400, "invalid")

    asyncio.run(main())


def test_regions_are_claimed_all_or_none(serving: Any) -> None:
    """P6."""

    async def main() -> None:
        async with serving() as ledger:
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            await _send(bob, api.claim(["docs/**"], key="k"))
            both = [{"globs": ["src/**"], "note": "n"}, {"globs": ["docs/a"]}]
            assert (await _refused(ann, api_scheduling.claim_regions(both, key="k")))[0] == 409
            assert len(ledger.writer.durable.leases) == 1
            apart = [{"globs": ["src/**"], "note": "n"}, {"globs": ["lib/**"]}]
            call = api_scheduling.claim_regions(apart, key="k2", ttl_s=60.0)
            first = (await _send(ann, call))["leases"]
            assert [one["globs"] for one in first] == [["src/**"], ["lib/**"]]
            assert (await _send(ann, call))["leases"] == first
            overlapping = [{"globs": ["x/**"]}, {"globs": ["x/a"]}]
            again = api_scheduling.claim_regions(overlapping, key="k3")
            assert await _refused(ann, again) == (400, "invalid")

    asyncio.run(main())


def test_a_part_is_delegated_recalled_and_returns(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            held = (await _send(ann, api.claim(["src/**"], key="k")))["lease"]
            wider = api_scheduling.delegate(held, ["docs/a"], to="bob", key="d0")
            assert await _refused(ann, wider) == (400, "not-contained")
            part = await _send(ann, api_scheduling.delegate(held, ["src/t/**"], to="bob", key="d"))
            assert (part["agent"], part["parent"], part["state"]) == ("bob", held, "granted")
            assert (await _wait(ann, held))["delegated"] == ["src/t/**"]
            theirs = api_scheduling.recall(held, within_s=5.0)
            assert await _refused(bob, theirs) == (403, "not-holder")
            own = api_scheduling.recall(part["lease"], within_s=5.0)
            assert (await _send(ann, own))["recall"]["by"] == "ann"
            await _send(bob, api.release(part["lease"], key="r"))
            assert (await _wait(ann, held))["delegated"] == []

    asyncio.run(main())


def test_an_operator_recalls_by_their_uid_and_says_on_whose_behalf(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            bob = await ledger.agent("bob")
            held = (await _send(bob, api.claim(["src/**"], key="k")))["lease"]
            call = api_scheduling.recall(held, within_s=5.0, reason="the release", by="ann")
            recall = (await _send(ledger.client, call))["recall"]
            assert recall["by"].endswith(" (ann)")
            assert recall["reason"] == "the release"
            liar = AsgiClient(ledger.app, credentials="session-bob:" + "y" * 40)
            assert await _refused(liar, call) == (403, "denied")

    asyncio.run(main())


def test_shared_to_exclusive_and_back(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            mine = await _send(ann, api.claim(["src/**"], key="k", shared=True))
            theirs = await _send(bob, api.claim(["src/**"], key="k", shared=True))
            wish = api.claim(["src/**"], key="u", wait=True, replaces=mine["lease"])
            waits = await _send(ann, wish)
            assert (waits["state"], waits["replaces"]) == ("waiting", mine["lease"])
            both = api.claim(["src/**"], key="u", wait=True, replaces=theirs["lease"])
            assert await _refused(bob, both) == (409, "deadlock")
            await _send(bob, api.release(theirs["lease"], key="r"))
            upgraded = await _wait(ann, waits["lease"])
            assert (upgraded["state"], upgraded["mode"]) == ("granted", "exclusive")
            assert (await _wait(ann, mine["lease"]))["state"] == "ended"
            down = await _send(ann, api_scheduling.downgrade(upgraded["lease"], key="d"))
            assert (down["lease"], down["mode"]) == (upgraded["lease"], "shared")
            assert down["token"] > upgraded["token"]

    asyncio.run(main())


def test_admission_holds_back_and_caps_and_says_so(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
            limits = {"max_exclusive": 1, "max_share": 0.5, "reason": "CI is red"}
            said = await _send(
                ledger.client, api_scheduling.set_admission("t", limits, key="a", by="ann")
            )
            assert said["admission"]["by"].endswith(" (ann)")
            unsaid = api.claim(["a/**"], key="k")
            reply = await ann.ask(unsaid.method, unsaid.path, unsaid.body)
            assert (reply.status, reply.code) == (409, "over-cap")
            assert reply.json["error"]["details"]["needs"] == "share"
            assert (await _refused(ann, api.claim(["a/**"], key="k", share=0.6)))[1] == "over-cap"
            held = await _send(ann, api.claim(["a/**"], key="k", share=0.1))
            waits = await _send(bob, api.claim(["b/**"], key="k", share=0.1, wait=True))
            (blocker,) = waits["waits_for"]
            assert (blocker["kind"], "CI is red" in blocker["reason"]) == ("admission", True)
            assert (await _send(bob, api_scheduling.admission("t")))["waiting"] == 1
            await _send(ann, api.release(held["lease"], key="r"))
            assert (await _wait(bob, waits["lease"]))["state"] == "granted"
            await _send(ledger.client, api_scheduling.set_admission("t", {}, key="c"))
            assert (await _send(ann, api.claim(["c/**"], key="k2")))["state"] == "granted"

    asyncio.run(main())


@pytest.mark.parametrize(
    "limits",
    [{"max_exclusive": -1}, {"max_share": 1.5}, {"max_hold_s": 0.0}, {"max_leases": "2"}, {"a": 1}],
)
def test_limits_that_make_no_sense_are_refused(serving: Any, limits: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            call = api_scheduling.set_admission("t", limits, key="a")
            assert await _refused(ledger.client, call) == (400, "invalid")

    asyncio.run(main())


def test_the_cap_on_how_long_a_lease_is_held_recalls_it_unless_an_operator_says_otherwise(
    serving: Any,
) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann = await ledger.agent("ann")
            one = (await _send(ann, api.claim(["a/**"], key="a")))["lease"]
            two = (await _send(ann, api.claim(["b/**"], key="b")))["lease"]
            # Set when the leases are held already: their timers must hear of it.
            limits = api_scheduling.set_admission("t", {"max_hold_s": 60.0}, key="a")
            await _send(ledger.client, limits)
            held = await _send(ledger.client, api_scheduling.hold(two, 3600.0, key="h", by="ann"))
            assert held["hold_ends_in_s"] == 3600.0
            ledger.clock.advance(61.0)
            await ledger.timers.look()
            assert (await _wait(ann, one))["recall"]["by"] == "admission"
            assert (await _wait(ann, two))["recall"] is None

    asyncio.run(main())


def test_a_freeze_waits_for_who_writes_and_lets_nobody_write_until_it_is_lifted(
    serving: Any,
) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann = await ledger.agent("ann")
            held = (await _send(ann, api.claim(["src/**"], key="k")))["lease"]
            call = api_scheduling.freeze(
                ["src/big.py"], territory="t", key="f", reason="split it", within_s=5.0, by="bob"
            )
            frozen = await _send(ledger.client, call)
            assert frozen["state"] == "waiting"
            assert (await _wait(ann, held))["recall"]["yields_in_s"] == 5.0
            await _send(ann, api.release(held, key="r", again=True))
            assert (await _send(ledger.client, call))["state"] == "granted"
            (listed,) = (await _send(ann, api_scheduling.freezes("t")))["freezes"]
            assert (listed["lease"], listed["note"]) == (frozen["lease"], "split it")
            assert (await _send(ann, api_scheduling.freezes("other")))["freezes"] == []
            refused = api.claim(["src/big.py"], key="k2")
            reply = await ann.ask(refused.method, refused.path, refused.body)
            assert "split it" in reply.json["error"]["message"]
            await _send(ledger.client, api_scheduling.unfreeze(frozen["lease"], key="u"))
            (back,) = (await _send(ann, api.leases("t")))["leases"]
            assert back["resumes"] == held

    asyncio.run(main())


def test_a_freeze_ends_by_itself_when_its_time_is_over(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann = await ledger.agent("ann")
            call = api_scheduling.freeze(["src/**"], territory="t", key="f", reason="r", ttl_s=60.0)
            await _send(ledger.client, call)
            waits = (await _send(ann, api.claim(["src/a"], key="k", wait=True)))["lease"]
            ledger.clock.advance(61.0)
            await ledger.timers.look()
            assert (await _wait(ann, waits))["state"] == "granted"

    asyncio.run(main())
