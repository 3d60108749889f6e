"""Who is known no more while something of theirs goes on: a request whose body is on its way, a stream that is read."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from leasefs.client.ids import new_token
from leasefs.core.commands import AddAgent, ChangeAgent, OpenSession, RevokeAgent, RotateAgent
from leasefs.core.roles import Role
from leasefs.core.tokens import hashed
from leasefs.service.app import ROUTES
from leasefs.service.auth import secret_hash
from leasefs.service.routes import Auth
from leasefs.testing.asgi import AsgiClient

BOUND, TCP, SECRET = 5000, None, "s" * 40
WRITING = [route for route in ROUTES if route.method != "GET"]
SEEN = {"eve's token": 401, "eve's session": 401, "eve's user": 403}


async def _do(ledger: Any, command: Any) -> None:
    decision = await ledger.writer.submit(command)
    assert decision.error is None, decision.error


async def _add(ledger: Any, name: str, uid: int | None = None) -> str:
    token = new_token()
    command = AddAgent("op", name, Role.OPERATOR, token.id, hashed(token.text), uid, "eve")
    await _do(ledger, command)
    return token.text


async def _ways(ledger: Any) -> dict[str, AsgiClient]:
    """The operator eve by each way of being her."""
    token = await _add(ledger, "eve", BOUND)
    opened = OpenSession(
        "session-eve", secret_hash(SECRET), "eve", "h", "t", "mount", "here", 1, identity="eve"
    )
    await _do(ledger, opened)
    return {
        "eve's token": AsgiClient(ledger.app, uid=TCP, token=token),
        "eve's session": AsgiClient(ledger.app, uid=TCP, credentials=f"session-eve:{SECRET}"),
        "eve's user": AsgiClient(ledger.app, uid=BOUND),
    }


async def _slowly(ledger: Any, caller: AsgiClient, method: str, path: str, meanwhile: Any) -> int:
    """The status of a request in whose middle something happens."""
    first = True
    sent: list[Any] = []

    async def receive() -> Any:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": b"{", "more_body": True}
        await meanwhile()
        return {"type": "http.request", "body": b"}", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await ledger.app(caller._scope(method, path, {}), receive, send)
    return int(sent[0]["status"])


@pytest.mark.parametrize("way", SEEN)
def test_a_request_whose_body_comes_after_the_revocation_is_refused(serving: Any, way: str) -> None:
    """At each route: or who expects to be revoked would keep some at hand, to issue themselves another identity."""

    async def main() -> None:
        for route in WRITING:
            async with serving() as ledger:
                caller = (await _ways(ledger))[way]
                seq = ledger.writer.durable.seq

                async def revoke(ledger: Any = ledger) -> None:
                    nonlocal seq
                    await _do(ledger, RevokeAgent("ann", "eve"))
                    seq = ledger.writer.durable.seq

                path = route.path.replace("{", "").replace("}", "")
                status = await _slowly(ledger, caller, route.method, path, revoke)
                # Where a session acts, the ledger's own rules refuse it, after they have looked what it wants.
                wanted = {400, 401} if route.auth is Auth.SESSION else {SEEN[way]}
                assert status in wanted, (route.method, route.path)
                assert ledger.writer.durable.seq == seq

    asyncio.run(main())


def test_a_request_whose_body_comes_after_the_token_was_replaced_is_refused(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            caller = (await _ways(ledger))["eve's token"]
            second = new_token()
            command = RotateAgent("ann", "eve", second.id, hashed(second.text))
            rotate = partial(_do, ledger, command)
            assert await _slowly(ledger, caller, "POST", "/v1/agents/x/revoke", rotate) == 401

    asyncio.run(main())


def test_a_request_whose_body_comes_after_its_sender_may_less_is_refused(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            caller = AsgiClient(ledger.app, uid=TCP, token=await _add(ledger, "eve"))
            lower = partial(_do, ledger, ChangeAgent("ann", "eve", Role.OBSERVER))
            assert await _slowly(ledger, caller, "POST", "/v1/agents/x/revoke", lower) == 403

    asyncio.run(main())


def test_a_request_whose_body_comes_after_anothers_revocation_is_carried_out(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            await _add(ledger, "bob")
            for caller in (await _ways(ledger)).values():
                again = partial(_do, ledger, RevokeAgent("ann", "bob"))
                status = await _slowly(ledger, caller, "POST", "/v1/agents/bob/revoke", again)
                assert status == 200

    asyncio.run(main())


class _Reader:
    """A stream over the app, read chunk by chunk at the test's pace."""

    def __init__(self, ledger: Any, caller: AsgiClient, path: str = "/v1/events?follow=1") -> None:
        self.text = ""
        self._asked = False
        self._turn = asyncio.Semaphore(0)
        self._came = asyncio.Event()
        scope = caller._scope("GET", path, {})
        self.task = asyncio.ensure_future(ledger.app(scope, self._receive, self._send))

    async def _receive(self) -> Any:
        if self._asked:
            await asyncio.Event().wait()
        self._asked = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200
            return
        self.text += message["body"].decode()
        self._came.set()
        await self._turn.acquire()

    async def until(self, word: str) -> None:
        """Read on until this has come."""
        async with asyncio.timeout(20):
            while word not in self.text:
                assert not self.task.done(), self.text
                self._came.clear()
                self._turn.release()
                await self._came.wait()

    async def ends(self) -> None:
        """Read what there is to its end."""
        for _ in range(1000):
            self._turn.release()
        async with asyncio.timeout(20):
            await self.task


async def _written(ledger: Any, word: str) -> None:
    """Something that a stream shows."""
    await _do(
        ledger,
        OpenSession(f"session-{word}", secret_hash(SECRET), word, "h", "t", "mount", "here", 1),
    )


@pytest.mark.parametrize("way", SEEN)
def test_a_stream_ends_with_the_revocation_though_there_is_always_more(
    serving: Any, way: str
) -> None:
    """What came before may be read to its end, however slowly; what came after is not for them."""

    async def main() -> None:
        async with serving(buffered_events=2) as ledger:
            reader = _Reader(ledger, (await _ways(ledger))[way])
            await reader.until("session-opened")
            await _written(ledger, "before")
            await _do(ledger, RevokeAgent("ann", "eve"))
            for number in range(6):
                await _written(ledger, f"after-{number}")
            await reader.until("session-before")
            await _written(ledger, "after-all")
            await reader.ends()
            assert "agent-revoked" in reader.text
            assert "after" not in reader.text

    asyncio.run(main())


@pytest.mark.parametrize("way", ["eve's token", "eve's session"])
def test_a_stream_does_not_outlive_a_revocation_because_the_name_is_issued_anew(
    serving: Any, way: str
) -> None:
    async def main() -> None:
        async with serving() as ledger:
            reader = _Reader(ledger, (await _ways(ledger))[way])
            await reader.until("session-opened")
            await _do(ledger, RevokeAgent("ann", "eve"))
            await _add(ledger, "eve")
            await _written(ledger, "after")
            await reader.ends()
            assert "session-after" not in reader.text

    asyncio.run(main())


def test_a_stream_ends_when_its_token_is_replaced(serving: Any) -> None:
    """A session's goes on: it has a secret of its own."""

    async def main() -> None:
        async with serving() as ledger:
            ways = await _ways(ledger)
            by_token, by_session = (
                _Reader(ledger, ways["eve's token"]),
                _Reader(ledger, ways["eve's session"]),
            )
            for reader in (by_token, by_session):
                await reader.until("session-opened")
            second = new_token()
            await _do(ledger, RotateAgent("ann", "eve", second.id, hashed(second.text)))
            await _written(ledger, "after")
            await by_token.ends()
            assert "session-after" not in by_token.text
            await by_session.until("session-after")
            by_session.task.cancel()

    asyncio.run(main())


def test_a_stream_ends_when_the_grace_of_its_token_is_over(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            reader = _Reader(ledger, (await _ways(ledger))["eve's token"])
            await reader.until("session-opened")
            second = new_token()
            command = RotateAgent("ann", "eve", second.id, hashed(second.text), grace_s=60.0)
            await _do(ledger, command)
            await _written(ledger, "within")
            await reader.until("session-within")
            ledger.clock.advance(61.0)
            await _written(ledger, "after")
            await reader.ends()

    asyncio.run(main())
