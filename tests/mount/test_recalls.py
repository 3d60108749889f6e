"""P7: a claim of higher priority has holders yield, nothing of anybody's is lost by it, and the ground comes back."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pytest

from leasefs.client import api, api_scheduling
from leasefs.client.ids import new_key
from leasefs.core.errors import Dirty, InvalidRequest
from leasefs.mount.launch import MountConfig, start_mount
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.kept import rescue_ids, restored
from leasefs.testing.uncommitted import agree, git, ledger_intents, new_repository

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.own_world import World

pytestmark = pytest.mark.mount

HUMAN = 100


class Two(NamedTuple):
    """A background loop and a person, each with a mount of the same tree."""

    loop: Agent
    person: Agent
    tree: str


@pytest.fixture
def tree(world: World) -> str:
    root = f"{world.root}/tree"
    new_repository(root)
    os.makedirs(f"{root}/src")
    for name in ("src/a", "src/b", "src/c", "beside"):
        Path(root, name).write_text(f"{name} as it was\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root


@pytest.fixture
def two(tree: str, world: World) -> Iterator[Two]:
    for name in ("loop", "person"):
        os.mkdir(f"{world.root}/{name}")
    with (
        agent_mount(tree, f"{world.root}/loop", "loop") as loop,
        agent_mount(tree, f"{world.root}/person", "person") as person,
    ):
        yield Two(loop, person, tree)


def urgent(agent: Agent, *globs: str, within_s: float = 0.0, priority: int = HUMAN) -> api.Body:
    """Claim with recall; returns at once, perhaps waiting."""
    call = api.claim(
        globs,
        key=new_key(),
        ttl_s=600.0,
        priority=priority,
        wait=True,
        recall_within_s=within_s,
    )
    return agent.control.send(call)


def granted(agent: Agent, claim: api.Body) -> api.Body:
    """Wait for the grant."""
    eventually(lambda: agent.state_of(claim) == "granted", what="the grant")
    return agent.control.send(api.lease(claim["lease"]))


def recalls(agent: Agent) -> list[Any]:
    found: list[Any] = agent.control.send(api.mount())["recalls"]
    return found


def recall_is(agent: Agent, state: str) -> Any:
    """The agent's one recall, once it is in this state."""

    def there() -> Any:
        return next((one for one in recalls(agent) if one["state"] == state), None)

    return eventually(there, what=f"a recall that is {state}")


def append(path: str, line: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


class Loop:
    """Appends numbered lines to a file as fast as it is let, and remembers which it was told are written."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.written: list[str] = []
        self.refused = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        number = 0
        while not self._end.wait(0.002):
            number += 1
            try:
                append(self.path, f"line {number}\n")
            except PermissionError:
                self.refused += 1
            except OSError as error:
                if error.errno != errno.ESTALE:
                    raise
                self.refused += 1
            else:
                self.written.append(f"line {number}")


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


def test_who_is_refused_learns_who_recalled_the_ground_and_that_it_comes_back(two: Two) -> None:
    loop, person = two.loop, two.person
    loop.claim("src/**", ttl_s=600)
    granted(person, urgent(person, "src/**"))
    again = recall_is(loop, "waiting")["again"]
    with pytest.raises(PermissionError):
        loop.write("src/a")
    (refusal,) = loop.control.send(api.mount())["refusals"]
    assert refusal["next"].startswith("recalled by person: person claimed src/**")
    assert f"it comes back to you as {again}" in refusal["next"]
    with pytest.raises(PermissionError):
        loop.write("beside")
    refusal = loop.control.send(api.mount())["refusals"][0]
    assert "claim it first" in refusal["next"]


def test_a_holder_asks_for_more_time_through_its_mount(two: Two) -> None:
    loop, person = two.loop, two.person
    lease = loop.claim("src/**", ttl_s=600)
    with Path(loop.root, "src/a").open("w"):
        urgent(person, "src/**", within_s=100)
        recall_is(loop, "asked")
        answer = loop.control.send(api_scheduling.more_time(lease["lease"], 50))
        assert 140 < answer["recall"]["yields_in_s"] <= 150
        (recall,) = recalls(loop)
        assert 140 < recall["yields_in_s"] <= 150
        assert recall["may_ask_for_s"] == 0


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


def test_whoever_mounts_has_a_command_run_at_each_recall(tree: str, world: World) -> None:
    """It runs in the mount, which serves it, and is told what it is about."""
    for name in ("loop", "person"):
        os.mkdir(f"{world.root}/{name}")
    said = f"{world.root}/said"
    hook = f'echo "$LEASEFS_LEASE $LEASEFS_RECALL_BY $LEASEFS_RECALL_WITHIN_S $PWD" > {said}; git commit -qam wip'
    root = f"{world.root}/loop"
    config = MountConfig(tree, root, "loop", "test", on_recall=hook)
    loop = Agent(start_mount(config))
    try:
        with agent_mount(tree, f"{world.root}/person", "person") as person:
            lease = loop.claim("src/**", ttl_s=600)
            Path(loop.root, "src/a").write_text("work\n")
            granted(person, urgent(person, "src/**", within_s=300))
            assert git(tree, "show", "HEAD:src/a") == b"work\n"
        told = Path(said).read_text().split()
        assert (told[0], told[1], told[3]) == (lease["lease"], "person", root)
        assert 290 <= int(told[2]) <= 300
    finally:
        loop.stop()


def test_a_repository_cannot_have_a_command_run(tree: str, world: World) -> None:
    Path(tree, ".leasefs.toml").write_text('on_recall = "touch /tmp/pwned"\n')
    os.mkdir(f"{world.root}/loop")
    with (
        pytest.raises(InvalidRequest, match="on_recall"),
        agent_mount(tree, f"{world.root}/loop", "l"),
    ):
        raise AssertionError("it must not mount")


def test_the_next_holder_is_told_the_note_and_the_commit_of_the_one_before(two: Two) -> None:
    """Hand-over: the grant is pushed into the waiter's mount with what it inherits."""
    loop, person = two.loop, two.person
    lease = loop.claim("src/**", ttl_s=600)
    Path(loop.root, "src/a").write_text("done\n")
    waiting = person.claim("src/**", ttl_s=600, wait=True)
    git(loop.root, "commit", "-qm", "a", "--", "src/a")
    loop.control.send(api.release(lease["lease"], key=new_key(), note="a is done"))
    eventually(lambda: person.may_write("src/b"), what="the pushed grant")
    mine = granted(person, waiting)
    head = git(two.tree, "rev-parse", "HEAD").decode().strip()
    note = mine["inherits"]["note"]
    assert (note["text"], note["commit"], note["agent"]) == ("a is done", head, "loop")
    assert "src/a" not in ledger_intents(person.ledger)
