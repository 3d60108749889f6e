"""P10: a refusal on frozen ground quotes the reason of the freeze, in the mount's files and on the command line."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import api, api_scheduling
from leasefs.client.ids import new_key
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.uncommitted import git, new_repository

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.own_world import World

pytestmark = pytest.mark.mount

INSTALLED = Path(sys.executable).parent / "leasefs"

REASON = "routes.ts is about to be split"


@pytest.fixture
def agent(world: World) -> Iterator[Agent]:
    tree = f"{world.root}/tree"
    new_repository(tree)
    os.makedirs(f"{tree}/src")
    for name in ("src/a", "src/b", "beside"):
        Path(tree, name).write_text("x\n")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "first")
    os.mkdir(f"{world.root}/ada")
    with agent_mount(tree, f"{world.root}/ada", "ada") as ada:
        yield ada


def freeze(agent: Agent, *globs: str, within_s: float = 0.0) -> api.Body:
    call = api_scheduling.freeze(
        globs,
        territory=agent.about["territory"],
        key=new_key(),
        reason=REASON,
        within_s=within_s,
        by="ops",
    )
    return agent.ledger.send(call)


def refused(agent: Agent, name: str) -> None:
    with pytest.raises(PermissionError) as caught:
        agent.write(name)
    assert caught.value.errno == errno.EACCES


def leasefs(agent: Agent, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [INSTALLED, "-C", agent.root, *arguments], capture_output=True, text=True, check=False
    )


def refusals(agent: Agent) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path(agent.root, ".leasefs/refusals.json").read_text())
    return found


def test_a_refusal_on_frozen_ground_quotes_the_reason(agent: Agent) -> None:
    frozen = freeze(agent, "src/**")
    assert frozen["state"] == "granted"
    refused(agent, "src/a")
    refused(agent, "beside")
    (beside, inside) = refusals(agent)
    assert (beside["path"], beside["there"]) == ("beside", "")
    assert "claim it first" in beside["next"]
    assert f"{frozen['lease']} is frozen by " in inside["there"]
    assert REASON in inside["there"]
    assert "(ops)" in inside["there"]
    assert "(ops), or wait until it is lifted" in inside["next"]
    lines = Path(agent.root, ".leasefs/refusals").read_text().splitlines()
    assert [REASON in line for line in lines] == [False, True]
    (facts,) = [
        one for one in agent.control.send(api.mount())["refusals"] if one["path"] == "src/a"
    ]
    assert REASON in facts["there"]


def test_the_command_line_quotes_it_too(agent: Agent) -> None:
    freeze(agent, "src/**")
    refused(agent, "src/a")
    why = leasefs(agent, "why", "src/a")
    assert why.returncode == 3
    assert REASON in why.stdout
    assert "ops" in why.stdout
    assert REASON in leasefs(agent, "status").stdout


def test_what_was_held_is_frozen_when_its_holder_has_yielded(agent: Agent) -> None:
    """And given back afterwards, without anybody asking for it."""
    lease = agent.claim("src/**", ttl_s=600)
    frozen = freeze(agent, "src/**")
    eventually(lambda: agent.state_of(frozen) == "granted", what="the freeze")
    refused(agent, "src/a")
    (one,) = refusals(agent)
    assert REASON in one["there"]
    assert REASON in one["next"]
    assert REASON in Path(agent.root, ".leasefs/recalls").read_text()
    agent.ledger.send(api_scheduling.unfreeze(frozen["lease"], key=new_key()))
    eventually(lambda: agent.may_write("src/a"), what="the ground's return")
    assert agent.state_of(lease) == "ended"


def test_a_silent_ledger_keeps_nobody_from_reading(agent: Agent, world: World) -> None:
    refused(agent, "src/a")
    pid = world.ledger_pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        (one,) = refusals(agent)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert one["there"] == ""


def test_who_holds_it_is_told_where_nothing_is_frozen(agent: Agent, world: World) -> None:
    os.mkdir(f"{world.root}/bo")
    with agent_mount(agent.about["source"], f"{world.root}/bo", "bo") as bo:
        lease = bo.claim("src/**", ttl_s=600)
        refused(agent, "src/a")
        (one,) = refusals(agent)
        assert one["there"] == f"bo (test) holds src/** as {lease['lease']}"
        bo.release(lease)
        eventually(lambda: refusals(agent)[0]["there"] == "", what="news of its end")
