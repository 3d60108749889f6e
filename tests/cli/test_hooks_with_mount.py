"""The hooks in real mounts: the mount says who commits and what it holds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client.api_scheduling import delegate
from leasefs.client.ids import new_key
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.ledger_process import LedgerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.mount

BIN = Path(sys.executable).parent


def git(place: str | Path, *arguments: str, ok: int = 0, **variables: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    done = subprocess.run(
        ["git", *identity, *arguments],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **variables},
        timeout=60,
    )
    assert done.returncode == ok, done.stderr
    return done.stderr


@pytest.fixture
def tree(tmp_path: Path, installed: Any) -> Path:
    """A repository with a commit of everything, and our hooks."""
    root = tmp_path / "repo"
    root.mkdir()
    for name in ("src/a", "docs/b"):
        (root / name).parent.mkdir()
        (root / name).write_text("as it was\n")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    assert installed("-C", str(root), "hooks", "install").code == 0
    return root


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[LedgerProcess]:
    with LedgerProcess(str(tmp_path)) as process:
        yield process


@pytest.fixture
def mount(
    tree: Path, tmp_path: Path, ledger: LedgerProcess, installed: Any
) -> Iterator[Callable[..., Agent]]:
    """Mount a clone of the tree for an agent: in one that agents share, git would not get as far as the hooks."""
    with ExitStack() as mounts:

        def make(name: str, source: Path | None = None, unleased: str = "") -> Agent:
            place = tmp_path / name
            place.mkdir()
            if source is None:
                source = tmp_path / f"{name}-clone"
                git(tmp_path, "clone", "-q", str(tree), str(source))
                assert installed("-C", str(source), "hooks", "install").code == 0
            url = f"unix:{ledger.socket_path}"
            mount = agent_mount(str(source), str(place), name, ledger=url, unleased=unleased)
            return mounts.enter_context(mount)

        yield make


def beside(agent: Agent, path: str) -> None:
    """Change a file of an agent's tree as a host tool does, past the mount."""
    Path(agent.about["source"], path).write_text("beside")


def test_the_mount_says_who_commits_and_under_which_lease(mount: Callable[..., Agent]) -> None:
    ada, bo = mount("ada"), mount("bo")
    ada.claim("src/**")
    theirs = bo.claim("docs/**")["lease"]
    ada.write("src/a")
    beside(ada, "docs/b")
    git(ada.root, "add", "-A")
    said = git(ada.root, "commit", "-q", "-m", "all", ok=1, LEASEFS_AGENT="bo")
    assert f"docs/b: held by bo (test), {theirs} docs/** (expires in " in said
    git(ada.root, "restore", "--staged", "docs/b")
    assert git(ada.root, "commit", "-q", "-m", "mine") == ""
    bo.write("docs/b")
    git(bo.root, "add", "docs/b")
    assert git(bo.root, "commit", "-q", "-m", "theirs") == ""


def test_what_a_write_claimed_and_gave_back_may_be_committed(mount: Callable[..., Agent]) -> None:
    """Of an agent that knows nothing of leases; but nothing that it did not write."""
    ada = mount("ada", unleased="claim+wait")
    ada.write("src/a")
    beside(ada, "docs/b")
    eventually(lambda: ada.held() == [], what="the giving back")
    git(ada.root, "add", "-A")
    said = git(ada.root, "commit", "-q", "-m", "all", ok=1)
    assert "docs/b" in said
    git(ada.root, "restore", "--staged", "docs/b")
    assert git(ada.root, "commit", "-q", "-m", "mine") == ""


def test_a_part_that_is_delegated_is_committed_by_who_has_it(mount: Callable[..., Agent]) -> None:
    planner, bo = mount("planner"), mount("bo")
    lease = planner.claim("**")
    call = delegate(lease["lease"], ["docs/**"], to="bo", key=new_key())
    part = planner.control.send(call)["lease"]
    eventually(lambda: [one["id"] for one in bo.held()] == [part], what="the part")
    planner.write("src/a")
    beside(planner, "docs/b")
    git(planner.root, "add", "-A")
    said = git(planner.root, "commit", "-q", "-m", "all", ok=1)
    assert f"docs/b: held by bo (test), {part} docs/** (expires in " in said
    assert "src/a" not in said
    git(planner.root, "restore", "--staged", "docs/b")
    assert git(planner.root, "commit", "-q", "-m", "mine") == ""
    bo.write("docs/b")
    git(bo.root, "add", "docs/b")
    assert git(bo.root, "commit", "-q", "-m", "theirs") == ""


def test_with_the_ledger_away_the_mount_answers(
    mount: Callable[..., Agent], ledger: LedgerProcess
) -> None:
    ada, bo = mount("ada"), mount("bo")
    ada.claim("src/**")
    bo.claim("docs/**")
    ada.write("src/a")
    beside(ada, "docs/b")
    ledger.kill()
    git(ada.root, "add", "src/a")
    assert git(ada.root, "commit", "-q", "-m", "mine") == ""
    ada.write("src/a", "more")
    git(ada.root, "add", "-A")
    said = git(ada.root, "commit", "-q", "-m", "all", ok=1)
    assert "docs/b: no lease of ada covers it" in said
    assert "who holds what, and whether lapsed leases are still yours, was not checked" in said


def test_a_lapsed_lease_still_lets_commit_until_somebody_takes_it(
    mount: Callable[..., Agent], ledger: LedgerProcess
) -> None:
    ada, bo = mount("ada"), mount("bo")
    ada.claim("src/**", ttl_s=1.0)
    ada.write("src/a")
    git(ada.root, "add", "-A")
    ledger.process.send_signal(signal.SIGSTOP)
    eventually(lambda: not ada.held()[0]["trusted_for_s"], what="the lapse")
    ledger.process.send_signal(signal.SIGCONT)
    assert git(ada.root, "commit", "-q", "-m", "mine") == ""
    taken = bo.claim("src/**", wait=True)
    eventually(lambda: bo.state_of(taken) == "granted", what="the grant")
    beside(ada, "src/a")
    git(ada.root, "add", "-A")
    assert "src/a: held by bo" in git(ada.root, "commit", "-q", "-m", "mine", ok=1)


def test_beside_the_one_mount_of_a_tree_its_agent_commits(
    mount: Callable[..., Agent], tree: Path
) -> None:
    ada = mount("ada", tree)
    ada.claim("src/**")
    ada.write("src/a")
    git(tree, "add", "-A")
    assert git(tree, "commit", "-q", "-m", "mine") == ""
    (tree / "docs/b").write_text("beside")
    git(tree, "add", "-A")
    assert "docs/b: no lease of ada covers it" in git(tree, "commit", "-q", "-m", "m", ok=1)
