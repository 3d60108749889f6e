"""What changes in a tree beside its mounts is told to the ledger and to the holder, and nothing else is (P8)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.foreign_world import (
    PROBE,
    ForeignChanges,
    Told,
    Writer,
    events_lost,
    make_files,
    told_of,
    until_covered,
)
from leasefs.testing.mount_trees import git

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.own_world import World

pytestmark = [pytest.mark.mount, pytest.mark.root]

# Promised is that a change is seen within a second; the machine may be busy.
TOLD_WITHIN_S = 15.0


@pytest.fixture
def source(world: World) -> str:
    root = f"{world.root}/tree"
    os.makedirs(f"{root}/src/deep/er")
    for name in ("a", "src/a", "src/b", "src/c", "src/deep/c", "src/deep/er/d"):
        Path(root, name).write_text("old")
    Path(root, ".gitignore").write_text("*.o\nbuild/\n")
    git(Path(root), "init", "-q")
    os.mkdir(f"{world.root}/mount")
    os.mkdir(f"{world.root}/other")
    return root


@pytest.fixture
def over(world: World, source: str) -> Iterator[Agent]:
    """A mount beside its tree, so that a test can reach both."""
    with agent_mount(source, f"{world.root}/mount") as agent:
        until_covered(agent, source)
        yield agent


def told(agent: Agent) -> dict[str, str]:
    """What was told of each path but the probes."""
    return {one.path: one.what for one in told_of(agent) if PROBE not in one.path}


def settled(agent: Agent, source: str) -> dict[str, str]:
    """What was told once all that happened until now is judged.

    A last change is told after all others but those that had to be looked for in directories, which are
    told before one that is made after that.
    """
    for _ in range(2):
        last = f"{PROBE}-{len(told_of(agent))}"
        Path(source, last).write_text("")
        eventually(
            lambda last=last: any(one.path == last for one in told_of(agent)),  # type: ignore[misc]
            TOLD_WITHIN_S,
            what="the report",
        )
    return told(agent)


def test_each_kind_of_change_is_told(over: Agent, source: str) -> None:
    Path(source, "src/new").write_text("new")
    Path(source, "src/a").write_text("changed")
    os.unlink(f"{source}/src/b")
    os.chmod(f"{source}/src/c", 0o755)
    Path(source, "a.draft").write_text("saved atomically")
    os.rename(f"{source}/a.draft", f"{source}/a")
    os.symlink("a", f"{source}/link")
    os.rename(f"{source}/src/deep", f"{source}/src/moved")
    os.makedirs(f"{source}/made/in/one/go")
    Path(source, "made/in/one/go/file").write_text("new")
    assert settled(over, source) == {
        "src/new": "created",
        "src/a": "modified",
        "src/b": "deleted",
        "src/c": "mode",
        "a": "modified",
        "link": "created",
        "src/deep/c": "deleted",
        "src/deep/er/d": "deleted",
        "src/moved/c": "created",
        "src/moved/er/d": "created",
        "made/in/one/go/file": "created",
    }


def test_what_a_moved_directory_holds_is_followed_and_what_left_the_tree_is_not(
    world: World, over: Agent, source: str
) -> None:
    os.rename(f"{source}/src/deep", f"{source}/src/moved")
    os.rename(f"{source}/src", f"{world.root}/away")
    assert settled(over, source)["src/a"] == "deleted"
    before = told_of(over)
    Path(world.root, "away/a").write_text("not in the tree any more")
    Path(world.root, "away/moved/er/d").write_text("nor this")
    os.rename(f"{world.root}/away/moved", f"{source}/back")
    assert settled(over, source)["back/er/d"] == "created"
    Path(source, "back/er/d").unlink()
    eventually(lambda: told(over)["back/er/d"] == "deleted", TOLD_WITHIN_S)
    assert not {one.path for one in told_of(over)[len(before) :]} & {"src/a", "src/moved/er/d"}


def test_scratch_git_times_and_what_comes_and_goes_are_not_told(over: Agent, source: str) -> None:
    Path(source, "src/a.o").write_text("built")
    os.makedirs(f"{source}/build/sub")
    Path(source, "build/sub/x").write_text("built")
    git(Path(source), "add", "-A")
    git(Path(source), "commit", "-q", "-m", "all")
    os.utime(f"{source}/src/a")
    os.setxattr(f"{source}/src/a", "user.x", b"1")
    Path(source, "src/brief").write_text("gone at once")
    os.unlink(f"{source}/src/brief")
    os.makedirs(f"{source}/empty/dir")
    shutil.rmtree(f"{source}/empty")
    assert settled(over, source) == {}


def test_its_own_changes_are_not_told_nor_those_of_atomic_saves(over: Agent, source: str) -> None:
    over.claim("src/a", "ours/**", "ours")
    root = over.root
    Path(root, "src/.a.swp").write_text("a swap file")
    Path(root, "src/a~").write_text("a backup")
    Path(root, "src/a.tmp").write_text("saved")
    os.replace(f"{root}/src/a.tmp", f"{root}/src/a")
    Writer(root, seed=1).write(300)
    subprocess.run(["git", "status"], cwd=root, check=True, capture_output=True)
    assert settled(over, source) == {}


def test_a_change_of_what_was_made_here_is_told(over: Agent, source: str) -> None:
    """Of files that only this mount has written so far."""
    over.claim("src/**")
    names = [f"src/made-{what}" for what in ("modified", "deleted", "mode", "replaced", "renamed")]
    for name in names:
        over.write(name, "ours")
    os.rename(f"{over.root}/src/made-renamed", f"{over.root}/src/renamed")
    assert settled(over, source) == {}
    Path(source, "src/made-modified").write_text("theirs")
    os.unlink(f"{source}/src/made-deleted")
    os.chmod(f"{source}/src/made-mode", 0o755)
    Path(source, "draft").write_text("theirs")
    os.rename(f"{source}/draft", f"{source}/src/made-replaced")
    Path(source, "src/renamed").write_text("theirs, too")
    assert settled(over, source) == {
        "src/made-modified": "modified",
        "src/made-deleted": "deleted",
        "src/made-mode": "mode",
        "src/made-replaced": "modified",
        "src/renamed": "modified",
    }


def test_the_holder_is_told_and_each_change_once(world: World, over: Agent, source: str) -> None:
    with agent_mount(source, f"{world.root}/other", "agent-08") as holder:
        until_covered(holder, source)
        lease = holder.claim("src/**")["lease"]
        Path(source, "src/a").write_text("theirs")
        Path(source, "a").write_text("theirs, and nobody's")
        control = Path(holder.root, ".leasefs")
        eventually(lambda: "src/a modified" in (control / "foreign").read_text(), TOLD_WITHIN_S)
        settled(over, source)
        found = [one for one in told_of(over) if one.path in {"a", "src/a"}]
        assert sorted((one.path, one.what, one.holder) for one in found) == [
            ("a", "modified", ""),
            ("src/a", "modified", lease),
        ]
        fact = json.loads((control / "foreign.json").read_text())[0]
        assert (fact["path"], fact["what"], fact["lease"]) == ("src/a", "modified", lease)
        assert "src/a " not in Path(over.root, ".leasefs/foreign").read_text()


def test_two_mounts_of_one_tree_tell_nothing_of_each_other(
    world: World, over: Agent, source: str
) -> None:
    with agent_mount(source, f"{world.root}/other", "agent-08") as other:
        until_covered(other, source)
        before = told_of(over)
        for agent, ground in ((over, "ours"), (other, "src")):
            agent.claim(f"{ground}/**", ground)
        os.makedirs(f"{other.root}/src/ours")
        writers = [
            subprocess.Popen(["python3", "-c", WRITE, place])
            for place in (f"{over.root}/ours", f"{other.root}/src/ours")
        ]
        for writer in writers:
            assert writer.wait(60) == 0
        os.unlink(f"{other.root}/src/b")
        os.chmod(f"{other.root}/src/c", 0o700)
        os.utime(f"{other.root}/src/c", (1, 1))
        os.rename(f"{other.root}/src/deep", f"{other.root}/src/moved")
        Path(other.root, "src/.a.swp").write_text("a swap file")
    # The other one is gone, and its leases with it.
    settled(over, source)
    assert [one for one in told_of(over)[len(before) :] if PROBE not in one.path] == []


WRITE = """
import os, sys
os.makedirs(sys.argv[1], exist_ok=True)
for at in range(200):
    path = f"{sys.argv[1]}/{at}"
    open(path + ".tmp", "w").write("x")
    os.rename(path + ".tmp", path)
    open(path, "a").write("more")
    if at % 3 == 0:
        os.unlink(path)
"""


@pytest.mark.parametrize(
    ("foreign", "own"),
    [(100, 1_000), pytest.param(1_000, 10_000, marks=pytest.mark.long)],
)
def test_none_is_missed_and_none_invented_while_the_mount_is_at_work(
    world: World, foreign: int, own: int
) -> None:
    root = f"{world.root}/busy"
    make_files(root, foreign)
    os.mkdir(f"{world.root}/mount")
    git(Path(root), "init", "-q")
    with agent_mount(root, f"{world.root}/mount") as agent:
        until_covered(agent, root)
        agent.claim("ours/**", "ours")
        others = ForeignChanges(root, foreign, 1, within_s=own * 0.002)
        others.start()
        Writer(agent.root, seed=2).write(own)
        others.join()
        assert settled(agent, root) == others.made


def test_events_that_were_lost_are_made_up_for(over: Agent, source: str) -> None:
    """More happens at once than the kernel keeps events of, while this mount has done something, too."""
    over.claim("src/**")
    queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    over.write("src/ours", "ours")
    with over.frozen():
        for at in range(queue // 2 + 100):
            os.utime(f"{source}/src/deep/c", (at, at))
            os.utime(f"{source}/src/deep/er/d", (at, at))
        Path(source, "src/new").write_text("new")
        Path(source, "src/a").write_text("changed")
        os.unlink(f"{source}/src/b")
        os.chmod(f"{source}/src/c", 0o755)
        Path(source, "made").mkdir()
        Path(source, "made/in").write_text("new")
    over.write("src/ours", "again")
    over.write("src/later", "ours")
    eventually(lambda: events_lost(over), TOLD_WITHIN_S, what="word of the lost events")
    found = settled(over, source)
    assert (
        found.items()
        >= {
            "src/new": "created",
            "src/a": "modified",
            "src/b": "deleted",
            "src/c": "mode",
            "made/in": "created",
        }.items()
    )
    assert not {"src/ours", "src/later"} & found.keys()


def test_a_ledger_that_was_away_is_told_later(world: World, over: Agent, source: str) -> None:
    lease = over.claim("src/**")["lease"]
    world.kill_ledger(signal.SIGTERM)
    Path(source, "src/a").write_text("theirs")
    found = Told("src/a", "modified", lease, over.about["agent"])
    eventually(lambda: world.ledger_pid() is not None, 30.0, what="the ledger")
    eventually(lambda: found in told_of(over), 30.0, what="the report")
