"""Who may ask what: secrets, one session per agent, dead predecessors, other users."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from leasefs.service.app import ROUTES
from leasefs.service.routes import Auth
from leasefs.testing.asgi import AsgiClient


def _claim(glob: str = "src/**", key: str = "k", **fields: object) -> Any:
    return {"key": key, "globs": [glob], **fields}


def test_sessions_need_their_secret(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann = await ledger.agent("ann")
            before = ledger.writer.durable
            for credentials, status, code in (
                ("", 401, "denied"),
                ("session-ann", 401, "denied"),
                (":", 401, "denied"),
                ("session-ann:wrong", 403, "denied"),
                ("session-xxx:" + "x" * 40, 401, "session-ended"),
            ):
                caller = AsgiClient(ledger.app, credentials=credentials)
                reply = await caller.ask("POST", "/v1/leases", _claim())
                assert (reply.status, reply.code) == (status, code), credentials
            for header in ("Basic YTpi", "Leasefs", "leasefs \xff\xfe:x", "Leasefs  :"):
                headers = {"authorization": header}
                reply = await ledger.client.ask("POST", "/v1/leases", _claim(), headers=headers)
                assert reply.status == 401, header
            bob = await ledger.agent("bob")
            for method, path in (
                ("DELETE", "/v1/sessions/session-ann"),
                ("POST", "/v1/sessions/session-ann/heartbeat"),
            ):
                assert (await bob.ask(method, path)).code == "denied"
            assert ledger.writer.durable.leases == before.leases
            headers = {"authorization": f"lEASEFS   {ann.credentials}"}
            assert (
                await ledger.client.ask("POST", "/v1/leases", _claim(), headers=headers)
            ).status == 201

    asyncio.run(main())


def test_an_agent_has_one_live_session(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann = await ledger.agent("ann")
            body = {
                "session": "session-2",
                "secret": "y" * 40,
                "agent": "ann",
                "harness": "h",
                "territory": "t",
                "kind": "run",
            }
            busy = await ledger.client.ask("POST", "/v1/sessions", body)
            assert (busy.status, busy.code) == (409, "agent-busy")
            assert (await ann.ask("DELETE", "/v1/sessions/session-ann")).json == {"ok": True}
            assert (await ledger.client.ask("POST", "/v1/sessions", body)).status == 201
            ended = await ann.ask("POST", "/v1/leases", _claim())
            assert (ended.status, ended.code) == (401, "session-ended")
            sessions = (await ledger.client.ask("GET", "/v1/sessions")).json["sessions"]
            assert [item["session"] for item in sessions] == ["session-2"]
            assert "secret" not in sessions[0]

    asyncio.run(main())


def test_a_dead_predecessor_makes_way_at_once(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            gone = _process_that_ended()
            first = await ledger.agent("ann", process=gone)
            await first.ask("POST", "/v1/leases", _claim())
            body = {
                "session": "session-2",
                "secret": "y" * 40,
                "agent": "ann",
                "harness": "h",
                "territory": "t",
                "kind": "run",
            }
            assert (await ledger.client.ask("POST", "/v1/sessions", body)).status == 201
            assert len(ledger.writer.durable.leases) == 0

    asyncio.run(main())


def _process_that_ended() -> str:
    import subprocess

    process = subprocess.Popen(["true"])
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    process.wait()
    return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}:{process.pid}:12345"


def test_another_user_is_denied_everything(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ann = await ledger.agent("ann")
            other = AsgiClient(ledger.app, credentials=ann.credentials, uid=4242)
            for route in ROUTES:
                if route.auth is Auth.ANYBODY:
                    continue
                reply = await other.ask(route.method, route.path)
                assert (reply.status, reply.code) == (403, "denied"), route.path
            assert (await AsgiClient(ledger.app, uid=0).ask("GET", "/v1/status")).status == 200

    asyncio.run(main())
