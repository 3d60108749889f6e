"""Lower inode numbers that are in use again while the kernel still remembers whose they were.

ext4 gives a number away again at once. A kernel that hears of a known number with another file type answers
EIO to whoever is on the way to the old inode, which a plain directory never does.
"""

from __future__ import annotations

import errno
import os
import random
import stat
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.testing.mounted import Pair

pytestmark = [pytest.mark.mount, pytest.mark.root]

NAMES = "abcd"
FOR_S = float(os.environ.get("LEASEFS_RACES_S", "2"))


def change(tree: Path, dice: random.Random) -> None:
    one, two = tree / dice.choice(NAMES), tree / dice.choice(NAMES)
    choices: list[Callable[[], object]] = [
        lambda: os.mknod(one),
        one.mkdir,
        lambda: one.symlink_to("nowhere"),
        lambda: os.mkfifo(one),
        lambda: os.link(one, two),
        lambda: one.rename(two),
        one.unlink,
        one.unlink,
        one.rmdir,
    ]
    dice.choice(choices)()


def look(tree: Path, dice: random.Random) -> None:
    one = tree / dice.choice(NAMES)
    choices: list[Callable[[], object]] = [
        one.lstat,
        lambda: (one / "below").lstat(),
        lambda: os.listdir(one),
        lambda: os.readlink(one),
        lambda: os.utime(one, follow_symlinks=False),
        lambda: look_at_all(tree),
        lambda: os.close(os.open(one, os.O_PATH | os.O_NOFOLLOW)),
    ]
    dice.choice(choices)()


def look_at_all(directory: Path) -> None:
    with os.scandir(directory) as entries:
        for entry in entries:
            entry.stat(follow_symlinks=False)


Step = tuple[Path, "Callable[[Path, random.Random], None]"]


def errors_of(steps: list[Step]) -> Counter[str]:
    """Do all at once for a while, each in a thread of its own; how often which errno came."""
    found: Counter[str] = Counter()
    over = threading.Event()

    def repeat(at: int, tree: Path, step: Callable[[Path, random.Random], None]) -> None:
        dice = random.Random(at)
        while not over.is_set():
            try:
                step(tree, dice)
            except OSError as error:
                found[errno.errorcode[error.errno or 0]] += 1

    threads = [threading.Thread(target=repeat, args=(at, *step)) for at, step in enumerate(steps)]
    for thread in threads:
        thread.start()
    over.wait(FOR_S)
    over.set()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.slow
def test_nobody_gets_an_input_output_error(pair: Pair) -> None:
    mount, other = Path(pair.mount.root), Path(pair.other.root)
    found = errors_of(
        [
            *[(tree, change) for tree in (pair.source, pair.source, mount, other)],
            *[(tree, look) for tree in (mount, mount, other)],
        ]
    )
    assert found["ENOENT"] > 0
    assert found["EIO"] == 0, found


def used_again(place: Path) -> int:
    """Replace the file at `place` by a directory of the same lower number; skips where that fails."""
    number = place.stat().st_ino
    place.unlink()
    place.mkdir()
    if place.stat().st_ino != number:
        pytest.skip("this file system does not use a number again at once")
    return number


def is_a_file_or_stale(fd: int) -> bool:
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError as error:
        return error.errno == errno.ESTALE


def test_users_see_the_lower_number(pair: Pair) -> None:
    """The kernel's own number differs then, and with it what readdir(3) says (d_ino)."""
    beneath, mount = pair.source / "again", Path(pair.mount.root, "again")
    beneath.touch()
    old = os.open(mount, os.O_PATH)
    try:
        number = used_again(beneath)
        eventually(mount.is_dir, what="the directory")
        assert mount.stat().st_ino == number
        (mount / "in").touch()
        assert (beneath / "in").exists()
        assert mount.stat().st_ino == number
        assert is_a_file_or_stale(old)
    finally:
        os.close(old)
    (mount / "in").unlink()
    mount.rmdir()
    assert not beneath.exists()


@pytest.mark.parametrize(
    "make", [Path.mkdir, lambda at: os.mkfifo(at), lambda at: at.symlink_to("x")]
)
def test_what_is_replaced_the_moment_it_is_made_is_no_input_output_error(
    pair: Pair, make: Callable[[Path], None]
) -> None:
    """Whoever makes it finds somebody else's there, or makes it once more."""

    def make_and_remove(tree: Path, _: random.Random) -> None:
        at = tree / "made"
        make(at)
        at.rmdir() if make is Path.mkdir else at.unlink()

    def replace(tree: Path, _: random.Random) -> None:
        (tree / "new").touch()
        (tree / "new").rename(tree / "made")
        (tree / "made").unlink()

    found = errors_of([(Path(pair.mount.root), make_and_remove), (pair.source, replace)])
    assert found["EIO"] == 0, found
