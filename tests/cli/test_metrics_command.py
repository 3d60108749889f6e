"""`leasefs metrics`: ledger and mounts of this machine as one text, which the documentation lists name by name."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from leasefs.client import paths
from leasefs.client.embedded import ensure_ledger
from leasefs.testing.agents import agent_mount
from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.agents import Agent

INSTALLED = Path(sys.executable).parent / "leasefs"
ONLY_BY_TCP = {"leasefs_tls_handshakes_failed_total"}
OPERATIONS = Path(__file__).resolve().parents[2] / "docs" / "OPERATIONS.md"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    for name in ("tree", "mount"):
        (tmp_path / name).mkdir()
    with agent_mount(str(tmp_path / "tree"), str(tmp_path / "mount"), "ada") as agent:
        yield agent


def families(text: str) -> dict[str, Any]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def up(text: str, kind: str, **labels: str) -> float:
    (value,) = (
        sample.value
        for sample in families(text)[f"leasefs_{kind}_up"].samples
        if labels.items() <= sample.labels.items()
    )
    return float(value)


@pytest.mark.mount
@pytest.mark.slow
def test_ledger_and_mounts_in_one_text(installed: Any, agent: Agent, tmp_path: Path) -> None:
    ran = installed("metrics")
    assert ran.code == 0, ran.err
    assert up(ran.out, "mount", agent="ada", mountpoint=agent.root) == 1
    assert up(ran.out, "ledger", ledger=agent.about["ledger"]) == 1
    for line in ran.out.splitlines():
        assert line.startswith("# ") or "{" in line
    target = tmp_path / "leasefs.prom"
    assert installed("metrics", "--output", str(target)).out == ""
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert up(target.read_text(), "mount", mountpoint=agent.root) == 1
    assert not list(tmp_path.glob(".leasefs.prom.*"))
    parts = json.loads(installed("metrics", "--json").out)["parts"]
    assert {
        "part": "mount",
        "agent": "ada",
        "mountpoint": agent.root,
        "up": True,
        "problem": "",
    } in parts


@pytest.mark.mount
@pytest.mark.slow
def test_the_documentation_lists_every_name(installed: Any, agent: Agent) -> None:
    """Names are an interface: alerts are made of them. None comes, goes or changes its kind unsaid."""
    section = OPERATIONS.read_text().split("\n## Metrics\n")[1].split("\n## ")[0]
    documented = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", section, re.MULTILINE))
    told = dict(re.findall(r"^# TYPE (\S+) (\S+)$", installed("metrics").out, re.MULTILINE))
    assert told == {name: kind for name, kind in documented.items() if name not in ONLY_BY_TCP}
    for name, kind in told.items():
        assert name.startswith(("leasefs_", "process_"))
        assert name.endswith("_total") == (kind == "counter"), name


@pytest.mark.mount
@pytest.mark.slow
def test_a_mount_that_hangs_or_died_is_down_and_hides_nobody(
    installed: Any, tmp_path: Path
) -> None:
    for name in ("tree", "one", "other"):
        (tmp_path / name).mkdir()
    tree = str(tmp_path / "tree")
    with (
        agent_mount(tree, str(tmp_path / "one"), "ada") as ada,
        agent_mount(tree, str(tmp_path / "other"), "bob", dies=True) as bob,
    ):
        with ada.frozen():
            text = installed("metrics").out
            assert (
                up(text, "mount", mountpoint=ada.root),
                up(text, "mount", mountpoint=bob.root),
            ) == (0, 1)
        bob.kill()
        text = installed("metrics").out
        assert (up(text, "mount", mountpoint=ada.root), up(text, "mount", mountpoint=bob.root)) == (
            1,
            0,
        )


def test_no_ledger_is_started(installed: Any, own_world: Path) -> None:
    ran = installed("metrics")
    assert ran.code == 0, ran.err
    assert up(ran.out, "ledger", ledger=paths.ledger_url()[0]) == 0
    assert not list(own_world.rglob("ledger.sqlite3"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--output", "/nowhere/x.prom"), "cannot be written"),
        (("--listen", "9469"), "is not HOST:PORT"),
        (("--listen", "203.0.113.1:9469"), "nobody can listen"),
        (("--listen", "127.0.0.1:0", "--json"), "goes with neither"),
    ],
)
def test_what_cannot_be_done_is_said(here: Any, arguments: tuple[str, ...], words: str) -> None:
    ran = here("metrics", *arguments)
    assert ran.code == 2
    assert words in ran.err + ran.out


@pytest.mark.slow
def test_a_prometheus_that_comes_and_asks() -> None:
    url = ensure_ledger()
    command = [INSTALLED, "metrics", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        at = server.stderr.readline().split()[-1]
        with urllib.request.urlopen(at, timeout=20) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert up(answer.read().decode(), "ledger", ledger=url) == 1
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(at.replace("/metrics", "/etc/passwd"), timeout=20)
        refused.value.close()
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0
    os.kill(_listener(url), signal.SIGTERM)
    eventually(lambda: not os.path.exists(url.removeprefix("unix:")), what="the ledger's end")


def _listener(url: str) -> int:
    from leasefs_cli.server_process import listener_pid

    pid = listener_pid(url.removeprefix("unix:"))
    assert pid is not None
    return pid


def test_what_is_no_file_is_written_to_and_never_replaced(installed: Any, tmp_path: Path) -> None:
    """`--output /dev/stdout` by root would else put a file in the place of a device."""
    pipe, link, target = (tmp_path / name for name in ("pipe", "link", "target"))
    os.mkfifo(pipe)
    with target.open("wb") as out, subprocess.Popen(["cat", pipe], stdout=out) as reader:
        assert installed("metrics", "--output", str(pipe)).code == 0
        assert reader.wait(timeout=20) == 0
    assert target.read_text().startswith("# HELP")
    assert pipe.is_fifo()
    target.unlink()
    link.symlink_to(target)
    for _ in range(2):
        assert installed("metrics", "--output", str(link)).code == 0
        assert target.read_text().startswith("# HELP")
        assert link.is_symlink()
    ran = installed("metrics", "--output", "/dev/stdout")
    assert (ran.code, ran.out[:6]) == (0, "# HELP")
