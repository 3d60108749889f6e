"""A name that is always there is always found, however fast others put something else at it.

On a plain directory, opening by name finds one or the other and never "Stale file handle". The kernel tries again
after ESTALE, but once only (path_openat, fs/namei.c); what is found then has to be there for the open that follows.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.mount_trees import git

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leasefs.testing.mounted import Pair

pytestmark = [pytest.mark.mount, pytest.mark.root]

TIMES = 1_000
LINES = 400

# Replaces what is at a name of the directory that it is started in, over and over, until its standard input ends.
_REPLACER = """
import ctypes, itertools, os, select, sys
kind, name, lines = sys.argv[1], sys.argv[2], int(sys.argv[3])
exchange = ctypes.CDLL(None).renameat2
def write(path, content):
    with open(path, "wb") as file:
        file.write(content)
def file(at):
    write("new", b"%09d\\n" % at * lines)
    os.rename("new", name)
def copy(at):
    with open(name, "rb") as old:
        write("new", old.read())
    os.rename("new", name)
def link(at):
    os.symlink("target-%d" % (at % 7), "new")
    os.rename("new", name)
def tree(at):
    if exchange(-100, name.encode(), -100, b"aside", 2):
        raise OSError
if kind == "tree":
    for directory in name, "aside":
        os.mkdir(directory)
        write(directory + "/file", b"%09d\\n" % 0 * lines)
step = {"file": file, "copy": copy, "link": link, "tree": tree}[kind]
step(0)
print(flush=True)
for at in itertools.count(1):
    step(at)
    if at % 64 == 0 and select.select([0], [], [], 0)[0]:
        break
"""


@contextlib.contextmanager
def replaced(path: Path, kind: str) -> Iterator[None]:
    """While the block runs, what is at the path is replaced as fast as can be."""
    path.parent.mkdir(exist_ok=True)
    command = [sys.executable, "-c", _REPLACER, kind, path.name, str(LINES)]
    with subprocess.Popen(
        command, cwd=path.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        try:
            yield
        finally:
            process.stdin.close()
    assert process.returncode == 0


def read(path: Path) -> None:
    lines = path.read_bytes().splitlines()
    assert len(lines) == LINES
    assert len(set(lines)) == 1


def write_nothing(path: Path) -> None:
    os.close(os.open(path, os.O_RDWR))


def make_if_missing(path: Path) -> None:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT))


def look(path: Path) -> None:
    path.lstat()


def change_mode(path: Path) -> None:
    path.chmod(0o600)


def list_attributes(path: Path) -> None:
    os.listxattr(path)


def read_link(path: Path) -> None:
    assert path.readlink().name.startswith("target-")


def follow(path: Path) -> None:
    assert not path.exists()


def read_below(path: Path) -> None:
    read(path / "file")


def look_below(path: Path) -> None:
    (path / "file").stat()


def list_it(path: Path) -> None:
    assert os.listdir(path) == ["file"]


def write_nothing_below(path: Path) -> None:
    write_nothing(path / "file")


def make_below(path: Path) -> None:
    make_if_missing(path / "made")


def make_and_take_below(path: Path) -> None:
    # It may be in the other one.
    with contextlib.suppress(FileExistsError):
        (path / "directory").mkdir()
    with contextlib.suppress(FileNotFoundError):
        (path / "directory").rmdir()


def list_above(path: Path) -> None:
    with os.scandir(path.parent) as entries:
        for entry in entries:
            entry.stat(follow_symlinks=False)


USES = {
    "file": (read, write_nothing, make_if_missing, look, change_mode, list_attributes),
    "link": (read_link, look, follow),
    "tree": (
        *(read_below, look_below, list_it, look, list_above),
        *(write_nothing_below, make_below, make_and_take_below),
    ),
}
CASES = [
    pytest.param(kind, use, id=f"{kind}-{use.__name__}") for kind in USES for use in USES[kind]
]


@pytest.mark.parametrize(("kind", "use"), CASES)
def test_what_others_replace_is_always_found(
    pair: Pair, kind: str, use: Callable[[Path], None]
) -> None:
    place = f"{kind}-{use.__name__}"
    with replaced(pair.source / place / "name", kind):
        path = Path(pair.mount.root, place, "name")
        for _ in range(TIMES):
            use(path)


def test_what_another_mount_replaces_is_always_found_by_many(pair: Pair) -> None:
    with replaced(Path(pair.other.root, "by-mount/name"), "file"):
        path = Path(pair.mount.root, "by-mount/name")

        def use_it(at: int) -> None:
            for _ in range(TIMES // 8):
                USES["file"][at % len(USES["file"])](path)

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(use_it, range(8)))


def test_descriptors_held_for_who_tries_again_are_few(pair: Pair) -> None:
    before = pair.mount.report()["descriptors"]
    for at in range(8):
        with replaced(pair.source / f"few-{at}" / "name", "file"):
            for _ in range(TIMES // 8):
                read(Path(pair.mount.root, f"few-{at}", "name"))
    assert pair.mount.report()["descriptors"] <= before + 20


@pytest.mark.parametrize("command", ["status", "commit -q --allow-empty -m x", "add ."])
def test_git_always_finds_its_index(pair: Pair, command: str) -> None:
    place = command.split()[0]
    git(pair.source, "init", "-q", place)
    (pair.source / place / "file").write_text("x")
    git(pair.source / place, "add", "file")
    with replaced(pair.source / place / ".git/index", "copy"):
        for _ in range(40):
            git(Path(pair.mount.root, place), *command.split())
