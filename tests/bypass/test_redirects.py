"""Ways out of a redirect: scratch that the kernel serves natively, beside ground that is leased to others."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.bypass_scene import MINE, Scene, fill, unleased
from leasefs.testing.intruder import AGENT_UID, Intruder
from leasefs.testing.mount_trees import environment, give
from leasefs.testing.mounted import mounted
from leasefs.testing.redirected import fill as fill_scratch
from leasefs.testing.redirected import until_redirected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.mount, pytest.mark.root]


@pytest.fixture(scope="module")
def redirected(place: Path) -> Iterator[Scene]:
    """Root's mount, which serves `build/` natively."""
    source, root = place / "closed/scratch", place / "scratch"
    fill(source)
    os.chown(source, 0, 0)
    (place / "closed").chmod(0o700)
    fill_scratch(source / "build")
    (source / ".gitignore").write_text("build/\n")
    subprocess.run(["git", "init", "-q", source], env=environment(), check=True)
    give(source / "build", AGENT_UID)
    root.mkdir()
    with mounted(str(source), str(root), "--redirects") as mount:
        mount.hold(MINE)
        until_redirected(mount, "build")
        yield Scene(source, root, mount, Intruder(str(root)))


@pytest.fixture
def scene(redirected: Scene) -> Iterator[Scene]:
    before = unleased(redirected.source)
    yield redirected
    assert unleased(redirected.source) == before


@pytest.mark.parametrize(
    ("code", "errno"),
    [
        ("os.open('build/../theirs/f', os.O_WRONLY)", "EACCES"),
        ("os.rename('build/made', 'theirs/f')", "EXDEV"),
        ("os.rename('theirs/f', 'build/f')", "EXDEV"),
        ("os.link('theirs/f', 'build/f')", "EXDEV"),
        ("os.link('build/made', 'theirs/new')", "EXDEV"),
        ("os.symlink('../theirs/f', 'build/link'); os.open('build/link', os.O_WRONLY)", "EACCES"),
        ("os.chdir('build'); os.open('../theirs/f', os.O_WRONLY)", "EACCES"),
        ("os.open('../theirs/f', os.O_WRONLY, dir_fd=os.open('build', os.O_RDONLY))", "EACCES"),
    ],
    ids=["..", "move out", "move in", "link in", "link out", "symlink", "chdir", "descriptor"],
)
def test_out_of_a_redirect(scene: Scene, code: str, errno: str) -> None:
    assert scene.intruder.attempt("open('build/made', 'w').close()\n" + code).how == errno
    scene.intruder.shell("rm -f build/made build/link build/f")


def test_unmount_a_redirect(scene: Scene) -> None:
    done = scene.intruder.shell('umount "$1/build" || umount -l "$1/build"', str(scene.root))
    assert done.returncode != 0


def test_a_handle_of_the_tree_by_a_redirect(scene: Scene) -> None:
    """open_by_handle_at(2) with a mount of the file system beneath at hand."""
    code = """
handle, mount_id = bytearray(struct.pack("Ii", 128, 0) + bytes(128)), ctypes.c_int()
buffer = (ctypes.c_char * len(handle)).from_buffer(handle)
call(303, -100, b"build", buffer, ctypes.byref(mount_id), 0)
at = os.open("build", os.O_RDONLY)
said = [refused(lambda: call(304, at, buffer, os.O_RDONLY))]
call(272, 0x10000000)
said.append(refused(lambda: call(304, at, buffer, os.O_RDONLY)))
"""
    assert scene.intruder.attempt(code) == ("done", ["EPERM", "EPERM"])


def test_the_tree_beneath_by_a_redirect_in_a_namespace_of_ones_own(scene: Scene) -> None:
    """A bind mount of it leads no further up than it is."""
    script = "mount --bind build /mnt && ls /mnt/..; true > /mnt/../theirs/f; true > theirs/f"
    done = scene.intruder.shell(f"exec unshare --user --map-root-user --mount sh -c '{script}'")
    assert "theirs" not in done.stdout
    assert "ermission denied" in done.stderr
