"""Ways to send the command line, or a mount, to another ledger or another home, and to pass for a mount."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.bypass_agent import leasefs, private
from leasefs.testing.ledger_process import LedgerProcess

if TYPE_CHECKING:
    from pathlib import Path

    from leasefs.testing.agents import Agent

pytestmark = [pytest.mark.mount, pytest.mark.root]


def test_another_ledger_by_the_environment(agent: Agent, tmp_path: Path) -> None:
    """LEASEFS_LEDGER inside a mount: whatever that ledger grants, the mount asks its own."""
    with LedgerProcess(private(tmp_path / "l"), store=":memory:") as other:
        done = leasefs(agent.root, "claim", "theirs/**", LEASEFS_LEDGER=f"unix:{other.socket_path}")
        assert done.returncode != 0
        assert "agent-08" in done.stderr
        assert other.ask("GET", "/v1/leases").json["leases"] == []
        other.stop()
    assert not agent.may_write("theirs/f")


def test_a_home_of_ones_own(agent: Agent, tmp_path: Path) -> None:
    """HOME and the XDG directories name another embedded ledger: it grants, and opens nothing."""
    homes = {
        name: private(tmp_path / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
    }
    outside = private(tmp_path / "outside")
    subprocess.run(["git", "init", "-q", outside], check=True)
    try:
        done = leasefs(outside, "claim", "--agent", "agent-07", "theirs/**", **homes)
        assert done.returncode == 0, done.stderr
        assert not agent.may_write("theirs/f")
    finally:
        leasefs(outside, "ledger", "stop", **homes)


def test_the_agents_name_from_outside_its_mount(agent: Agent) -> None:
    """A shell's claim under the name of an agent whose mount is alive."""
    done = leasefs("/", "claim", "--agent", "agent-07", f"{agent.root}/theirs/**")
    assert done.returncode != 0
    assert "agent-08" in done.stderr
    assert not agent.may_write("theirs/f")


def test_a_second_mount_of_the_name(agent: Agent, tmp_path: Path) -> None:
    tree, root = tmp_path / "tree", tmp_path / "mount"
    for path in (tree, root):
        path.mkdir()
    subprocess.run(
        ["git", "clone", "-q", agent.root, tree / "clone"], check=False, capture_output=True
    )
    subprocess.run(["git", "init", "-q", tree], check=True)
    (tree / ".leasefs.toml").write_text(f"territory = {json.dumps(agent.about['territory'])}\n")
    done = leasefs("/", "mount", "--agent", "agent-07", str(tree), str(root))
    assert done.returncode != 0
    assert "agent-07" in done.stderr
    assert agent.may_write("mine/f")


def test_a_mount_of_the_tree_for_another_ledger(agent: Agent, tmp_path: Path) -> None:
    """The tree that it would reach is the mount."""
    root = private(tmp_path / "mount")
    with LedgerProcess(private(tmp_path / "l"), store=":memory:") as other:
        url = f"unix:{other.socket_path}"
        done = leasefs("/", "mount", "--agent", "eve", agent.root, root, LEASEFS_LEDGER=url)
        assert done.returncode != 0
        assert "inside" in done.stderr or "already" in done.stderr
        other.stop()


def test_a_file_that_says_it_is_a_mounts(agent: Agent, tmp_path: Path) -> None:
    """`.leasefs/mount.json` in a plain directory, which names the mount's own control socket."""
    forged = tmp_path / "forged"
    (forged / ".leasefs").mkdir(parents=True)
    (forged / ".leasefs/mount.json").write_text(
        json.dumps({**agent.about, "mountpoint": str(forged)})
    )
    done = leasefs(str(forged), "claim", "theirs/**", LEASEFS_AGENT="")
    assert done.returncode != 0
    assert "not inside a leasefs mount" in done.stderr
