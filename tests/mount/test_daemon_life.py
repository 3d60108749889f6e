"""How a mount's daemon begins and ends, on purpose and otherwise."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from leasefs.client import api, find, paths
from leasefs.client.address import parse_url
from leasefs.client.blocking import Link
from leasefs.core.errors import (
    AgentBusy,
    InvalidRequest,
    LeasefsError,
    LedgerUnavailable,
    NotMounted,
)
from leasefs.mount.agent_session import Revival
from leasefs.mount.launch import MountConfig, start_mount
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.mounted import as_user
from leasefs.testing.own_world import World, is_gone
from leasefs.testing.refusals import refusal_of

pytestmark = pytest.mark.mount


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

    monkeypatch.setattr("leasefs.mount.agent_session.ensure_ledger", fail)

    async def ask_for_a_while() -> None:
        revival = Revival()
        for _ in range(50):
            with contextlib.suppress(LedgerUnavailable):
                await revival.revive()

    trio.run(ask_for_a_while)
    assert attempts == [1]


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
