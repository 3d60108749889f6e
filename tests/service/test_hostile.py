"""Whatever a client sends is answered with 4xx and a reason, and changes nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasefs.service.app import ROUTES

VALID = {"key": "k", "globs": ["src/**"]}


def _claim(**fields: object) -> Any:
    return json.dumps({**VALID, **fields}).encode()


def _text(text: str) -> Any:
    return text.encode()


BODIES = {
    "empty": b"",
    "not json": b"claim everything",
    "half": b'{"key":"k","globs":["src',
    "array": b"[]",
    "null": b"null",
    "number": b"7",
    "string": b'"x"',
    "trailing": _claim() + b" x",
    "two documents": _claim() + _claim(),
    "bom": b"\xef\xbb\xbf" + _claim(),
    "utf-16": _claim().decode().encode("utf-16"),
    "utf-32": _claim().decode().encode("utf-32"),
    "not utf-8": b'{"key":"k","globs":["\xff\xfe"]}',
    "not utf-8 and surrogates": b'{"key":"\\udce9","globs":["\xff\xfe"]}',
    "raw control character": b'{"key":"a\x01","globs":["x"]}',
    "raw nul": b'{"key":"k","globs":["a\x00b"]}',
    "deep arrays": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "deep where a string belongs": b'{"key":' + b"[" * 50_000,
    "deep with a surrogate": b'{"key":"\\ud800","globs":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "unknown field": _claim(glob="x"),
    "missing key": b'{"globs":["a"]}',
    "missing globs": b'{"key":"k"}',
    "globs is a string": _claim(globs="src/**"),
    "globs is null": _claim(globs=None),
    "globs holds a number": _claim(globs=[1]),
    "globs holds null": _claim(globs=[None]),
    "no globs": _claim(globs=[]),
    "257 globs": _claim(globs=[f"a{n}" for n in range(257)]),
    "empty glob": _claim(globs=[""]),
    "parent": _claim(globs=["../x"]),
    "absolute": _claim(globs=["/etc/passwd"]),
    "nul": _claim(globs=["a\0b"]),
    "negated": _claim(globs=["!a"]),
    "10,000 characters": _claim(globs=["a" * 10_000]),
    "10,000 stars": _claim(globs=["*" * 10_000]),
    "100,000 characters": _claim(globs=["a" * 100_000]),
    "unclosed class": _claim(globs=["a[b"]),
    "high surrogate": _claim(globs=["\ud800"]),
    "ttl 0": _claim(ttl_s=0),
    "ttl negative": _claim(ttl_s=-5),
    "ttl a year": _claim(ttl_s=365 * 86400),
    "ttl nan": b'{"key":"k","globs":["a"],"ttl_s":NaN}',
    "ttl infinity": b'{"key":"k","globs":["a"],"ttl_s":Infinity}',
    "ttl 1e999": b'{"key":"k","globs":["a"],"ttl_s":1e999}',
    "ttl -1e999": b'{"key":"k","globs":["a"],"ttl_s":-1e999}',
    "ttl 1e999 and a surrogate": b'{"key":"\\udce9","globs":["a"],"ttl_s":1e999}',
    "ttl nan and a surrogate": b'{"key":"\\udce9","globs":["a"],"ttl_s":NaN}',
    "ttl of 5,000 digits": b'{"key":"k","globs":["a"],"ttl_s":' + b"9" * 5000 + b"}",
    "ttl of 5,000 digits and a surrogate": b'{"key":"\\udce9","globs":["a"],"ttl_s":'
    + b"9" * 5000
    + b"}",
    "ttl a string": _claim(ttl_s="60"),
    "ttl true": _claim(ttl_s=True),
    "priority a float": _claim(priority=1.5),
    "priority beyond": _claim(priority=101),
    "priority of 400 digits": b'{"key":"k","globs":["a"],"priority":' + b"9" * 400 + b"}",
    "priority of 40 digits": _claim(priority=10**40),
    "wait a string": _claim(wait="yes"),
    "mode unknown": _claim(mode="both"),
    "mode null": _claim(mode=None),
    "note too long": _claim(note="n" * 5_000),
    "note much too long": _claim(note="n" * 100_000),
    "key empty": _claim(key=""),
    "key too long": _claim(key="k" * 129),
    "key a number": _claim(key=1),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_hostile_claim_is_400_and_changes_nothing(serving: Any, body: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            agent = await ledger.agent("ann")
            before = ledger.writer.durable
            reply = await agent.ask("POST", "/v1/leases", raw=body)
            assert reply.status == 400, reply.body
            assert reply.json["error"]["message"]
            assert len(reply.body) < 5_000
            assert ledger.writer.durable is before
            assert (await agent.ask("POST", "/v1/leases", VALID)).status == 201

    asyncio.run(main())


SESSION = {
    "session": "session-1",
    "secret": "s" * 40,
    "agent": "a",
    "harness": "h",
    "territory": "t",
    "kind": "run",
}


@pytest.mark.parametrize(
    "fields",
    [
        {"session": ""},
        {"session": "short"},
        {"session": "has space"},
        {"session": "x" * 65},
        {"session": "sess\n-00001"},
        {"secret": "short"},
        {"secret": "s" * 300},
        {"secret": 5},
        {"agent": ""},
        {"agent": "../../etc"},
        {"agent": "a\0b"},
        {"agent": "a" * 100},
        {"harness": "\ud800"},
        {"territory": ""},
        {"territory": "t\nu"},
        {"territory": "t" * 600},
        {"kind": "root"},
        {"host": "h" * 300},
        {"pid": -1},
        {"pid": 2**31},
        {"pid": 10**30},
        {"pid": "1"},
        {"pid": 1.0e300},
        {"process": "p" * 300},
        {"replace": "true"},
        {"secret_sha256": "0" * 64},
        {"predecessor_dead": True},
    ],
    ids=str,
)
def test_a_hostile_session_is_400(serving: Any, fields: object) -> None:
    async def main() -> None:
        async with serving() as ledger:
            reply = await ledger.client.ask("POST", "/v1/sessions", {**SESSION, **fields})
            assert (reply.status, reply.code) == (400, "invalid"), reply.body
            assert ledger.writer.durable.seq == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/who", 400),
        ("GET", "/v1/who?territory=t", 400),
        ("GET", "/v1/who?territory=t&path=/etc", 400),
        ("GET", "/v1/who?territory=t&path=../x", 400),
        ("GET", "/v1/who?territory=t&path=a%00b", 400),
        ("GET", "/v1/who?territory=t&path=" + "a" * 5_000, 400),
        ("GET", "/v1/who?territory=t&path=a&path=b", 400),
        ("GET", "/v1/leases?territory=t&x=1", 400),
        ("GET", "/v1/leases?" + "&".join(f"a{n}=1" for n in range(200)), 400),
        ("GET", "/v1/leases?territory", 200),
        ("GET", "/v1/leases?%ff=%fe", 400),
        ("GET", "/v1/status?x", 400),
        ("GET", "/v1/events?after=-1", 400),
        ("GET", "/v1/events?after=x", 400),
        ("GET", "/v1/events?after=1.5", 400),
        ("GET", "/v1/events?after=" + "9" * 5_000, 400),
        ("GET", "/v1/events?after=9223372036854775808", 400),
        ("GET", "/v1/events?after=9223372036854775807", 200),
        ("GET", "/v1/events?limit=0", 400),
        ("GET", "/v1/events?limit=10001", 400),
        ("GET", "/v1/events?follow=2", 400),
        ("GET", "/v1/events?types=,", 400),
        ("GET", "/v1/leases/L1?wait_s=301", 400),
        ("GET", "/v1/leases/L1?wait_s=-1", 400),
        ("GET", "/v1/leases/L1?wait_s=nan", 400),
        ("GET", "/v1/leases/L1?wait_s=inf", 400),
        ("GET", "/v1/leases/L1?wait_s=", 400),
        ("GET", "/v1/leases/" + "L" * 60_000, 200),
        ("GET", "/v1/leases/", 404),
        ("GET", "/v1/leases/L1/", 404),
        ("GET", "/v1/leases/a/b/c", 404),
        ("GET", "/v1/leases/{lease}", 200),
        ("GET", "/v1/leases/{}", 200),
        ("GET", "/v1/{}", 404),
        ("GET", "/", 404),
        ("GET", "", 404),
        ("GET", "//v1/leases", 404),
        ("GET", "/V1/leases", 404),
        ("GET", "/v1/../v1/leases", 404),
        ("PUT", "/v1/leases", 405),
        ("HEAD", "/healthz", 405),
        ("get", "/healthz", 405),
        ("DELETE", "/v1/leases", 405),
        ("DELETE", "/v1/leases/L1", 401),
        ("POST", "/v1/leases/L1/revoke", 404),
    ],
)
def test_hostile_paths_and_queries(serving: Any, method: str, path: str, status: int) -> None:
    async def main() -> None:
        async with serving() as ledger:
            reply = await ledger.client.ask(method, path)
            assert reply.status == status, reply.body
            assert ledger.writer.durable.seq == 0

    asyncio.run(main())


def test_a_release_needs_its_key(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            agent = await ledger.agent("ann")
            assert (await agent.ask("DELETE", "/v1/leases/L1")).status == 400
            assert (await agent.ask("DELETE", "/v1/leases/L1?key=")).status == 400
            assert (await agent.ask("DELETE", f"/v1/leases/L1?key={'k' * 129}")).status == 400
            assert (await agent.ask("DELETE", "/v1/leases/L1?key=k")).code == "unknown-lease"
            assert (await agent.ask("DELETE", "/v1/leases/L1?key=k", raw=b"{}")).status == 400

    asyncio.run(main())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("heartbeat", {"renew": [{"lease": "L1", "token": -1}]}),
        ("heartbeat", {"renew": [{"lease": "L1", "token": 2**63}]}),
        ("heartbeat", {"renew": [{"lease": "L1", "token": 1, "kept_by": ["x"] * 17}]}),
        ("heartbeat", {"renew": [{"lease": "L1", "token": 1, "kept_by": ["x" * 20_000]}]}),
        ("heartbeat", {"renew": {"lease": "L1"}}),
        ("heartbeat", {"dropped": ["x"] * 10_001}),
        ("refusals", {"refusals": [{"path": "x"}]}),
        ("refusals", {}),
        ("batch", {"requests": [{"op": "steal"}]}),
        ("batch", {"requests": [{"key": "k", "globs": ["a"]}]}),
        ("batch", {"requests": [{"op": "claim", "key": "k", "globs": ["a"]}] * 1_001}),
        ("batch", {"requests": [{"op": "release", "lease": "L1", "key": "k", "globs": []}]}),
    ],
    ids=lambda value: str(value)[:60],
)
def test_other_hostile_bodies(serving: Any, path: str, body: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            agent = await ledger.agent("ann")
            full = "/v1/sessions/session-ann/heartbeat" if path == "heartbeat" else f"/v1/{path}"
            before = ledger.writer.durable
            reply = await agent.ask("POST", full, body)
            assert (reply.status, reply.code) == (400, "invalid")
            assert ledger.writer.durable is before

    asyncio.run(main())


def test_numbers_that_json_cannot_say_never_reach_the_log(serving: Any) -> None:
    """Infinity would be written as null, which could not be read back."""

    async def main() -> None:
        async with serving() as ledger:
            agent = await ledger.agent("ann")
            refusal = {
                "path": "PATH",
                "op": "open",
                "reason": "r",
                "errno": "EACCES",
                "pid": 1,
                "program": "p",
                "wall_s": "WALL",
            }
            before = ledger.writer.durable
            for wall in ("1e999", "-1e999", "NaN", "Infinity", "1e13", '"1"', "null"):
                for path in ("x", "\\udce9"):  # a lone surrogate takes the slow way through
                    text = json.dumps({"refusals": [refusal]}).replace("PATH", path)
                    raw = text.replace('"WALL"', wall).encode()
                    reply = await agent.ask("POST", "/v1/refusals", raw=raw)
                    assert reply.status == 400, raw
            assert ledger.writer.durable is before

    asyncio.run(main())


def test_a_body_is_counted_while_it_arrives(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann = await ledger.agent("ann")
            for path, limit in (("/v1/leases", 1 << 20), ("/v1/batch", 8 << 20)):
                read = 0

                async def receive() -> Any:
                    nonlocal read
                    read += 1 << 16
                    return {"type": "http.request", "body": b" " * (1 << 16), "more_body": True}

                sent = []

                async def send(message: Any, sent: Any = sent) -> None:
                    sent.append(message)

                await ledger.app(ann._scope("POST", path, {}), receive, send)
                assert sent[0]["status"] == 413
                assert (b"connection", b"close") in sent[0]["headers"]
                assert json.loads(sent[1]["body"])["error"]["code"] == "too-large"
                assert read <= limit + (1 << 16)

    asyncio.run(main())


def test_a_body_that_breaks_off_is_not_acted_upon(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            messages = [
                {"type": "http.request", "body": json.dumps(SESSION).encode(), "more_body": True},
                {"type": "http.disconnect"},
            ]

            async def receive() -> Any:
                return messages.pop(0)

            async def send(message: Any) -> None:
                raise AssertionError(message)

            await ledger.app(ledger.client._scope("POST", "/v1/sessions", {}), receive, send)
            assert ledger.writer.durable.seq == 0

    asyncio.run(main())


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["src/**", "L1", "claim", "release", "exclusive", "\ud800", "\udce9"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "key",
                    "globs",
                    "mode",
                    "ttl_s",
                    "requests",
                    "op",
                    "lease",
                    "renew",
                    "token",
                    "x",
                    "tree",
                    "notes",
                    "settled",
                    "path",
                    "rescue",
                    "contained",
                    "kind",
                    "outcome",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.tuples(st.sampled_from(ROUTES), json_values | st.binary(max_size=30)), max_size=6)
)
def test_no_request_makes_it_fail(serving: Any, calls: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            agent = await ledger.agent("ann")
            for route, body in calls:
                path = route.path.replace("{session}", "session-ann").replace("{lease}", "L2")
                path = path.replace("{rescue}", "L2")
                raw = body if isinstance(body, bytes) else json.dumps(body).encode()
                reply = await agent.ask(route.method, path, raw=raw)
                assert reply.status < 500, (route.path, raw, reply.body)

    asyncio.run(main())
