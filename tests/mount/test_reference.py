"""A lease on `**` must equal a plain directory: the same operations, the same answers.

Random operations over a tiny set of names, run side by side on a mount and on a plain directory; after
each one the answers agree (errno or value), and at the end the trees do. Every failure found is kept,
made small and with a name, in `FOUND`. Where others change the tree beneath as well, both sides agree a moment later.
"""

from __future__ import annotations

import os
import random
import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.eventually import eventually
from leasefs.testing.mount_trees import snapshot
from leasefs.testing.mounted import mounted
from leasefs.testing.random_operations import (
    NAMES,
    SHARED_GROUP,
    USERS,
    Side,
    answer,
    by,
    chosen,
    described,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leasefs.testing.random_operations import Step

pytestmark = [pytest.mark.mount, pytest.mark.root]

STEPS = 600
SEEN_WITHIN_S = 5.0
MANY = range(int(os.environ.get("LEASEFS_SEEDS", "200")))


@pytest.fixture(scope="module", params=["separate", "in place"])
def sides(request: pytest.FixtureRequest, place: Path) -> Iterator[tuple[Path, Path]]:
    base = place / request.param.replace(" ", "-")
    for name in ("plain", "source", "mount"):
        (base / name).mkdir(parents=True)
    root = base / ("mount" if request.param == "separate" else "source")
    with mounted(str(base / "source"), str(root), "--lease", "**"):
        yield base / "plain", root


def compare(sides: tuple[Path, Path], label: str, steps: Iterable[Step]) -> None:
    plain, mount = (Side(os.fsencode(root / label)) for root in sides)
    for side in (plain, mount):
        os.mkdir(side.root)
        os.chmod(side.root, 0o777)
    try:
        for at, step in enumerate(steps):
            expected, found = answer(step, plain), answer(step, mount)
            assert found == expected, f"step {at}"
        assert contents(mount) == contents(plain)
    finally:
        plain.close()
        mount.close()


def at_random(seed: int, users: tuple[int, ...]) -> Iterator[Step]:
    dice = random.Random(seed)
    return (chosen(dice, users) for _ in range(STEPS))


def contents(side: Side) -> dict[str, tuple[object, ...]]:
    """The tree without its times, which differ, and without what hangs on the file system."""
    found = snapshot(Path(os.fsdecode(side.root)))
    return {name: (*entry[:4], *entry[5:]) for name, entry in found.items()}


@pytest.mark.parametrize("users", [(0,), USERS], ids=["root", "users"])
@pytest.mark.parametrize("seed", range(6))
def test_the_same_operations_have_the_same_answers(
    sides: tuple[Path, Path], seed: int, users: tuple[int, ...]
) -> None:
    compare(sides, f"{seed}-{len(users)}", at_random(seed, users))


@pytest.mark.long
@pytest.mark.parametrize("users", [(0,), USERS], ids=["root", "users"])
@pytest.mark.parametrize("seed", MANY)
def test_over_many_seeds(sides: tuple[Path, Path], seed: int, users: tuple[int, ...]) -> None:
    compare(sides, f"many-{seed}-{len(users)}", at_random(1000 + seed, users))


FOUND: dict[str, list[Step]] = {
    "the set-id bits of a socket that an ordinary user made": [
        by(1234, lambda s: os.mknod(s.path("a"), stat.S_IFSOCK | 0o2755)),
        lambda s: described(os.lstat(s.path("a"))),
    ],
    "a write by another user of its group to a file with set-id bits": [
        lambda s: os.close(os.open(s.path("a"), os.O_CREAT, 0o775)),
        lambda s: os.chown(s.path("a"), 65534, SHARED_GROUP),
        lambda s: os.chmod(s.path("a"), 0o2775),
        by(1234, lambda s: write(s, "a", b"x", os.O_WRONLY)),
        lambda s: described(os.lstat(s.path("a"))),
    ],
    "an open directory that was removed, after another one was removed beneath": [
        lambda s: os.mkdir(s.path("d")),
        lambda s: s.open.append((os.open(s.path("d"), os.O_RDONLY), 0)),
        lambda s: os.rmdir(s.path("d")),
        lambda s: described(os.fstat(s.open[0][0])),
        lambda s: removed_beneath(s, "x"),
        lambda s: described(os.fstat(s.open[0][0])),
        lambda s: os.listdir(s.open[0][0]),
    ],
}


def removed_beneath(side: Side, name: str) -> None:
    """A directory that others removed, and whose removal was heard of."""
    os.mkdir(side.path(name))
    os.rmdir(side.path(name).replace(b"/mount/", b"/source/"))
    eventually(lambda: not os.path.exists(side.path(name)), SEEN_WITHIN_S)


@pytest.mark.parametrize("name", FOUND)
def test_what_failed_once(sides: tuple[Path, Path], name: str) -> None:
    compare(sides, name, FOUND[name])


@pytest.fixture(scope="module")
def two_ways(place: Path) -> Iterator[tuple[Path, Path]]:
    base = place / "beneath"
    for name in ("source", "mount"):
        (base / name).mkdir(parents=True)
    with mounted(str(base / "source"), str(base / "mount"), "--lease", "**"):
        yield base / "source", base / "mount"


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 60))]
)
def test_what_is_done_beneath_is_seen_a_moment_later(
    two_ways: tuple[Path, Path], seed: int
) -> None:
    """About every other operation goes past the kernel's caches; some names were looked at before, some not."""
    dice = random.Random(seed)
    beneath, mount = sides = [Side(os.fsencode(root / str(seed))) for root in two_ways]
    os.mkdir(beneath.root)
    eventually(lambda: os.path.isdir(mount.root), SEEN_WITHIN_S)
    try:
        for _ in range(12):
            for _ in range(10):
                step = chosen(dice)
                answer(step, dice.choice((beneath, mount)))
            eventually(lambda: view(mount) == view(beneath), SEEN_WITHIN_S, "agreement")
    finally:
        for side in sides:
            side.close()


def view(side: Side) -> list[object]:
    return [answer(partial(look, name=name), side) for name in NAMES]


def look(side: Side, name: str) -> object:
    found = os.lstat(side.path(name))
    listed = sorted(os.listdir(side.path(name))) if os.path.isdir(side.path(name)) else None
    return described(found), found.st_ino, found.st_mtime_ns, listed
