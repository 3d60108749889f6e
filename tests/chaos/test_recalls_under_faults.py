"""P7, P9: recalls at random, while ledgers are killed and mounts sleep, lose no byte of anybody's and leave nobody waiting."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.client import api
from leasefs.client.ids import new_key
from leasefs.core.errors import LeasefsError
from leasefs.testing.eventually import eventually
from leasefs.testing.own_world import World, own_world
from leasefs.testing.recalled import (
    Loop,
    Two,
    append,
    granted,
    new_tree,
    two_mounts,
    urgent,
)
from leasefs.testing.uncommitted import git

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.mount, pytest.mark.chaos, pytest.mark.slow]

FILES = ("src/a", "src/b", "src/c")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with own_world(str(tmp_path)) as world:
        yield world


def patiently(act: Callable[[], object]) -> None:
    """Do it until the ledger is there for it."""

    def done() -> bool:
        try:
            act()
        except LeasefsError:
            return False
        return True

    eventually(done, within_s=60, what="the ledger's answer")


def disturb(world: World, two: Two, rng: random.Random, over: threading.Event) -> None:
    """Kill the ledger, or have the loop's mount sleep, every now and then."""
    while not over.wait(rng.uniform(0.2, 1.5)):
        if rng.random() < 0.5:
            pid = world.ledger_pid()
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
        else:
            with two.loop.frozen():
                over.wait(rng.uniform(0.0, 0.8))


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_between_a_person_and_loops(world: World, seed: int) -> None:
    """Each line that a write was told to have written is in its file at the end, once, in order."""
    rng = random.Random(seed)
    tree = new_tree(world.root)
    over = threading.Event()
    by_hand: dict[str, list[str]] = {name: [] for name in FILES}
    with two_mounts(tree, world.root) as two:
        patiently(lambda: two.loop.claim("src/**", ttl_s=20.0))
        with (
            Loop(f"{two.loop.root}/src/a") as first,
            Loop(f"{two.loop.root}/src/b") as second,
        ):
            threading.Thread(
                target=disturb, args=(world, two, random.Random(seed + 100), over), daemon=True
            ).start()
            try:
                for number in range(8):
                    recall_once(two, rng, number, by_hand)
                    time.sleep(rng.uniform(0.0, 0.5))
            finally:
                over.set()
            counts = len(first.written), len(second.written)
            eventually(
                lambda: len(first.written) > counts[0] and len(second.written) > counts[1],
                within_s=60,
                what="the ground's coming back",
            )
    for name, written in (("src/a", first.written), ("src/b", second.written), ("src/c", [])):
        lines = Path(tree, name).read_text().splitlines()
        assert [line for line in lines if line.startswith("line")] == written
        assert [line for line in lines if line.startswith("hand")] == by_hand[name]


def recall_once(two: Two, rng: random.Random, number: int, by_hand: dict[str, list[str]]) -> None:
    """The person takes the ground, writes, commits and gives it back."""
    person = two.person
    asked: list[api.Body] = []
    within_s = rng.choice([0.0, 0.0, 0.5, 2.0])
    patiently(lambda: asked.append(urgent(person, "src/**", within_s=within_s)))
    patiently(lambda: granted(person, asked[-1]))
    eventually(lambda: person.may_write("src/mine"), within_s=60, what="the person's ground")
    for name in rng.sample(FILES, 2):
        line = f"hand {number}"
        try:
            append(f"{person.root}/{name}", f"{line}\n")
        except OSError:
            continue  # its own lease lapsed, while the ledger was away
        by_hand[name].append(line)
    git(person.root, "add", "src/mine", ok=(0, 128))
    git(person.root, "commit", "-qam", f"by hand {number}", ok=(0, 1, 128))
    patiently(lambda: _released(two, asked[-1]["lease"]))


def _released(two: Two, lease_id: str) -> None:
    state = two.person.ledger.send(api.lease(lease_id))["state"]
    if state in {"granted", "lapsed"}:
        two.person.control.send(api.release(lease_id, key=new_key(), dirty="keep"))
