"""P1, P9: a planner gives parts of its lease to workers and gets them back; downgrade and upgrade; three real mounts."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from leasefs.client import api, api_scheduling
from leasefs.client.ids import new_key
from leasefs.core.errors import Dirty, InvalidRequest, LeasefsError
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.kept import rescue_ids, restored
from leasefs.testing.random_writer import state_of
from leasefs.testing.uncommitted import agree, git, ledger_intents, new_repository

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.own_world import World

pytestmark = pytest.mark.mount

INSTALLED = Path(sys.executable).parent / "leasefs"
FILES = ("core/y.py", "core/table/a.py", "core/table/b.py", "core/table/sort/c.py", "beside.py")


class Team(NamedTuple):
    """A planner and two workers, each with a mount of the same tree."""

    tree: str
    planner: Agent
    ada: Agent
    bo: Agent


@pytest.fixture
def tree(world: World) -> str:
    root = f"{world.root}/tree"
    new_repository(root)
    for name in FILES:
        os.makedirs(os.path.dirname(f"{root}/{name}"), exist_ok=True)
        Path(root, name).write_text(f"{name} as it was\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root


@pytest.fixture
def team(tree: str, world: World) -> Iterator[Team]:
    for name in ("planner", "ada", "bo"):
        os.mkdir(f"{world.root}/{name}")
    with (
        agent_mount(tree, f"{world.root}/planner", "planner") as planner,
        agent_mount(tree, f"{world.root}/ada", "ada") as ada,
        agent_mount(tree, f"{world.root}/bo", "bo") as bo,
    ):
        yield Team(tree, planner, ada, bo)


def delegate(agent: Agent, lease: api.Body, to: str, *globs: str, **wishes: Any) -> api.Body:
    call = api_scheduling.delegate(lease["lease"], globs, to=to, key=new_key(), **wishes)
    return agent.control.send(call)


def downgrade(agent: Agent, lease: api.Body) -> api.Body:
    return agent.control.send(api_scheduling.downgrade(lease["lease"], key=new_key()))


def holds(agent: Agent, lease: api.Body) -> None:
    """Wait until the agent's mount has this lease in its view."""
    eventually(lambda: lease["lease"] in {one["id"] for one in agent.held()}, what="the grant")


def told(agent: Agent, name: str) -> str:
    return Path(agent.root, ".leasefs", name).read_text()


def errno_of(agent: Agent, path: str) -> int:
    """What a write of an existing file fails with; 0 if it passes."""
    try:
        with open(os.path.join(agent.root, path), "a", encoding="utf-8") as file:
            file.write("more\n")
    except OSError as error:
        return error.errno or -1
    return 0


def left(team: Team, name: str) -> Any:
    """What there is at a name of the tree, as `restored` tells it."""
    return state_of(team.tree)[name]


def commit(team: Team) -> None:
    git(team.tree, "add", "-A")
    git(team.tree, "commit", "-qm", "work")
    agree(team.planner.ledger, team.tree)


def test_parts_go_to_two_workers_and_come_back(team: Team) -> None:
    planner, ada, bo = team.planner, team.ada, team.bo
    lease = planner.claim("core/**", ttl_s=600)
    part = delegate(planner, lease, "ada", "core/table/**", note="sort it")
    other = delegate(planner, lease, "bo", "core/y.py")
    assert (part["parent"], part["agent"]) == (lease["lease"], "ada")
    holds(ada, part)
    holds(bo, other)
    eventually(lambda: "delegated to you by planner" in told(ada, "delegations"), what="its giver")
    ada.write("core/table/a.py", "ada\n")
    ada.write("core/table/new.py", "ada\n")
    bo.write("core/y.py", "bo\n")
    assert errno_of(bo, "core/table/a.py") == errno.EACCES
    for path in ("core/table/a.py", "core/table/new.py", "core/y.py"):
        assert errno_of(planner, path) == errno.EACCES
    with pytest.raises(PermissionError):
        os.rename(f"{planner.root}/core/table", f"{planner.root}/core/chair")
    with pytest.raises(PermissionError):
        os.unlink(f"{planner.root}/core/table/b.py")
    planner.write("core/z.py", "planner\n")
    said = told(planner, "refusals").splitlines()
    assert any(
        "core/y.py" in line
        and f"bo has it as {other['lease']}" in line
        and "leasefs recall" in line
        for line in said
    )
    assert f"ada has it as {part['lease']}" in told(planner, "delegations")
    assert "sort it" in told(ada, "delegations")
    commit(team)
    ada.release(part)
    eventually(lambda: errno_of(planner, "core/table/a.py") == 0, what="the ground's return")
    assert errno_of(ada, "core/table/a.py") == errno.EACCES
    assert errno_of(planner, "core/y.py") == errno.EACCES
    bo.release(other)
    eventually(lambda: errno_of(planner, "core/y.py") == 0, what="the ground's return")
    assert told(planner, "delegations") == ""


def test_what_is_open_there_is_never_written_again(team: Team) -> None:
    """ESTALE while the worker has it, and after: it may have written in between. What is open beside goes on."""
    lease = team.planner.claim("core/**", ttl_s=600)
    inside = os.open(f"{team.planner.root}/core/table/a.py", os.O_RDWR)
    beside = os.open(f"{team.planner.root}/core/y.py", os.O_RDWR)
    try:
        part = delegate(team.planner, lease, "ada", "core/table/**")
        holds(team.ada, part)
        for call in (lambda: os.write(inside, b"x"), lambda: os.ftruncate(inside, 0)):
            with pytest.raises(OSError, match=os.strerror(errno.ESTALE)) as caught:
                call()
            assert caught.value.errno == errno.ESTALE
        assert os.write(beside, b"x") == 1
        team.ada.write("core/table/a.py", "ada\n")
        commit(team)
        team.ada.release(part)
        eventually(lambda: errno_of(team.planner, "core/table/b.py") == 0, what="the return")
        with pytest.raises(OSError, match=os.strerror(errno.ESTALE)):
            os.write(inside, b"x")
        assert os.write(beside, b"x") == 1
    finally:
        os.close(inside)
        os.close(beside)
    assert Path(team.tree, "core/table/a.py").read_text() == "ada\n"


def test_a_part_of_a_part_stays_closed_to_both_above(team: Team) -> None:
    lease = team.planner.claim("core/**", ttl_s=600)
    part = delegate(team.planner, lease, "ada", "core/table/**")
    holds(team.ada, part)
    deep = delegate(team.ada, part, "bo", "core/table/sort/**")
    holds(team.bo, deep)
    team.bo.write("core/table/sort/c.py", "bo\n")
    assert errno_of(team.ada, "core/table/sort/c.py") == errno.EACCES
    team.ada.release(part)
    eventually(lambda: errno_of(team.planner, "core/table/a.py") == 0, what="the return")
    assert errno_of(team.planner, "core/table/sort/c.py") == errno.EACCES
    assert f"bo has it as {deep['lease']}" in told(team.planner, "delegations")
    team.bo.write("core/table/sort/c.py", "bo again\n")
    commit(team)
    team.bo.release(deep)
    eventually(lambda: errno_of(team.planner, "core/table/sort/c.py") == 0, what="the return")


def test_a_revoked_planner_takes_its_workers_with_it_and_all_work_is_kept(
    team: Team, tmp_path: Path
) -> None:
    lease = team.planner.claim("core/**", ttl_s=600)
    part = delegate(team.planner, lease, "ada", "core/table/**")
    holds(team.ada, part)
    team.ada.write("core/table/a.py", "ada's work\n")
    team.planner.write("core/y.py", "the planner's work\n")
    agree(team.planner.ledger, team.tree)
    team.planner.ledger.send(api.revoke(lease["lease"], by="ops"))
    for one in (lease, part):
        eventually(lambda one=one: team.planner.state_of(one) == "ended", what="the end")
    assert errno_of(team.ada, "core/table/a.py") == errno.EACCES
    assert errno_of(team.planner, "core/y.py") == errno.EACCES
    for one, name in ((lease, "core/y.py"), (part, "core/table/a.py")):
        (rescue,) = eventually(lambda one=one: rescue_ids(team.tree, one["lease"]))
        state = restored(team.tree, rescue, str(tmp_path / one["lease"]))
        assert state[name] == left(team, name)


def test_uncommitted_work_there_is_not_given_away_unseen(team: Team, tmp_path: Path) -> None:
    lease = team.planner.claim("core/**", ttl_s=600)
    team.planner.write("core/table/a.py", "planner\n")
    team.planner.write("core/y.py", "planner\n")
    with pytest.raises(Dirty, match=r"core/table/a\.py"):
        delegate(team.planner, lease, "ada", "core/table/**")
    assert errno_of(team.planner, "core/table/b.py") == 0
    assert told(team.planner, "delegations") == ""
    part = delegate(team.planner, lease, "ada", "core/table/**", dirty="rescue")
    (rescue,) = rescue_ids(team.tree, lease["lease"])
    assert set(ledger_intents(team.planner.ledger)) == {"core/y.py"}
    state = restored(team.tree, rescue, str(tmp_path / "kept"))
    assert state["core/table/a.py"] == left(team, "core/table/a.py")
    holds(team.ada, part)


def test_work_that_is_kept_stays_the_givers_and_a_copy_is_there_before_it_is_written_over(
    team: Team, tmp_path: Path
) -> None:
    lease = team.planner.claim("core/**", ttl_s=600)
    team.planner.write("core/table/a.py", "planner\n")
    before = left(team, "core/table/a.py")
    part = delegate(team.planner, lease, "ada", "core/table/**", dirty="keep")
    assert ledger_intents(team.planner.ledger)["core/table/a.py"][0]["agent"] == "planner"
    holds(team.ada, part)
    team.ada.write("core/table/a.py", "ada\n")
    (rescue,) = rescue_ids(team.tree, lease["lease"])
    assert restored(team.tree, rescue, str(tmp_path / "kept"))["core/table/a.py"] == before


def test_what_a_worker_left_is_kept_before_the_planner_can_write_over_it(
    team: Team, tmp_path: Path
) -> None:
    """P9, when the worker gives its part back with `--keep`."""
    lease = team.planner.claim("core/**", ttl_s=600)
    part = delegate(team.planner, lease, "ada", "core/table/**")
    holds(team.ada, part)
    team.ada.write("core/table/a.py", "ada\n")
    as_left = left(team, "core/table/a.py")
    team.ada.control.send(api.release(part["lease"], key=new_key(), dirty="keep"))
    eventually(lambda: errno_of(team.planner, "core/table/a.py") == 0, what="the return")
    (rescue,) = rescue_ids(team.tree, part["lease"])
    assert restored(team.tree, rescue, str(tmp_path / "kept"))["core/table/a.py"] == as_left


def test_a_part_is_recalled_by_who_gave_it(team: Team) -> None:
    """From the command line in the planner's mount; its worker yields, and the ground is the planner's again."""
    lease = team.planner.claim("core/**", ttl_s=600)
    part = leasefs(team.planner, "delegate", lease["lease"], "core/table/**", "--to", "ada")
    holds(team.ada, {"lease": part})
    why = leasefs(team.planner, "why", "core/table/a.py", code=3)
    assert part in why
    assert f"leasefs recall {part}" in why
    assert "delegated to you by planner" in leasefs(team.ada, "status")
    assert f"ada has it as {part}" in leasefs(team.planner, "status")
    leasefs(team.planner, "recall", part, "--within", "30s", "--reason", "the plan has changed")
    eventually(lambda: errno_of(team.planner, "core/table/a.py") == 0, what="the ground's return")
    assert errno_of(team.ada, "core/table/a.py") == errno.EACCES
    assert "the plan has changed" in told(team.ada, "recalls")
    for name in ("recalls", "refusals"):
        assert "comes back" not in told(team.ada, name)
        assert f"back to {lease['lease']}, out of which it was delegated" in told(team.ada, name)


def leasefs(agent: Agent, *arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [INSTALLED, "-C", agent.root, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout.strip()


def test_a_refused_delegation_changes_nothing(team: Team) -> None:
    lease = team.planner.claim("core/**", ttl_s=600)
    handle = os.open(f"{team.planner.root}/core/table/a.py", os.O_RDWR)
    try:
        for to, globs in (
            ("nobody", ("core/**",)),
            ("ada", ("core/**", "beside.py")),
            ("ada", ("[",)),
        ):
            with pytest.raises(LeasefsError):
                delegate(team.planner, lease, to, *globs)
        with pytest.raises(LeasefsError):
            team.ada.control.send(
                api_scheduling.delegate(lease["lease"], ["core/**"], to="bo", key=new_key())
            )
        assert os.write(handle, b"x") == 1
    finally:
        os.close(handle)
    assert told(team.planner, "delegations") == ""


def test_a_planner_that_is_gone_leaves_its_worker_working(team: Team) -> None:
    """What was delegated stands on its own when the session that gave it ends."""
    lease = team.planner.claim("core/**", ttl_s=600)
    part = delegate(team.planner, lease, "ada", "core/table/**")
    holds(team.ada, part)
    team.planner.stop()
    team.ada.write("core/table/a.py", "ada\n")
    assert team.ada.state_of(part) == "granted"
    assert team.ada.state_of(lease) == "ended"


def test_a_lease_is_shared_and_held_alone_again(team: Team) -> None:
    lease = team.planner.claim("core/**", ttl_s=600)
    handle = os.open(f"{team.planner.root}/core/y.py", os.O_RDWR)
    try:
        assert os.write(handle, b"x") == 1
        shared = downgrade(team.planner, lease)
        assert (shared["lease"], shared["mode"]) == (lease["lease"], "shared")
        assert shared["token"] > lease["token"]
        with pytest.raises(OSError, match=os.strerror(errno.ESTALE)):
            os.write(handle, b"x")
        assert errno_of(team.planner, "core/y.py") == errno.EACCES
        call = api.claim(["core/**"], key=new_key(), shared=True, ttl_s=600.0)
        reader = team.ada.control.send(call)
        wanted = api.claim(
            ["core/**"], key=new_key(), ttl_s=600.0, wait=True, replaces=lease["lease"]
        )
        waiting = team.planner.control.send(wanted)
        assert waiting["state"] == "waiting"
        team.ada.release(reader)
        holds(team.planner, waiting)
        assert [one["id"] for one in team.planner.held()] == [waiting["lease"]]
        assert errno_of(team.planner, "core/y.py") == 0
        with pytest.raises(OSError, match=os.strerror(errno.ESTALE)):
            os.write(handle, b"x")
    finally:
        os.close(handle)
    assert rescue_ids(team.tree, lease["lease"]) == []
    assert set(agree(team.planner.ledger, team.tree)) == {"core/y.py"}


def test_a_lease_that_is_delegated_in_part_is_not_shared(team: Team) -> None:
    lease = team.planner.claim("core/**", ttl_s=600)
    delegate(team.planner, lease, "ada", "core/table/**")
    with pytest.raises(InvalidRequest, match="delegated"):
        downgrade(team.planner, lease)
    assert errno_of(team.planner, "core/y.py") == 0
    with pytest.raises(Dirty):
        team.planner.release(lease)
