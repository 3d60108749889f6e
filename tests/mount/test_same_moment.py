"""What others do to a name at the very moment that it is made or taken through the mount is seen there.

The events of both come at once, and those of the mount's own change are passed over (`echoes`).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.testing.mounted import Pair

pytestmark = [pytest.mark.mount, pytest.mark.root]

SEEN_WITHIN_S = 5.0
TIMES = 20


def create(path: Path) -> None:
    path.write_bytes(b"made here")


def create_empty(path: Path) -> None:
    path.touch()


def save(path: Path) -> None:
    path.with_suffix(".tmp").write_bytes(b"saved here")
    path.with_suffix(".tmp").rename(path)


def create_and_take(path: Path) -> None:
    path.touch()
    path.unlink()


def move_over(path: Path) -> None:
    aside = path.parent.parent / "aside"
    aside.write_bytes(b"moved over")
    aside.rename(path)


def take(path: Path) -> None:
    path.unlink(missing_ok=True)


def take_and_make(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(b"made anew by others")


def write_more(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b" and more by others")


def change_mode(path: Path) -> None:
    path.touch()
    path.chmod(0o600)


def put_directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def seen(path: Path) -> object:
    try:
        found = path.lstat()
        content = None if stat.S_ISDIR(found.st_mode) else path.read_bytes()
    except OSError as error:
        return error.errno
    return found.st_mode, content, sorted(os.listdir(path.parent))


@pytest.mark.parametrize("ours", [create, create_empty, save, create_and_take])
@pytest.mark.parametrize(
    "theirs", [move_over, take, take_and_make, write_more, change_mode, put_directory]
)
def test_what_others_do_in_the_same_moment_is_seen(
    pair: Pair, ours: Callable[[Path], None], theirs: Callable[[Path], None]
) -> None:
    name = f"{ours.__name__}-{theirs.__name__}"
    beneath, mount = pair.source / name, Path(pair.mount.root, name)
    beneath.mkdir()
    eventually(mount.is_dir, SEEN_WITHIN_S)
    os.listdir(mount)
    for at in range(TIMES):
        file = f"f{at}"
        ours(mount / file)
        theirs(beneath / file)
        seen(mount / file)
        eventually(
            lambda file=file: seen(mount / file) == seen(beneath / file),  # type: ignore[misc]
            SEEN_WITHIN_S,
        )
