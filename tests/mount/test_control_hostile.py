"""Whatever is said to a mount's control socket: it is answered or cut off, and the mount goes on."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from leasefs.client import api
from leasefs.client.address import parse_url
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.own_world import own_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.mount

METHODS = ("GET", "POST", "DELETE", "HEAD", "PUT", "OPTIONS")
PATHS = (
    *("/v1/leases", "/v1/leases/L1", "/v1/leases/%ff", "/v1/leases/L1/revoke", "/v1/queue"),
    *("/v1/who", "/v1/who?path=%ff", "/v1/who?territory=%ED%A0%80&path=x", "/v1/sessions"),
    *("/v1/status", "/v1/status?%ff=%fe", "/v1/events", "/v1/events?follow=1&after=-1"),
    *("/v1/events?follow=1&after=99999", "/v1/mount", "/v1/mount/", "/v1/mount//"),
    *("/v1/mount/heartbeat", "/v1/mount/uses", "/v1/mount/leave", "/v1/mount/x", "/", "//", "*"),
    *(
        "/v1/leases/L1/recall",
        "/v1/leases/%ff/hold",
        "/v1/admission",
        "/v1/admission?territory=%ff",
    ),
    *("/v1/freezes", "/v1/freezes/L1", "/v1/freezes/%ff?by=%ff", "/v1/leases/L1/revoke?x=1"),
    *("/v1/leases/L9?wait_s=nan", "/v1/leases/L9?wait_s=0&wait_s=1", "/v1/leases/" + "x" * 3000),
)
NAMES = ("lease", "pid", "program", "key", "globs", "mode", "ttl_s", "priority", "wait", "note")
VALUES: tuple[object, ...] = (
    *(None, True, -1, 0, 2**63, 2**200, 1.5, 1e308, float("nan"), "", "L1", "\ud800", "\udcff"),
    *("\0", "a" * 5000, [], [1], ["a"], ["\ud800"], ["**"], {}, {"a": 1}, ["a/" * 3000]),
)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    repo = str(tmp_path / "repo")
    os.mkdir(repo)
    with own_world(str(tmp_path)), agent_mount(repo, repo) as agent:
        yield agent


def say(agent: Agent, data: bytes, *, listens: bool = True) -> bytes:
    """Send bytes, and give back what comes first within a moment."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(0.3)
        connection.connect(parse_url(agent.about["control"]).socket_path)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
            connection.sendall(data)
            if listens:
                return connection.recv(65536)
    return b""


def request(method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def goes_on(agent: Agent) -> None:
    lease = agent.claim("a/**")
    os.mkdir(f"{agent.root}/a")
    agent.write("a/b")
    os.unlink(f"{agent.root}/a/b")
    os.rmdir(f"{agent.root}/a")
    agent.release(lease)


def test_head_is_answered_without_a_body(agent: Agent) -> None:
    answer = say(agent, request("HEAD", "/v1/mount"))
    assert answer.startswith(b"HTTP/1.1 405 ")
    assert answer.endswith(b"\r\n\r\n")
    goes_on(agent)


@pytest.mark.parametrize("seed", range(3))
def test_random_requests_change_nothing_and_end_nothing(agent: Agent, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(250):
        fields = {chance.choice(NAMES): chance.choice(VALUES) for _ in range(chance.randrange(6))}
        body = json.dumps(fields).encode() if chance.random() < 0.9 else chance.randbytes(40)
        headers = ["Accept: text/event-stream"] if chance.random() < 0.2 else []
        data = request(chance.choice(METHODS), chance.choice(PATHS), body, *headers)
        answer = say(agent, data, listens=chance.random() < 0.8)
        assert not answer.startswith(b"HTTP/1.1 5"), (data[:200], answer[:300])
    assert os.path.exists(f"/proc/{agent.pid}")
    for lease in agent.held():
        agent.control.send(api.release(lease["id"], key="away"))
    goes_on(agent)


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 100,
        b"GET",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /v1/mount HTTP/1.1\r\n" + b"x: y\r\n" * 20_000,
        b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n{",
        b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n" + b"[" * 5,
        request("POST", "/v1/leases", b"[" * 100_000),
        request("GET", "/v1/mount") * 500,
    ],
)
def test_what_is_no_request_ends_only_its_connection(agent: Agent, data: bytes) -> None:
    say(agent, data)
    say(agent, data, listens=False)
    goes_on(agent)


def test_streams_whose_readers_vanish_end_alone(agent: Agent) -> None:
    """While events are being sent to them."""

    def follow_and_vanish() -> None:
        for _ in range(40):
            say(agent, request("GET", "/v1/events?follow=1&after=0"))

    threads = [threading.Thread(target=follow_and_vanish) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        agent.release(agent.claim("a/**"))
    for thread in threads:
        thread.join()
    goes_on(agent)


@pytest.mark.parametrize(
    "query", ["again=null", "again=1&again=1", "dirty=lose", "x=1", "require="]
)
def test_wishes_of_a_release_are_looked_at_also_when_nothing_is_left_to_release(
    agent: Agent, query: str
) -> None:
    lease = agent.claim("a/**")
    agent.release(lease)
    answer = say(agent, request("DELETE", f"/v1/leases/{lease['lease']}?key=k&{query}"))
    assert answer.startswith(b"HTTP/1.1 400 "), answer


def test_every_wish_that_a_release_may_have_is_known(agent: Agent) -> None:
    lease = agent.claim("a/**")
    agent.release(lease)
    for known in ("dirty=rescue", "dirty=keep", "again=true", "require=none&note=n&commit="):
        answer = say(agent, request("DELETE", f"/v1/leases/{lease['lease']}?key=k&{known}"))
        assert answer.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 404 ")), answer
