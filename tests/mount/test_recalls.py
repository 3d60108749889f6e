"""P7: a claim of higher priority has holders yield, nothing of anybody's is lost by it, and the ground comes back."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import api, api_scheduling
from leasefs.client.ids import new_key
from leasefs.core.errors import Dirty
from leasefs.testing.agents import agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.kept import rescue_ids, restored
from leasefs.testing.recalled import (
    Loop,
    Two,
    append,
    granted,
    new_tree,
    recall_is,
    recalls,
    two_mounts,
    urgent,
)
from leasefs.testing.uncommitted import agree, git, ledger_intents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.own_world import World

pytestmark = pytest.mark.mount


@pytest.fixture
def tree(world: World) -> str:
    return new_tree(world.root)


@pytest.fixture
def two(tree: str, world: World) -> Iterator[Two]:
    with two_mounts(tree, world.root) as two:
        yield two


def test_a_person_stops_a_background_loop_cold_and_the_loop_gets_its_ground_back(two: Two) -> None:
    """The loop's writes stop, the person writes, releases, and the loop goes on; no byte of either is lost."""
    loop, person = two.loop, two.person
    lease = loop.claim("src/**", ttl_s=600)
    with Loop(f"{loop.root}/src/a") as writer:
        eventually(lambda: len(writer.written) > 20)
        mine = granted(person, urgent(person, "src/**"))
        refused = writer.refused
        eventually(lambda: writer.refused > refused + 2, what="a refusal of the loop")
        stopped_at = len(writer.written)
        append(f"{person.root}/src/a", "by hand\n")
        eventually(lambda: writer.refused > refused + 5)
        assert len(writer.written) == stopped_at
        git(person.root, "commit", "-qm", "by hand", "--", "src/a")
        person.release(mine)
        eventually(lambda: len(writer.written) > stopped_at + 20, what="the loop's next lines")
    lines = Path(two.tree, "src/a").read_text().splitlines()
    assert lines == [
        "src/a as it was",
        *writer.written[:stopped_at],
        "by hand",
        *writer.written[stopped_at:],
    ]
    (held,) = loop.held()
    (recall,) = recalls(loop)
    assert held["id"] == recall["again"] != lease["lease"]
    assert (recall["state"], recall["by"], recall["cold"]) == ("back", "person", True)
    agree(loop.ledger, two.tree)


def test_what_was_uncommitted_and_is_left_alone_is_its_holders_again(
    two: Two, tmp_path: Path
) -> None:
    """It stays in the tree; what somebody changed meanwhile is in the rescue, and both are told."""
    loop, person = two.loop, two.person
    lease = loop.claim("src/**", ttl_s=600)
    Path(loop.root, "src/a").write_text("hours of work\n")
    Path(loop.root, "src/b").write_text("more of it\n")
    Path(loop.root, "src/new").write_text("a new file\n")
    os.unlink(f"{loop.root}/src/c")
    mine = granted(person, urgent(person, "src/**"))
    (rescue,) = rescue_ids(two.tree, lease["lease"])
    assert mine["inherits"]["rescues"][0]["id"] == rescue
    assert Path(two.tree, "src/a").read_text() == "hours of work\n"
    waiting = recall_is(loop, "waiting")
    assert waiting["rescue"] == rescue
    told = Path(loop.root, ".leasefs/recalls").read_text()
    assert f"leasefs rescue show {rescue}" in told
    assert "recalled by person" in told
    Path(person.root, "src/b").write_text("the person's\n")
    git(person.root, "commit", "-qm", "b", "--", "src/b")
    person.release(mine)

    def taken_up() -> Any:
        return next((one for one in recalls(loop) if one["in_tree"]), None)

    recall = eventually(taken_up, what="the work's coming back")
    assert recall["in_tree"] == ["src/a", "src/c", "src/new"]
    assert recall["changed"] == ["src/b"]
    assert f"leasefs rescue apply {rescue}" in Path(loop.root, ".leasefs/recalls").read_text()
    known = agree(loop.ledger, two.tree)
    assert {path: one[0]["lease"] for path, one in known.items()} == dict.fromkeys(
        ("src/a", "src/c", "src/new"), recall["again"]
    )
    kept = restored(two.tree, rescue, str(tmp_path / "restored"))
    assert kept["src/b"] != kept["src/a"]
    with pytest.raises(Dirty, match="3 paths not yet committed"):
        loop.control.send(api.release(recall["again"], key=new_key()))


def test_a_holder_yields_as_soon_as_its_files_are_closed_and_its_work_is_committed(
    two: Two,
) -> None:
    loop, person = two.loop, two.person
    loop.claim("src/**", ttl_s=600)
    fd = os.open(f"{loop.root}/src/a", os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b"first\n")
    asked = urgent(person, "src/**", within_s=600)
    recall = recall_is(loop, "asked")
    assert recall["yields_in_s"] > 500
    assert "leasefs more-time" in Path(loop.root, ".leasefs/recalls").read_text()
    os.write(fd, b"second\n")
    git(loop.root, "commit", "-qm", "first and second", "--", "src/a")
    os.write(fd, b"third\n")
    os.close(fd)
    agree(loop.ledger, two.tree)
    assert person.state_of(asked) == "waiting"
    git(loop.root, "commit", "-qm", "third", "--", "src/a")
    mine = granted(person, asked)
    assert rescue_ids(two.tree, recall["lease"]) == []
    assert Path(two.tree, "src/a").read_text() == "first\nsecond\nthird\n"
    head = git(two.tree, "rev-parse", "HEAD").decode().strip()
    assert mine["inherits"]["note"]["commit"] == head
    person.release(mine)
    recall_is(loop, "back")
    loop.write("src/a")


def test_an_idle_holder_yields_at_once(two: Two) -> None:
    loop, person = two.loop, two.person
    loop.claim("src/**", ttl_s=600)
    granted(person, urgent(person, "src/**", within_s=600))
    assert not loop.may_write("src/a")
    assert person.may_write("src/a")


_TOOL = """
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY)
os.write(fd, b"in time")
print("open", flush=True)
sys.stdin.read(1)
try:
    os.write(fd, b"late")
except OSError as error:
    sys.exit(error.errno)
"""


def test_at_the_deadline_what_is_uncommitted_is_rescued_and_its_handles_are_dead(
    two: Two, tmp_path: Path
) -> None:
    loop, person = two.loop, two.person
    lease = loop.claim("src/**", ttl_s=600)
    command = [sys.executable, "-c", _TOOL, f"{loop.root}/src/new"]
    Path(loop.root, "src/new").touch()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tool:
        assert tool.stdout is not None
        tool.stdout.readline()
        mine = granted(person, urgent(person, "src/**", within_s=2.0))
        tool.communicate(b"x", timeout=20)
    assert tool.returncode == errno.ESTALE
    (rescue,) = rescue_ids(two.tree, lease["lease"])
    assert mine["inherits"]["rescues"][0]["id"] == rescue
    assert restored(two.tree, rescue, str(tmp_path / "restored"))["src/new"] is not None
    assert Path(two.tree, "src/new").read_bytes() == b"in time"
    revoked = person.ledger.send(api.events(types=["revoked"]))["events"]
    assert revoked == []


def test_the_same_priority_recalls_nobody(two: Two) -> None:
    loop, person = two.loop, two.person
    lease = loop.claim("src/**", ttl_s=600)
    asked = urgent(person, "src/**", priority=0)
    loop.write("src/a")
    assert recalls(loop) == []
    assert (loop.state_of(lease), person.state_of(asked)) == ("granted", "waiting")


def test_a_recall_for_a_claim_that_is_withdrawn_at_once_costs_the_holder_nothing(two: Two) -> None:
    """Whether its writes had stopped by then or not, it writes again without being asked to do anything."""
    loop, person = two.loop, two.person
    loop.claim("src/**", ttl_s=600)
    Path(loop.root, "src/a").write_text("work\n")
    for _ in range(5):
        asked = urgent(person, "src/**")
        person.release(asked)
        eventually(lambda: loop.may_write("src/b"), what="the loop's writing again")
    known = agree(loop.ledger, two.tree)
    assert {one[0]["agent"] for one in known.values()} == {"loop"}
    assert Path(two.tree, "src/a").read_text() == "work\n"


def test_who_gives_up_a_recalled_lease_does_not_get_it_back(two: Two) -> None:
    loop, person = two.loop, two.person
    lease = loop.claim("src/**", ttl_s=600)
    granted(person, urgent(person, "src/**"))
    recall_is(loop, "waiting")
    loop.release(lease)
    assert loop.ledger.send(api.queue())["waiters"] == []


@pytest.mark.chaos
def test_a_mount_that_sleeps_through_its_deadline_keeps_its_work_and_gets_its_ground_back(
    two: Two,
) -> None:
    """P3: nobody writes there before its TTL is over, however urgent."""
    loop, person = two.loop, two.person
    lease = loop.claim("src/**", ttl_s=3.0)
    Path(loop.root, "src/a").write_text("work\n")
    agree(loop.ledger, two.tree)
    with loop.frozen():
        asked_at_s = time.monotonic()
        mine = granted(person, urgent(person, "src/**"))
        assert time.monotonic() - asked_at_s > 0.5
        rescues = rescue_ids(two.tree, lease["lease"])
        assert rescues, "who is granted the ground keeps what was left there"
        Path(person.root, "src/a").write_text("the person's\n")
    git(person.root, "commit", "-qm", "a", "--", "src/a")
    assert not loop.may_write("src/a")
    person.release(mine)
    eventually(lambda: loop.may_write("src/b"), what="the ground's coming back")


@pytest.mark.parametrize("policy", ["wait", "claim+wait"])
def test_a_loop_whose_mount_waits_sees_little_of_it_but_time(
    tree: str, world: World, policy: str
) -> None:
    """`--unleased wait`: the loop's writes wait, and none passes while the person has the ground."""
    with two_mounts(tree, world.root, unleased=policy, wait_s=120.0) as two:
        loop, person = two.loop, two.person
        loop.claim("src/**", ttl_s=600)
        with Loop(f"{loop.root}/src/a") as writer:
            for _ in range(3):
                count = len(writer.written)
                eventually(lambda count=count: len(writer.written) > count + 10)  # type: ignore[misc]
                mine = granted(person, urgent(person, "src/**"))
                before = Path(tree, "src/a").read_bytes()
                append(f"{person.root}/src/b", "by hand\n")
                assert Path(tree, "src/a").read_bytes() == before
                git(person.root, "commit", "-qm", "by hand", "--", "src/b")
                person.release(mine)
            count = len(writer.written)
            eventually(lambda: len(writer.written) > count + 10, what="the loop's going on")
        # A handle that was open when writes stopped is dead, once for each recall; opening anew waits.
        assert writer.refused <= 3
        assert Path(tree, "src/a").read_text().splitlines() == ["src/a as it was", *writer.written]


def test_without_git_work_is_kept_as_well_and_comes_back(world: World, tmp_path: Path) -> None:
    tree = f"{world.root}/plain"
    os.makedirs(f"{tree}/src")
    with two_mounts(tree, world.root) as two:
        loop, person = two.loop, two.person
        loop.claim("src/**", ttl_s=600)
        Path(loop.root, "src/a").write_text("work\n")
        mine = granted(person, urgent(person, "src/**", within_s=600))
        assert mine["inherits"]["rescues"][0]["names"] == ["src/a"]
        Path(person.root, "src/b").write_text("the person's\n")
        person.release(mine)
        eventually(lambda: [one["in_tree"] for one in recalls(loop)] == [["src/a"]])
        eventually(lambda: set(ledger_intents(loop.ledger)) == {"src/a"})


def test_a_holder_yields_for_a_freeze_and_has_its_ground_back_when_it_is_lifted(two: Two) -> None:
    loop, person = two.loop, two.person
    loop.claim("src/**", ttl_s=600)
    Path(loop.root, "src/a").write_text("work\n")
    territory = str(loop.about["territory"])
    call = api_scheduling.freeze(
        ["src/a"], territory=territory, key=new_key(), reason="about to be split", within_s=1.0
    )
    frozen = person.ledger.send(call)
    granted(person, frozen)
    for agent in two.loop, two.person:
        assert not agent.may_write("src/a")
    assert recall_is(loop, "waiting")["rescue"]
    person.ledger.send(api_scheduling.unfreeze(frozen["lease"], key=new_key()))
    eventually(lambda: loop.may_write("src/b"), what="the ground's coming back")
    assert Path(two.tree, "src/a").read_text() == "work\n"
    assert set(agree(loop.ledger, two.tree)) == {"src/a", "src/b"}


def test_a_recalled_parent_and_the_part_that_was_delegated_both_yield_with_their_work_kept(
    tree: str, world: World
) -> None:
    os.mkdir(f"{world.root}/worker")
    with (
        two_mounts(tree, world.root) as two,
        agent_mount(tree, f"{world.root}/worker", "worker") as worker,
    ):
        planner, person = two.loop, two.person
        lease = planner.claim("src/**", ttl_s=600)
        part = planner.control.send(
            api_scheduling.delegate(lease["lease"], ["src/b"], to="worker", key=new_key())
        )
        eventually(lambda: worker.may_write("src/b"), what="the part's grant")
        Path(worker.root, "src/b").write_text("the worker's\n")
        Path(planner.root, "src/a").write_text("the planner's\n")
        mine = granted(person, urgent(person, "src/**"))
        assert {one["lease"] for one in mine["inherits"]["rescues"]} == {
            lease["lease"],
            part["lease"],
        }
        assert not worker.may_write("src/b")
        assert not planner.may_write("src/a")
        person.release(mine)
        eventually(lambda: planner.may_write("src/c"), what="the ground's coming back")
        assert Path(tree, "src/a").read_text() == "the planner's\n"
        assert Path(tree, "src/b").read_text() == "the worker's\n"
