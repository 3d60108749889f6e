"""GET /metrics: what happened is counted once, from the durable events, and how things stand is read from the state."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from leasefs.core.policy import Reason
from leasefs.store.errors import StoreFull
from leasefs.store.memory import MemoryStore

Numbers = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def numbers(client: Any) -> Numbers:
    reply = await client.ask("GET", "/metrics")
    assert reply.status == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(reply.body.decode())
        for sample in family.samples
    }


def of(found: Numbers, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def claim(key: str, *globs: str, **fields: object) -> dict[str, object]:
    return {"key": key, "globs": list(globs), **fields}


def test_grants_waits_refusals_and_ends(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ada, bob = await ledger.agent("ada"), await ledger.agent("bob")
            lease = (await ada.ask("POST", "/v1/leases", claim("1", "src/**"))).json
            ledger.clock.advance(5)
            refused = await bob.ask("POST", "/v1/leases", claim("2", "src/x"))
            assert refused.status == 409
            waits = await bob.ask("POST", "/v1/leases", claim("3", "src/x", wait=True))
            assert waits.status == 202
            ledger.clock.advance(40)
            found = await numbers(ledger.client)
            assert of(found, "leasefs_leases", mode="exclusive", state="granted") == 1
            assert of(found, "leasefs_waiting_claims") == 1
            assert of(found, "leasefs_longest_wait_seconds") == 40
            assert of(found, "leasefs_claims_refused_total", code="conflict") == 1
            assert of(found, "leasefs_claims_queued_total") == 1
            assert of(found, "leasefs_claim_wait_seconds_bucket", le="0.1") == 1
            assert of(found, "leasefs_sessions", kind="shell", state="live") == 2
            await ada.ask("DELETE", f"/v1/leases/{lease['lease']}?key=4")
            found = await numbers(ledger.client)
            assert of(found, "leasefs_grants_total") == 2
            assert of(found, "leasefs_releases_total") == 1
            assert of(found, "leasefs_waiting_claims") == 0
            assert of(found, "leasefs_longest_wait_seconds") == 0
            assert of(found, "leasefs_claim_wait_seconds_sum") == 40
            assert of(found, "leasefs_claim_wait_seconds_bucket", le="60") == 2
            assert of(found, "leasefs_events_total", type="granted") == 2
            assert of(found, "leasefs_last_event") == ledger.writer.durable.seq

    asyncio.run(main())


def test_lapses_revocations_and_sessions_that_fall_silent(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ada = await ledger.agent("ada")
            for key in ("1", "2"):
                body = claim(key, f"{key}/**", ttl_s=60)
                lease = (await ada.ask("POST", "/v1/leases", body)).json
            await ledger.client.ask("POST", f"/v1/leases/{lease['lease']}/revoke", {})
            found = await numbers(ledger.client)
            assert of(found, "leasefs_leases", mode="exclusive", state="revoked") == 1
            ledger.clock.advance(100)
            await ledger.timers.look()
            found = await numbers(ledger.client)
            assert of(found, "leasefs_revocations_total", cause="operator") == 1
            assert of(found, "leasefs_revocations_total", cause="recall") == 0
            assert of(found, "leasefs_lapses_total") == 1
            assert of(found, "leasefs_leases", mode="exclusive", state="lapsed") == 1
            assert of(found, "leasefs_expiries_total") == 1
            assert of(found, "leasefs_sessions", kind="shell", state="silent") == 1

    asyncio.run(main())


def test_what_a_caller_says_makes_no_new_names(serving: Any) -> None:
    """A label has few values, whatever agents, mounts and attackers send."""

    async def main() -> None:
        async with serving() as ledger:
            ada = await ledger.agent("ada")
            refusals = [
                {
                    "path": f"p{number}",
                    "op": "write",
                    "reason": reason,
                    "errno": "EACCES",
                    "pid": 1,
                    "program": "vi",
                    "wall_s": 1.0,
                }
                for number, reason in enumerate([Reason.NOT_LEASED.value, *map(str, range(50))])
            ]
            told = await ada.ask("POST", "/v1/refusals", {"refusals": refusals})
            assert told.status == 200, told.body
            for number in range(50):
                await ledger.client.ask(f"METHOD{number}", f"/nowhere/{number}")
                await ledger.client.ask("GET", f"/v1/leases/L{number}")
            found = await numbers(ledger.client)
            name = "leasefs_writes_refused_total"
            assert of(found, name, reason="not-leased", observed="no") == 1
            assert of(found, name, reason="other", observed="no") == 50
            assert sum(key == name for key, _ in found) == 2
            name = "leasefs_http_requests_total"
            assert of(found, name, method="other", route="none", status="404") == 50
            assert of(found, name, method="GET", route="/v1/leases/{lease}", status="200") == 50
            assert sum(key == name for key, _ in found) < 10
            assert not any("ada" in value for _, labels in found for _, value in labels)

    asyncio.run(main())


def test_appends_and_their_failures(serving: Any) -> None:
    class FullStore(MemoryStore):
        full = False

        def append(self, after_seq: int, data: Any) -> int:
            if self.full:
                raise StoreFull("/store")
            return super().append(after_seq, data)

    async def main() -> None:
        store = FullStore()
        async with serving(store) as ledger:
            ada = await ledger.agent("ada")
            store.full = True
            assert (await ada.ask("POST", "/v1/leases", claim("1", "a"))).status == 503
            store.full = False
            assert (await ada.ask("POST", "/v1/leases", claim("2", "a"))).status == 201
            found = await numbers(ledger.client)
            assert of(found, "leasefs_store_append_failures_total", why="full") == 1
            assert of(found, "leasefs_store_append_failures_total", why="other") == 0
            assert of(found, "leasefs_store_append_seconds_count") == 2
            assert of(found, "leasefs_store_append_events_sum") == ledger.writer.durable.seq
            assert of(found, "leasefs_grants_total") == 1

    asyncio.run(main())


def test_event_streams_are_counted_while_they_are_followed(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            during: list[float] = []

            async def stay() -> None:
                during.append(of(await numbers(ledger.client), "leasefs_event_streams"))

            streaming = {"accept": "text/event-stream"}
            followed = await ledger.client.ask("GET", "/v1/events", headers=streaming, stay=stay)
            assert followed.status == 200
            assert during == [1]
            found = await numbers(ledger.client)
            assert of(found, "leasefs_event_streams") == 0
            route = {"method": "GET", "route": "/v1/events", "status": "200"}
            assert of(found, "leasefs_http_requests_total", **route) == 1
            # How long somebody follows is no time that a request took.
            took = ("leasefs_http_request_seconds_count", frozenset({("route", "/v1/events")}))
            assert took not in found

    asyncio.run(main())


@pytest.mark.parametrize("path", ["/metrics", "/healthz"])
def test_both_are_described(serving: Any, path: str) -> None:
    async def main() -> None:
        async with serving() as ledger:
            described = (await ledger.client.ask("GET", "/openapi.json")).json
            assert "text/plain" in described["paths"][path]["get"]["responses"]["200"]["content"]

    asyncio.run(main())
