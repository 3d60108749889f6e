"""Directories listed over and over while names come and go, by this mount and beneath: as the plain directory shows them."""

from __future__ import annotations

import ctypes
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from leasefs.testing.mounted import Pair

pytestmark = [pytest.mark.mount, pytest.mark.root]

_EXCHANGE = 2
_renameat2 = ctypes.CDLL(None, use_errno=True).renameat2


def _exchange(one: Path, other: Path) -> None:
    assert not _renameat2(-100, bytes(one), -100, bytes(other), _EXCHANGE)


def _make(place: Path, name: str) -> None:
    (place / name).write_bytes(name.encode())


def _change(place: Path, choose: random.Random) -> None:
    """One change of what names the directory has, or of what is at one."""
    names = sorted(os.listdir(place))
    acts = ["make", "make"] if len(names) < 12 else []
    acts += ["remove", "write"] if names else []
    acts += ["replace", "exchange", "link", "move"] if len(names) > 1 else []
    act = choose.choice(acts)
    one, other = (choose.sample(names, 2) if len(names) > 1 else (*names, "", ""))[:2]
    new = f"n{choose.randrange(30)}"
    if new == one:
        act = "write"
    if act == "make":
        _make(place, new)
    elif act == "remove":
        (place / one).unlink()
    elif act == "write":
        (place / one).write_bytes(b"x" * choose.randrange(100))
    elif act == "exchange":
        _exchange(place / one, place / other)
    elif act == "link":
        (place / new).unlink(missing_ok=True)
        os.link(place / one, place / new)
    else:
        os.rename(place / one, place / (other if act == "replace" else new))


def _new_directory(pair: Pair, name: str) -> tuple[Path, Path]:
    """The plain one, and the same through the mount."""
    below = pair.source / name
    below.mkdir()
    return below, Path(pair.mount.root, name)


def _seen(place: Path) -> dict[str, tuple[int, int, int]]:
    """What one listing tells of each name; the time of its last change tells which file it is."""
    with os.scandir(place) as entries:
        found = {entry.name: entry.stat(follow_symlinks=False) for entry in entries}
    return {name: (at.st_mtime_ns, at.st_size, at.st_nlink) for name, at in found.items()}


@pytest.mark.parametrize("seed", range(6))
def test_a_listing_after_each_change_is_that_of_the_plain_directory(pair: Pair, seed: int) -> None:
    below, mounted = _new_directory(pair, f"listed-{seed}")
    choose = random.Random(seed)
    for _ in range(150):
        _change(mounted, choose)
        assert _seen(mounted) == _seen(below)


@pytest.mark.parametrize("seed", range(6))
def test_also_where_others_change_it_meanwhile(pair: Pair, seed: int) -> None:
    below, mounted = _new_directory(pair, f"listed-by-two-{seed}")
    choose = random.Random(seed)
    for _ in range(60):
        for _ in range(choose.randrange(1, 4)):
            _change(below if choose.random() < 0.5 else mounted, choose)
            assert sorted(os.listdir(mounted)) == sorted(os.listdir(below))
        eventually(lambda: _seen(mounted) == _seen(below), what="what the plain directory shows")
