"""P1 while ground goes to and fro: no write of the giver passes between two writes of one handle of the worker."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from leasefs.client import api, api_scheduling
from leasefs.client.ids import new_key
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.uncommitted import git, new_repository

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.own_world import World

pytestmark = [pytest.mark.mount, pytest.mark.slow]

ROUNDS = 12


@pytest.fixture
def tree(world: World) -> str:
    root = f"{world.root}/tree"
    new_repository(root)
    os.makedirs(f"{root}/src")
    Path(root, "src/part").write_text("nobody\n")
    Path(root, "src/rest").write_text("nobody\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root


@pytest.fixture
def pair(tree: str, world: World) -> Iterator[tuple[Agent, Agent]]:
    for name in ("planner", "worker"):
        os.mkdir(f"{world.root}/{name}")
    with (
        agent_mount(tree, f"{world.root}/planner", "planner") as planner,
        agent_mount(tree, f"{world.root}/worker", "worker") as worker,
    ):
        yield planner, worker


class Writer:
    """Writes its name, looks beneath whether it stands there still, and writes again through the same handle.

    What it saw in between counts if the second write passes: then its handle was good all the time.
    """

    def __init__(self, agent: Agent, beneath: str, name: str) -> None:
        self.passed = self.refused = 0
        self.wrong: list[bytes] = []
        self._path = f"{agent.root}/src/part"
        self._beneath = beneath
        self._word = f"{name:>8}".encode()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                self._write()
            except OSError:
                self.refused += 1
                self._end.wait(0.002)

    def _write(self) -> None:
        fd = os.open(self._path, os.O_WRONLY)
        try:
            os.pwrite(fd, self._word, 0)
            self._end.wait(0.002)
            seen = Path(self._beneath).read_bytes()[: len(self._word)]
            os.pwrite(fd, self._word, 0)
        finally:
            os.close(fd)
        self.passed += 1
        if seen != self._word:
            self.wrong.append(seen)


def test_ground_that_goes_to_and_fro_has_one_writer_at_a_time(
    tree: str, pair: tuple[Agent, Agent]
) -> None:
    planner, worker = pair
    lease = planner.claim("src/**", ttl_s=600)
    beneath = f"{tree}/src/part"
    with Writer(planner, beneath, "planner") as giver, Writer(worker, beneath, "worker") as taker:
        for _ in range(ROUNDS):
            before = giver.passed
            eventually(lambda before=before: giver.passed > before, what="a write of the giver")
            call = api_scheduling.delegate(
                lease["lease"], ["src/part"], to="worker", key=new_key(), dirty="rescue"
            )
            part = planner.control.send(call)
            before = taker.passed
            eventually(lambda before=before: taker.passed > before, what="a write of the worker")
            worker.control.send(api.release(part["lease"], key=new_key(), dirty="keep"))
    assert giver.wrong == []
    assert taker.wrong == []
    assert min(giver.refused, taker.refused) >= ROUNDS
