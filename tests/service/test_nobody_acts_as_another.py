"""No sequence of requests of one principal renews, releases, ends or learns what is another's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from leasefs.client.ids import new_token
from leasefs.core import events as ev
from leasefs.core.commands import AddAgent, ClaimLease, OpenSession
from leasefs.core.roles import Role
from leasefs.core.tokens import hashed
from leasefs.service.app import ROUTES
from leasefs.service.auth import secret_hash
from leasefs.service.entries import recorded_of
from leasefs.testing.asgi import AsgiClient

NAMES = ("ann", "bob", "cat", "eye")
UIDS = {"ann": 5001, "bob": 5002, "cat": None, "eye": 5004}
GLOBS = ("a/**", "b/**", "c/**", "d/x")
FORCED = ev.Revoked | ev.Recalled | ev.AdmissionSet | ev.HoldSet | ev.IdentityEvent
# How who asks shows who they are: as they should, or with a mixture of what they know of others and have themselves.
HOW = (
    *("token", "session", "session", "session", "own uid", "nothing"),
    *("own secret, another's session", "own secret in another's token"),
)
WRITING = [f"{route.method} {route.path}" for route in ROUTES if route.method != "GET"]
BY_NAME = {f"{route.method} {route.path}": route for route in ROUTES}

steps = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from(HOW),
        st.sampled_from([*BY_NAME, *WRITING, *WRITING]),
        st.sampled_from(NAMES),
        st.integers(0, 5),
        st.sampled_from(GLOBS),
        st.integers(0, 3),
    ),
    min_size=25,
    max_size=50,
)


class _World:
    """Three agents and an observer, each with a token; the agents have sessions, leases and claims that wait."""

    def __init__(self, ledger: Any) -> None:
        self.ledger = ledger
        self.tokens = {name: new_token() for name in NAMES}
        self.secrets = {name: name[0] * 40 for name in NAMES}

    async def begin(self) -> None:
        for name in NAMES:
            token = self.tokens[name]
            role = Role.OBSERVER if name == "eye" else Role.AGENT
            await self.do(AddAgent("op", name, role, token.id, hashed(token.text), UIDS[name]))
        for number, name in enumerate(NAMES[:3]):
            secret = secret_hash(self.secrets[name])
            await self.do(
                OpenSession(
                    f"session-{name}", secret, name, "h", "t", "mount", "h", 1, identity=name
                )
            )
            await self.do(ClaimLease(f"session-{name}", "own", (GLOBS[number],)))
        for name in NAMES[:3]:
            await self.do(ClaimLease(f"session-{name}", "wait", ("a/**", "b/**"), wait=True))

    async def do(self, command: Any) -> None:
        decision = await self.ledger.writer.submit(command)
        assert decision.error is None or decision.error.code == "deadlock"

    @property
    def state(self) -> Any:
        return self.ledger.writer.durable

    def caller(self, name: str, how: str, other: str) -> AsgiClient:
        app, uid = self.ledger.app, UIDS[name]
        match how:
            case "token":
                return AsgiClient(app, uid=uid, token=self.tokens[name].text)
            case "session":
                return AsgiClient(app, uid=uid, credentials=f"session-{name}:{self.secrets[name]}")
            case "own uid" | "nothing":
                return AsgiClient(app, uid=uid if how == "own uid" else None)
            case "own secret, another's session":
                return AsgiClient(app, uid=uid, credentials=f"session-{other}:{self.secrets[name]}")
        mixed = f"leasefs_{self.tokens[other].id}_{self.tokens[name].text.rpartition('_')[2]}"
        return AsgiClient(app, uid=uid, token=mixed)

    def lease(self, number: int) -> str:
        ids = sorted((*self.state.leases, *self.state.waiters))
        return str(ids[number % len(ids)]) if ids else "L1"


def _of_others(state: Any, name: str) -> Any:
    """What the others have, as far as nobody else may change it."""
    return {
        "sessions": {one.id: one for one in state.sessions.values() if one.identity != name},
        "leases": {one.id: one for one in state.leases.values() if one.claim.agent != name},
    }


def _body(route: Any, world: _World, other: str, number: int, glob: str, key: int) -> Any:
    if not isinstance(route.example, dict):
        return None
    meant = {
        "lease": world.lease(number),
        "session": f"session-{other}",
        "agent": other,
        "to": other,
        "globs": [glob],
        "territory": "t",
        "key": f"key-{key}",
        "user": "",
        "secret": "q" * 40,
        "within_s": 0.0,
        "by": other,
        "replaces": "",
        "wait": bool(key % 2),
        "dropped": [world.lease(number)],
        "renew": [{"lease": world.lease(number), "token": number + 1}],
        "requests": [
            {"op": "release", "lease": world.lease(number), "key": f"r{key}", "dirty": "force"},
            {"op": "claim", "key": f"b{key}", "globs": [glob], "priority": 100},
        ],
    }
    return {name: meant.get(name, value) for name, value in route.example.items()}


def _path(route: Any, world: _World, other: str, number: int) -> str:
    path = (
        route.path.replace("{lease}", world.lease(number))
        .replace("{session}", f"session-{other}")
        .replace("{identity}", other)
        .replace("{rescue}", "r")
        .replace("{seq}", "3")
    )
    asked = route.query.__struct_fields__ if route.query else ()
    meant = {"territory": "t", "path": "a/x", "key": f"q{number}", "dirty": "force", "by": other}
    given = [f"{name}={value}" for name, value in meant.items() if name in asked]
    return f"{path}?{'&'.join(given)}" if given else path


async def _one(world: _World, step: Any) -> None:
    name, how, asked, other, number, glob, key = step
    route = BY_NAME[asked]
    before, seq = _of_others(world.state, name), world.state.seq
    secrets = [world.tokens[one].text for one in NAMES if one != name]
    secrets += [world.secrets[one] for one in NAMES if one != name]
    reply = await world.caller(name, how, other).ask(
        route.method,
        _path(route, world, other, number),
        _body(route, world, other, number, glob, key),
        stay=asyncio.Event().wait,
    )
    after = _of_others(world.state, name)
    assert reply.status != 500
    for session_id, session in before["sessions"].items():
        assert after["sessions"].get(session_id) == session
    for lease_id, lease in before["leases"].items():
        assert after["leases"].get(lease_id) == lease
    assert not any(secret.encode() in reply.body for secret in secrets)
    for entry in world.ledger.store.read(seq, 1000):
        event = recorded_of(entry).event
        assert not isinstance(event, FORCED)
        if isinstance(event, ev.SessionOpened):
            assert (event.session.agent, event.session.identity) == (name, name)
            assert name != "eye"


def _settings(examples: int) -> Any:
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
    )


def _played(serving: Any, history: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            world = _World(ledger)
            await world.begin()
            for step in history:
                await _one(world, step)

    asyncio.run(main())


@_settings(60)
@given(steps)
def test_no_sequence_of_requests_touches_what_is_anothers(serving: Any, history: Any) -> None:
    _played(serving, history)


@pytest.mark.long
@_settings(5_000)
@given(steps)
def test_no_long_search_finds_a_sequence_that_does(serving: Any, history: Any) -> None:
    _played(serving, history)
