"""The daemon that joins session, file system and control socket, on real mounts with a real ledger."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from leasefs.client import api, find, paths
from leasefs.client.address import parse_url
from leasefs.client.blocking import Link
from leasefs.client.ids import Credentials, new_key
from leasefs.core.errors import (
    AgentBusy,
    ClaimConflict,
    Denied,
    InvalidRequest,
    LeasefsError,
    LedgerUnavailable,
    NotMounted,
    UnknownLease,
)
from leasefs.mount.daemon import Revival
from leasefs.mount.launch import MountConfig, start_mount
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.mounted import as_user
from leasefs.testing.own_world import World, is_gone, own_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

pytestmark = pytest.mark.mount


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with own_world(str(tmp_path)) as world:
        yield world


@pytest.fixture
def repo(world: World) -> str:
    root = f"{world.root}/repo"
    os.makedirs(f"{root}/src/deep")
    for name in ("a", "src/a", "src/b", "src/deep/c"):
        Path(root, name).write_text("x")
    return root


@pytest.fixture
def agent(repo: str) -> Iterator[Agent]:
    with agent_mount(repo, repo) as agent:
        yield agent


def refusal_of(action: object, *arguments: object) -> int:
    with pytest.raises(OSError) as refused:  # noqa: PT011 - the errno is what is looked at
        action(*arguments)  # type: ignore[operator]
    return refused.value.errno or 0


def test_a_claim_opens_the_ground_and_a_release_closes_it(agent: Agent) -> None:
    """P2: a path changes through a mount only while that mount holds an exclusive lease over it."""
    assert refusal_of(agent.write, "src/a") == errno.EACCES
    lease = agent.claim("src/**")
    agent.write("src/a", "mine")
    assert refusal_of(agent.write, "a") == errno.EACCES
    with open(f"{agent.root}/src/b", "a") as file:
        agent.release(lease)
        file.write("late")
        assert refusal_of(file.flush) == errno.ESTALE
        assert refusal_of(file.close) == errno.ESTALE
    assert refusal_of(agent.write, "src/a") == errno.EACCES
    assert Path(agent.root, "src/a").read_text() == "mine"
    assert Path(agent.root, "src/b").read_text() == "x"


def test_the_mount_is_found_from_anywhere_inside(agent: Agent, world: World) -> None:
    found = find.find_mount(f"{agent.root}/src/deep")
    assert found is not None
    assert found == find.live_mounts()[0]._replace(beneath=found.beneath)
    assert (found.agent, found.mountpoint, found.pid) == ("agent-07", agent.root, agent.pid)
    assert found.territory == f"path:{agent.root}"
    assert find.find_mount(world.root) is None


def test_a_shell_that_stood_there_before_is_told(
    repo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo)
    with agent_mount(repo, repo):
        found = find.find_mount(os.getcwd())
        assert found is not None
        assert found.beneath
        monkeypatch.chdir(repo)
        found = find.find_mount(os.getcwd())
        assert found is not None
        assert not found.beneath
        monkeypatch.chdir("/")


def test_the_control_directory_says_what_is(agent: Agent) -> None:
    control = Path(agent.root, ".leasefs")
    lease = agent.claim("src/**", ttl_s=600)
    refusal_of(agent.write, "a")
    assert (control / "agent").read_text() == "agent-07\n"
    assert json.loads((control / "mount.json").read_text()) == agent.about
    (held,) = json.loads((control / "leases.json").read_text())
    assert (held["id"], held["globs"]) == (lease["lease"], ["src/**"])
    (refused,) = json.loads((control / "refusals.json").read_text())
    assert (refused["path"], refused["errno"], refused["pid"]) == ("a", "EACCES", os.getpid())
    said = agent.control.send(api.mount())
    assert said["leases"][0]["id"] == held["id"]
    assert said["refusals"] == [refused]
    assert said["ledger_reachable"]


def test_refusals_reach_the_history(agent: Agent) -> None:
    """P11."""
    refusal_of(agent.write, "a")
    page = eventually(
        lambda: agent.ledger.send(api.events(types=["writes-refused"]))["events"],
        what="the refusal in the log",
    )
    (refusal,) = page[0]["event"]["refusals"]
    assert (refusal["path"], refusal["errno"], refusal["pid"]) == ("a", "EACCES", os.getpid())


def test_no_secret_leaves_the_daemon(agent: Agent) -> None:
    """Not in argv, environment, any file, or anything that it says."""
    agent.claim("src/**")
    said = json.dumps([agent.about, agent.control.send(api.mount())])
    said += Path(f"/proc/{agent.pid}/cmdline").read_bytes().decode()
    environ = Path(f"/proc/{agent.pid}/environ")
    if os.access(environ, os.R_OK):  # by root alone: the daemon is not dumpable
        said += environ.read_bytes().decode()
    for directory in (paths.state_dir(), paths.runtime_dir()):
        for file in Path(directory).rglob("*"):
            if file.is_file():
                said += file.read_bytes().decode("latin-1")
    # What is that long and hexadecimal (the ledger's hash of the secret, its chain) opens nothing.
    for word in set(re.findall("[0-9a-f]{64}", said)):
        link = Link(agent.about["ledger"], Credentials(agent.about["session"], word))
        with pytest.raises(Denied):
            link.send(api.heartbeat(agent.about["session"]))


def test_two_agents_and_a_lease_handed_over(agent: Agent, repo: str, world: World) -> None:
    """P7: a release reaches the next waiter by push; the lease is in its view before it hears of it."""
    os.mkdir(f"{world.root}/other")
    # The tree beneath is covered by the first mount, so the second agent's is made from its source's fd.
    lease = agent.claim("src/**")
    with own_tree_mount(world, "agent-08", agent.about["territory"]) as other:
        with pytest.raises(ClaimConflict, match="held by agent-07"):
            other.claim("src/a")
        waiting = other.claim("src/a", wait=True)
        assert waiting["state"] == "waiting"
        agent.release(lease)
        granted = other.control.send(api.lease(waiting["lease"], wait_s=20))
        assert granted["state"] == "granted"
        other.write("src/a")


def own_tree_mount(world: World, name: str, territory: str) -> AbstractContextManager[Agent]:
    root = f"{world.root}/tree-of-{name}"
    os.makedirs(f"{root}/src")
    Path(root, "src/a").write_text("x")
    Path(root, ".leasefs.toml").write_text(f"territory = {json.dumps(territory)}\n")
    return agent_mount(root, root, name)


def test_an_open_file_and_a_running_command_keep_a_lease(agent: Agent) -> None:
    """P4, in short: the real figures are in tests/chaos."""
    by_file, by_command = agent.claim("src/a", ttl_s=1), agent.claim("src/b", ttl_s=1)
    idle = agent.claim("src/deep/c", ttl_s=1)
    stream = agent.control.stream(
        api.use(by_command["lease"], pid=os.getpid(), program="make docs")
    )
    with open(f"{agent.root}/src/a", "a"):
        assert next(stream).type == "using"
        eventually(lambda: agent.state_of(idle) == "lapsed", what="the idle lease's end")
        assert agent.state_of(by_file) == "granted"
        assert agent.state_of(by_command) == "granted"
        kept_by = {held["globs"][0]: held["kept_by"] for held in agent.held()}
        assert kept_by["src/a"] == [f"{os.getpid()} {_comm()} src/a"]
        assert kept_by["src/b"] == [f"{os.getpid()} make docs"]
    stream.close()  # type: ignore[attr-defined]
    for lease in (by_file, by_command):
        eventually(lambda lease=lease: agent.state_of(lease) == "lapsed")  # type: ignore[misc]


def _comm() -> str:
    return Path("/proc/self/comm").read_text().strip()


def test_a_file_open_for_reading_keeps_nothing(agent: Agent) -> None:
    lease = agent.claim("src/a", ttl_s=1)
    with open(f"{agent.root}/src/a"):
        eventually(lambda: agent.state_of(lease) == "lapsed", what="the end of an unused lease")


def test_courtesy_the_next_write_brings_a_lapsed_lease_back(agent: Agent) -> None:
    """P5: given back to its holder with the same token."""
    lease = agent.claim("src/a", ttl_s=1)
    eventually(lambda: agent.state_of(lease) == "lapsed")
    agent.write("src/a")
    assert agent.state_of(lease) == "granted"
    assert agent.held()[0]["token"] == lease["token"]


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
    assert agent.control.send(api.status())["protocol"] == 1
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
            said = str(Link(url).send(call).get("state"))
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


# -- start and end -------------------------------------------------------------------------------


def test_a_second_mount_of_the_same_agent_is_refused_unless_it_replaces(
    agent: Agent, world: World
) -> None:
    os.makedirs(f"{world.root}/again")
    Path(world.root, "again/.leasefs.toml").write_text(
        f"territory = {json.dumps(agent.about['territory'])}\n"
    )
    again = f"{world.root}/again"
    with pytest.raises(AgentBusy, match=f"pid {agent.pid}"):
        start_mount(MountConfig(again, again, "agent-07", "test"))
    agent.claim("src/**")
    with agent_mount(again, again, replace=True) as second:
        eventually(lambda: not agent.held(), what="the loss of the replaced session's leases")
        assert refusal_of(agent.write, "src/a") == errno.EACCES
        assert second.claim("b")["state"] == "granted"


def test_the_same_agent_comes_back_at_once_after_a_kill(repo: str) -> None:
    """A dead predecessor cannot write any more, so its leases end at once."""
    with agent_mount(repo, repo) as first:
        first.claim("src/**", ttl_s=3600)
        first.kill()
        assert refusal_of(os.listdir, repo) == errno.ENOTCONN
        with pytest.raises(NotMounted, match="is dead"):
            find.find_mount(repo)
        assert find.live_mounts() == []
        with pytest.raises(NotMounted, match="dead mount"):
            start_mount(MountConfig(repo, repo, "agent-07", "test"))
        subprocess.run(["umount", repo], check=True)
        with agent_mount(repo, repo) as second:
            second.claim("src/**")
            second.write("src/a")


@pytest.mark.parametrize(
    ("config", "error", "words"),
    [
        (
            {"source": "{root}/missing", "mountpoint": "{root}/missing"},
            NotMounted,
            "does not exist",
        ),
        ({"mountpoint": "{root}/repo/src"}, NotMounted, "lies inside"),
        ({"agent": "no good"}, InvalidRequest, "bad agent"),
        ({"harness": "/"}, InvalidRequest, "bad harness"),
        ({"ledger": "unix:{root}/nobody"}, LedgerUnavailable, "no ledger listens there"),
        ({"ledger": "ftp://x"}, InvalidRequest, "bad ledger address"),
    ],
)
def test_what_cannot_be_mounted_is_said_and_nothing_is_left(
    repo: str, world: World, config: dict[str, str], error: type[LeasefsError], words: str
) -> None:
    fields = {"source": repo, "mountpoint": repo, "agent": "a", "harness": "h", **config}
    given = {name: value.format(root=world.root) for name, value in fields.items()}
    with pytest.raises(error, match=words):
        start_mount(MountConfig(**given))  # type: ignore[arg-type]
    assert find.registered_mounts() == []
    assert not list(Path(paths.runtime_dir()).glob("mount-*"))
    if world.ledger_pid():
        sessions = Link(paths.ledger_url()[0]).send(api.sessions())["sessions"]
        assert sessions == []


def test_a_territory_file_that_cannot_be_read_is_said(repo: str) -> None:
    Path(repo, ".leasefs.toml").write_text("territory = 7\n")
    with pytest.raises(InvalidRequest, match=r"\.leasefs\.toml:1"):
        start_mount(MountConfig(repo, repo, "a", "h"))


def test_the_end_frees_everything_at_once(repo: str) -> None:
    with agent_mount(repo, repo) as agent:
        lease = agent.claim("src/**", ttl_s=3600)
        agent.control.send(api.stop_mount())
        eventually(lambda: is_gone(agent.pid), what="the daemon's end")
    assert agent.state_of(lease) == "ended"
    assert agent.ledger.send(api.sessions()) == {"sessions": []}
    assert find.registered_mounts() == []
    assert not os.path.exists(parse_url(agent.about["control"]).socket_path)
    assert Path(repo, "src/a").read_text() == "x"


def test_a_frozen_ledger_does_not_hang_the_unmount(repo: str, world: World) -> None:
    with agent_mount(repo, repo) as agent:
        agent.claim("src/**")
        pid = world.ledger_pid()
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            os.kill(agent.pid, signal.SIGTERM)
            eventually(lambda: is_gone(agent.pid), within_s=10, what="the unmount")
        finally:
            os.kill(pid, signal.SIGCONT)


def test_a_fault_leaves_the_mount_closed(repo: str) -> None:
    """P12: a dead mount exposes no writable tree."""
    with agent_mount(repo, repo, dies=True) as agent:
        agent.claim("src/**")
        agent.kill()
        assert refusal_of(agent.write, "src/a") == errno.ENOTCONN
        assert refusal_of(agent.write, "a") == errno.ENOTCONN


def test_a_ledger_that_cannot_be_started_is_tried_ever_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mount serves meanwhile: each attempt costs a Python start."""
    attempts = []

    def fail() -> str:
        attempts.append(1)
        raise LedgerUnavailable("broken store")

    monkeypatch.setattr("leasefs.mount.daemon.ensure_ledger", fail)

    async def ask_for_a_while() -> None:
        revival = Revival()
        for _ in range(50):
            with contextlib.suppress(LedgerUnavailable):
                await revival.revive()

    trio.run(ask_for_a_while)
    assert attempts == [1]


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


def test_a_long_path_to_the_runtime_directory(world: World, repo: str) -> None:
    deep = f"{world.root}/" + "d" * 100
    os.mkdir(deep, mode=0o700)
    os.environ["XDG_RUNTIME_DIR"] = deep
    with agent_mount(repo, repo) as agent:
        assert agent.claim("src/a")["state"] == "granted"
    world.kill_ledger(signal.SIGTERM)


AS_A_USER = """
import errno, os, sys
from leasefs.client import find
from leasefs.testing.agents import agent_mount
from leasefs.testing.mounted import as_user
from leasefs.testing.own_world import own_world

root = sys.argv[1]
with own_world(root):
    os.makedirs(f"{root}/repo/src")
    with agent_mount(f"{root}/repo", f"{root}/repo") as agent:
        assert not agent.may_write("src/a")
        lease = agent.claim("src/**")
        agent.write("src/a", "mine")
        assert find.live_mounts()[0].agent == "agent-07"
        agent.release(lease)
        assert not agent.may_write("src/a")
    assert open(f"{root}/repo/src/a").read() == "mine"
print("all well")
"""


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="becomes an ordinary user")
@pytest.mark.usefixtures("fuse_for_all")
def test_an_ordinary_user_has_it_all_without_root(place: Path) -> None:
    root = place / "user"
    root.mkdir()
    os.chown(root, 65534, 65534)
    done = subprocess.run(
        [*as_user(65534), sys.executable, "-c", AS_A_USER, str(root)],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert (done.stdout, done.returncode) == ("all well\n", 0), done.stderr
