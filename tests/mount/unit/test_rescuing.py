"""Keeping what a lease leaves: once, and of whom it is (P9)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.mount.journal import Header
from leasefs.mount.rescuing import Owner, Rescuer, went_to
from leasefs.testing.kept import rescue_ids
from leasefs.testing.uncommitted import git, new_repository
from leasefs.vcs.worktree import WorkTree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from leasefs.client import api

ONE = Owner("L4", 4, "one", "claude")


class Ledger:
    """Knows the rescues that it was told of."""

    def __init__(self) -> None:
        self.rescues: list[api.Body] = []

    async def send(self, call: api.Call, *, timeout_s: float) -> dict[str, Any]:
        if call.method == "GET":
            return {"rescues": self.rescues}
        assert call.body is not None
        self.rescues.append(call.body["rescue"])
        return {}


class Place:
    """A tree with a and b, and the rescuers of its mounts."""

    def __init__(self, root: str, root_fd: int) -> None:
        self.root = root
        self.tree = WorkTree(root_fd, ())
        self.ledger = Ledger()

    def rescuer(self, agent: str) -> Rescuer:
        header = Header("t-1", self.root, "host", "territory", agent, "claude", f"s-{agent}")
        return Rescuer(self.tree, header, self.ledger, lambda: 1.0)  # type: ignore[arg-type]

    async def rescue(self, by: str, owner: Owner, reason: str, *paths: bytes) -> set[bytes]:
        """What is newly kept."""
        rescuer = self.rescuer(by)
        made = await rescuer.rescue(owner, paths, reason)
        await rescuer.flush()
        return set(made.paths) if made else set()

    def write(self, name: str, content: str) -> None:
        with open(f"{self.root}/{name}", "w") as file:
            file.write(content)

    def kept(self, rescue_id: str, name: str) -> bytes:
        found: bytes = git(self.root, "show", f"refs/leasefs/rescue/{rescue_id}:{name}")
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    root = str(tmp_path / "tree")
    new_repository(root)
    for name in "ab":
        (tmp_path / "tree" / name).write_text("as it was")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    root_fd = os.open(root, os.O_RDONLY)
    yield Place(root, root_fd)
    os.close(root_fd)


@pytest.mark.trio
async def test_what_a_new_holder_kept_is_not_kept_again_with_its_own_bytes(place: Place) -> None:
    """Whoever held the ground before wakes, or another one comes after: what lies there is not the first one's."""
    place.write("a", "hours of work")
    assert await place.rescue("two", ONE, went_to("two"), b"a") == {b"a"}
    place.write("a", "of two")
    place.write("b", "of one")
    assert await place.rescue("three", ONE, went_to("three"), b"a") == set()
    assert await place.rescue("one", ONE, "lapsed, then taken by two", b"a", b"b") == {b"b"}
    assert await place.rescue("next", ONE, "its mount died", b"a") == set()
    assert rescue_ids(place.root, "L4") == ["L4", "L4-2"]
    assert place.kept("L4", "a") == b"hours of work"
    assert place.kept("L4-2", "a") == b"as it was"
    assert place.kept("L4-2", "b") == b"of one"


@pytest.mark.trio
async def test_what_the_holder_kept_itself_may_have_changed_since(place: Place) -> None:
    place.write("a", "work")
    assert await place.rescue("one", ONE, "recalled", b"a") == {b"a"}
    place.write("a", "more work")
    assert await place.rescue("one", ONE, "revoked by root", b"a") == {b"a"}
    assert place.kept("L4-2", "a") == b"more work"


@pytest.mark.parametrize("difference", [{"token": 5}, {"tree": "t-2"}, {"lease": "L5"}])
@pytest.mark.trio
async def test_only_the_same_lease_in_the_same_tree_counts(
    place: Place, difference: dict[str, Any]
) -> None:
    """A ledger that was begun anew counts from one again; another clone has other bytes."""
    place.write("a", "work")
    assert await place.rescue("two", ONE, went_to("two"), b"a") == {b"a"}
    place.ledger.rescues[0] |= difference
    place.write("a", "other work")
    assert await place.rescue("one", ONE, "its mount died", b"a") == {b"a"}


@pytest.mark.trio
async def test_where_nobody_can_tell_it_is_kept(place: Place) -> None:
    place.write("a", "work")
    assert await place.rescue("two", ONE, went_to("two"), b"a") == {b"a"}
    git(place.root, "update-ref", "-d", "refs/leasefs/rescue/L4")
    assert await place.rescue("one", ONE, "its mount died", b"a") == {b"a"}
