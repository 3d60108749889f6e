"""What is claimed through a mount is known to somebody who lives, or it is given back."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import api
from leasefs.client.address import parse_url
from leasefs.client.ids import new_key
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leasefs.testing.own_world import World

pytestmark = pytest.mark.mount

INSTALLED = Path(sys.executable).parent / "leasefs"


@pytest.fixture
def two(repo: str, world: World) -> Iterator[tuple[Agent, Agent]]:
    """Ada and bo, each with a mount of the tree."""
    for place in ("ada", "bo"):
        os.mkdir(f"{world.root}/{place}")
    with (
        agent_mount(repo, f"{world.root}/ada", "ada") as ada,
        agent_mount(repo, f"{world.root}/bo", "bo") as bo,
    ):
        yield ada, bo


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    running: list[subprocess.Popen[str]] = []

    def begin(agent: Agent, *arguments: str) -> subprocess.Popen[str]:
        command = [INSTALLED, "-C", agent.root, *arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate(timeout=20)


def ask_and_die(agent: Agent, call: api.Call) -> None:
    """Send a request to the mount as a program does that is killed before the answer."""
    body = api.encode(call)
    head = f"{call.method} {call.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(parse_url(agent.about["control"]).socket_path)
        connection.sendall(head.encode() + body)


def waiters(agent: Agent) -> list[Any]:
    found: list[Any] = agent.ledger.send(api.queue())["waiters"]
    return found


def leases(agent: Agent) -> list[Any]:
    found: list[Any] = agent.ledger.send(api.leases())["leases"]
    return found


def test_ground_goes_past_a_waiter_that_was_killed(two: tuple[Agent, Agent]) -> None:
    ada, bo = two
    held = ada.claim("src/**", ttl_s=600)
    waiting = bo.claim("src/**", ttl_s=600, wait=True)
    ask_and_die(bo, api.lease(waiting["lease"], wait_s=20))
    ada.release(held)
    eventually(lambda: leases(ada) == [], what="the giving back")
    assert waiters(ada) == []


@pytest.mark.slow
def test_a_waiter_that_nobody_asks_about_leaves_the_queue(two: tuple[Agent, Agent]) -> None:
    ada, bo = two
    ada.claim("src/**", ttl_s=600)
    bo.claim("src/**", ttl_s=600, wait=True)
    assert len(waiters(ada)) == 1
    eventually(lambda: waiters(ada) == [], within_s=90, what="the withdrawal")


def test_a_claim_whose_maker_is_gone_before_the_answer_is_given_back(
    two: tuple[Agent, Agent],
) -> None:
    """It sends its request and dies; nothing of the kind stays held."""
    ada, _ = two
    for _ in range(20):
        ask_and_die(ada, api.claim(["src/**"], key=new_key(), ttl_s=600))
    eventually(lambda: leases(ada) == [], what="the giving back")


def test_a_claim_is_made_though_the_ledger_was_killed(agent: Agent, world: World) -> None:
    """The mount's commands start it again, as those outside a mount do."""
    world.kill_ledger()
    assert agent.claim("src/**")["state"] == "granted"
    world.kill_ledger(signal.SIGTERM)
    assert agent.claim("docs/**")["state"] == "granted"


def test_a_waiter_outlives_the_ledger(two: tuple[Agent, Agent], start: Any, world: World) -> None:
    ada, bo = two
    held = ada.claim("src/**", ttl_s=600)
    waiting = start(bo, "claim", "src/**", "--wait", "1m", "-q")
    eventually(lambda: len(waiters(ada)) == 1)
    for number in (signal.SIGKILL, signal.SIGTERM):
        world.kill_ledger(number)
        eventually(lambda: world.ledger_pid() is not None, what="the next ledger")
    assert waiting.poll() is None
    ada.release(held)
    out, err = waiting.communicate(timeout=20)
    assert (waiting.returncode, err) == (0, "")
    assert [lease["lease"] for lease in leases(ada)] == [out.strip()]


def test_a_waiter_ends_with_its_mount(two: tuple[Agent, Agent], start: Any) -> None:
    ada, bo = two
    ada.claim("src/**", ttl_s=600)
    waiting = start(bo, "claim", "src/**", "--wait", "1m", "-q")
    eventually(lambda: len(waiters(ada)) == 1)
    bo.stop()
    _, err = waiting.communicate(timeout=20)
    assert waiting.returncode in (5, 10)
    assert err.startswith("leasefs: ")
    assert err.count("\n") == 1
    assert waiters(ada) == []


def test_a_run_leaves_held_what_was_claimed_before_it(agent: Agent) -> None:
    held = agent.claim("src/**")
    run = [INSTALLED, "-C", agent.root, "run", "--claim", "src/**", "--", "true"]
    assert subprocess.run(run, check=False).returncode == 0
    assert agent.state_of(held) == "granted"


def test_two_runs_over_the_same_ground_do_not_take_it_from_each_other(
    agent: Agent, start: Any
) -> None:
    script = "touch src/$0; while [ ! -e src/go-$0 ]; do sleep 0.02; done; echo x > src/end-$0"
    runs = {
        name: start(agent, "run", "--claim", "src/**", "--", "sh", "-c", script, name)
        for name in ("one", "two")
    }
    eventually(lambda: all(os.path.exists(f"{agent.root}/src/{name}") for name in runs))
    for name, process in runs.items():
        Path(agent.root, f"src/go-{name}").touch()
        assert process.communicate(timeout=20) == ("", "")
        assert process.returncode == 0
        assert os.path.exists(f"{agent.root}/src/end-{name}")
    assert leases(agent) == []


def test_what_was_claimed_during_a_run_outlives_it(agent: Agent, start: Any) -> None:
    script = "touch src/on; while [ ! -e src/go ]; do sleep 0.02; done"
    run = start(agent, "run", "--claim", "src/**", "--", "sh", "-c", script)
    eventually(lambda: os.path.exists(f"{agent.root}/src/on"))
    lease = agent.claim("src/**")
    Path(agent.root, "src/go").touch()
    assert run.communicate(timeout=20) == ("", "")
    assert agent.state_of(lease) == "granted"
    agent.release(lease)
    assert leases(agent) == []


def test_a_use_whose_maker_is_gone_at_once_is_over(agent: Agent) -> None:
    """Nothing may keep a lease alive that is not there any more (P4)."""
    lease = agent.claim("src/**", ttl_s=600)

    def use_and_die() -> None:
        for _ in range(25):
            ask_and_die(agent, api.use(lease["lease"]))

    threads = [threading.Thread(target=use_and_die) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    def kept_by() -> list[str]:
        (held,) = agent.held()
        return [user for user in held["kept_by"] if user != "a recent write"]

    eventually(lambda: kept_by() == [], what="the end of all uses")
