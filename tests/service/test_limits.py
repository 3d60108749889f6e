"""No client takes all of a ledger: what it may have at once and how fast, and that nobody else pays for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.service.limits import HEARTBEATS, Limiter, Limits, client_of_address, limits_of
from leasefs.testing.asgi import AsgiClient

if TYPE_CHECKING:
    from collections.abc import Callable

BEAT = {"renew": [], "dropped": []}


def beat(agent: AsgiClient) -> Any:
    session = agent.credentials.partition(":")[0]
    return agent.ask("POST", f"/v1/sessions/{session}/heartbeat", BEAT)


def limited(serving: Any, scenario: Callable[[Any], Any], **limits: int) -> None:
    async def main() -> None:
        async with serving(limiter=Limiter(Limits(**limits))) as ledger:
            async with asyncio.timeout(60):
                await scenario(ledger)

    asyncio.run(main())


async def flood(client: AsgiClient, count: int) -> list[Any]:
    """So many claims at once."""
    asked = [
        client.ask("POST", "/v1/leases", {"key": f"k{number}", "globs": [f"d{number}/**"]})
        for number in range(count)
    ]
    return await asyncio.gather(*asked)


# -- how fast -----------------------------------------------------------------------------------


def test_who_asks_too_fast_is_told_how_long_to_wait(serving: Any) -> None:
    async def scenario(ledger: Any) -> None:
        ann = await ledger.agent("ann")
        replies = await flood(ann, 100)
        done = [reply for reply in replies if reply.status == 201]
        refused = [reply for reply in replies if reply.status == 429]
        # Forty at once, five more within the half second that a request may be held.
        assert 40 <= len(done) <= 50
        assert len(done) + len(refused) == 100
        for reply in refused:
            assert reply.code == "over-limit"
            assert int(reply.headers["retry-after"]) >= 1
            details = reply.json["error"]["details"]
            assert (details["limit"], details["client"]) == ("requests", "session session-ann")
            assert details["retry_after_s"] > 0
            assert "--limit" in reply.json["error"]["message"]
        assert len(ledger.writer.durable.leases) == len(done)

    limited(serving, scenario, requests=10)


def test_a_flood_costs_neither_another_client_nor_ones_own_heartbeats(serving: Any) -> None:
    async def scenario(ledger: Any) -> None:
        ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
        flooding = asyncio.create_task(flood(ann, 300))
        await asyncio.sleep(0)
        while not flooding.done():
            assert (await beat(ann)).status == 200
            assert (await bob.ask("GET", "/v1/leases")).status == 200
            await asyncio.sleep(0.05)
        assert any(reply.status == 429 for reply in await flooding)

    limited(serving, scenario, requests=20)


def test_heartbeats_have_a_bound_of_their_own_for_each_session(serving: Any) -> None:
    async def scenario(ledger: Any) -> None:
        ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
        replies = await asyncio.gather(*(beat(ann) for _ in range(int(HEARTBEATS.burst) + 50)))
        assert sum(reply.status == 429 for reply in replies) >= 30
        assert (await beat(bob)).status == 200
        assert (await ann.ask("GET", "/v1/leases")).status == 200

    limited(serving, scenario)


def test_without_a_limit_nothing_is_refused(serving: Any) -> None:
    async def scenario(ledger: Any) -> None:
        ann = await ledger.agent("ann")
        assert all(reply.status == 201 for reply in await flood(ann, 300))

    limited(serving, scenario, requests=0)


def test_local_processes_without_a_session_are_one_client_each(serving: Any) -> None:
    async def scenario(ledger: Any) -> None:
        mine, others = ledger.client, AsgiClient(ledger.app, pid=7)
        replies = await asyncio.gather(*(mine.ask("GET", "/v1/status") for _ in range(60)))
        assert any(reply.status == 429 for reply in replies)
        assert (await others.ask("GET", "/v1/status")).status == 200
        ann = await ledger.agent("ann")
        assert (await beat(ann)).status == 200

    limited(serving, scenario, requests=10)


# -- how much at once ---------------------------------------------------------------------------


def test_open_streams_and_long_polls_are_counted(serving: Any, until: Any) -> None:
    async def scenario(ledger: Any) -> None:
        ann, bob = await ledger.agent("ann"), await ledger.agent("bob")
        held = (await bob.ask("POST", "/v1/leases", {"key": "k", "globs": ["a"]})).json["lease"]
        wish = {"key": "k", "globs": ["a"], "wait": True}
        lease = (await ann.ask("POST", "/v1/leases", wish)).json["lease"]
        leave = asyncio.Event()
        following = asyncio.create_task(ann.ask("GET", "/v1/events?follow=1", stay=leave.wait))
        polling = asyncio.create_task(
            ann.ask("GET", f"/v1/leases/{lease}?wait_s=60", stay=leave.wait)
        )
        await until(lambda: ledger.hub._of_all and ledger.hub._waiting)
        one_more = await ann.ask("GET", "/v1/events?follow=1")
        assert (one_more.status, one_more.code) == (429, "over-limit")
        assert one_more.json["error"]["details"]["limit"] == "streams"
        assert (await ann.ask("GET", f"/v1/leases/{lease}?wait_s=60")).status == 429
        assert (await ann.ask("GET", f"/v1/leases/{lease}")).status == 200
        others = asyncio.create_task(bob.ask("GET", "/v1/events?follow=1", stay=leave.wait))
        await bob.ask("DELETE", f"/v1/leases/{held}?key=r")
        assert (await polling).status == 200
        again = asyncio.create_task(ann.ask("GET", "/v1/events?follow=1", stay=leave.wait))
        await until(lambda: len(ledger.hub._of_all) == 3)
        leave.set()
        assert {reply.status for reply in await asyncio.gather(following, others, again)} == {200}

    limited(serving, scenario, streams=2)


def test_waiting_claims_are_counted_and_a_repeated_one_is_not_another(serving: Any) -> None:
    async def scenario(ledger: Any) -> None:
        ann, bob, cy = [await ledger.agent(name) for name in ("ann", "bob", "cy")]
        assert (await bob.ask("POST", "/v1/leases", {"key": "k", "globs": ["**"]})).status == 201

        def wait(who: AsgiClient, key: str) -> Any:
            return who.ask("POST", "/v1/leases", {"key": key, "globs": [f"{key}/**"], "wait": True})

        assert [(await wait(ann, key)).status for key in ("a", "b")] == [202, 202]
        refused = await wait(ann, "c")
        assert (refused.status, refused.code) == (409, "over-cap")
        assert refused.json["error"]["details"]["limit"] == "waiting"
        assert (await wait(ann, "a")).status == 202
        assert (await wait(cy, "d")).status == 202
        batch = {"requests": [{"op": "claim", "key": "e", "globs": ["e"], "wait": True}]}
        answers = (await ann.ask("POST", "/v1/batch", batch)).json["answers"]
        assert [answer["status"] for answer in answers] == [409]
        first = (await wait(ann, "a")).json["lease"]
        assert (await ann.ask("DELETE", f"/v1/leases/{first}?key=r")).status == 200
        assert (await wait(ann, "c")).status == 202

    limited(serving, scenario, waiting=2)


def test_claims_that_need_not_wait_are_not_counted(serving: Any) -> None:
    async def scenario(ledger: Any) -> None:
        ann = await ledger.agent("ann")
        for number in range(5):
            wish = {"key": f"k{number}", "globs": [f"d{number}"], "wait": True}
            assert (await ann.ask("POST", "/v1/leases", wish)).status == 201

    limited(serving, scenario, waiting=1)


# -- the limiter itself -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.7", "address 192.0.2.7"),
        ("::ffff:192.0.2.7", "address 192.0.2.7"),
        ("2001:db8:1:2::7", "address 2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::7", "address 2001:db8:1:2::/64"),
        ("fe80::1%eth0", "address fe80::/64"),
        ("::1", "address ::/64"),
    ],
)
def test_what_is_one_address(address: str, client: str) -> None:
    assert client_of_address(address) == client


def test_limits_are_named() -> None:
    assert limits_of([]) == Limits()
    found = limits_of(["requests=0", "streams=7", "requests=5"], Limits(waiting=3))
    assert found == Limits(requests=5, streams=7, waiting=3)


@pytest.mark.parametrize(
    "text",
    ["", "requests", "requests=", "requests=-1", "requests=1.5", "x=1", "streams=9999999999"],
)
def test_what_is_no_limit(text: str) -> None:
    with pytest.raises(ValueError, match="limit"):
        limits_of([text])


def test_a_place_is_left_once() -> None:
    limiter = Limiter(Limits(connections=2))
    places = [limiter.enter("a"), limiter.enter("a")]
    assert limiter.enter("a") is None
    assert limiter.enter("b") is not None
    for place in places:
        assert place is not None
        place.leave()
        place.leave()
    assert limiter.enter("a") is not None
    assert limiter.enter("a") is not None
    assert limiter.enter("a") is None
    refused = {
        dict(sample.labels)["limit"]: sample.value
        for family in limiter.families()
        for sample in family.samples
    }
    assert refused["connections"] == 2


def test_who_owns_the_ledger_is_counted_and_not_refused() -> None:
    limiter = Limiter(Limits(connections=1))
    places = [limiter.enter("a", owner=True) for _ in range(5)]
    assert None not in places
    assert limiter.enter("a") is None
