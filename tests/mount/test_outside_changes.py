"""What others change beneath a mount, or through another mount of the same tree, is seen through it.

New bytes at the next open, everything else a moment later; nothing stays unseen for ever. Each test first
fills the kernel's caches, without which there would be nothing to forget.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from leasefs.testing.eventually import eventually
from leasefs.testing.mount_trees import NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leasefs.testing.mounted import Pair

pytestmark = [pytest.mark.mount, pytest.mark.root]

# Far below the hour for which the kernel would believe what it has; usual figures are in docs/SEMANTICS.md.
SEEN_WITHIN_S = 5.0


class Scene(NamedTuple):
    """The same directory in the tree beneath and in two mounts of it."""

    beneath: Path
    mount: Path
    other: Path


@pytest.fixture
def scene(pair: Pair, request: pytest.FixtureRequest) -> Iterator[Scene]:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    (pair.source / name).mkdir()
    eventually(Path(pair.mount.root, name).is_dir, SEEN_WITHIN_S)
    yield Scene(pair.source / name, Path(pair.mount.root, name), Path(pair.other.root, name))
    shutil.rmtree(pair.source / name)


def look_at_all(tree: Path) -> None:
    """Fill the kernel's caches: names, attributes, bytes, and what is not there."""
    for directory, names, files in os.walk(tree):
        for name in [*names, *files, "nothing"]:
            path = os.path.join(directory, name)
            with contextlib.suppress(OSError):
                os.lstat(path)
                os.readlink(path)
        for name in files:
            with contextlib.suppress(OSError):
                Path(directory, name).read_bytes()
    _ = [(tree / name).exists() for name in ("n", "g/f", "f/f")]


def make(tree: Path) -> None:
    (tree / "d/sub").mkdir(parents=True)
    for name in ("f", "d/f", "d/sub/f"):
        (tree / name).write_text("old")
    (tree / "link").symlink_to("old")


def kind(path: Path) -> int:
    return stat.S_IFMT(path.lstat().st_mode)


def saved(path: Path, text: str) -> None:
    """As editors save: beside, then over it."""
    beside = path.with_name("beside")
    beside.write_text(text)
    beside.replace(path)


def again(path: Path) -> None:
    """A file in place of another, often with its number."""
    path.unlink()
    path.write_text("again")


def linked_again(path: Path) -> None:
    path.unlink()
    path.symlink_to("new")


def directory_again(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()
    (path / "other").write_text("x")


def file_to_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def directory_to_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("file")


class Row(NamedTuple):
    change: Callable[[Path], object]
    seen: Callable[[Path], object]


ROWS = {
    "bytes": Row(lambda t: (t / "f").write_text("new"), lambda t: (t / "f").read_text() == "new"),
    "size": Row(
        lambda t: (t / "f").write_text("longer"),
        lambda t: (t / "f").stat().st_size == len("longer"),
    ),
    "an atomic save": Row(
        lambda t: saved(t / "f", "new"), lambda t: (t / "f").read_text() == "new"
    ),
    "another file": Row(lambda t: again(t / "f"), lambda t: (t / "f").read_text() == "again"),
    "a new name": Row(lambda t: (t / "n").touch(), lambda t: (t / "n").exists()),
    "a new name in a listing": Row(
        lambda t: (t / "d/n").touch(), lambda t: sorted(os.listdir(t / "d")) == ["f", "n", "sub"]
    ),
    "a name gone": Row(lambda t: (t / "f").unlink(), lambda t: not (t / "f").exists()),
    "a name gone from a listing": Row(
        lambda t: (t / "d/f").unlink(), lambda t: os.listdir(t / "d") == ["sub"]
    ),
    "mode": Row(
        lambda t: (t / "f").chmod(0o640), lambda t: (t / "f").stat().st_mode & 0o777 == 0o640
    ),
    "mode of a directory": Row(
        lambda t: (t / "d").chmod(0o750), lambda t: (t / "d").stat().st_mode & 0o777 == 0o750
    ),
    "owner": Row(lambda t: os.chown(t / "f", 7, 8), lambda t: (t / "f").stat().st_uid == 7),
    "times": Row(
        lambda t: os.utime(t / "f", ns=(1, 2)), lambda t: (t / "f").stat().st_mtime_ns == 2
    ),
    "an attribute": Row(
        lambda t: os.setxattr(t / "f", "user.k", b"v"),
        lambda t: os.listxattr(t / "f") == ["user.k"],
    ),
    "a symlink": Row(
        lambda t: linked_again(t / "link"), lambda t: os.readlink(t / "link") == "new"
    ),
    "a directory renamed": Row(
        lambda t: (t / "d").rename(t / "g"),
        lambda t: (t / "g/f").exists() and (t / "g/sub/f").exists() and not (t / "d").exists(),
    ),
    "a directory gone": Row(
        lambda t: shutil.rmtree(t / "d"),
        lambda t: not (t / "d/sub/f").exists() and not (t / "d").exists(),
    ),
    "another directory": Row(
        lambda t: directory_again(t / "d"),
        lambda t: os.listdir(t / "d") == ["other"] and not (t / "d/f").exists(),
    ),
    "a directory in place of a file": Row(
        lambda t: file_to_directory(t / "f"), lambda t: kind(t / "f") == stat.S_IFDIR
    ),
    "a file in place of a directory": Row(
        lambda t: directory_to_file(t / "d"), lambda t: (t / "d").read_text() == "file"
    ),
}


@pytest.mark.parametrize("who", ["beneath", "other"])
@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_is_seen(scene: Scene, row: Row, who: str) -> None:
    make(scene.beneath)
    appears(scene.mount / "d/sub/f")
    eventually((scene.other / "d/sub/f").exists, SEEN_WITHIN_S)
    look_at_all(scene.mount)
    look_at_all(scene.other)
    row.change(scene.beneath if who == "beneath" else scene.other)
    for tree in (scene.mount, scene.other):
        eventually(lambda: quiet(row.seen, tree), SEEN_WITHIN_S)  # noqa: B023


def appears(path: Path) -> None:
    eventually(path.exists, SEEN_WITHIN_S)


def vanishes(path: Path) -> None:
    eventually(lambda: not path.exists(), SEEN_WITHIN_S)


def quiet(seen: Callable[[Path], object], tree: Path) -> object:
    """What is looked at may be about to vanish."""
    with contextlib.suppress(OSError):
        return seen(tree)
    return False


@pytest.mark.parametrize("way", ["in place", "renamed over it", "made again"])
def test_the_next_open_reads_the_new_bytes_at_once(scene: Scene, way: str) -> None:
    """Close-to-open: no waiting, though all are of one length and follow each other within a tick."""
    path = scene.beneath / "f"
    for at in range(200):
        if way == "renamed over it":
            saved(path, f"{at:04}")
        else:
            if way == "made again":
                path.unlink(missing_ok=True)
            path.write_text(f"{at:04}")
        assert (scene.mount / "f").read_text() == f"{at:04}"


def test_a_name_that_went_and_came_back(scene: Scene) -> None:
    """Also where the file stayed open, and is known under both of its names."""
    (scene.beneath / "a").touch()
    held = os.open(scene.mount / "a", os.O_RDONLY)
    for _ in range(3):
        (scene.beneath / "a").rename(scene.beneath / "b")
        vanishes(scene.mount / "a")
        (scene.beneath / "b").rename(scene.beneath / "a")
        appears(scene.mount / "a")
    os.close(held)


def test_a_name_that_was_removed_here_made_elsewhere_listed_and_removed_there(scene: Scene) -> None:
    """All before the first event: that of our own removal must not stand for theirs."""
    names = [f"f{at}" for at in range(20)]
    for name in names:
        (scene.mount / name).touch()
        (scene.mount / name).unlink()
        (scene.beneath / name).touch()
        assert name in {entry.name for entry in os.scandir(scene.mount)}
        (scene.beneath / name).unlink()
    for name in names:
        vanishes(scene.mount / name)


def test_a_name_made_here_removed_and_made_anew_elsewhere(scene: Scene) -> None:
    for at in range(20):
        path = f"f{at}"
        (scene.mount / path).write_text("ours")
        (scene.beneath / path).rename(scene.beneath / "away")
        (scene.mount / path).exists()
        (scene.beneath / "away").rename(scene.beneath / path)
        appears(scene.mount / path)


def test_a_stream_that_began_before_brings_no_name_back(scene: Scene) -> None:
    names = [f"{at:0200}" for at in range(2000)]
    for name in names:
        (scene.beneath / name).touch()
    eventually(lambda: len(os.listdir(scene.mount)) == len(names), SEEN_WITHIN_S)
    with os.scandir(scene.mount) as stream:
        first = next(stream).name
        for name in names:
            (scene.beneath / name).unlink()
        late = [name for name in names if name != first]
        eventually(lambda: not any((scene.mount / name).exists() for name in late), SEEN_WITHIN_S)
        rest = [entry.name for entry in stream]
    assert len(rest) < len(names)
    eventually(lambda: not any((scene.mount / name).exists() for name in names), SEEN_WITHIN_S)


def test_the_mode_of_a_file_that_was_written_here_and_not_looked_at_since(scene: Scene) -> None:
    """The kernel judges by what it has, and does not ask for it as it does for the size."""
    scene.beneath.chmod(0o755)
    eventually(lambda: scene.mount.stat().st_mode & 0o777 == 0o755, SEEN_WITHIN_S)
    (scene.mount / "f").write_text("x")
    with open(scene.mount / "f", "a", encoding="ascii") as file:
        file.write("y")
    assert reads(scene.mount / "f")
    with open(scene.mount / "f", "a", encoding="ascii") as file:
        file.write("z")
    (scene.beneath / "f").chmod(0)
    eventually(lambda: not reads(scene.mount / "f"), SEEN_WITHIN_S)


def reads(path: Path) -> bool:
    """Whether an ordinary user may."""
    command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    done = subprocess.run([*command, "cat", str(path)], check=False, capture_output=True)
    return done.returncode == 0


def test_a_symlink_made_again_under_its_old_number_and_looked_up_at_once(scene: Scene) -> None:
    """The new attributes reach the kernel before the event is read; the old text must not stay."""
    for at in range(20):
        link = scene.beneath / f"l{at}"
        link.symlink_to("before")
        assert os.readlink(scene.mount / link.name) == "before"
        link.unlink()
        link.symlink_to("behind")
        os.listdir(scene.mount)
        with contextlib.suppress(OSError):
            (scene.mount / link.name).lstat()
        eventually(partial(leads, scene.mount / link.name, "behind"), SEEN_WITHIN_S)


def leads(link: Path, to: str) -> bool:
    return os.readlink(link) == to


def test_bytes_written_under_a_name_in_a_directory_that_nobody_watches(scene: Scene) -> None:
    (scene.beneath / "far").mkdir()
    (scene.beneath / "f").write_text("old")
    (scene.beneath / "far/alias").hardlink_to(scene.beneath / "f")
    assert (scene.mount / "f").read_text() == "old"
    (scene.beneath / "far/alias").write_text("longer")
    assert (scene.mount / "f").read_text() == "longer"
    (scene.beneath / "far/alias").write_text("much longer")
    eventually(lambda: (scene.mount / "f").stat().st_size == len("much longer"), SEEN_WITHIN_S)


def test_whoever_stands_in_a_directory_goes_on_standing_there(scene: Scene) -> None:
    """Telling the kernel must not cut a directory off (getcwd(2) would answer ENOENT)."""
    (scene.beneath / "d/sub").mkdir(parents=True)
    eventually((scene.mount / "d/sub").is_dir, SEEN_WITHIN_S)
    program = "import os, sys\nfor _ in sys.stdin: print(os.getcwd(), os.path.samefile('.', os.getcwd()), flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=scene.mount / "d/sub",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        asked, answered = process.stdin, process.stdout
        assert asked
        assert answered

        def where() -> list[str]:
            asked.write("\n")
            return answered.readline().split()

        assert where() == [str(scene.mount / "d/sub"), "True"]
        (scene.beneath / "d/sub/new").touch()
        (scene.beneath / "d/sub").chmod(0o700)
        (scene.beneath / "d/other").touch()
        appears(scene.mount / "d/other")
        assert where() == [str(scene.mount / "d/sub"), "True"]
        (scene.beneath / "d").rename(scene.beneath / "moved")
        appears(scene.mount / "moved/sub/new")
        assert where() == [str(scene.mount / "moved/sub"), "True"]
        asked.close()


def test_directories_that_changed_places_are_asked_about_at_once(scene: Scene) -> None:
    """The lower one is looked into before the mount has heard that it is the upper one now."""
    (scene.beneath / "d/sub").mkdir(parents=True)
    appears(scene.mount / "d/sub")
    for at in range(5):
        place = os.open(scene.mount / "d/sub", os.O_RDONLY)
        (scene.beneath / "d/sub").rename(scene.beneath / "sub")
        (scene.beneath / "d").rename(scene.beneath / "sub/d")
        with contextlib.suppress(OSError):
            os.stat("d", dir_fd=place)
            os.mkdir(f"d/{at}", dir_fd=place)
        os.close(place)
        appears(scene.mount / "sub/d")
        (scene.beneath / "sub/d").rename(scene.beneath / "d")
        (scene.beneath / "sub").rename(scene.beneath / "d/sub")
        appears(scene.mount / "d/sub")


def test_directories_that_come_and_go_beneath_leave_nothing_behind(
    scene: Scene, pair: Pair
) -> None:
    """A removed directory's inode is given back, and the mount forgets it."""

    def held() -> int:
        os.listdir(scene.mount)
        report = pair.mount.report()
        return int(report["descriptors"] + report["nodes"])

    before = held()
    for _ in range(300):
        (scene.beneath / "d").mkdir()
        assert (scene.mount / "d").is_dir()
        (scene.beneath / "d/f").touch()
        (scene.mount / "d/f").exists()
        shutil.rmtree(scene.beneath / "d")
    eventually(lambda: held() < before + 40, SEEN_WITHIN_S)
