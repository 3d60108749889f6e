"""Ctrl-C at every moment of a claim: afterwards nothing waits and nothing new is held."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.testing.own_world import own_world

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

INSTALLED = Path(sys.executable).parent / "leasefs"
ROUNDS = 60
# A claim is over within this time; where in it the signal falls is left to chance.
CLAIM_TAKES_S = 0.25


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with own_world(str(tmp_path)):
        root = tmp_path / "repo"
        root.mkdir()
        subprocess.run(["git", "init", "-q", root], check=True)
        monkeypatch.chdir(root)
        yield root


def leasefs(*arguments: str) -> Any:
    done = subprocess.run([INSTALLED, *arguments, "--json"], capture_output=True, check=True)
    return json.loads(done.stdout)


def hammered(*arguments: str, chance: random.Random) -> tuple[int, str]:
    """Run a command and signal it at random, twice: no later than at the second it ends."""
    with subprocess.Popen(
        [INSTALLED, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        number = chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
        first_s = chance.uniform(0.0, CLAIM_TAKES_S)
        for at_s in (first_s, first_s + chance.choice([0.0, 0.002, 0.02])):
            threading.Timer(at_s, process.send_signal, [number]).start()
        out, _ = process.communicate(timeout=60)
    return process.returncode, out


@pytest.mark.parametrize("seed", [1, 2])
def test_a_waiting_claim_is_withdrawn_whenever_the_signal_comes(repo: Path, seed: int) -> None:
    chance = random.Random(seed)
    subprocess.run([INSTALLED, "claim", "src/**", "--agent", "ada", "-q"], check=True)
    for _ in range(ROUNDS):
        hammered("claim", "src/**", "--wait", "--agent", "bo", chance=chance)
        assert leasefs("queue")["waiters"] == []


@pytest.mark.parametrize("seed", [3])
def test_a_claim_is_told_or_not_made(repo: Path, seed: int) -> None:
    chance = random.Random(seed)
    told: set[str] = set()
    for number in range(ROUNDS):
        _, out = hammered("claim", f"d{number}/**", "-q", "--agent", "bo", chance=chance)
        told |= set(out.split())
        assert {lease["lease"] for lease in leasefs("leases")["leases"]} == told


@pytest.mark.parametrize("output", ["/dev/full", "a pipe that nobody reads"])
def test_a_claim_whose_id_cannot_be_told_is_not_made(repo: Path, output: str) -> None:
    for options in ([], ["--json"]):
        if output == "/dev/full":
            out = os.open(output, os.O_WRONLY)
        else:
            reading, out = os.pipe()
            os.close(reading)
        done = subprocess.run(
            [INSTALLED, "claim", "src/**", "--agent", "bo", *options], stdout=out, check=False
        )
        os.close(out)
        assert done.returncode in (1, 128 + signal.SIGPIPE)
        assert leasefs("leases")["leases"] == []
