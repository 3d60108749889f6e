"""Renames, hard links, companions, directories: who needs which lease (design: what a write needs)."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.mount_trees import snapshot
from leasefs.testing.mounted import Mounted, mounted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.mount, pytest.mark.root]

EXCHANGE = 2
NOREPLACE = 1
WHITEOUT = 4


@pytest.fixture
def mount(place: Path, request: pytest.FixtureRequest) -> Iterator[Mounted]:
    base = place / f"{request.node.name}"
    for name in ("source/in/sub", "source/out/sub", "source/mixed/free", "mount"):
        (base / name).mkdir(parents=True)
    for name in ("in/f", "in/sub/f", "out/f", "out/sub/f", "mixed/f", "mixed/free/f"):
        (base / "source" / name).write_text(name)
    (base / "source/out/linked").write_text("linked")
    os.link(base / "source/out/linked", base / "source/in/alias")
    os.link(base / "source/in/f", base / "outside-the-tree")
    with mounted(str(base / "source"), str(base / "mount"), "--lease", "in/**") as child:
        yield child


def refusal(call: Callable[[], object]) -> str:
    """The name of the errno that the call fails with."""
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the errno is what matters
        call()
    return errno.errorcode[caught.value.errno or 0]


def renameat2(old: str, new: str, flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def lease(token: int, *globs: str) -> dict[str, object]:
    return {"token": token, "globs": globs}


@pytest.mark.parametrize("flags", [0, NOREPLACE, EXCHANGE])
@pytest.mark.parametrize(("old", "new"), [("in/f", "out/f"), ("out/f", "in/f")])
def test_a_rename_needs_both_names(mount: Mounted, old: str, new: str, flags: int) -> None:
    before = snapshot(Path(mount.source))
    assert refusal(lambda: renameat2(f"{mount.root}/{old}", f"{mount.root}/{new}", flags)) in {
        "EACCES",
        "EEXIST",  # the kernel itself knows that the name is taken
    }
    assert snapshot(Path(mount.source)) == before
    mount.hold(lease(1, "in/**", "out/**"))
    if flags != NOREPLACE:
        renameat2(f"{mount.root}/{old}", f"{mount.root}/{new}", flags)
        assert Path(mount.source, new).read_text() == old


def test_whiteout_renames_are_not_for_mounts(mount: Mounted) -> None:
    call = lambda: renameat2(f"{mount.root}/in/f", f"{mount.root}/in/g", WHITEOUT)  # noqa: E731
    assert refusal(call) == "EINVAL"


def test_renaming_a_directory_needs_everything_below_both_names(mount: Mounted) -> None:
    """Decided glob against glob: one unleased path below is enough to refuse, whether it exists or not."""
    mount.hold(lease(1, "mixed", "mixed/*", "moved", "moved/**"))
    before = snapshot(Path(mount.source))
    assert refusal(lambda: os.rename(f"{mount.root}/mixed", f"{mount.root}/moved")) == "EACCES"
    assert mount.report()["refusals"][-1]["reason"] == "TREE_NOT_LEASED"
    mount.hold(lease(1, "mixed", "mixed/**", "moved/*"))
    assert refusal(lambda: os.rename(f"{mount.root}/mixed", f"{mount.root}/moved")) == "EACCES"
    assert snapshot(Path(mount.source)) == before
    mount.hold(lease(1, "mixed", "mixed/**", "moved", "moved/**"))
    os.rename(f"{mount.root}/mixed", f"{mount.root}/moved")
    assert Path(mount.root, "moved/free/f").read_text() == "mixed/free/f"
    Path(mount.root, "moved/free/f").write_text("new")
    assert Path(mount.source, "moved/free/f").read_text() == "new"


def test_exchanging_directories_needs_both_trees(mount: Mounted) -> None:
    ours, theirs = f"{mount.root}/in/sub", f"{mount.root}/out/sub"
    assert refusal(lambda: renameat2(ours, theirs, EXCHANGE)) == "EACCES"
    assert refusal(lambda: renameat2(theirs, ours, EXCHANGE)) == "EACCES"
    mount.hold(lease(1, "in/**", "out/**"))
    renameat2(ours, theirs, EXCHANGE)
    assert Path(mount.root, "in/sub/f").read_text() == "out/sub/f"


def test_an_alias_of_an_unleased_file_is_refused_wherever_it_lies(mount: Mounted) -> None:
    """The link was there before the mount and the kernel never looked up its other name."""
    alias = f"{mount.root}/in/alias"
    for call in (
        lambda: os.open(alias, os.O_WRONLY),
        lambda: os.open(alias, os.O_RDONLY | os.O_TRUNC),
        lambda: os.truncate(alias, 0),
        lambda: os.chmod(alias, 0o600),
        lambda: os.utime(alias),
        lambda: os.setxattr(alias, "user.k", b"1"),
        lambda: os.link(alias, f"{mount.root}/in/third"),
    ):
        assert refusal(call) == "EACCES"
    last = mount.report()["refusals"][-1]
    assert (last["reason"], last["path"]) == ("ALIAS_NOT_LEASED", "out/linked")
    assert Path(mount.source, "out/linked").read_text() == "linked"
    os.unlink(alias)  # takes a name that is ours, and nothing else
    assert Path(mount.source, "out/linked").read_text() == "linked"


def test_an_alias_may_be_written_when_all_its_names_are_leased(mount: Mounted) -> None:
    mount.hold(lease(1, "in/**"), lease(2, "out/linked"))
    fd = os.open(f"{mount.root}/in/alias", os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b"one")
    os.write(fd, b"two")
    mount.hold(lease(1, "in/**"))
    assert refusal(lambda: os.write(fd, b"three")) == "EACCES"
    os.close(fd)
    assert Path(mount.source, "out/linked").read_text() == "onetwo"


def test_links_outside_the_tree_do_not_count(mount: Mounted) -> None:
    Path(mount.root, "in/f").write_text("new")
    assert Path(mount.source, "in/f").read_text() == "new"


def test_a_new_link_needs_both_names(mount: Mounted) -> None:
    assert refusal(lambda: os.link(f"{mount.root}/out/f", f"{mount.root}/in/n")) == "EACCES"
    assert refusal(lambda: os.link(f"{mount.root}/in/f", f"{mount.root}/out/n")) == "EACCES"
    os.link(f"{mount.root}/in/f", f"{mount.root}/in/n")
    assert os.stat(f"{mount.root}/in/n").st_nlink == 3
    Path(mount.root, "in/n").write_text("through the new name")
    assert Path(mount.root, "in/f").read_text() == "through the new name"


def test_an_open_file_that_gets_an_alias_needs_it_leased(mount: Mounted) -> None:
    mount.hold(lease(1, "in/**"), lease(2, "out/**"))
    fd = os.open(f"{mount.root}/in/sub/f", os.O_WRONLY)
    os.link(f"{mount.root}/in/sub/f", f"{mount.root}/out/n")
    os.write(fd, b"one")
    mount.hold(lease(1, "in/**"))
    assert refusal(lambda: os.write(fd, b"two")) == "EACCES"
    os.close(fd)


def test_directories_down_to_a_leased_glob_may_be_made_and_removed(mount: Mounted) -> None:
    """`mkdir -p` down to a leased glob, and `rmdir` of an ancestor."""
    mount.hold(lease(1, "new/deep/*.txt"))
    os.makedirs(f"{mount.root}/new/deep")
    Path(mount.root, "new/deep/a.txt").write_text("x")
    assert refusal(lambda: Path(mount.root, "new/deep/a.md").write_text("x")) == "EACCES"
    assert refusal(lambda: os.mkdir(f"{mount.root}/new/other")) == "EACCES"
    assert refusal(lambda: os.chmod(f"{mount.root}/new", 0o700)) == "EACCES"
    os.unlink(f"{mount.root}/new/deep/a.txt")
    os.rmdir(f"{mount.root}/new/deep")
    os.rmdir(f"{mount.root}/new")


class TestCompanions:
    """A companion file of an atomic save is allowed beside a leased file, and only there."""

    @pytest.fixture(autouse=True)
    def _one_file(self, mount: Mounted) -> None:
        Path(mount.source, "out/f~").write_text("somebody's")
        mount.hold(lease(1, "out/f"))

    @pytest.mark.parametrize(
        "name", [".f.swp", "f.tmp", "4913", ".f.Xa12Bc", "f.tmp.123", "sedAb12Cd"]
    )
    def test_made_written_and_renamed_onto_the_leased_name(self, mount: Mounted, name: str) -> None:
        Path(mount.root, "out", name).write_text("new")
        os.rename(f"{mount.root}/out/{name}", f"{mount.root}/out/f")
        assert Path(mount.source, "out/f").read_text() == "new"

    def test_made_and_removed(self, mount: Mounted) -> None:
        Path(mount.root, "out/.f.swp").write_text("new")
        os.chmod(f"{mount.root}/out/.f.swp", 0o600)
        os.unlink(f"{mount.root}/out/.f.swp")

    def test_the_leased_file_becomes_its_own_backup(self, mount: Mounted) -> None:
        os.rename(f"{mount.root}/out/f", f"{mount.root}/out/f.bak")
        Path(mount.root, "out/f").write_text("new")
        os.unlink(f"{mount.root}/out/f.bak")

    def test_somebody_elses_file_of_such_a_name_is_not_a_companion(self, mount: Mounted) -> None:
        for call in (
            lambda: Path(mount.root, "out/f~").write_text("mine"),
            lambda: os.unlink(f"{mount.root}/out/f~"),
            lambda: os.rename(f"{mount.root}/out/f", f"{mount.root}/out/f~"),
            lambda: os.rename(f"{mount.root}/out/f~", f"{mount.root}/out/f"),
        ):
            assert refusal(call) == "EACCES"
        assert Path(mount.source, "out/f~").read_text() == "somebody's"

    @pytest.mark.parametrize(
        "name", ["out/linked~", "out/.linked.swp", "out/linked.tmp", "in/4913"]
    )
    def test_not_beside_an_unleased_file(self, mount: Mounted, name: str) -> None:
        assert refusal(lambda: Path(mount.root, name).write_text("x")) == "EACCES"

    def test_not_after_the_lease_is_gone(self, mount: Mounted) -> None:
        fd = os.open(f"{mount.root}/out/.f.swp", os.O_CREAT | os.O_WRONLY)
        mount.hold()
        assert refusal(lambda: os.write(fd, b"x")) == "ESTALE"
        assert refusal(lambda: os.unlink(f"{mount.root}/out/.f.swp")) == "EACCES"
        os.close(fd)


@pytest.mark.parametrize("name", ["in/f~", "in/4913", "in/sedAbCd12"])
def test_companions_are_files_and_symlinks_only(mount: Mounted, name: str) -> None:
    path = f"{mount.root}/{name}"
    mount.hold(lease(1, "in/f"))
    assert refusal(lambda: os.mkdir(path)) == "EACCES"
    assert refusal(lambda: os.mkfifo(path)) == "EACCES"
    os.symlink("f", path)
    os.unlink(path)
    Path(path).write_text("x")
    os.unlink(path)
    os.mkdir(f"{mount.source}/{name}")
    assert refusal(lambda: os.rmdir(path)) == "EACCES"


def test_the_root_itself_is_leased_by_all_paths_only(mount: Mounted) -> None:
    for globs, allowed in ((["**"], True), (["*", "in/**"], False)):
        mount.hold(lease(1, *globs))
        calls: list[Callable[[], object]] = [
            lambda: os.chmod(mount.root, 0o751),
            lambda: os.utime(mount.root, ns=(1, 1)),
            lambda: os.chown(mount.root, 1, 1),
            lambda: os.setxattr(mount.root, "user.k", b"1"),
            lambda: os.removexattr(mount.root, "user.k"),
        ]
        for call in calls:
            if allowed:
                call()
            else:
                assert refusal(call) == "EACCES"
    found = os.stat(mount.source)
    assert (found.st_mode & 0o777, found.st_mtime_ns, found.st_uid) == (0o751, 1, 1)


def test_an_alias_deep_down_is_found(mount: Mounted) -> None:
    """Deeper than our stack, and than a path may be long."""
    directory = os.open(f"{mount.source}/out", os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("down", dir_fd=directory)
        below = os.open("down", os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = below
    os.link(f"{mount.source}/in/sub/f", "alias", dst_dir_fd=directory)
    os.close(directory)
    assert refusal(lambda: os.open(f"{mount.root}/in/sub/f", os.O_WRONLY)) == "EACCES"
    assert mount.report()["refusals"][-1]["reason"] == "ALIAS_NOT_LEASED"
    mount.hold(lease(1, "**"))
    os.close(os.open(f"{mount.root}/in/sub/f", os.O_WRONLY))
    subprocess.run(["rm", "-rf", f"{mount.source}/out"], check=True)  # rmtree is not up to it


def test_a_link_made_under_a_companion_name_can_be_taken_away_again(mount: Mounted) -> None:
    """It is in the way of writing in place until then: the file has a name that is not leased."""
    mount.hold(lease(1, "in/sub/f"))
    leased, backup = f"{mount.root}/in/sub/f", f"{mount.root}/in/sub/f~"
    os.link(leased, backup)
    assert refusal(lambda: os.truncate(leased, 0)) == "EACCES"
    assert mount.report()["refusals"][-1]["path"] == "in/sub/f~"
    os.unlink(backup)
    os.truncate(leased, 0)
    Path(f"{leased}.new").write_text("new")
    os.link(f"{leased}.new", f"{leased}.lock")
    os.unlink(f"{leased}.lock")
    os.rename(f"{leased}.new", leased)
