"""Two agents edit and commit in one shared tree: each commit is one agent's, and nothing of either is lost."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.own_world import own_world
from leasefs.testing.uncommitted import agree, git, new_repository

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mount, pytest.mark.chaos]

NAMES = ("agent-07", "agent-08")
# What git says when somebody else commits at the same moment.
_CONTENTION = (
    "index.lock",
    "cannot lock ref",
    "nothing added to commit",
    "nothing to commit",
    "no changes added",
    "did not match any file",
)
_TRIES = 20


class Worker(threading.Thread):
    """An agent that edits its own directory and commits it, through its own mount."""

    def __init__(self, agent: Agent, name: str, seconds: float) -> None:
        super().__init__()
        self.agent = agent
        self.ours = name
        self.commits = 0
        # What is in the tree, and what is committed: file name to content.
        self.files: dict[str, str] = {}
        self.contents: set[str] = set()
        self.trouble: list[str] = []
        self._random = random.Random(name)
        self._until_s = time.monotonic() + seconds

    def run(self) -> None:
        try:
            agent_lease = self.agent.claim(f"{self.ours}/**", ttl_s=60)
            os.makedirs(f"{self.agent.root}/{self.ours}/deep", exist_ok=True)
            while time.monotonic() < self._until_s:
                for _ in range(self._random.randrange(1, 4)):
                    self.edit()
                self.commit()
            self.agent.release(agent_lease)
        except Exception as error:  # noqa: BLE001 - told by the test's own thread
            self.trouble.append(repr(error))

    def edit(self) -> None:
        at = f"{self.agent.root}/{self.ours}"
        name = self._random.choice(["a", "b", "deep/c", "deep/d", "e"])
        doing = self._random.random()
        if doing < 0.15 and name in self.files:
            os.unlink(f"{at}/{name}")
            del self.files[name]
        elif doing < 0.3 and name in self.files:
            os.rename(f"{at}/{name}", f"{at}/{name}-moved")
            self.files[f"{name}-moved"] = self.files.pop(name)
        else:
            self.write(name)

    def write(self, name: str) -> None:
        content = f"{self.ours} {self._random.random()}\n"
        Path(self.agent.root, self.ours, name).write_text(content)
        self.files[name] = content

    def commit(self) -> None:
        """As agents do: all of one's own, by name, until it is there.

        Git reads the index before it locks it for `commit -- path`, and so takes back what another `git add` put there
        meanwhile; mounts or not, whoever shares an index has to look whether it was committed.
        """
        for _ in range(_TRIES):
            self.git("add", "--", self.ours)
            if self.files and self._random.random() < 0.3:
                self.write(self._random.choice(sorted(self.files)))  # `commit -- path` takes this
            if self.git("status", "--porcelain", "-z", "--", self.ours):
                author = f"{self.ours} <a@b>"
                self.git("commit", "-qm", self.ours, "--author", author, "--", self.ours)
            if self.committed() == self.files:
                self.contents |= set(self.files.values())
                return
        self.trouble.append(f"committed {self.committed()}, not {self.files}")

    def committed(self) -> dict[str, str]:
        names = self.git("ls-tree", "-r", "-z", "--name-only", "HEAD", "--", f"{self.ours}/")
        paths = [name for name in names.decode().split("\0") if name]
        cut = len(self.ours) + 1
        return {path[cut:]: self.git("show", f"HEAD:{path}").decode() for path in paths}

    def git(self, *arguments: str) -> bytes:
        while True:
            done = subprocess.run(
                ["git", *arguments], cwd=self.agent.root, capture_output=True, check=False
            )
            said = (done.stdout + done.stderr).decode()
            if done.returncode == 0:
                self.commits += arguments[0] == "commit"
                return done.stdout
            if not any(words in said for words in _CONTENTION):
                raise AssertionError((arguments, said))
            if "lock" not in said:
                return b""


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[tuple[str, list[Agent]]]:
    with own_world(str(tmp_path)) as world, ExitStack() as mounts:
        source = f"{world.root}/source"
        new_repository(source)
        Path(source, "README").write_text("x")
        git(source, "add", "-A")
        git(source, "commit", "-qm", "first")
        both = []
        for name in NAMES:
            os.mkdir(f"{world.root}/{name}")
            mount = agent_mount(source, f"{world.root}/{name}", name)
            both.append(mounts.enter_context(mount))
        yield source, both


@pytest.mark.parametrize(
    "seconds", [pytest.param(15, id="15s"), pytest.param(300, id="5min", marks=pytest.mark.long)]
)
def test_each_commit_is_one_agents_and_nothing_is_lost(
    agents: tuple[str, list[Agent]], seconds: float
) -> None:
    source, both = agents
    workers = [Worker(agent, name, seconds) for agent, name in zip(both, NAMES, strict=True)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(seconds + 60)
    assert [worker.trouble for worker in workers] == [[], []]
    assert_each_commit_is_ones_own(source, workers)
    for worker in workers:
        assert worker.commits >= seconds / 5
        for name, content in worker.files.items():
            assert Path(source, worker.ours, name).read_text() == content
    assert [str(lock) for lock in Path(source, ".git").rglob("*.lock")] == []
    git(source, "fsck", "--strict")
    assert agree(both[0].ledger, source) == {}


def assert_each_commit_is_ones_own(source: str, workers: list[Worker]) -> None:
    log = git(source, "log", "--format=%x01%an", "--name-only", "--no-renames", "HEAD").decode()
    commits = [entry.split() for entry in log.split("\x01") if entry.strip()]
    for author, *paths in commits[:-1]:
        assert all(path.startswith(f"{author}/") for path in paths), (author, paths)
    counts = {
        worker.ours: sum(author == worker.ours for author, *_ in commits) for worker in workers
    }
    assert counts == {worker.ours: worker.commits for worker in workers}, "no commit is lost"
    blobs = git(source, "log", "-p", "--format=", "HEAD").decode()
    for worker in workers:
        assert all(f"+{content}" in blobs for content in worker.contents), "no edit is lost"
