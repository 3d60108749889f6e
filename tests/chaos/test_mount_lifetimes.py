"""How long a lease lives: while it is used, not a TTL longer, and never under two writers.

Everyday figures are short; those of the promise (TTL 10 s, a file open for 60 s) are marked slow.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.client import api
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.own_world import own_world

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mount, pytest.mark.chaos]

# How much later than its deadline the ledger may say so, on two busy cores.
SLACK_S = 3.0
SHORT = pytest.param(1.5, id="short")
REAL = pytest.param(10.0, id="real", marks=pytest.mark.slow)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[tuple[Agent, Agent]]:
    """Two agents that share one tree, each through its own mount."""
    with own_world(str(tmp_path)) as world, ExitStack() as mounts:
        source = f"{world.root}/source"
        os.makedirs(f"{source}/src")
        Path(source, "src/a").write_text("as it was")
        both = []
        for name in ("agent-07", "agent-08"):
            os.mkdir(f"{world.root}/{name}")
            mount = agent_mount(source, f"{world.root}/{name}", name)
            both.append(mounts.enter_context(mount))
        yield both[0], both[1]


def lapses_within(agent: Agent, lease: api.Body, within_s: float) -> float:
    """Seconds until the ledger calls the lease lapsed."""
    began_s = time.monotonic()
    eventually(lambda: agent.state_of(lease) == "lapsed", within_s, "the lapse")
    return time.monotonic() - began_s


@pytest.mark.parametrize(
    ("ttl_s", "open_s"),
    [
        pytest.param(1.5, 6.0, id="short"),
        pytest.param(10.0, 60.0, id="real", marks=pytest.mark.slow),
    ],
)
def test_a_file_open_for_writing_keeps_its_lease_and_its_close_lets_it_lapse(
    agents: tuple[Agent, Agent], ttl_s: float, open_s: float
) -> None:
    """P4: a lease lives as long as it is used, however long that is."""
    agent, other = agents
    lease = agent.claim("src/**", ttl_s=ttl_s)
    with open(f"{agent.root}/src/a", "w") as file:
        until_s = time.monotonic() + open_s
        while time.monotonic() < until_s:
            assert agent.state_of(lease) == "granted"
            assert not other.may_write("src/a")
            time.sleep(0.25)
        file.write("still mine")
    lapsed_after_s = lapses_within(agent, lease, ttl_s * 4 / 3 + SLACK_S)
    assert lapsed_after_s > ttl_s / 2
    assert Path(agent.about["source"], "src/a").read_text() == "still mine"
    assert other.claim("src/a")["state"] == "granted"


@pytest.mark.parametrize("ttl_s", [SHORT, REAL])
def test_a_killed_mount_lets_its_lease_lapse(
    agents: tuple[Agent, Agent], ttl_s: float, tmp_path: Path
) -> None:
    """P4: a crashed holder's lapses too. Its mount stays closed (P12)."""
    _, other = agents
    os.mkdir(tmp_path / "third")
    with agent_mount(
        other.about["source"], str(tmp_path / "third"), "agent-09", dies=True
    ) as dying:
        lease = dying.claim("src/a", ttl_s=ttl_s)
        handle = os.open(f"{dying.root}/src/a", os.O_WRONLY)
        waiting = other.claim("src/a", wait=True)
        dying.kill()
        with pytest.raises(OSError) as refused:  # noqa: PT011 - the errno is what is looked at
            os.write(handle, b"from the grave")
        assert refused.value.errno in (errno.ENOTCONN, errno.ECONNABORTED)
        began_s = time.monotonic()
        granted = other.control.send(api.lease(waiting["lease"], wait_s=60))
        assert granted["state"] == "granted"
        assert time.monotonic() - began_s < ttl_s * 4 / 3 + SLACK_S
        assert other.state_of(lease) == "ended"
        other.write("src/a", "mine now")
        with pytest.raises(OSError, match="not connected"):
            os.close(handle)
    assert Path(other.about["source"], "src/a").read_text() == "mine now"


@pytest.mark.parametrize("ttl_s", [SHORT, REAL])
def test_a_frozen_mount_whose_lease_was_taken_writes_nothing_more(
    agents: tuple[Agent, Agent], ttl_s: float
) -> None:
    """P3, P5: once taken, the old holder is fenced: its open handles get ESTALE."""
    agent, other = agents
    agent.claim("src/**", ttl_s=ttl_s)
    handle = os.open(f"{agent.root}/src/a", os.O_WRONLY | os.O_TRUNC)
    os.write(handle, b"before")
    outcome: list[int] = []

    def write_into_the_frozen_mount() -> None:
        try:
            os.write(handle, b"too late")
            outcome.append(0)
        except OSError as error:
            outcome.append(error.errno or -1)

    with agent.frozen():
        waiting = other.claim("src/a", wait=True)
        granted = other.control.send(api.lease(waiting["lease"], wait_s=60))
        assert granted["state"] == "granted"
        other.write("src/a", "the other's")
        # This request lies in the kernel when the mount wakes up: it is the first thing it sees.
        writer = threading.Thread(target=write_into_the_frozen_mount)
        writer.start()
        time.sleep(0.2)
        assert outcome == []
    writer.join(timeout=20)
    assert outcome == [errno.ESTALE]
    assert not agent.may_write("src/a")
    with pytest.raises(OSError, match="Stale"):
        os.write(handle, b"again")
    os.close(handle)
    assert agent.held() == []
    assert Path(agent.about["source"], "src/a").read_text() == "the other's"


@pytest.mark.parametrize("ttl_s", [SHORT, REAL])
def test_a_frozen_mount_whose_lease_nobody_took_goes_on_with_the_same_token(
    agents: tuple[Agent, Agent], ttl_s: float
) -> None:
    """P5: given back to its holder with the same token."""
    agent, _ = agents
    lease = agent.claim("src/**", ttl_s=ttl_s)
    handle = os.open(f"{agent.root}/src/a", os.O_WRONLY | os.O_TRUNC)
    with agent.frozen():
        eventually(lambda: agent.state_of(lease) == "lapsed", ttl_s * 4 / 3 + SLACK_S)
    os.write(handle, b"after a long sleep")
    os.close(handle)
    assert [held["token"] for held in agent.held()] == [lease["token"]]
    assert agent.state_of(lease) == "granted"
    assert Path(agent.about["source"], "src/a").read_text() == "after a long sleep"
