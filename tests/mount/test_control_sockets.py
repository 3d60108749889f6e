"""A mount's control socket among hostile clients: the same that a ledger stands (`leasefs.testing.hostile_cases`)."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import api
from leasefs.client.address import parse_url
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.hostile_cases import ATTEMPTS, SMUGGLING
from leasefs.testing.hostile_sockets import Served, many, send_all_that_goes, until_eof
from leasefs.testing.own_world import own_world

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.mount, pytest.mark.slow]

MOST_KIB = 48 * 1024


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    base = tmp_path_factory.mktemp("w")
    os.mkdir(base / "repo")
    with own_world(str(base)), agent_mount(str(base / "repo"), str(base / "repo")) as agent:
        yield agent


@pytest.fixture
def served(agent: Agent) -> Served:
    return Served(parse_url(agent.about["control"]).socket_path, agent.pid, "/v1/mount")


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_others_are_answered_and_nothing_grows(
    served: Served, agent: Agent, attempt: Callable[[Served], None]
) -> None:
    with served.bounded(MOST_KIB):
        attempt(served)
    assert os.listdir(agent.root) is not None


@pytest.mark.parametrize("form", SMUGGLING.values(), ids=SMUGGLING.keys())
def test_nothing_is_smuggled_past_a_request(agent: Agent, served: Served, form: Any) -> None:
    claim = b'{"key":"smuggled","globs":["smuggled/**"]}'
    second = b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (
        len(claim),
        claim,
    )
    with served.connect() as connection:
        head = b"POST /v1/mount/leave HTTP/1.1\r\nHost: x\r\n"
        send_all_that_goes(connection, head + form % second)
        connection.shutdown(1)
        answers = until_eof(connection)
    held = agent.held()
    for lease in held:
        agent.control.send(api.release(lease["id"], key="away"))
    assert b"HTTP/1.1 5" not in answers
    assert held == [], answers


def test_idle_connections_keep_nobody_out(agent: Agent, served: Served) -> None:
    """Of more than there is room for, the longest silent make place; one that is being answered does not."""
    lease = agent.claim("a/**")
    using = agent.control.stream(api.use(lease["lease"]))
    assert next(using).type == "using"
    with many(served, 600):
        assert agent.held()[0]["id"] == lease["lease"]
    agent.release(lease)
    assert [event.type for event in using][-1] == "lost"


def test_without_descriptors_it_refuses_and_recovers(agent: Agent, served: Served) -> None:
    """Clients of the control socket cost agents no file for longer than they are there."""
    before = resource.prlimit(served.pid, resource.RLIMIT_NOFILE)
    most = served.descriptors() + 20
    resource.prlimit(served.pid, resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        with many(served, 60):
            assert os.path.exists(f"/proc/{served.pid}")
        eventually(lambda: _is_answered(served), what="an answer when descriptors are back")
    finally:
        resource.prlimit(served.pid, resource.RLIMIT_NOFILE, before)
    lease = agent.claim("b/**")
    os.mkdir(f"{agent.root}/b")
    agent.write("b/f")
    agent.release(lease)


def _is_answered(served: Served) -> bool:
    try:
        return bool(served.answers())
    except (AssertionError, OSError):
        return False
