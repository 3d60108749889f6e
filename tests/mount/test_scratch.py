"""Scratch and the git directory: what needs no lease, and how that ends."""

from __future__ import annotations

import errno
import os
import shutil
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


@pytest.mark.parametrize("name", [".gitignore", "src/.gitignore"])
def test_rules_that_come_to_be_beneath_count_within_a_second(mount: Mounted, name: str) -> None:
    assert refusal(write(mount, "src/a.log")) == "EACCES"
    Path(mount.source, name).write_text("*.log\n")
    mount.tell("ahead", ahead_s=2)
    write(mount, "src/a.log")()


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


def git_in(mount: Mounted, *arguments: str) -> None:
    """Run git inside the mount."""
    command = ["git", "-C", mount.root, *arguments]
    subprocess.run(command, check=True, env=environment(), capture_output=True)


def test_an_open_file_that_stops_being_scratch_is_not_written_any_more(mount: Mounted) -> None:
    """Somebody else may lease it now (P2: checked at each change)."""
    descriptors = [
        os.open(f"{mount.root}/{name}", os.O_CREAT | os.O_WRONLY) for name in ("a.o", "src/gen")
    ]
    for fd in descriptors:
        os.write(fd, b"built")
    git_in(mount, "add", "-f", "a.o")
    Path(mount.source, "src/.gitignore").write_text("")
    mount.tell("ahead", ahead_s=2)
    for fd in descriptors:
        assert refusal(lambda fd=fd: os.pwrite(fd, b"bad", 0)) == "EACCES"  # type: ignore[misc]
    mount.hold({"token": 1, "globs": ["a.o"]})
    os.pwrite(descriptors[0], b"B", 0)
    for fd in descriptors:
        os.close(fd)
    assert Path(mount.source, "a.o").read_text() == "Built"


def test_an_ignore_file_that_is_ignored_itself_needs_a_lease(mount: Mounted) -> None:
    """It is read all the same: whoever writes it decides what is scratch beside it."""
    mount.hold({"token": 1, "globs": [".gitignore"]})
    Path(mount.root, ".gitignore").write_text("build/\n*.o\n.*\n")
    mount.hold()
    Path(mount.source, "src/theirs").write_text("theirs")
    write(mount, "src/.hidden")()
    for name in ("build.o", "src/.x"):
        os.mkdir(f"{mount.root}/{name}")
        write(mount, f"{name}/.gitignore")()  # below what is ignored it says nothing
    for name in ("src/.gitignore", ".gitignore", "new/.gitignore"):
        os.makedirs(f"{mount.source}/{os.path.dirname(name)}", exist_ok=True)
        assert refusal(write(mount, name, "*")) == "EACCES"
    os.rename(f"{mount.source}/src/.gitignore", f"{mount.source}/src/was")
    assert refusal(write(mount, "src/.gitignore", "*")) == "EACCES"
    source, goal = f"{mount.root}/src/.hidden", f"{mount.root}/src/.gitignore"
    for call in (os.rename, os.link, os.symlink):
        assert refusal(lambda call=call: call(source, goal)) == "EACCES"  # type: ignore[misc]
    assert refusal(write(mount, "src/theirs")) == "EACCES"


@pytest.mark.parametrize("again", ["repaired", "made anew"])
def test_a_git_directory_that_breaks_and_comes_back_brings_no_rules(
    mount: Mounted, again: str
) -> None:
    Path(mount.root, ".git/info/exclude").write_text("*\n")
    whole = Path(mount.root, ".git/index").read_bytes()
    Path(mount.root, ".git/index").write_bytes(b"junk")
    mount.tell("ahead", ahead_s=2)
    for name in ("new.c", "src/keep.o", "a.o"):
        assert refusal(write(mount, name)) == "EACCES"
    if again == "repaired":
        Path(mount.root, ".git/index").write_bytes(whole)
    else:
        shutil.rmtree(f"{mount.root}/.git")
        git_in(mount, "init", "-q")
        Path(mount.root, ".git/info/exclude").write_text("*\n")
    mount.tell("ahead", ahead_s=4)
    write(mount, "a.o")()  # scratch is open again
    for name in ("new.c", "src/keep.o", "build/tracked.o"):
        assert refusal(write(mount, name)) == "EACCES"


def test_a_git_directory_made_in_a_mount_brings_no_excludes(place: Path) -> None:
    base = place / "made-later"
    for name in ("source/src", "mount"):
        (base / name).mkdir(parents=True)
    (base / "source/src/theirs").write_text("theirs")
    (base / "source/.gitignore").write_text("*.o\n")
    leases = ("--lease", ".git", "--lease", ".git/**")
    with mounted(str(base / "source"), str(base / "mount"), *leases) as mount:
        git_in(mount, "init", "-q")
        mount.hold()
        Path(mount.root, ".git/info/exclude").write_text("*\n")
        git_in(mount, "config", "core.excludesFile", f"{mount.root}/.git/info/exclude")
        mount.tell("ahead", ahead_s=2)
        write(mount, "a.o")()
        for name in ("src/theirs", "src/new", ".gitignore"):
            assert refusal(write(mount, name)) == "EACCES"
