"""A mount's control socket: what it does for a shell inside, and whom it refuses."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.client import api, api_scheduling
from leasefs.client.address import parse_url
from leasefs.client.blocking import Link
from leasefs.client.ids import new_key
from leasefs.core.errors import (
    InvalidRequest,
    LeasefsError,
    UnknownLease,
)
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.refusals import refusal_of

if TYPE_CHECKING:
    from leasefs.testing.own_world import World

pytestmark = pytest.mark.mount


def test_a_stream_of_use_tells_of_the_loss(agent: Agent) -> None:
    lease = agent.claim("src/a")
    stream = agent.control.stream(api.use(lease["lease"]))
    assert next(stream).type == "using"
    agent.ledger.send(api.revoke(lease["lease"], by="the operator"))
    lost = next(stream)
    assert lost.type == "lost"
    assert "revoked by" in lost.data["reason"]
    assert list(stream) == []
    assert refusal_of(agent.write, "src/a") == errno.EACCES


def test_heartbeat_renews_all(agent: Agent) -> None:
    lease = agent.claim("src/a", ttl_s=1)
    eventually(lambda: agent.state_of(lease) == "lapsed")
    renewed = agent.control.send(api.renew_mount())
    assert renewed == {
        "renewed": [{"lease": lease["lease"], "token": lease["token"], "ttl_s": 1.0}],
        "lost": [],
    }
    assert agent.state_of(lease) == "granted"


def test_the_ledger_is_asked_through_the_mount(agent: Agent) -> None:
    lease = agent.claim("src/**")
    territory = agent.about["territory"]
    assert agent.control.send(api.leases(territory))["leases"][0]["lease"] == lease["lease"]
    assert agent.control.send(api.queue(territory)) == {"waiters": []}
    assert agent.control.send(api.who(territory, "src/a"))["leases"][0]["agent"] == "agent-07"
    assert agent.control.send(api.sessions(territory))["sessions"][0]["kind"] == "mount"
    assert agent.control.send(api.status())["protocol"] == "1.0"
    session, types = agent.about["session"], ("session-opened", "granted")
    events = agent.control.send(api.events(session=session, types=types))["events"]
    assert [one["event"]["type"] for one in events] == ["session-opened", "granted"]
    followed = agent.control.stream(api.follow(after=0, session=session, types=types))
    assert [next(followed).type, next(followed).type] == ["session-opened", "granted"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (api.Call("GET", "/v1/nothing"), LeasefsError),
        (api.Call("PUT", "/v1/mount"), LeasefsError),
        (api.Call("POST", "/v1/mount/explode"), LeasefsError),
        (api.Call("PATCH", "/v1/leases/L1"), LeasefsError),
        (api.Call("POST", "/v1/leases", {"globs": ["a"], "extra": 1}), InvalidRequest),
        (api.Call("POST", "/v1/leases"), InvalidRequest),
        (api.claim([], key="k"), InvalidRequest),
        (api.claim(["../x"], key="k"), InvalidRequest),
        (api.lease("L1", wait_s=9999), InvalidRequest),
        (api.Call("GET", "/v1/leases/L1?wait_s=x"), InvalidRequest),
        (api.release("L999", key="k"), UnknownLease),
        (api.use("L999"), UnknownLease),
        (api.Call("POST", "/v1/mount/uses", {"lease": 1}), InvalidRequest),
        (api.Call("POST", "/v1/mount/uses"), InvalidRequest),
        (api.Call("POST", "/v1/leases", {"note": "x" * (2 << 20)}), InvalidRequest),
    ],
)
def test_what_cannot_be_is_refused_and_the_mount_goes_on(
    agent: Agent, call: api.Call, error: type[LeasefsError]
) -> None:
    with pytest.raises(error):
        agent.control.send(call)
    assert agent.claim("src/a")["state"] == "granted"


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"\x00" * 1000,
        b"GET /v1/mount HTTP/1.1\r\n\r\n",
        b"GET /v1/mount HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 10_000,
        b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{",
        b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n{",
        b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]",
        b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /v1/who?path=%ff%zz%00&territory HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_garbage_does_not_disturb_the_mount(agent: Agent, garbage: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(parse_url(agent.about["control"]).socket_path)
        connection.settimeout(5)
        connection.sendall(garbage)
        connection.shutdown(socket.SHUT_WR)
        said = b""
        while data := connection.recv(65536):
            said += data
    assert not said or said.split(b" ")[1][:1] == b"4"
    agent.claim("src/a")
    agent.write("src/a")


def asked_as(uid: int, call: api.Call, url: str) -> str:
    """What a process of that user is told: the answer's state, or the name of the refusal."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setuid(uid)
        try:
            said = str(Link(url, is_ledger=False).send(call).get("state"))
        except LeasefsError as error:
            said = f"{type(error).__name__}: {error.message}"
        os.write(write_end, said.encode())
        os._exit(0)
    os.close(write_end)
    os.waitpid(pid, 0)
    with open(read_end) as pipe:
        return pipe.read()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")
def test_the_owner_of_the_tree_uses_a_mount_that_root_made(world: World) -> None:
    """The owner's shells reach the control socket of root's mount, nobody else's do."""
    root = f"{world.root}/repo"
    os.makedirs(root)
    Path(root, "a").write_text("x")
    for path in (root, f"{root}/a"):
        os.chown(path, 1234, 1234)
    with agent_mount(root, root) as agent:
        socket_path = parse_url(agent.about["control"]).socket_path
        found = os.stat(socket_path)
        assert (found.st_uid, found.st_mode & 0o777) == (1234, 0o600)
        call = api.claim(["a"], key=new_key())
        assert asked_as(65534, call, agent.about["control"]).startswith("Denied: permission denied")
        os.chmod(socket_path, 0o666)
        assert asked_as(65534, call, agent.about["control"]).startswith(
            "Denied: this mount belongs"
        )
        assert asked_as(1234, call, agent.about["control"]) == "granted"
        lease = agent.held()[0]["id"]
        assert asked_as(1234, api.revoke(lease), agent.about["control"]).startswith(
            "Denied: only the"
        )


def test_what_operators_ask_is_passed_on_to_the_ledger(agent: Agent) -> None:
    """The limits and freezes of a territory are the ledger's business, whoever is nearest is asked."""
    territory = agent.about["territory"]
    send = agent.control.send
    limited = send(api_scheduling.set_admission(territory, {"max_leases": 9}, key="a", by="ann"))
    assert limited["admission"]["by"].endswith(" (ann)")
    assert send(api_scheduling.admission(territory))["admission"]["max_leases"] == 9
    lease = agent.claim("src/a")["lease"]
    assert send(api_scheduling.hold(lease, 60.0, key="h"))["hold_ends_in_s"] == pytest.approx(
        60.0, abs=5.0
    )
    freeze = api_scheduling.freeze(["src/b"], territory=territory, key=new_key(), reason="split it")
    frozen = send(freeze)
    listed = send(api_scheduling.freezes(territory))["freezes"]
    assert [(one["lease"], one["note"]) for one in listed] == [(frozen["lease"], "split it")]
    assert send(api_scheduling.unfreeze(frozen["lease"], key="u"))["state"] == "ended"
    with pytest.raises(UnknownLease):
        send(api_scheduling.recall(frozen["lease"]))


def test_what_a_claim_granted_is_in_force_when_the_answer_comes(agent: Agent) -> None:
    for _ in range(30):
        lease = agent.claim("src/a")
        agent.write("src/a")
        agent.release(lease)
        assert not agent.may_write("src/a")


def test_a_key_that_is_used_twice_claims_once(agent: Agent) -> None:
    """P6."""
    call = api.claim(["src/a"], key=new_key())
    first, second = agent.control.send(call), agent.control.send(call)
    assert first["lease"] == second["lease"]
    assert len(agent.held()) == 1
