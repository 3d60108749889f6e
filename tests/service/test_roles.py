"""Every route, every role, every way of asking: who is let in, taken from the routing table itself."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client.ids import new_token
from leasefs.core.commands import (
    AddAgent,
    ClaimLease,
    OpenSession,
    RevokeAgent,
    RotateAgent,
)
from leasefs.core.roles import Role
from leasefs.core.tokens import hashed
from leasefs.service.app import ROUTES
from leasefs.service.auth import secret_hash
from leasefs.service.exchange import Answer, json_answer
from leasefs.service.routes import Auth, Router
from leasefs.testing.asgi import AsgiClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

OWN_UID = os.geteuid()
STRANGER, BOUND, TCP = 4242, 5000, None
SECRET = "s" * 40
# What each kind of route takes: the least role, and whether only with a session's secret.
NEEDS = {
    Auth.ANYBODY: (None, False),
    Auth.PEER: (Role.OBSERVER, False),
    Auth.AGENT: (Role.AGENT, False),
    Auth.SESSION: (Role.AGENT, True),
    Auth.OPERATOR: (Role.OPERATOR, False),
    Auth.EITHER: (Role.OPERATOR, False),
}
ORDER = [Role.OBSERVER, Role.AGENT, Role.OPERATOR]


@dataclasses.dataclass
class World:
    """A ledger whose routes only say who asked, identities of each role, and their sessions."""

    app: Any
    writer: Any
    tokens: dict[str, str] = dataclasses.field(default_factory=dict)

    async def add(self, name: str, role: Role, uid: int | None = None) -> str:
        token = new_token()
        command = AddAgent(
            "op", name, role, token.id, hashed(token.text), uid, "bound" if uid else ""
        )
        assert (await self.writer.submit(command)).error is None
        self.tokens[name] = token.text
        return token.text

    async def open(self, name: str, identity: str) -> str:
        command = OpenSession(
            f"session-{name}",
            secret_hash(SECRET),
            name,
            "h",
            "t",
            "mount",
            "here",
            1,
            identity=identity,
        )
        decision = await self.writer.submit(command)
        assert decision.error is None, decision.error
        return f"session-{name}:{SECRET}"

    def by(self, uid: int | None = OWN_UID, **how: str) -> AsgiClient:
        return AsgiClient(self.app, uid=uid, **how)


async def _who(ledger: Any, call: Any, body: Any, query: Any) -> Answer:
    who = call.who
    return json_answer(
        200,
        {"name": who and who.name, "identity": who and who.identity, "session": bool(call.session)},
    )


@contextlib.asynccontextmanager
async def _world(serving: Any) -> AsyncIterator[World]:
    async with serving() as ledger:
        only_asking = tuple(
            dataclasses.replace(route, handler=_who, body=None, query=None) for route in ROUTES
        )
        ledger.app._router = Router(only_asking)
        yield World(ledger.app, ledger.writer)


async def _ask(route: Any, caller: AsgiClient) -> Any:
    return await caller.ask(route.method, route.path.replace("{", "x").replace("}", "x"))


def _status(auth: Auth, role: Role | None, *, session: bool = False) -> int:
    """What somebody known in this role should get; None is nobody."""
    least, needs_session = NEEDS[auth]
    if auth is Auth.EITHER and session:
        least = Role.AGENT
    if least is None:
        return 200
    if role is None or (needs_session and not session):
        return 401
    return 200 if ORDER.index(role) >= ORDER.index(least) else 403


def test_the_table_names_every_kind_of_route() -> None:
    assert set(NEEDS) == set(Auth)
    assert {route.path for route in ROUTES if route.auth is Auth.ANYBODY} == {
        "/healthz",
        "/openapi.json",
    }


def test_nothing_is_changed_by_who_may_only_read() -> None:
    """A new route that changes something must say who may."""
    for route in ROUTES:
        if route.method != "GET":
            assert route.auth not in {Auth.ANYBODY, Auth.PEER}, route.path


def test_what_is_decided_for_others_is_an_operators() -> None:
    by_auth: dict[Auth, set[str]] = {}
    for route in ROUTES:
        if route.method != "GET":
            by_auth.setdefault(route.auth, set()).add(f"{route.method} {route.path}")
    assert by_auth[Auth.AGENT] == {"POST /v1/sessions", "POST /v1/fresh"}
    assert by_auth[Auth.EITHER] == {"POST /v1/leases/{lease}/recall"}
    assert by_auth[Auth.OPERATOR] >= {
        "POST /v1/leases/{lease}/revoke",
        "POST /v1/leases/{lease}/hold",
        "PUT /v1/admission",
        "POST /v1/freezes",
        "DELETE /v1/freezes/{lease}",
        "POST /v1/agents",
        "PATCH /v1/agents/{identity}",
        "POST /v1/agents/{identity}/rotate",
        "POST /v1/agents/{identity}/revoke",
    }


@pytest.mark.parametrize("role", ORDER)
def test_each_role_at_each_route_by_each_way_of_asking(serving: Any, role: Role) -> None:
    async def main() -> None:
        async with _world(serving) as world:
            token = await world.add("free", role)
            bound = await world.add("bound", role, BOUND)
            ways = {
                "token over TCP": world.by(TCP, token=token),
                "token of a stranger's process": world.by(STRANGER, token=token),
                "token, by the owner, who is an operator without": world.by(token=token),
                "bound, by the kernel's word": world.by(BOUND),
                "bound, token over TCP": world.by(TCP, token=bound),
            }
            for route in ROUTES:
                for way, caller in ways.items():
                    reply = await _ask(route, caller)
                    assert reply.status == _status(route.auth, role), (
                        route.method,
                        route.path,
                        way,
                    )
                    if reply.status == 200 and route.auth is not Auth.ANYBODY:
                        assert reply.json["identity"] in {"free", "bound"}
                    elif reply.status != 200:
                        assert reply.code == "denied"

    asyncio.run(main())


@pytest.mark.parametrize("role", [Role.AGENT, Role.OPERATOR])
def test_a_session_of_each_role_at_each_route(serving: Any, role: Role) -> None:
    async def main() -> None:
        async with _world(serving) as world:
            await world.add("free", role)
            await world.add("bound", role, BOUND)
            await world.add("other", role, BOUND + 1)
            free, bound = await world.open("free", "free"), await world.open("bound", "bound")
            good = {
                "over TCP": world.by(TCP, credentials=free),
                "by the owner": world.by(credentials=free),
                "by somebody unknown": world.by(STRANGER, credentials=free),
                "by whom it is bound to": world.by(BOUND, credentials=bound),
                "bound, over TCP": world.by(TCP, credentials=bound),
            }
            stolen = {
                "by another identity's user": world.by(BOUND + 1, credentials=free),
                "bound to another user": world.by(BOUND + 1, credentials=bound),
                "bound, by somebody unknown": world.by(STRANGER, credentials=bound),
                "with another secret": world.by(TCP, credentials=free.replace("s", "t")[:-1] + "z"),
            }
            for route in ROUTES:
                for way, caller in good.items():
                    reply = await _ask(route, caller)
                    wanted = _status(route.auth, role, session=True)
                    assert reply.status == wanted, (route.method, route.path, way)
                    if reply.status == 200 and route.auth is not Auth.ANYBODY:
                        assert reply.json["session"]
                for way, caller in stolen.items():
                    reply = await _ask(route, caller)
                    wanted = {200} if route.auth is Auth.ANYBODY else {401, 403}
                    assert reply.status in wanted, (route.method, route.path, way)

    asyncio.run(main())


def test_local_users_and_strangers_at_each_route(serving: Any) -> None:
    """The ledger's own user and root are operators; another user, and nobody in particular over TCP, are nobody."""

    async def main() -> None:
        async with _world(serving) as world:
            own = await world.open("ann", "")
            for route in ROUTES:
                is_open = route.auth is Auth.ANYBODY
                for uid in (OWN_UID, 0):
                    assert (await _ask(route, world.by(uid))).status == _status(
                        route.auth, Role.OPERATOR
                    )
                    reply = await _ask(route, world.by(uid, credentials=own))
                    assert reply.status == 200
                for caller in (
                    world.by(STRANGER),
                    world.by(STRANGER, credentials=own),
                    world.by(TCP, credentials=own),
                ):
                    reply = await _ask(route, caller)
                    assert reply.status == (200 if is_open else 403), (route.path, caller)
                assert (await _ask(route, world.by(TCP))).status == (200 if is_open else 401)

    asyncio.run(main())


def test_tokens_that_are_good_no_more_and_those_that_never_were(serving: Any) -> None:
    """Why a token is refused is told only to who has the whole of it."""
    # Who guesses over TCP is made to wait: one route of each kind is enough.
    by_auth = {route.auth: route for route in ROUTES if route.auth is not Auth.ANYBODY}
    one_of_each = list(by_auth.values())

    async def main() -> None:
        async with _world(serving) as world:
            revoked = await world.add("gone", Role.OPERATOR)
            await world.writer.submit(RevokeAgent("ann", "gone"))
            replaced = await world.add("ci", Role.OPERATOR)
            second = new_token()
            await world.writer.submit(RotateAgent("ann", "ci", second.id, hashed(second.text)))
            with_id_of_another = replaced[:-1] + ("0" if replaced[-1] != "0" else "1")
            for token, word in (
                (revoked, "gone was revoked by ann"),
                (replaced, "of ci was replaced by another one by ann"),
                (with_id_of_another, "no such token"),
                (new_token().text, "no such token"),
                ("", "send one"),
                ("x", "no such token"),
                ("\xff" * 86, "no such token"),
            ):
                for uid in (TCP, STRANGER, OWN_UID):
                    caller = world.by(uid)
                    for route in one_of_each:
                        path = route.path.replace("{", "x").replace("}", "x")
                        headers = {"authorization": f"Bearer {token}" if token else "Bearer"}
                        reply = await caller.ask(route.method, path, headers=headers)
                        assert (reply.status, reply.code) == (401, "denied")
                        assert "www-authenticate" in reply.headers
                        if token:
                            assert word in reply.json["error"]["message"]
                        if "no such" in word:
                            assert "ci" not in reply.json["error"]["message"].split()
            reply = await world.by(TCP, token=second.text).ask("GET", "/v1/status")
            assert reply.status == 200

    asyncio.run(main())


def test_one_header_says_who_asks(serving: Any) -> None:
    async def main() -> None:
        async with _world(serving) as world:
            token = await world.add("ci", Role.OPERATOR)
            caller = world.by(TCP, token=token)
            scope = caller._scope("GET", "/v1/status", {})
            scope["headers"].append((b"authorization", b"Bearer " + token.encode()))
            sent: list[Any] = []

            async def receive() -> Any:
                return {"type": "http.request", "body": b"", "more_body": False}

            async def send(message: Any) -> None:
                sent.append(message)

            await world.app(scope, receive, send)
            assert sent[0]["status"] == 401
            for header in (f"bEaReR   {token}", f"Bearer {token} "):
                reply = await world.by(TCP).ask(
                    "GET", "/v1/status", headers={"authorization": header}
                )
                assert reply.status == 200
            for header in (
                f"Basic {token}",
                token,
                f"Bearer {token},{token}",
                f"Bearer  {token[1:]}",
            ):
                reply = await world.by().ask("GET", "/v1/status", headers={"authorization": header})
                assert reply.status == 401

    asyncio.run(main())


def test_the_session_of_a_revoked_identity_reads_nothing_either(serving: Any) -> None:
    """It is let through to the ledger's own rules, which leave it one thing to say, and to nothing else."""

    async def main() -> None:
        async with _world(serving) as world:
            await world.add("ci", Role.OPERATOR)
            credentials = await world.open("ci", "ci")
            await world.writer.submit(ClaimLease("session-ci", "k", ("x",)))
            await world.writer.submit(RevokeAgent("ann", "ci"))
            assert "session-ci" in world.writer.durable.sessions
            await world.add("ci", Role.OPERATOR)  # another one of that name
            for route in ROUTES:
                for uid in (TCP, STRANGER, OWN_UID):
                    reply = await _ask(route, world.by(uid, credentials=credentials))
                    let_in = route.auth in {Auth.ANYBODY, Auth.SESSION}
                    assert reply.status == (200 if let_in else 401), (route.method, route.path)
                    if not let_in:
                        assert reply.code == "session-ended"

    asyncio.run(main())
