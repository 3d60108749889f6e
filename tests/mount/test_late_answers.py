"""A request that waits for its lease holds the kernel's lock of a directory: nothing else may wait for that."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.agents import agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.uncommitted import new_repository

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.agents import Agent
    from leasefs.testing.own_world import World

pytestmark = [pytest.mark.mount, pytest.mark.root]


@pytest.fixture
def tree(world: World) -> Path:
    root = Path(world.root, "tree")
    new_repository(str(root))
    (root / "src/empty").mkdir(parents=True)
    for name in ("src/one", "src/far/one", "docs/one"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("1\n")
    Path(world.root, "mount").mkdir()
    return root


@contextmanager
def waiting_mount(tree: Path, *, dies: bool = False) -> Iterator[Agent]:
    place = str(tree.parent / "mount")
    with agent_mount(str(tree), place, unleased="wait", wait_s=300.0, dies=dies) as agent:
        yield agent


@contextmanager
def somebody_waits(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """For a lease that nobody asks for."""
    with subprocess.Popen(command, stderr=subprocess.PIPE) as writer:
        stack = Path(f"/proc/{writer.pid}/stack")
        eventually(lambda: "request_wait_answer" in stack.read_text(), what="the wait")
        try:
            yield writer
        finally:
            writer.kill()


def news_arrive(tree: Path, there: Path) -> None:
    """Several times: the first may overtake what waits."""
    for before, after in (("one", "two"), ("two", "three"), ("three", "four")):
        assert (there / "docs" / before).exists()
        (tree / "docs" / before).rename(tree / "docs" / after)
        eventually(lambda name=before: not (there / "docs" / name).exists(), 5, "the news")  # type: ignore[misc]


def test_what_others_change_elsewhere_is_seen_meanwhile(tree: Path) -> None:
    with waiting_mount(tree) as agent:
        there = Path(agent.root)
        assert (there / "docs/one").exists()
        assert (there / "src/one").exists()
        with somebody_waits("sh", "-c", f"echo new > {there}/src/new"):
            (tree / "src/one").rename(tree / "src/two")
            news_arrive(tree, there)
        eventually(lambda: not (there / "src/one").exists(), 5, "the news of where it waited")
        assert (there / "src/two").exists()


@pytest.mark.parametrize(
    "act",
    [
        "rmdir empty",
        "mv empty other",
        "mv far/one empty/one",
        "mv -T far empty",
        "ln one empty/one",
    ],
)
def test_whatever_it_is_that_waits(tree: Path, act: str) -> None:
    with waiting_mount(tree) as agent:
        there = Path(agent.root)
        assert os.listdir(there / "src/empty") == []
        assert os.listdir(there / "src/far") == ["one"]
        with somebody_waits("sh", "-c", f"cd {there}/src && exec {act}"):
            (tree / "src/empty/came").write_text("between\n")
            (tree / "src/far/came").write_text("between\n")
            news_arrive(tree, there)
        eventually(lambda: (there / "src/empty/came").exists(), 5, "the news of where it waited")


def test_a_daemon_that_is_killed_meanwhile_ends_and_so_does_the_wait(tree: Path) -> None:
    with waiting_mount(tree, dies=True) as agent:
        there = Path(agent.root)
        assert (there / "docs/one").exists()
        assert (there / "src/one").exists()
        with somebody_waits("sh", "-c", f"echo new > {there}/src/new") as writer:
            (tree / "src/one").rename(tree / "src/two")
            news_arrive(tree, there)
            os.kill(agent.pid, signal.SIGKILL)
            eventually(lambda: not os.path.exists(f"/proc/{agent.pid}"), what="the daemon's end")
            _, said = writer.communicate(timeout=20)
            assert b"cannot create" in said
