"""Scratch and the git directory: what needs no lease, and how that ends."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.mount_trees import environment, git
from leasefs.testing.mounted import Mounted, mounted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.mount, pytest.mark.root]


@pytest.fixture
def mount(place: Path, request: pytest.FixtureRequest) -> Iterator[Mounted]:
    base = place / f"{request.node.name}"
    for name in ("source/src", "source/build", "source/node_modules/p", "mount"):
        (base / name).mkdir(parents=True)
    source = base / "source"
    (source / ".gitignore").write_text("build/\n*.o\nnode_modules/\n!keep.o\n")
    (source / "src/.gitignore").write_text("gen\n")
    for name in ("src/f", "build/tracked.o", "src/keep.o"):
        (source / name).write_text(name)
    git(source, "init", "-q")
    git(source, "add", "-f", ".")
    git(source, "commit", "-qm", "start")
    with mounted(str(source), str(base / "mount"), "--lease", "src/f") as child:
        yield child


def refusal(call: Callable[[], object]) -> str:
    """The name of the errno that the call fails with."""
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the errno is what matters
        call()
    return errno.errorcode[caught.value.errno or 0]


def write(mount: Mounted, name: str, content: str = "new") -> Callable[[], object]:
    return lambda: Path(mount.root, name).write_text(content)


@pytest.mark.parametrize(
    "name", ["a.o", "build/x", "node_modules/p/index.js", "src/gen", "src/x.o"]
)
def test_what_git_ignores_is_free(mount: Mounted, name: str) -> None:
    write(mount, name)()
    os.chmod(f"{mount.root}/{name}", 0o600)
    os.rename(f"{mount.root}/{name}", f"{mount.root}/{name}.o")
    os.unlink(f"{mount.root}/{name}.o")
    assert mount.report()["users"] == []


@pytest.mark.parametrize("name", ["build/tracked.o", "src/keep.o", "new.c", ".gitignore"])
def test_tracked_and_unignored_paths_need_a_lease(mount: Mounted, name: str) -> None:
    """Whatever .gitignore says, a tracked file is never scratch."""
    assert refusal(write(mount, name)) == "EACCES"


def test_a_scratch_directory_moves_freely_inside_scratch(mount: Mounted) -> None:
    write(mount, "node_modules/p/a")()
    os.rename(f"{mount.root}/node_modules/p", f"{mount.root}/node_modules/q")
    os.rename(f"{mount.root}/node_modules", f"{mount.root}/x.o")
    assert Path(mount.root, "x.o/q/a").read_text() == "new"
    assert refusal(lambda: os.rename(f"{mount.root}/x.o", f"{mount.root}/tree")) == "EACCES"


def test_an_ignored_directory_with_a_tracked_file_does_not_move(mount: Mounted) -> None:
    assert refusal(lambda: os.rename(f"{mount.root}/build", f"{mount.root}/b.o")) == "EACCES"


def test_nothing_crosses_from_scratch_into_the_tree_without_a_lease(mount: Mounted) -> None:
    write(mount, "build/x")()
    assert refusal(lambda: os.rename(f"{mount.root}/build/x", f"{mount.root}/new.c")) == "EACCES"
    assert refusal(lambda: os.link(f"{mount.root}/build/x", f"{mount.root}/new.c")) == "EACCES"
    os.rename(f"{mount.root}/build/x", f"{mount.root}/src/f")
    assert Path(mount.source, "src/f").read_text() == "new"


def test_an_open_scratch_file_that_is_moved_away_is_not_written_any_more(mount: Mounted) -> None:
    """By another mount of the same source, which has the lease over the new name."""
    write(mount, "build/x", "scratch")()
    fd = os.open(f"{mount.root}/build/x", os.O_WRONLY)
    os.write(fd, b"S")
    os.rename(f"{mount.source}/build/x", f"{mount.source}/theirs.c")
    assert refusal(lambda: os.write(fd, b"mine")) in {"EACCES", "ESTALE"}
    os.close(fd)
    assert Path(mount.source, "theirs.c").read_text() == "Scratch"


def test_changed_rules_count_at_once_through_the_mount(mount: Mounted) -> None:
    mount.hold({"token": 1, "globs": [".gitignore"]})
    assert refusal(write(mount, "new.log")) == "EACCES"
    Path(mount.root, ".gitignore").write_text("*.log\n")
    write(mount, "new.log")()
    assert refusal(write(mount, "new.o")) == "EACCES"


def test_changed_rules_beneath_count_within_a_second(mount: Mounted) -> None:
    write(mount, "a.o")()
    Path(mount.source, ".gitignore").write_text("nothing\n")
    mount.tell("ahead", ahead_s=2)
    assert refusal(write(mount, "b.o")) == "EACCES"


def test_a_file_that_gets_tracked_stops_being_scratch(mount: Mounted) -> None:
    write(mount, "a.o")()
    git_in = ["git", "-C", mount.root, "add", "-f", "a.o"]
    subprocess.run(git_in, check=True, env=environment(), capture_output=True)
    assert refusal(write(mount, "a.o")) == "EACCES"


def test_the_git_directory_cannot_turn_tree_into_scratch(mount: Mounted) -> None:
    """P2: it is writable without a lease, so what stands there must not decide what needs one."""
    Path(mount.root, ".git/info/exclude").write_text("*\n")
    Path(mount.root, ".git/all").write_text("*\n")
    git_in = ["git", "-C", mount.root]
    for arguments in (
        ["config", "core.excludesFile", f"{mount.root}/.git/all"],
        ["rm", "-q", "--cached", "build/tracked.o"],
    ):
        subprocess.run([*git_in, *arguments], check=True, env=environment(), capture_output=True)
    mount.tell("ahead", ahead_s=2)
    for name in ("new.c", "src/keep.o", "build/tracked.o"):
        assert refusal(write(mount, name)) == "EACCES"
    os.unlink(f"{mount.root}/.git/index")
    mount.tell("ahead", ahead_s=2)
    for name in ("new.c", "src/keep.o", "build/tracked.o"):
        assert refusal(write(mount, name)) == "EACCES"
    assert refusal(lambda: os.rename(f"{mount.root}/build", f"{mount.root}/x.o")) == "EACCES"


def test_git_works_without_a_lease(mount: Mounted) -> None:
    write(mount, "src/f")()
    for arguments in (["commit", "-qam", "second"], ["branch", "b"], ["gc", "-q"], ["fsck"]):
        subprocess.run(
            ["git", "-C", mount.root, *arguments],
            check=True,
            env=environment(),
            capture_output=True,
        )
    assert git(Path(mount.source), "status", "--porcelain") == ""


def test_a_file_comes_out_of_the_git_directory_only_under_a_lease(mount: Mounted) -> None:
    Path(mount.root, ".git/x").write_text("x")
    assert refusal(lambda: os.rename(f"{mount.root}/.git/x", f"{mount.root}/new.c")) == "EACCES"
    assert refusal(lambda: os.link(f"{mount.root}/src/keep.o", f"{mount.root}/.git/y")) == "EACCES"
    os.rename(f"{mount.root}/.git/x", f"{mount.root}/src/f")


def test_the_git_directory_itself_stays(mount: Mounted) -> None:
    mount.hold({"token": 1, "globs": ["**"]})
    assert refusal(lambda: os.rename(f"{mount.root}/.git", f"{mount.root}/git2")) == "EBUSY"


def test_a_nested_git_directory_needs_a_lease(mount: Mounted) -> None:
    assert refusal(lambda: os.mkdir(f"{mount.root}/src/.git")) == "EACCES"
    mount.hold({"token": 1, "globs": ["sub/**"]})
    subprocess.run(["git", "init", "-q", f"{mount.root}/sub"], check=True, env=environment())
    mount.hold()
    assert refusal(write(mount, "sub/.git/config")) == "EACCES"


def test_scratch_stays_writable_while_git_and_builds_are_busy(mount: Mounted) -> None:
    """The index is written and directories come and go faster than rules can be read."""
    loops = (
        "for i in $(seq 150); do git update-index --force-write-index 2>/dev/null; done",
        "for i in $(seq 150); do mkdir -p build/d$i/x; mv build/d$i build/e$i; rm -r build/e$i; done",
        "for i in $(seq 150); do echo $i > build/out$i || exit 1; echo $i > src/x$i.o || exit 1; done",
    )
    running = [
        subprocess.Popen(["sh", "-c", loop], cwd=mount.root, env=environment()) for loop in loops
    ]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0]
