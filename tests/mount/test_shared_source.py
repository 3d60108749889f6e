"""Two agents share one tree, each through its own mount."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from leasefs.testing.mount_trees import git
from leasefs.testing.mounted import Mounted, mounted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.mount, pytest.mark.root]

SEEN_WITHIN_S = 5.0  # promised: a second; the machine may be busy


class Pair(NamedTuple):
    """Agent A holds `a/**`, agent B holds `b/**`."""

    a: Mounted
    b: Mounted


@pytest.fixture
def agents(place: Path, request: pytest.FixtureRequest) -> Iterator[Pair]:
    base = place / request.node.name
    for name in ("source/a/sub", "source/b", "mount-a", "mount-b"):
        (base / name).mkdir(parents=True)
    for name in ("a/f", "a/sub/f", "b/f"):
        (base / "source" / name).write_text("old")
    (base / "source/.gitignore").write_text("*.o\n")
    git(base / "source", "init", "-q")
    source = str(base / "source")
    with (
        mounted(source, str(base / "mount-a"), "--agent", "a", "--lease", "a/**") as a,
        mounted(source, str(base / "mount-b"), "--agent", "b", "--lease", "b/**") as b,
    ):
        yield Pair(a, b)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the errno is what matters
        call()
    return errno.errorcode[caught.value.errno or 0]


def becomes(condition: Callable[[], bool]) -> bool:
    """Whether it comes true before the deadline; polled."""
    until_s = time.monotonic() + SEEN_WITHIN_S
    pause = threading.Event()
    while time.monotonic() < until_s:
        if condition():
            return True
        pause.wait(0.02)
    return False


def test_each_writes_its_own_and_sees_the_other(agents: Pair) -> None:
    seen = Path(agents.b.root, "a/f")
    assert seen.read_text() == "old"
    assert refusal(lambda: seen.write_text("mine")) == "EACCES"
    Path(agents.a.root, "a/f").write_text("new")
    assert becomes(lambda: seen.read_text() == "new")


def test_an_atomic_save_by_one_is_seen_by_the_other(agents: Pair) -> None:
    seen = Path(agents.b.root, "a/f")
    assert seen.read_text() == "old"
    Path(agents.a.root, "a/f.tmp").write_text("saved")
    os.rename(f"{agents.a.root}/a/f.tmp", f"{agents.a.root}/a/f")
    assert becomes(lambda: seen.read_text() == "saved")
    assert becomes(lambda: sorted(os.listdir(seen.parent)) == ["f", "sub"])


def test_exclusive_creation_excludes_across_mounts(agents: Pair) -> None:
    """Git's `index.lock`, even where one mount has just learnt that the name is free."""
    name = ".git/index.lock"
    assert not os.path.exists(f"{agents.b.root}/{name}")
    os.close(os.open(f"{agents.a.root}/{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    exclusive = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    assert refusal(lambda: os.open(f"{agents.b.root}/{name}", exclusive)) == "EEXIST"


def test_appends_through_both_mounts_lose_nothing(agents: Pair) -> None:
    """Each kernel's idea of the size is up to a second old; a shared log (.git/logs) must stay whole."""
    logs = [
        os.open(f"{side.root}/.git/log", os.O_CREAT | os.O_APPEND | os.O_WRONLY) for side in agents
    ]
    lines = [b"%d %03d\n" % (side, at) for at in range(100) for side in (0, 1)]
    for line in lines:
        os.write(logs[line[0] - ord("0")], line)
    for log in logs:
        os.close(log)
    assert Path(agents.a.source, ".git/log").read_bytes() == b"".join(lines)


def test_a_directory_renamed_by_one_is_not_written_by_the_other_under_its_old_name(
    agents: Pair,
) -> None:
    """B stands in a directory that A moved; a lease over the old name says nothing about the new one."""
    agents.a.hold({"token": 1, "globs": ["a/**", "c", "c/**", "a"]})
    directory = os.open(f"{agents.b.root}/a/sub", os.O_RDONLY | os.O_DIRECTORY)
    assert os.listdir(directory) == ["f"]
    os.rename(f"{agents.a.root}/a", f"{agents.a.root}/c")
    agents.b.hold({"token": 2, "globs": ["a/**"]})
    for call in (
        lambda: os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=directory),
        lambda: os.open("f", os.O_WRONLY, dir_fd=directory),
        lambda: os.unlink("f", dir_fd=directory),
    ):
        assert refusal(call) in {"ESTALE", "ENOENT", "EACCES"}
    os.close(directory)
    assert os.listdir(f"{agents.a.source}/c/sub") == ["f"]
    assert Path(agents.a.source, "c/sub/f").read_text() == "old"


def test_scratch_moved_into_the_tree_by_one_is_closed_to_the_other(agents: Pair) -> None:
    fd = os.open(f"{agents.b.root}/x.o", os.O_CREAT | os.O_WRONLY)
    os.write(fd, b"built")
    os.rename(f"{agents.a.root}/x.o", f"{agents.a.root}/a/f")
    assert refusal(lambda: os.write(fd, b"more")) == "EACCES"
    os.close(fd)
    assert Path(agents.a.source, "a/f").read_text() == "built"


def test_a_hard_link_made_by_one_is_an_alias_to_the_other(agents: Pair) -> None:
    agents.a.hold({"token": 1, "globs": ["a/**", "b/**"]})
    os.link(f"{agents.a.root}/a/f", f"{agents.a.root}/b/alias")
    agents.a.hold({"token": 1, "globs": ["a/**"]})
    assert refusal(lambda: os.open(f"{agents.b.root}/b/alias", os.O_WRONLY)) == "EACCES"
    assert agents.b.report()["refusals"][-1]["reason"] == "ALIAS_NOT_LEASED"


@pytest.mark.parametrize("ground", ["x.o", ".git/x"])
def test_free_ground_that_gets_a_name_in_the_tree_is_closed_to_the_other(
    agents: Pair, ground: str
) -> None:
    fd = os.open(f"{agents.b.root}/{ground}", os.O_CREAT | os.O_WRONLY)
    os.write(fd, b"built")
    os.link(f"{agents.a.root}/{ground}", f"{agents.a.root}/a/linked")
    assert refusal(lambda: os.pwrite(fd, b"bad", 0)) == "EACCES"
    assert refusal(lambda: os.ftruncate(fd, 0)) == "EACCES"
    os.unlink(f"{agents.a.root}/a/linked")
    os.pwrite(fd, b"B", 0)
    os.close(fd)
    assert Path(agents.a.source, ground).read_text() == "Built"
