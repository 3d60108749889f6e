"""Mounts whose ledger is another host's: the same promises over TLS, and no token in anything that others can read."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.client import api
from leasefs.client.blocking import Link
from leasefs.client.ids import new_key
from leasefs.client.shell_session import shell_session
from leasefs.core.errors import ClaimConflict, Denied, LedgerUnavailable
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.certificates import Authority
from leasefs.testing.eventually import eventually
from leasefs.testing.ledger_process import LedgerProcess, free_port, tls_options
from leasefs.testing.refusals import refusal_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.own_world import World

pytestmark = pytest.mark.mount


class Remote:
    """The ledger of another host, and this host's tokens for it."""

    def __init__(self, world: World) -> None:
        self.directory = os.path.join(world.root, "remote")
        os.mkdir(self.directory, 0o700)
        authority = Authority(self.directory)
        os.environ["LEASEFS_CA_FILE"] = authority.file
        self.leaf, self.port = authority.leaf("localhost"), free_port()
        self.url = os.environ["LEASEFS_LEDGER"] = f"https://localhost:{self.port}"
        self.ledger = self.started()
        self.tokens: dict[str, str] = {}

    def started(self) -> LedgerProcess:
        return LedgerProcess(self.directory, *tls_options(self.leaf, self.port))

    def be(self, name: str) -> None:
        """From now on, processes are started with this identity's token."""
        token = self.tokens.get(name) or self.ledger.add_agent(name)
        self.tokens[name] = token
        path = os.path.join(self.directory, f"{name}.token")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(token)
        os.environ["LEASEFS_TOKEN_FILE"] = path


@pytest.fixture
def remote(world: World) -> Iterator[Remote]:
    remote = Remote(world)
    yield remote
    remote.ledger.kill()
    assert remote.ledger.process.stderr is not None
    remote.ledger.process.stderr.close()


@pytest.fixture
def agent(repo: str, remote: Remote) -> Iterator[Agent]:
    remote.be("agent-07")
    with agent_mount(repo, repo) as agent:
        yield agent


def test_a_mount_and_a_shell_share_out_ground(agent: Agent, remote: Remote) -> None:
    """P1, P2, P7 over TLS: the shell is refused, then waits, and is served when the mount lets go."""
    assert agent.about["ledger"] == remote.url
    assert refusal_of(agent.write, "src/a") == errno.EACCES
    lease = agent.claim("src/**")
    agent.write("src/a", "mine")
    remote.be("shell-1")
    shell = Link(remote.url, timeout_s=20.0)
    shell_session(shell, agent="shell-1", harness="h", territory=agent.about["territory"])
    with pytest.raises(ClaimConflict, match="agent-07"):
        shell.send(api.claim(["src/a"], key=new_key()))
    waiting = shell.send(api.claim(["src/a"], key=new_key(), wait=True))
    assert waiting["state"] == "waiting"
    agent.control.send(api.release(lease["lease"], key=new_key(), dirty="keep"))
    assert shell.send(api.lease(waiting["lease"], wait_s=20.0))["state"] == "granted"
    assert refusal_of(agent.write, "src/a") == errno.EACCES
    agent.claim("a")
    agent.write("a", "still")


def test_the_ledger_goes_and_comes_back(agent: Agent, remote: Remote) -> None:
    """P12 over TLS: writes go on under trust, and what waits is answered by the next ledger."""
    agent.claim("src/**")
    remote.ledger.kill()
    agent.write("src/a", "meanwhile")
    assert remote.ledger.process.stderr is not None
    remote.ledger.process.stderr.close()
    remote.ledger = remote.started()
    eventually(lambda: _claimed(agent))
    agent.write("a")
    agent.write("src/b")
    # And the intents of the time between have come.
    eventually(lambda: len(remote.ledger.ask("GET", "/v1/intents").json["intents"]) == 3)


def _claimed(agent: Agent) -> api.Body | None:
    """The lease, once the ledger is heard of again."""
    try:
        return agent.claim("a")
    except LedgerUnavailable:
        return None


def test_a_mount_outlives_the_token_that_it_began_with(agent: Agent, remote: Remote) -> None:
    agent.claim("src/**")
    rotated = {"token_id": "0" * 12, "token_sha256": "0" * 64}
    assert remote.ledger.ask("POST", "/v1/agents/agent-07/rotate", rotated).status == 200
    remote.ledger.kill()  # so that its stream has to be opened anew
    assert remote.ledger.process.stderr is not None
    remote.ledger.process.stderr.close()
    remote.ledger = remote.started()
    eventually(lambda: _claimed(agent))
    agent.write("a")


def test_a_revoked_identity_writes_no_more(agent: Agent, remote: Remote) -> None:
    agent.claim("src/**")
    assert remote.ledger.ask("POST", "/v1/agents/agent-07/revoke", {}).status == 200
    eventually(lambda: not agent.may_write("src/a"))
    with pytest.raises(Denied):
        agent.claim("src/**")


def test_no_token_can_be_read_anywhere(agent: Agent, remote: Remote, world: World) -> None:
    """Not in argv, not in the environment, in no file but its own, and in nothing that is said."""
    agent.claim("src/**")
    agent.write("src/a")
    token = remote.tokens["agent-07"]
    said = b"".join(
        Path(f"/proc/{pid}/{name}").read_bytes()
        for pid in (agent.pid, remote.ledger.process.pid)
        for name in ("cmdline", "environ")
    )
    assert b"LEASEFS_TOKEN_FILE" in said
    files = [path for path in Path(world.root).rglob("*") if path.is_file()]
    said += b"".join(path.read_bytes() for path in files if path.suffix != ".token")
    remote.ledger.process.send_signal(signal.SIGTERM)
    assert remote.ledger.process.stderr is not None
    said += remote.ledger.process.stderr.read()
    for part in (token, token.rpartition("_")[2]):
        assert part.encode() not in said
