"""The guard: which process it knows, when it asks, and what follows from the answer."""

from __future__ import annotations

import fcntl
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from leasefs.core.policy import Allowed, Op, Place, Reason, Refused, Target
from leasefs.mount import git_guard
from leasefs.mount.errnos import Refusal
from leasefs.mount.gate import Gate
from leasefs.mount.git_guard import GitGuard
from leasefs.mount.git_processes import Identity, ancestors, identity
from leasefs.mount.refusals import RefusalLog, advice_for
from leasefs.mount.sharing import Sharing
from leasefs.testing.eventually import eventually
from leasefs.testing.static_holdings import StaticHoldings, held
from leasefs.vcs.git_commands.effects import Nothing, Paths, Unknown
from leasefs.vcs.git_commands.process import may_be_git
from leasefs.vcs.worktree import WorkTree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from leasefs.vcs.git_commands.effects import Effect

GIT, CHILD, OTHER = 100, 101, 102
OUTSIDE = Paths(frozenset({b"b/f", b"a/f", b"b/g"}))
INSIDE = Paths(frozenset({b"a/f"}))


class EverythingIsTree:
    """A ground without scratch."""

    def place(self, path: bytes, *, is_dir: bool) -> Place:
        return Place.TREE


class World:
    """A gate with a guard, over processes and answers that a test sets."""

    def __init__(self, tree: WorkTree) -> None:
        self.holdings = StaticHoldings()
        self.holdings.hold([held(1, "a/**")])
        self.gate = Gate(self.holdings, RefusalLog(self.holdings.refused))
        self.alone = False
        self.processes = {
            GIT: Identity(1, b"1", b"s", b"a"),
            CHILD: Identity(GIT, b"2", b"s", b"a"),
        }
        self.effects: dict[int, list[Effect]] = {}
        self.moves = False
        self.asked: list[int] = []
        self.gate.guard = GitGuard(tree, self.gate, EverythingIsTree(), lambda _: self.alone)  # type: ignore[arg-type]

    def judge(self, pid: int, directory: bytes | None, tree: WorkTree) -> list[Effect]:
        self.asked.append(pid)
        return self.effects.get(pid, [Nothing()])

    def moves_history(self, pid: int, tree: WorkTree) -> bool:
        self.asked.append(pid)
        return self.moves

    async def changes(self, path: str, pid: int = GIT, place: Place = Place.TREE) -> Allowed:
        target = [Target(path.encode(), place)]
        return await self.gate.require(Op.CREATE, pid, lambda: target)

    async def refusal(self, path: str, pid: int = GIT, place: Place = Place.TREE) -> Refused:
        with pytest.raises(Refusal) as caught:
            await self.changes(path, pid, place)
        return caught.value.refused


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    root_fd = os.open(tmp_path, os.O_RDONLY)
    made = World(WorkTree(root_fd, (bytes(tmp_path),)))
    monkeypatch.setattr(git_guard, "may_be_git", lambda pid: pid in made.processes)
    monkeypatch.setattr(git_guard, "identity", lambda pid: made.processes.get(pid))
    monkeypatch.setattr(git_guard, "_effects", made.judge)
    monkeypatch.setattr(git_guard, "_moves_history", made.moves_history)
    yield made
    os.close(root_fd)


@pytest.mark.trio
async def test_a_command_is_judged_once_and_refused_at_every_change(world: World) -> None:
    world.effects[GIT] = [OUTSIDE]
    for path, place in (("x.lock", Place.GIT), ("a/f", Place.TREE)):
        refused = await world.refusal(path, place=place)
        assert (refused.reason, refused.path) == (Reason.GIT_COMMAND, b"b/f")
    assert world.asked == [GIT]
    paths = [record.path for record in world.gate.refusals.newest_first()]
    assert paths == [b"b/f", b"b/f", b"b/g"]


@pytest.mark.trio
async def test_a_command_within_the_leases_passes_and_no_other_process_is_judged(
    world: World,
) -> None:
    world.effects[GIT] = [INSIDE, Nothing()]
    await world.changes("index.lock", place=Place.GIT)
    await world.changes("a/f")
    await world.changes("a/f", OTHER)
    assert (await world.refusal("b/f", OTHER)).reason is Reason.NOT_LEASED
    assert world.asked == [GIT]


@pytest.mark.trio
@pytest.mark.parametrize(
    "other",
    [Identity(1, b"9", b"s", b"a"), Identity(1, b"1", b"t", b"a"), Identity(1, b"1", b"s", b"b")],
)
async def test_a_number_that_is_used_again_is_judged_anew(world: World, other: Identity) -> None:
    world.effects[GIT] = [INSIDE]
    await world.changes("a/f")
    world.processes[GIT] = other
    world.effects[GIT] = [OUTSIDE]
    assert (await world.refusal("a/f")).reason is Reason.GIT_COMMAND


@pytest.mark.trio
async def test_an_orphan_is_still_who_it_was(world: World) -> None:
    world.effects[CHILD] = [INSIDE]
    await world.changes("a/f", CHILD)
    world.processes[CHILD] = world.processes[CHILD]._replace(parent=1)
    await world.changes("a/f", CHILD)
    assert world.asked == [GIT, CHILD]


@pytest.mark.trio
async def test_what_a_refused_command_starts_is_refused(world: World) -> None:
    world.effects = {GIT: [OUTSIDE], CHILD: [INSIDE]}
    assert (await world.refusal("a/f", CHILD)).path == b"b/f"
    assert world.asked == [GIT]


@pytest.mark.trio
async def test_a_helper_need_not_be_understood_its_starter_must(world: World) -> None:
    world.effects = {GIT: [INSIDE], CHILD: [Unknown("it reads its standard input")]}
    await world.changes("a/f", CHILD)
    world.processes[CHILD] = Identity(GIT, b"3", b"s", b"a")
    world.processes[GIT] = Identity(1, b"4", b"s", b"a")
    world.effects[GIT] = [Nothing(delegates=True)]
    assert (await world.refusal("a/f", CHILD)).reason is Reason.GIT_UNKNOWN


@pytest.mark.trio
async def test_what_cannot_be_told_is_refused_with_the_reason(world: World) -> None:
    world.effects[GIT] = [Unknown("it goes by a list", "name the paths")]
    await world.refusal("a/f")
    [record] = world.gate.refusals.newest_first()
    assert (record.reason, record.path) == (Reason.GIT_UNKNOWN, b".")
    assert advice_for(record) == "it goes by a list: name the paths"


@pytest.mark.trio
async def test_what_has_lapsed_may_still_be_ours(world: World) -> None:
    world.holdings.hold([held(1, "a/**", trusted_until_s=0)])
    world.holdings.confirm = type(world.holdings.view)([held(1, "a/**")])
    world.effects[GIT] = [INSIDE]
    await world.changes("index.lock", place=Place.GIT)
    assert world.holdings.asked == 1


@pytest.mark.trio
async def test_in_a_tree_of_its_own_history_moves_and_work_does_not(world: World) -> None:
    world.alone = True
    await world.changes("a/f")
    assert world.asked == []
    assert (await world.refusal("b/f")).reason is Reason.NOT_LEASED
    world.processes[GIT], world.moves = Identity(1, b"5", b"s", b"a"), True
    assert (await world.changes("b/f")).lease is None
    assert world.asked == [GIT, GIT]


@pytest.mark.trio
async def test_a_command_that_began_alone_needs_leases_once_others_come(world: World) -> None:
    world.alone, world.moves = True, True
    await world.changes("b/f")
    world.alone = False
    assert (await world.refusal("b/f")).reason is Reason.NOT_LEASED
    await world.changes("index", place=Place.GIT)


@pytest.mark.trio
async def test_whom_nobody_may_look_at_is_refused_in_a_shared_tree(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(git_guard, "may_be_git", lambda pid: pid == os.getpid())
    monkeypatch.setattr(git_guard, "read_process", lambda pid, root: None)
    refused = await world.refusal("a/f", os.getpid())
    assert refused.reason is Reason.GIT_UNKNOWN
    assert "user" in refused.detail
    world.alone = True
    assert (await world.refusal("b/f", os.getpid())).reason is Reason.NOT_LEASED


def test_what_has_no_name_is_no_commands_business(world: World) -> None:
    """An open file whose last name is gone has no targets, and its mode may be changed."""
    assert world.gate.admit(Op.CHMOD, (), GIT) == Allowed(None)


def test_of_another_users_process_the_name_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(path: str) -> str:
        raise PermissionError

    with subprocess.Popen(
        ["git", "hash-object", "--stdin"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as child:
        eventually(lambda: may_be_git(child.pid))
        monkeypatch.setattr(os, "readlink", forbidden)
        assert may_be_git(child.pid)
        assert not may_be_git(os.getpid())
        child.communicate(b"")
    assert not may_be_git(child.pid)


def test_a_program_is_told_from_the_one_before_it_in_the_same_process() -> None:
    script = "read x; exec sh -c 'read x; exit'"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        first = identity(child.pid)
        assert first is not None
        assert first.parent == os.getpid()
        assert first.is_same(identity(child.pid) or first._replace(stack=b""))
        assert os.getpid() in ancestors(first.parent)
        child.stdin.write(b"\n")
        child.stdin.flush()
        eventually(lambda: not first.is_same(identity(child.pid) or first))
        child.communicate(b"\n")
    assert identity(child.pid) is None


def test_mounts_of_a_tree_know_of_each_other_and_of_nobody_else(tmp_path: Path) -> None:
    root_fd = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(root_fd, fcntl.LOCK_EX)
    one = Sharing(root_fd)
    assert one.is_alone()
    other = Sharing(root_fd)
    for _ in range(100):  # asking disturbs nobody
        assert not one.is_alone()
        assert not other.is_alone()
    other.close()
    assert one.is_alone()
    one.close()
    os.close(root_fd)


def test_who_is_alone_is_asked_of_the_kernel_now_and_then(tmp_path: Path) -> None:
    root_fd = os.open(tmp_path, os.O_RDONLY)
    one = Sharing(root_fd)
    assert one.is_alone(10.0)
    other = Sharing(root_fd)
    assert one.is_alone(10.04)
    assert not one.is_alone(10.06)
    for sharing in (one, other):
        sharing.close()
    os.close(root_fd)
