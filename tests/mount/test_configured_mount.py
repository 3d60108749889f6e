"""What is configured reaches the daemon of a real mount, and stays what it was while the mount lives."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import api
from leasefs.client.config import forget
from leasefs.client.config_files import user_path
from leasefs.core.errors import InvalidRequest
from leasefs.mount.launch import MountConfig, start_mount
from leasefs.testing.agents import agent_mount
from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from leasefs.testing.agents import Agent
    from leasefs.testing.own_world import World

pytestmark = pytest.mark.mount


def user_says(content: str) -> str:
    path = Path(user_path())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o600)
    forget()
    return str(path)


def treatment(agent: Agent) -> dict[str, Any]:
    said: dict[str, Any] = agent.control.send(api.mount())["unleased"]
    return said


def test_each_source_reaches_the_daemon_in_its_order(repo: str) -> None:
    user_says('[unleased]\npolicy = "wait"\nwait_s = 5\nidle_s = 7\nttl_s = 11\n')
    Path(repo, ".leasefs.toml").write_text('[unleased]\npolicy = "claim+wait"\nwait_s = 6\n')
    with agent_mount(repo, repo, settings={"unleased.wait_s": "8s"}) as agent:
        said = treatment(agent)
        assert (said["policy"], said["wait_s"], said["idle_s"]) == ("claim+wait", 8.0, 7.0)
        agent.write("a")
        (lease,) = agent.ledger.send(api.leases(None))["leases"]
        assert (lease["globs"], lease["ttl_s"]) == (["a"], 11.0)


def test_what_is_wrong_is_said_before_anything_is_mounted(repo: str) -> None:
    path = user_says("[unleased]\n\npolicy = 3\n")
    with pytest.raises(InvalidRequest, match=rf"^{path}:3: `unleased.policy` must be"):
        start_mount(MountConfig(repo, repo, "a", "h"))
    assert not os.path.ismount(repo)


def test_a_mount_goes_on_as_it_began(repo: str, world: World) -> None:
    """Neither a file that is being edited nor a ledger that must be started anew stops it."""
    user_says('[unleased]\npolicy = "claim"\n[ledger]\nidle_s = 600\n')
    with agent_mount(repo, repo) as agent:
        agent.write("a")
        before = world.ledger_pid()
        Path(user_path()).write_text("[unleased\n")
        world.kill_ledger(signal.SIGKILL)
        eventually(lambda: world.ledger_pid() not in (None, before), what="another ledger")
        agent.write("src/a")
        assert treatment(agent)["policy"] == "claim"
