"""Identities over the API: issued by operators, bound to users, used over TCP, named by what they do, and taken back."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from leasefs.client.ids import new_token
from leasefs.core.tokens import hashed
from leasefs.service.stream import StreamClosed, Wanted
from leasefs.testing.asgi import AsgiClient

OWN_UID, BOUND, TCP = os.geteuid(), 5000, None
SECRET = "s" * 40


async def _add(ledger: Any, name: str, *, by: AsgiClient | None = None, **more: Any) -> str:
    token = new_token()
    body = {"agent": name, "token_id": token.id, "token_sha256": hashed(token.text), **more}
    reply = await (by or ledger.client).ask("POST", "/v1/agents", body)
    assert reply.status == 201, reply.body
    return token.text


def _opening(agent: str, **more: Any) -> Any:
    fields = {"session": f"session-{agent}", "secret": SECRET, "agent": agent, "harness": "h"}
    return {**fields, "territory": "t", "kind": "mount", **more}


async def _session(ledger: Any, agent: str, token: str) -> AsgiClient:
    reply = await AsgiClient(ledger.app, uid=TCP, token=token).ask(
        "POST", "/v1/sessions", _opening(agent)
    )
    assert reply.status == 201, reply.body
    assert reply.json["identity"] == agent
    return AsgiClient(ledger.app, uid=TCP, credentials=f"session-{agent}:{SECRET}")


def _claim(glob: str = "src/**", key: str = "k", **fields: object) -> Any:
    return {"key": key, "globs": [glob], **fields}


async def _events(ledger: Any, type_: str) -> Any:
    page = (await ledger.client.ask("GET", f"/v1/events?types={type_}")).json
    return [item["event"] for item in page["events"]]


def test_an_agent_works_over_tcp_under_its_own_name_only(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            token = await _add(ledger, "ci")
            by_token = AsgiClient(ledger.app, uid=TCP, token=token)
            other = await by_token.ask("POST", "/v1/sessions", _opening("ann"))
            assert (other.status, other.code) == (403, "denied")
            assert "under its own name only" in other.json["error"]["message"]
            ci = await _session(ledger, "ci", token)
            granted = await ci.ask("POST", "/v1/leases", _claim())
            assert (granted.status, granted.json["agent"]) == (201, "ci")
            urgent = await ci.ask("POST", "/v1/leases", _claim("x", "k2", priority=20))
            assert (urgent.status, urgent.code) == (403, "denied")
            assert "normal at most" in urgent.json["error"]["message"]
            beat = {"renew": [{"lease": granted.json["lease"], "token": granted.json["token"]}]}
            path = "/v1/sessions/session-ci/heartbeat"
            assert len((await ci.ask("POST", path, beat)).json["renewed"]) == 1
            fresh = {"territory": "t", "key": "lint", "content": "0" * 64, "command": "1" * 64}
            fresh |= {"globs": ["**"], "files": 1}
            assert (
                await by_token.ask("POST", "/v1/fresh", {**fresh, "agent": "ann"})
            ).status == 403
            assert (await by_token.ask("POST", "/v1/fresh", fresh)).json["agent"] == "ci"
            assert (
                await AsgiClient(ledger.app).ask("POST", "/v1/fresh", {**fresh, "agent": "ann"})
            ).json["agent"] == "ann"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("method", "path", "body", "event"),
    [
        ("POST", "/v1/leases/{lease}/revoke", {"by": "boss"}, "revoked"),
        ("POST", "/v1/leases/{lease}/hold", {"hold_s": 60.0, "by": "boss"}, "hold-set"),
        ("POST", "/v1/leases/{lease}/recall", {"within_s": 5.0, "by": "boss"}, "recalled"),
        ("PUT", "/v1/admission?territory=t", {"max_exclusive": 5, "by": "boss"}, "admission-set"),
        (
            "POST",
            "/v1/freezes",
            {"key": "f", "territory": "t", "globs": ["y"], "reason": "r", "by": "boss"},
            "granted",
        ),
        (
            "POST",
            "/v1/agents",
            {"agent": "n", "token_id": "0" * 12, "token_sha256": "0" * 64, "by": "boss"},
            "agent-added",
        ),
        ("PATCH", "/v1/agents/ci", {"priority": 20, "by": "boss"}, "agent-changed"),
        (
            "POST",
            "/v1/agents/ci/rotate",
            {"token_id": "0" * 12, "token_sha256": "0" * 64, "by": "boss"},
            "agent-rotated",
        ),
        ("POST", "/v1/agents/ci/revoke", {"by": "boss"}, "agent-revoked"),
    ],
)
def test_a_forced_act_names_its_operator_and_only_in_brackets_what_it_says_of_itself(
    serving: Any, method: str, path: str, body: Any, event: str
) -> None:
    async def main() -> None:
        async with serving() as ledger:
            token = await _add(ledger, "op-1", role="operator")
            ci = await _session(ledger, "ci", await _add(ledger, "ci"))
            lease = (await ci.ask("POST", "/v1/leases", _claim())).json["lease"]
            operator = AsgiClient(ledger.app, uid=TCP, token=token)
            reply = await operator.ask(method, path.replace("{lease}", lease), body)
            assert reply.status < 300, reply.body
            assert "op-1 (boss)" in str((await _events(ledger, event))[-1])
            agent = AsgiClient(ledger.app, uid=TCP, token=await _add(ledger, "two"))
            denied = await agent.ask(method, path.replace("{lease}", lease), body)
            assert (denied.status, denied.code) == (403, "denied")
            assert (
                "two is an agent, and this needs the role operator"
                in denied.json["error"]["message"]
            )

    asyncio.run(main())


def test_a_lifted_freeze_names_who_lifted_it(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            operator = AsgiClient(
                ledger.app, uid=TCP, token=await _add(ledger, "op-1", role="operator")
            )
            body = {"key": "f", "territory": "t", "globs": ["y"], "reason": "r"}
            frozen = (await operator.ask("POST", "/v1/freezes", body)).json
            assert frozen["frozen_by"] == "op-1"
            await operator.ask("DELETE", f"/v1/freezes/{frozen['lease']}?by=boss")
            assert (await _events(ledger, "released"))[-1]["reason"] == "lifted by op-1 (boss)"

    asyncio.run(main())


def test_a_local_user_is_whoever_was_bound_to_them(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            stranger = AsgiClient(ledger.app, uid=BOUND)
            refused = await stranger.ask("GET", "/v1/status")
            assert (refused.status, refused.code) == (403, "denied")
            assert "leasefs agent add NAME --user" in refused.json["error"]["message"]
            token = await _add(ledger, "bo", user=str(BOUND))
            assert (await stranger.ask("GET", "/v1/whoami")).json == {
                "name": "bo",
                "role": "agent",
                "identity": "bo",
                "session": "",
                "priority": 0,
            }
            opened = await stranger.ask("POST", "/v1/sessions", _opening("bo"))
            assert opened.json["identity"] == "bo"
            copied = AsgiClient(ledger.app, uid=BOUND + 1, token=token)
            assert (await copied.ask("GET", "/v1/status")).code == "denied"
            await ledger.client.ask("POST", "/v1/agents/bo/revoke", {})
            assert (await stranger.ask("GET", "/v1/status")).status == 403

    asyncio.run(main())


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"user": "no-such-user-here"}, "has no user"),
        ({"agent": "root", "role": "operator", "user": "4242"}, "take one for the other"),
        ({"agent": "daemon", "role": "operator"}, "take one for the other"),
        ({"role": "king"}, "role"),
        ({"priority": 101}, "priority"),
        ({"token": "leasefs_x"}, "unknown field"),
    ],
)
def test_what_cannot_be_issued(serving: Any, fields: Any, word: str) -> None:
    async def main() -> None:
        async with serving() as ledger:
            body = {"agent": "x", "token_id": "0" * 12, "token_sha256": "0" * 64, **fields}
            reply = await ledger.client.ask("POST", "/v1/agents", body)
            assert (reply.status, reply.code) == (400, "invalid")
            assert word in reply.json["error"]["message"]
            assert not ledger.writer.durable.identities

    asyncio.run(main())


def test_the_list_shows_use_and_sessions_and_no_token(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            token = await _add(ledger, "ci", user=str(BOUND), priority=20)
            await _add(ledger, "idle", role="observer")

            async def listed() -> Any:
                return (await ledger.client.ask("GET", "/v1/agents")).json["agents"]

            ci, idle = await listed()
            assert (ci["used_ago_s"], idle["used_ago_s"], ci["sessions"]) == (None, None, [])
            assert (ci["priority"], ci["uid"], idle["role"]) == (20, BOUND, "observer")
            await _session(ledger, "ci", token)
            ledger.clock.advance(5.0)
            ci, idle = await listed()
            assert (ci["used_ago_s"], ci["sessions"]) == (5.0, ["session-ci"])
            await AsgiClient(ledger.app, uid=TCP, token=token).ask("GET", "/v1/status")
            assert (await listed())[0]["used_ago_s"] == 0.0
            everything = str(await listed())
            assert token not in everything
            assert hashed(token) not in everything

    asyncio.run(main())


def test_a_revoked_identity_is_out_everywhere_at_once(serving: Any) -> None:
    """Its streams end after they have told it what it lost; its session may say that it dropped that, and nothing else."""

    async def main() -> None:
        async with serving() as ledger:
            token = await _add(ledger, "ci")
            by_token = AsgiClient(ledger.app, uid=TCP, token=token)
            ci = await _session(ledger, "ci", token)
            granted = (await ci.ask("POST", "/v1/leases", _claim())).json
            ann = await ledger.agent("ann")
            waiting = (await ann.ask("POST", "/v1/leases", _claim(key="w", wait=True))).json

            def still_ci() -> bool:
                return bool(ledger.writer.durable.identities["ci"].is_live)

            mine = ledger.hub.follow(Wanted(session="session-ci"), ledger.hub.head, still_ci)
            others = ledger.hub.follow(Wanted(territory="elsewhere"), ledger.hub.head, still_ci)
            own = ledger.hub.follow(Wanted(territory="elsewhere"), ledger.hub.head)
            reading = [asyncio.ensure_future(one.next()) for one in (mine, others, own)]
            await asyncio.sleep(0)
            operator = AsgiClient(
                ledger.app, uid=TCP, token=await _add(ledger, "op-1", role="operator")
            )
            await operator.ask("POST", "/v1/agents/ci/revoke", {})
            async with asyncio.timeout(20):
                assert [record.type for record in await reading[0]] == ["revoked"]
                with pytest.raises(StreamClosed):
                    await mine.next()
                with pytest.raises(StreamClosed):
                    await reading[1]
            assert not reading[2].done()
            reading[2].cancel()
            for caller, path in ((by_token, "/v1/status"), (by_token, "/v1/events?follow=1")):
                reply = await caller.ask("GET", path)
                assert (reply.status, reply.code) == (401, "denied")
                assert "ci was revoked by op-1" in reply.json["error"]["message"]
            for method, path, body in (
                ("POST", "/v1/leases", _claim("z", "z")),
                ("DELETE", f"/v1/leases/{granted['lease']}?key=r", None),
                ("POST", "/v1/refusals", {"refusals": []}),
                ("DELETE", "/v1/rescues/none", None),
            ):
                reply = await ci.ask(method, path, body)
                assert (reply.status, reply.code) == (401, "session-ended"), path
            dropped = {"dropped": [granted["lease"]]}
            assert (
                await ci.ask("POST", "/v1/sessions/session-ci/heartbeat", dropped)
            ).status == 200
            after = (await ann.ask("GET", f"/v1/leases/{waiting['lease']}")).json
            assert after["state"] == "granted"
            assert (
                await ci.ask("POST", "/v1/sessions/session-ci/heartbeat", {})
            ).code == "session-ended"
            again = await by_token.ask("POST", "/v1/sessions", _opening("ci"))
            assert again.status == 401

    asyncio.run(main())


def test_a_session_cannot_be_taken_over_by_its_id(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ci = await _session(ledger, "ci", await _add(ledger, "ci"))
            two = await _add(ledger, "two")
            thief = AsgiClient(ledger.app, uid=TCP, token=two)
            for secret in (SECRET, "t" * 40):
                body = _opening("two", session="session-ci", secret=secret)
                assert (await thief.ask("POST", "/v1/sessions", body)).status == 403
            again = _opening("ci", secret="t" * 40)
            assert (await ledger.client.ask("POST", "/v1/sessions", again)).status == 403
            assert (await ci.ask("POST", "/v1/leases", _claim())).status == 201

    asyncio.run(main())


def test_what_an_identity_may_is_changed(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ci = await _session(ledger, "ci", await _add(ledger, "ci"))
            assert (await ci.ask("POST", "/v1/leases", _claim(priority=20))).status == 403

            async def change(**fields: Any) -> Any:
                return await ledger.client.ask("PATCH", "/v1/agents/ci", fields)

            assert (await change(priority=20, user=str(BOUND))).json["uid"] == BOUND
            assert (await ci.ask("POST", "/v1/leases", _claim(priority=20))).status == 201
            assert (await AsgiClient(ledger.app, uid=BOUND).ask("GET", "/v1/whoami")).json[
                "name"
            ] == "ci"
            assert (await change(user="")).json["uid"] is None
            assert (await AsgiClient(ledger.app, uid=BOUND).ask("GET", "/v1/whoami")).status == 403
            for wrong in ({"user": "no-such-user-here"}, {"priority": 101}, {"role": "king"}):
                assert (await change(**wrong)).code == "invalid"
            await _add(ledger, "daemon")
            named = await ledger.client.ask("PATCH", "/v1/agents/daemon", {"role": "operator"})
            assert "take one for the other" in named.json["error"]["message"]
            assert (await ledger.client.ask("PATCH", "/v1/agents/nobody", {})).code == "invalid"

    asyncio.run(main())
