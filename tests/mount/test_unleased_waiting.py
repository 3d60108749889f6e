"""A write that waits by the unleased policy: it lets its caller go, holds up nobody else, and explains itself."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.client import api
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.refusals import refusal_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.own_world import World

pytestmark = pytest.mark.mount

# The wait is a minute where nothing else is said; whoever is let go is so long before.
LET_GO_WITHIN_S = 2.0


@pytest.fixture
def two(repo: str, world: World) -> Iterator[tuple[Agent, Agent]]:
    """Ada holds `src`; bo's writers know nothing of leases, and wait."""
    for place in ("ada", "bo"):
        os.mkdir(f"{world.root}/{place}")
    with (
        agent_mount(repo, f"{world.root}/ada", "ada") as ada,
        agent_mount(repo, f"{world.root}/bo", "bo", unleased="claim+wait") as bo,
    ):
        ada.claim("src", "src/**", ttl_s=600)
        yield ada, bo


def waiters(agent: Agent) -> list[api.Body]:
    """The queue."""
    found: list[api.Body] = agent.ledger.send(api.queue())["waiters"]
    return found


def waiting(agent: Agent, call: str) -> subprocess.Popen[str]:
    """A process that waits in this call."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"import os\n{call}\nprint('done')"],
        cwd=agent.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    eventually(lambda: waiters(agent))
    return process


WAITING = {
    "open": "open('src/a', 'w')",
    "append": "open('src/a', 'a')",
    "create": "open('src/new', 'w')",
    "unlink": "os.unlink('src/a')",
    "rename": "os.rename('src/a', 'src/h')",
    "mkdir": "os.mkdir('src/d')",
    "chmod": "os.chmod('src/a', 0o600)",
}


def test_a_signal_ends_the_wait_and_the_queue_is_left(two: tuple[Agent, Agent]) -> None:
    ada, bo = two
    for call in WAITING.values():
        process = waiting(bo, call)
        before_s = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        assert time.monotonic() - before_s < LET_GO_WITHIN_S
        assert process.returncode == -signal.SIGTERM
        eventually(lambda: waiters(bo) == [], what="the withdrawal")
    assert sorted(os.listdir(f"{ada.root}/src")) == ["a", "b", "deep"]
    assert Path(bo.root, ".leasefs/refusals").read_text() == ""


def test_it_is_made_once_the_ground_is_free(two: tuple[Agent, Agent]) -> None:
    ada, bo = two
    process = waiting(bo, "open('src/a', 'a').write('bo')")
    (held,) = ada.held()
    ada.control.send(api.release(held["id"], key="k"))
    out, err = process.communicate(timeout=20)
    assert (out, err) == ("done\n", "")
    assert Path(bo.root, "src/a").read_text() == "xbo"


def test_others_go_on_meanwhile(two: tuple[Agent, Agent]) -> None:
    """Some dozen wait, on files of the same directory; other files of it are read, and files elsewhere written."""
    _, bo = two
    crowd = [waiting(bo, WAITING[name]) for name in ("open", "append", "chmod") * 4]
    for at in range(20):
        bo.write("a", str(at))
        assert Path(bo.root, "a").read_text() == str(at)
        assert Path(bo.root, "src/b").read_text() == "x"
        assert sorted(os.listdir(f"{bo.root}/src")) == ["a", "b", "deep"]
    for process in crowd:
        assert process.poll() is None
        process.kill()
        process.communicate(timeout=20)


def test_an_unmount_ends_the_waits(two: tuple[Agent, Agent]) -> None:
    _, bo = two
    process = waiting(bo, WAITING["open"])
    bo.stop()
    _, err = process.communicate(timeout=20)
    assert "Error" in err


def test_who_waited_in_vain_is_told_who_held_it_and_how_long_it_waited(
    repo: str, world: World
) -> None:
    """P10."""
    for place in ("ada", "bo"):
        os.mkdir(f"{world.root}/{place}")
    with (
        agent_mount(repo, f"{world.root}/ada", "ada") as ada,
        agent_mount(repo, f"{world.root}/bo", "bo", unleased="claim+wait", wait_s=1) as bo,
    ):
        lease = ada.claim("src/**")
        assert refusal_of(bo.write, "src/a") == errno.EACCES
        (line,) = Path(bo.root, ".leasefs/refusals").read_text().splitlines()
        told = f"waited 1 s for ada (test), who holds src/** as {lease['lease']}; try again"
        assert told in line
        eventually(lambda: waiters(bo) == [], what="the withdrawal")


def test_wait_alone_waits_for_a_lease_that_somebody_claims(repo: str, world: World) -> None:
    with agent_mount(repo, repo, "ada", unleased="wait") as ada:
        process = subprocess.Popen(["sh", "-c", "echo y >> src/a"], cwd=ada.root)
        # It waits for nothing that anybody could see; what it does not do is what counts.
        lease = ada.claim("src/**")
        assert process.wait(timeout=20) == 0
        assert Path(ada.root, "src/a").read_text() == "xy\n"
        assert [one["id"] for one in ada.held()] == [lease["lease"]]


def test_what_a_write_claimed_and_a_shell_claims_too_is_the_shells(repo: str, world: World) -> None:
    with agent_mount(repo, repo, "ada", unleased="claim+wait") as ada:
        ada.write("src/a")
        ada.write("src/b")
        lease = ada.claim("src/a", ttl_s=600)
        eventually(lambda: [one["id"] for one in ada.held()] == [lease["lease"]])
        assert ada.state_of(lease) == "granted"


def test_two_processes_that_hold_what_the_other_waits_for(repo: str, world: World) -> None:
    """One is refused at once, and told the cycle; the other goes on when that one has let go (P7)."""
    for place in ("ada", "bo"):
        os.mkdir(f"{world.root}/{place}")
    with (
        agent_mount(repo, f"{world.root}/ada", "ada", unleased="claim+wait") as ada,
        agent_mount(repo, f"{world.root}/bo", "bo", unleased="claim+wait") as bo,
    ):
        with open(f"{bo.root}/src/b", "a") as held:
            process = subprocess.Popen(["sh", "-c", "exec 3>>src/a; echo y >> src/b"], cwd=ada.root)
            eventually(lambda: waiters(bo))
            assert refusal_of(bo.write, "src/a") == errno.EDEADLK
            said = Path(bo.root, ".leasefs/refusals").read_text()
            assert "waiting would never end: bo waits for ada waits for bo" in said
            held.write("bo\n")
        assert process.wait(timeout=20) == 0
        assert Path(bo.root, "src/b").read_text() == "xbo\ny\n"
