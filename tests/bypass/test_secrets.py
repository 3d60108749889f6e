"""Ways to come by a secret: where it could lie about, and what a copy is good for."""

from __future__ import annotations

import json
import os
import re
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.bypass_agent import leasefs, private
from leasefs.testing.intruder import Intruder

if TYPE_CHECKING:
    from leasefs.testing.agents import Agent
    from leasefs.testing.own_world import World

pytestmark = [pytest.mark.mount, pytest.mark.root]


def test_the_secret_of_the_mounts_session(agent: Agent, world: World) -> None:
    """Nowhere that anybody can read: argv, environment, files, the mount's own files, its answers, its log."""
    places = [f"/proc/{agent.pid}/cmdline", f"/proc/{agent.pid}/environ"]
    places += [
        str(path)
        for path in Path(world.root).rglob("*")
        if path.is_file() and "tree" not in path.parts
    ]
    places += [
        f"{agent.root}/.leasefs/{name}"
        for name in ("mount.json", "leases.json", "refusals.json", "agent")
    ]
    texts = [Path(place).read_bytes() for place in places]
    texts.append(json.dumps(agent.about).encode())
    hashes = {
        found for text in texts for found in re.findall(rb'"secret_sha256":"([0-9a-f]{64})"', text)
    }
    assert hashes, "the store has the hash, or this shows nothing"
    words = {word for text in texts for word in re.findall(rb"[0-9A-Za-z_-]{32,256}", text)}
    for text in texts:
        words |= {
            text[at : at + 64]
            for found in re.finditer(rb"[0-9a-f]{64,}", text)
            for at in range(found.start(), found.end() - 63)
        }
    assert not {word for word in words if sha256(word).hexdigest().encode() in hashes}


def test_the_secret_in_the_environment_of_children(agent: Agent) -> None:
    """What `leasefs run` starts gets no secret of anybody's."""
    done = leasefs(agent.root, "run", "--claim", "mine/**", "--", "env")
    assert done.returncode == 0, done.stderr
    before = {f"{name}={value}" for name, value in os.environ.items()}
    added = "\n".join(line for line in done.stdout.splitlines() if line not in before)
    assert "PATH=" in done.stdout
    assert not re.search(r"secret|Authorization|[0-9a-f]{40}", added, re.IGNORECASE)


def test_a_copied_shell_session(world: World, tmp_path: Path) -> None:
    """Its file is its user's alone; a copy made by that user is as good as the original: not covered."""
    outside = private(tmp_path / "outside")
    subprocess.run(["git", "init", "-q", outside], check=True)
    assert leasefs(outside, "claim", "--agent", "shelly", "x").returncode == 0
    kept = [
        path for path in Path(world.root).rglob("sessions/*.json") if "shelly" in path.read_text()
    ]
    assert len(kept) == 1
    assert kept[0].stat().st_mode & 0o777 == 0o600
    assert Intruder("/").attempt("open(given[0])", str(kept[0])).how == "EACCES"
    copy = private(tmp_path / "run")
    subprocess.run(["cp", "-a", f"{os.environ['XDG_RUNTIME_DIR']}/leasefs", copy], check=True)
    done = leasefs(outside, "release", "--agent", "shelly", "x", XDG_RUNTIME_DIR=copy)
    assert done.returncode == 0, done.stderr
