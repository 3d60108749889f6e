"""Ways around a mount by other mounts, and by mount namespaces that an ordinary user may make (user_namespaces(7))."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.mount.mountinfo import top_at
from leasefs.testing.bypass_scene import MINE, fill
from leasefs.testing.intruder import AGENT_UID, OTHER_UID, Intruder, as_ordinary_user
from leasefs.testing.mounted import Mounted, mounted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.bypass_scene import Scene

pytestmark = [pytest.mark.mount, pytest.mark.root]

# A mount namespace of one's own, as root of a user namespace of one's own.
OWN = "exec unshare --user --map-root-user --mount sh -c"


@pytest.fixture(scope="module")
def over_its_tree(place: Path) -> Iterator[Mounted]:
    tree = place / "tree"
    fill(tree)
    os.chown(tree, AGENT_UID, AGENT_UID)
    with mounted(str(tree), str(tree)) as mount:
        mount.hold(MINE)
        yield mount
    assert (tree / "theirs/f").read_text() == "old\n"


@pytest.fixture
def in_place(over_its_tree: Mounted) -> Iterator[Mounted]:
    """Root's mount over the tree itself; it is there after each attempt, too."""
    yield over_its_tree
    there = top_at(over_its_tree.root)
    assert there is not None
    assert there.is_leasefs
    assert Path(over_its_tree.root, "theirs/f").read_text() == "old\n"


def own_namespace(mount: Mounted, script: str) -> subprocess.CompletedProcess[str]:
    return Intruder("/").shell(f"{OWN} '{script}' sh \"$1\"", mount.root)


def test_a_namespace_of_ones_own_can_be_made_at_all(in_place: Mounted) -> None:
    """Or the attempts in it would show nothing."""
    done = own_namespace(in_place, 'mount -t tmpfs none /mnt && cat "$1/theirs/f"')
    assert (done.returncode, done.stdout) == (0, "old\n"), done.stderr


@pytest.mark.parametrize("how", ["umount", "umount -l", "fusermount3 -u", "fusermount3 -uz"])
def test_unmount_roots_mount(in_place: Mounted, how: str) -> None:
    assert Intruder("/").shell(f'{how} "$1"', in_place.root).returncode != 0


@pytest.mark.parametrize("how", ["umount", "umount -l"])
def test_unmount_it_in_a_namespace_of_ones_own(in_place: Mounted, how: str) -> None:
    """mount_namespaces(7): what came from a more privileged namespace is locked."""
    done = own_namespace(in_place, f'{how} "$1"; echo new > "$1/theirs/f"')
    assert "ermission denied" in done.stderr


@pytest.mark.parametrize(
    "move",
    [
        'mount --move "$1" /mnt',
        "mount --bind /var/tmp /mnt && echo new > /mnt/${1#/var/tmp/}/theirs/f",
    ],
)
def test_uncover_the_tree_by_a_bind_mount(in_place: Mounted, move: str) -> None:
    """A bind mount without what is mounted below would show the tree beneath: the kernel refuses it."""
    done = own_namespace(in_place, f'{move}; echo new > "$1/theirs/f"')
    assert done.stderr.count("ermission denied") >= 1
    assert "new" not in (own_namespace(in_place, 'cat "$1/theirs/f"').stdout)


def test_uncover_it_by_a_recursive_bind_mount(in_place: Mounted) -> None:
    script = 'mount --rbind /var/tmp /mnt; umount -l "/mnt/${1#/var/tmp/}"; echo new > "/mnt/${1#/var/tmp/}/theirs/f"'
    assert "ermission denied" in own_namespace(in_place, script).stderr


def test_uncover_it_by_a_detached_copy(in_place: Mounted) -> None:
    """open_tree(2) with OPEN_TREE_CLONE, without AT_RECURSIVE: a mount that hangs nowhere."""
    code = """
call(272, 0x10000000)  # CLONE_NEWUSER
call(272, 0x20000)  # CLONE_NEWNS
call(428, -100, given[0].encode(), 1)
"""
    assert Intruder("/").attempt(code, os.path.dirname(in_place.root)).how == "EINVAL"


def test_remount_it_with_other_options(in_place: Mounted) -> None:
    done = own_namespace(in_place, 'mount -o remount,bind,suid,dev "$1" && echo changed')
    assert "changed" not in done.stdout


def test_an_overlay_over_it(in_place: Mounted) -> None:
    """What is written there lands in the overlay's own directory."""
    script = """mount -t tmpfs none /mnt && mkdir /mnt/up /mnt/work
mount -t overlay none -o "lowerdir=$1,upperdir=/mnt/up,workdir=/mnt/work" "$1" && echo new > "$1/theirs/f" """
    own_namespace(in_place, script)
    assert Intruder(in_place.root).attempt("said = open('theirs/f').read()").said == "old\n"


def test_something_mounted_over_it_in_a_namespace_of_ones_own(in_place: Mounted) -> None:
    done = own_namespace(
        in_place, 'mount -t tmpfs none "$1/theirs" && echo new > "$1/theirs/f" && cat "$1/theirs/f"'
    )
    assert done.stdout == "new\n"
    assert Intruder(in_place.root).attempt("said = open('theirs/f').read()").said == "old\n"


def test_a_file_handle_of_the_tree_beneath(in_place: Mounted) -> None:
    """open_by_handle_at(2) needs a right over the file system that no user namespace gives."""
    code = """
handle, mount_id = bytearray(struct.pack("Ii", 128, 0) + bytes(128)), ctypes.c_int()
buffer = (ctypes.c_char * len(handle)).from_buffer(handle)
call(303, -100, given[0].encode(), buffer, ctypes.byref(mount_id), 0)
at = os.open(given[0], os.O_RDONLY)
said = [refused(lambda: call(304, at, buffer, os.O_WRONLY))]
call(272, 0x10000000)
said.append(refused(lambda: call(304, at, buffer, os.O_WRONLY)))
"""
    above = os.path.dirname(in_place.root)
    assert Intruder("/").attempt(code, above) == ("done", ["EPERM", "EPERM"])


def test_enter_the_daemons_namespaces(in_place: Mounted) -> None:
    code = "said = [refused(lambda: os.open(f'/proc/{given[0]}/ns/{one}', os.O_RDONLY)) for one in ('mnt', 'user')]"
    assert Intruder("/").attempt(code, str(in_place.process.pid)).said == ["EACCES", "EACCES"]


def test_a_namespace_from_before_the_mount(place: Path) -> None:
    """Not covered: what is mounted later is not seen in it, so the tree lies open there."""
    tree = place / "before"
    fill(tree)
    os.chown(tree, AGENT_UID, AGENT_UID)
    code = """
call(272, 0x10000000)
call(272, 0x20000)
checked(libc.mount(b"none", b"/", None, ctypes.c_ulong(0x4000 | 0x40000), None))  # MS_REC | MS_PRIVATE
tell("made"); next(lines())
os.write(os.open(given[0], os.O_WRONLY), b"new")
"""
    process = Intruder("/").stays(code, str(tree / "theirs/f"))
    assert process.hear() == "made"
    with mounted(str(tree), str(tree)):
        process.go_on()
        assert process.outcome().how == "done"
    assert (tree / "theirs/f").read_text() == "new\n"


def test_a_working_directory_from_before_the_mount(place: Path) -> None:
    """Not covered: it lies beneath."""
    tree = place / "stood"
    fill(tree)
    process = Intruder(str(tree)).stays("tell('here'); next(lines()); os.truncate('theirs/f', 0)")
    assert process.hear() == "here"
    with mounted(str(tree), str(tree)):
        process.go_on()
        assert process.outcome().how == "done"
    assert (tree / "theirs/f").read_text() == ""


def test_the_source_of_a_separate_mountpoint(place: Path) -> None:
    """Not covered, unless the source is out of reach, as `Scene`'s is: the file system beneath is not hidden."""
    tree, root = place / "open", place / "at"
    fill(tree)
    root.mkdir()
    with mounted(str(tree), str(root)):
        assert Intruder(str(root)).attempt("os.truncate('theirs/f', 0)").how == "EACCES"
        assert Intruder(str(tree)).attempt("os.truncate('theirs/f', 0)").how == "done"


def test_the_source_where_it_is_closed(scene: Scene) -> None:
    code = "os.open(given[0] + '/theirs/f', os.O_WRONLY)"
    assert scene.intruder.attempt(code, str(scene.source)).how == "EACCES"


def test_another_agents_mount(place: Path, one_mount: Scene) -> None:
    """Not covered: who reaches the directory that another mount is at writes under that agent's leases."""
    root = place / "neighbour"
    root.mkdir()
    with mounted(str(one_mount.source), str(root), "--lease", "theirs/**", "--agent", "other"):
        assert one_mount.intruder.attempt("os.truncate('theirs/f', 4)").how == "EACCES"
        assert Intruder(str(root)).attempt("os.truncate('theirs/f', 4)").how == "done"
        root.parent.chmod(0o755)


def test_another_agents_mount_behind_a_closed_directory(place: Path, one_mount: Scene) -> None:
    """What covers it: a directory above the mountpoint that only that agent may enter."""
    room = place / "room"
    (room / "mount").mkdir(parents=True)
    os.chown(room, OTHER_UID, OTHER_UID)
    room.chmod(0o700)
    with mounted(
        str(one_mount.source), str(room / "mount"), "--lease", "theirs/**", "--agent", "other"
    ):
        code = "os.truncate(given[0] + '/theirs/f', 0)"
        assert Intruder("/").attempt(code, str(room / "mount")).how == "EACCES"


def test_a_mount_of_ones_own_over_a_directory_of_it(in_place: Mounted, fuse_for_all: None) -> None:
    """Not covered: fusermount3 lets the owner of a directory cover it, for everybody; no byte beneath changes."""
    code = """
ours, theirs = socket.socketpair()
os.set_inheritable(theirs.fileno(), True)
os.environ["_FUSE_COMMFD"] = str(theirs.fileno())
said = os.spawnlp(os.P_WAIT, "fusermount3", "fusermount3", "--", given[0])
"""
    covered = f"{in_place.root}/theirs"
    assert Intruder("/").attempt(code, covered) == ("done", 0)
    try:
        assert Intruder("/").attempt("os.listdir(given[0])", covered).how == "ENOTCONN"
    finally:
        subprocess.run([*as_ordinary_user(AGENT_UID), "fusermount3", "-uz", covered], check=False)
        subprocess.run(["umount", "-l", covered], check=False, capture_output=True)
    assert Intruder(in_place.root).attempt("said = open('theirs/f').read()").said == "old\n"
