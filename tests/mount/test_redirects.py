"""Redirects: what is scratch as a whole is served natively, and nothing else; it comes and goes unnoticed."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.mount.redirecting import WORTH_FILES
from leasefs.testing.eventually import eventually
from leasefs.testing.mount_trees import environment, git
from leasefs.testing.mounted import Mounted, mounted
from leasefs.testing.redirected import fill, is_redirected, redirects_below, until_redirected

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mount, pytest.mark.root]


@pytest.fixture
def source(place: Path, request: pytest.FixtureRequest) -> Path:
    base: Path = place / request.node.name.replace("/", "_")
    source: Path = base / "source"
    (source / "src").mkdir(parents=True)
    (base / "mount").mkdir()
    (source / ".gitignore").write_text("node_modules/\n/build*\n")
    (source / "src/f").write_text("f")
    git(source, "init", "-q")
    git(source, "add", ".")
    git(source, "commit", "-qm", "start")
    return source


@pytest.fixture
def mount(source: Path) -> Iterator[Mounted]:
    """In place, with nothing leased."""
    with mounted(str(source), str(source), "--redirects") as child:
        yield child


def run(mount: Mounted, *command: str) -> None:
    """In the mount; what it says if it fails is the test's message."""
    done = subprocess.run(
        command, cwd=mount.root, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_large_scratch_directory_is_redirected_and_all_else_is_not(mount: Mounted) -> None:
    root = Path(mount.root)
    fill(root / "build")
    fill(root / "build-small", files=20)
    (root / "build-link").symlink_to("build")
    until_redirected(mount, "build")
    assert (root / "build").stat().st_dev != root.stat().st_dev
    assert redirects_below(mount.root) <= {"build", ".git"}
    with pytest.raises(PermissionError):
        (root / "src/f").write_text("mine")
    eventually(lambda: "build" in mount.report()["redirects"], what="the report")


@pytest.mark.parametrize("sign", ["CMakeCache.txt", "Makefile"])
def test_where_builds_are_run_git_still_finds_its_repository(mount: Mounted, sign: str) -> None:
    root = Path(mount.root)
    (root / "build").mkdir()
    (root / "build" / sign).touch()
    fill(root / "build")
    fill(root / "build-other")
    until_redirected(mount, "build-other")
    assert not is_redirected(mount.root, "build")
    run(mount, "git", "-C", "build", "rev-parse", "--show-toplevel")


def test_in_place_the_git_directory_is_redirected(mount: Mounted) -> None:
    until_redirected(mount, ".git")
    run(mount, "git", "commit", "-q", "--allow-empty", "-m", "native")
    assert "native" in git(Path(mount.root), "log", "-1")


def test_the_git_directory_can_be_removed(mount: Mounted) -> None:
    until_redirected(mount, ".git")
    shutil.rmtree(f"{mount.root}/.git")
    assert not is_redirected(mount.root, ".git")


def test_a_directory_that_has_the_number_of_a_former_file(source: Path) -> None:
    """The kernel knows it by another number then."""
    root = source.parent / "mount"
    with mounted(str(source), str(root), "--redirects") as mount:
        (source / "build").touch()
        number = (root / "build").stat().st_ino
        kept = os.open(root / "build", os.O_PATH)
        try:
            (source / "build").unlink()
            (source / "build").mkdir()
            if (source / "build").stat().st_ino != number:
                pytest.skip("this file system does not use a number again at once")
            fill(source / "build")
            until_redirected(mount, "build")
        finally:
            os.close(kept)


def test_elsewhere_it_is_not(source: Path) -> None:
    root = source.parent / "mount"
    with mounted(str(source), str(root), "--redirects") as mount:
        fill(root / "build")
        os.stat(root / ".git/HEAD")
        until_redirected(mount, "build")
        assert redirects_below(mount.root) == {"build"}


def test_nested_ones_each_get_their_own(mount: Mounted) -> None:
    names = ["src/a/node_modules", "src/b/node_modules"]
    subprocess.run(["mkdir", "-p", *names], cwd=mount.source, check=False)
    mount.hold({"token": 1, "globs": ["src/**"]})
    for name in names:
        fill(Path(mount.root, name))
    for name in names:
        until_redirected(mount, name)


REMOVALS = {
    "rm": ["rm", "-rf", "build"],
    "git clean": ["git", "clean", "-fdxq"],
    "by descriptor": [sys.executable, "-c", "import shutil; shutil.rmtree('build')"],
    "by path": [
        sys.executable,
        "-c",
        (
            "import os\n"
            "for top, dirs, files in os.walk('build', topdown=False):\n"
            "    for name in files: os.unlink(f'{top}/{name}')\n"
            "    os.rmdir(top)"
        ),
    ],
    # node's fs.rm does that first, right after lstat
    "rmdir first": [
        sys.executable,
        "-c",
        (
            "import os, errno, shutil\n"
            "os.lstat('build')\n"
            "try: os.rmdir('build')\n"
            "except OSError as error: assert error.errno == errno.ENOTEMPTY, error\n"
            "shutil.rmtree('build')"
        ),
    ],
    "renamed": ["mv", "build", "build-old"],
    "renamed over": [
        sys.executable,
        "-c",
        "import os\nos.mkdir('build-new')\nos.rename('build', 'build-new')",
    ],
}


@pytest.mark.parametrize("how", REMOVALS)
def test_it_is_removed_and_renamed_like_any_directory(mount: Mounted, how: str) -> None:
    """A mountpoint could not be: EBUSY."""
    fill(Path(mount.root, "build"))
    until_redirected(mount, "build")
    run(mount, *REMOVALS[how])
    assert not Path(mount.root, "build").exists()
    assert not is_redirected(mount.root, "build")


def test_a_directory_that_becomes_small_is_not_redirected_any_more(mount: Mounted) -> None:
    root = Path(mount.root)
    fill(root / "build")
    until_redirected(mount, "build")
    for name in sorted(os.listdir(root / "build"))[10:]:
        (root / "build" / name).unlink()
    eventually(lambda: not is_redirected(mount.root, "build"), what="the end of the redirect")
    assert len(os.listdir(root / "build")) == 10


def test_a_file_that_git_comes_to_track_ends_it(mount: Mounted) -> None:
    fill(Path(mount.root, "build"))
    until_redirected(mount, "build")
    run(mount, "git", "add", "-f", "build/7")
    eventually(lambda: not is_redirected(mount.root, "build"), within_s=1.5, what="the end")
    with pytest.raises(PermissionError):
        Path(mount.root, "build/7").write_text("mine")
    Path(mount.root, "build/8").write_text("scratch still")


def test_rules_that_change_end_it(mount: Mounted) -> None:
    fill(Path(mount.root, "build"))
    until_redirected(mount, "build")
    mount.hold({"token": 1, "globs": [".gitignore"]})
    Path(mount.root, ".gitignore").write_text("node_modules/\n")
    eventually(lambda: not is_redirected(mount.root, "build"), within_s=1.5, what="the end")
    with pytest.raises(PermissionError):
        Path(mount.root, "build/7").write_text("mine")


def test_rules_changed_beneath_end_it(source: Path) -> None:
    root = source.parent / "mount"
    with mounted(str(source), str(root), "--redirects") as mount:
        fill(root / "build")
        until_redirected(mount, "build")
        (source / ".gitignore").write_text("node_modules/\n")
        eventually(lambda: not is_redirected(mount.root, "build"), within_s=1.5, what="the end")


def test_a_file_that_has_a_name_in_the_tree_keeps_its_directory_from_it(source: Path) -> None:
    """Written under the one name, the other would change without a lease."""
    fill(source / "build")
    os.link(source / "build/7", source / "src/alias")
    fill(source / "build-fit")
    with mounted(str(source), str(source), "--redirects") as mount:
        os.stat(f"{mount.root}/build")
        until_redirected(mount, "build-fit")
        assert "build" not in redirects_below(mount.root)
        with pytest.raises(PermissionError):
            Path(mount.root, "build/7").write_text("mine")
        assert Path(mount.root, "src/alias").read_text() == "build/7"


def test_names_outside_of_the_tree_do_not_count(source: Path) -> None:
    """Package stores link what they install."""
    fill(source / "build")
    os.link(source / "build/7", source.parent / "store")
    with mounted(str(source), str(source), "--redirects") as mount:
        until_redirected(mount, "build")


def test_a_name_in_the_tree_made_from_inside_ends_it(mount: Mounted) -> None:
    """By a descriptor from before the redirect: through it, EXDEV."""
    root = Path(mount.root)
    fill(root / "build", files=WORTH_FILES - 1)
    inside = os.open(root / "build", os.O_RDONLY)
    (root / "build/last").write_text("last")
    until_redirected(mount, "build")
    mount.hold({"token": 1, "globs": ["src/**"]})
    with pytest.raises(OSError, match="Invalid cross-device link"):
        os.link(root / "build/7", root / "src/alias")
    os.link("7", root / "src/alias", src_dir_fd=inside)
    os.close(inside)
    eventually(lambda: not is_redirected(mount.root, "build"), what="the end of the redirect")
    mount.hold()
    with pytest.raises(PermissionError):
        (root / "build/7").write_text("mine")


def test_while_a_file_is_open_for_reading_and_writing_it_waits(mount: Mounted) -> None:
    """Locks and shared mappings would not be seen by those who open the file natively."""
    root = Path(mount.root)
    (root / "build").mkdir()
    fill(root / "build-fit")
    with open(root / "build/db", "w+"):
        fill(root / "build")
        until_redirected(mount, "build-fit")
        assert "build" not in redirects_below(mount.root)
    (root / "build/one-more").write_text("x")
    until_redirected(mount, "build")


def test_what_is_a_mountpoint_already_is_left_alone(source: Path) -> None:
    fill(source / "build")
    (source.parent / "volume").mkdir()
    (source / "build/inner").mkdir()
    fill(source / "build-fit")
    volume = source.parent / "volume"
    subprocess.run(["mount", "--bind", volume, source / "build/inner"], check=True)
    try:
        with mounted(str(source), str(source.parent / "mount"), "--redirects") as mount:
            os.stat(f"{mount.root}/build")
            until_redirected(mount, "build-fit")
            assert "build" not in redirects_below(mount.root)
    finally:
        subprocess.run(["umount", source / "build/inner"], check=True)


def test_two_mounts_of_one_tree_have_each_their_own(source: Path) -> None:
    first, second = source.parent / "mount", source.parent / "second"
    second.mkdir()
    with (
        mounted(str(source), str(first), "--redirects") as one,
        mounted(str(source), str(second), "--redirects") as other,
    ):
        fill(first / "build")
        until_redirected(one, "build")
        os.stat(second / "build")
        until_redirected(other, "build")
        (first / "build/7").write_text("seen by both")
        assert (second / "build/7").read_text() == "seen by both"
        shutil.rmtree(second / "build")
        eventually(lambda: not (first / "build").exists(), what="the removal's arrival")


def test_a_removal_by_another_mount_leaves_an_empty_redirect_that_goes_at_once(
    source: Path,
) -> None:
    fill(source / "build")
    root = source.parent / "mount"
    with mounted(str(source), str(root), "--redirects") as mount:
        os.stat(root / "build")
        until_redirected(mount, "build")
        for name in os.listdir(source / "build"):
            (source / "build" / name).unlink()
        os.rmdir(root / "build")
        assert not (source / "build").exists()


def test_set_id_bits_and_devices_have_no_effect_inside(mount: Mounted) -> None:
    """As in the mount itself."""
    fill(Path(mount.root, "build"))
    until_redirected(mount, "build")
    flags = os.statvfs(f"{mount.root}/build").f_flag
    assert flags & os.ST_NOSUID
    assert flags & os.ST_NODEV


def test_nothing_is_redirected_unless_asked_for(source: Path) -> None:
    with mounted(str(source), str(source)) as mount:
        fill(Path(mount.root, "build"))
        os.stat(f"{mount.root}/.git")
        assert errno.errorcode[_write_error(mount, "src/f")] == "EACCES"
        assert redirects_below(mount.root) == set()


def _write_error(mount: Mounted, name: str) -> int:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the errno is what matters
        Path(mount.root, name).write_text("mine")
    return caught.value.errno or 0
