"""Nothing stays unseen for ever, however look-ups and changes from outside fall together.

Threads look through the mount while others change the same names beneath it, through another mount, and
through the mount itself; then all stop, and a moment later the mount has to agree with the tree, though
nothing new happens that would tell it. Every failure found is kept in `test_outside_changes`.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import stat
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.testing.mounted import Pair


pytestmark = [pytest.mark.mount, pytest.mark.root, pytest.mark.slow]

NAMES = ("a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "x", "x/a", "x/e")
# What was told a second time is told after a second (see `kernel_cache`).
AGREES_WITHIN_S = 5.0


class Sides(NamedTuple):
    beneath: Path
    mount: Path
    other: Path


@pytest.fixture
def sides(pair: Pair) -> Sides:
    return Sides(pair.source, Path(pair.mount.root), Path(pair.other.root))


def change(tree: Path, dice: random.Random) -> None:
    one, two = tree / dice.choice(NAMES), tree / dice.choice(NAMES)
    size = dice.randrange(1, 9)
    choices: list[Callable[[], object]] = [
        lambda: one.write_bytes(dice.randbytes(size)),
        lambda: one.write_bytes(dice.randbytes(size)),
        lambda: os.truncate(one, size),
        one.mkdir,
        one.mkdir,
        one.rmdir,
        lambda: shutil.rmtree(one),
        one.unlink,
        lambda: one.symlink_to(str(size) * size),
        lambda: one.rename(two),
        lambda: one.rename(two),
        lambda: one.chmod(dice.choice([0o600, 0o640, 0o700, 0o755])),
        lambda: os.utime(one, ns=(size, size), follow_symlinks=False),
    ]
    with contextlib.suppress(OSError):
        dice.choice(choices)()


def look(tree: Path, dice: random.Random) -> None:
    one = tree / dice.choice(NAMES)
    choices: list[Callable[[], object]] = [
        one.lstat,
        one.lstat,
        one.read_bytes,
        lambda: os.readlink(one),
        lambda: os.listdir(one),
        lambda: look_at_all(tree),
    ]
    with contextlib.suppress(OSError):
        dice.choice(choices)()


def look_at_all(directory: Path) -> None:
    with os.scandir(directory) as entries:
        for entry in entries:
            entry.stat(follow_symlinks=False)


def repeat(
    step: Callable[[Path, random.Random], None], tree: Path, seed: int, over: threading.Event
) -> None:
    dice = random.Random(seed)
    while not over.is_set():
        step(tree, dice)


def view(tree: Path) -> dict[str, object]:
    """What each name shows, without walking: a walk would have the kernel ask about more than it needs to."""
    return {name: shown(tree / name) for name in NAMES} | {".": sorted(os.listdir(tree))}


def shown(path: Path) -> object:
    try:
        found = path.lstat()
        kind = stat.S_IFMT(found.st_mode)
        content: object = None
        if kind == stat.S_IFREG:
            content = path.read_bytes()
        elif kind == stat.S_IFLNK:
            content = os.readlink(path)
        elif kind == stat.S_IFDIR:
            content = sorted(os.listdir(path))
    except OSError as error:
        return error.errno
    size = found.st_size if kind != stat.S_IFDIR else None
    return (found.st_ino, found.st_mode, size, found.st_mtime_ns, found.st_ctime_ns, content)


def agrees(sides: Sides) -> bool:
    return view(sides.mount) == view(sides.beneath) == view(sides.other)


@pytest.mark.parametrize("seed", range(int(os.environ.get("LEASEFS_RACES", "6"))))
def test_all_agree_a_moment_after_all_stop(sides: Sides, seed: int) -> None:
    over = threading.Event()
    dice = random.Random(seed)
    writers = [sides.beneath, *dice.sample([sides.beneath, sides.mount, sides.other], 2)]
    threads = [
        threading.Thread(target=repeat, args=(change, tree, seed * 100 + at, over))
        for at, tree in enumerate(writers)
    ] + [
        threading.Thread(target=repeat, args=(look, tree, seed * 100 + 50 + at, over))
        for at, tree in enumerate([sides.mount, sides.mount, sides.other])
    ]
    for thread in threads:
        thread.start()
    threading.Event().wait(dice.choice([0.05, 0.2, 0.7]))
    over.set()
    for thread in threads:
        thread.join()
    try:
        eventually(partial(agrees, sides), AGREES_WITHIN_S, "agreement")
    except AssertionError:
        differ = {
            name: (there, view(sides.mount)[name], view(sides.other)[name])
            for name, there in view(sides.beneath).items()
            if not there == view(sides.mount)[name] == view(sides.other)[name]
        }
        pytest.fail(f"writers {[tree.name for tree in writers]}: {differ}")
