"""What a mount tells a monitor on its control socket: numbers that move with what happens, and its health."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from leasefs.client.address import parse_url
from leasefs.testing.agents import agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.own_world import own_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.agents import Agent

pytestmark = [pytest.mark.mount, pytest.mark.slow]

Numbers = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    with own_world(str(tmp_path_factory.mktemp("world"))) as world:
        for name in ("tree", "mount"):
            os.mkdir(f"{world.root}/{name}")
        with agent_mount(f"{world.root}/tree", f"{world.root}/mount") as agent:
            yield agent


def asked(agent: Agent, path: str, method: str = "GET") -> tuple[int, str]:
    """Status and body."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(parse_url(agent.about["control"]).socket_path)
        request = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        connection.sendall(request.encode())
        with connection.makefile("rb") as answer:
            head, _, body = answer.read().partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def numbers(agent: Agent) -> Numbers:
    status, text = asked(agent, "/metrics")
    assert status == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of(agent: Agent, name: str, **labels: str) -> float:
    return numbers(agent)[name, frozenset(labels.items())]


def test_operations_refusals_leases_and_writers(agent: Agent) -> None:
    before = of(agent, "leasefs_mount_operations_total", operation="mkdir")
    assert not agent.may_write("refused")
    assert ("leasefs_mount_trust_seconds", frozenset()) not in numbers(agent)
    lease = agent.claim("work/**", ttl_s=600)
    os.mkdir(f"{agent.root}/work")
    with open(f"{agent.root}/work/file", "w") as file:
        file.write("x")
        file.flush()
        assert of(agent, "leasefs_mount_open_writers") == 1
    eventually(lambda: of(agent, "leasefs_mount_open_writers") == 0, what="the end of the writer")
    assert of(agent, "leasefs_mount_operations_total", operation="mkdir") == before + 1
    found = numbers(agent)
    refused = frozenset({("reason", "not-leased"), ("observed", "no")})
    assert found["leasefs_mount_refusals_total", refused] == 1
    assert found["leasefs_mount_leases", frozenset({("mode", "exclusive")})] == 1
    assert 0 < found["leasefs_mount_trust_seconds", frozenset()] <= 600
    assert found["leasefs_mount_dirty_paths", frozenset()] == 1
    assert found["leasefs_mount_journal_bytes", frozenset()] > 0
    assert found["leasefs_mount_ledger_reachable", frozenset()] == 1
    assert found["leasefs_mount_watched_directories", frozenset()] >= 2
    eventually(lambda: of(agent, "leasefs_mount_journal_untold") == 0, what="the ledger's answer")
    assert found["process_open_fds", frozenset()] > 5
    os.unlink(f"{agent.root}/work/file")
    os.rmdir(f"{agent.root}/work")
    agent.release(lease)


def test_one_that_works_says_ok_and_takes_nothing_else(agent: Agent) -> None:
    assert asked(agent, "/healthz") == (200, "ok\n")
    assert asked(agent, "/healthz", "HEAD") == (200, "")
    assert asked(agent, "/healthz", "POST")[0] == 405
    assert asked(agent, "/metrics", "DELETE")[0] == 405


def test_one_that_can_note_nothing_says_why(tmp_path: Path) -> None:
    """Without a journal nothing may be changed (P8), so nobody can work there."""
    with own_world(str(tmp_path)) as world:
        for name in ("tree", "mount"):
            os.mkdir(f"{world.root}/{name}")
        with agent_mount(f"{world.root}/tree", f"{world.root}/mount") as agent:
            (journals,) = (
                place
                for place, _, names in os.walk(os.environ["XDG_STATE_HOME"])
                if any(name.endswith(".journal") for name in names)
            )
            os.rename(journals, f"{journals}-away")
            status, body = asked(agent, "/healthz")
            os.rename(f"{journals}-away", journals)
            assert status == 503
            assert "takes no writes" in body


def test_its_log_has_fields_and_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with own_world(str(tmp_path)) as world:
        monkeypatch.setenv("LEASEFS_LOG_FORMAT", "json")
        monkeypatch.setenv("LEASEFS_LOG_LEVEL", "debug")
        for name in ("tree", "mount"):
            os.mkdir(f"{world.root}/{name}")
        with agent_mount(f"{world.root}/tree", f"{world.root}/mount") as agent:
            assert not agent.may_write("not\nmine")
            agent.release(agent.claim("mine"))
        state = Path(os.environ["XDG_STATE_HOME"], "leasefs")
        lines = (state / "mount-agent-07.log").read_text().splitlines()
        said = [json.loads(line) for line in lines]
        refused = next(one for one in said if one.get("event") == "write-refused")
        assert refused["path"] == "not\nmine"
        assert (refused["reason"], refused["agent"]) == ("not-leased", "agent-07")
        assert {"mounted", "unmounted", "write-refused"} <= {one.get("event") for one in said}
        ledger = [json.loads(line) for line in (state / "ledger.log").read_text().splitlines()]
        assert {"serving", "session-opened", "granted"} <= {one.get("event") for one in ledger}
        for secret in _secrets(state):
            assert secret not in (state / "mount-agent-07.log").read_text()
            assert secret not in (state / "ledger.log").read_text()


def _secrets(state: Path) -> list[str]:
    """Hashes of secrets in the ledger's log: neither they nor what they are of may be in messages."""
    raw = b"".join(one.read_bytes() for one in (state / "ledger").iterdir() if one.is_file())
    found = re.findall(rb'"secret_sha256":"([0-9a-f]{64})"', raw)
    assert found
    return [one.decode() for one in found]
