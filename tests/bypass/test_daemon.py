"""Ways to the tree, the secrets or the mount through the daemon's process: root's, and one of the intruder's own user."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from leasefs.client.clock import BoottimeClock
from leasefs.testing.bypass_scene import MINE, fill
from leasefs.testing.eventually import eventually
from leasefs.testing.intruder import AGENT_UID, OTHER_UID, Intruder
from leasefs.testing.mounted import Mounted, mounted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from leasefs.testing.bypass_scene import Scene

pytestmark = [pytest.mark.mount, pytest.mark.root]

ANYBODY = Intruder("/")
BY_PROC = """
pid = given[0]
said = {
    "fd": refused(lambda: os.listdir(f"/proc/{pid}/fd")),
    "root": refused(lambda: os.listdir(f"/proc/{pid}/root/")),
    "cwd": refused(lambda: os.listdir(f"/proc/{pid}/cwd/")),
    "mem": refused(lambda: os.open(f"/proc/{pid}/mem", os.O_RDWR)),
    "maps": refused(lambda: open(f"/proc/{pid}/maps").read()),
    "map_files": refused(lambda: os.listdir(f"/proc/{pid}/map_files")),
    "environ": refused(lambda: open(f"/proc/{pid}/environ").read()),
    "task": refused(lambda: os.listdir(f"/proc/{pid}/task/{pid}/fd")),
}
"""
BY_CALLS = """
pid = int(given[0])
byte = ctypes.create_string_buffer(8)
local = struct.pack("QQ", ctypes.addressof(byte), 8)
said = {
    "attach": refused(lambda: call(101, 16, pid, 0, 0)),
    "seize": refused(lambda: call(101, 0x4206, pid, 0, 0)),
    "readv": refused(lambda: call(310, pid, local, 1, struct.pack("QQ", 0x400000, 8), 1, 0)),
    "writev": refused(lambda: call(311, pid, local, 1, struct.pack("QQ", 0x400000, 8), 1, 0)),
    "getfd": refused(lambda: call(438, os.pidfd_open(pid), 3, 0)),
    "kcmp": refused(lambda: call(312, pid, os.getpid(), 0, 3, 3)),
}
"""


@pytest.fixture(scope="module")
def own_tree(place: Path) -> Path:
    tree = place / "own"
    fill(tree)
    os.chown(tree, AGENT_UID, AGENT_UID)
    return tree


@pytest.fixture
def own(own_tree: Path, fuse_for_all: None) -> Iterator[Mounted]:
    """The intruder's own mount in place; it may end badly."""
    tree = str(own_tree)
    with mounted(tree, tree, user=AGENT_UID, ends_well=False) as mount:
        mount.hold(MINE)
        yield mount
    assert (own_tree / "theirs/f").read_text() == "old\n"


def test_the_descriptors_and_memory_of_roots_daemon(one_mount: Scene) -> None:
    said = ANYBODY.attempt(BY_PROC, str(one_mount.mount.process.pid)).said
    assert set(said.values()) <= {"EACCES", "EPERM"}, said


def test_ptrace_of_roots_daemon(one_mount: Scene) -> None:
    said = ANYBODY.attempt(BY_CALLS, str(one_mount.mount.process.pid)).said
    assert set(said.values()) == {"EPERM"}, said


def test_signals_to_roots_daemon(one_mount: Scene) -> None:
    code = "said = [refused(lambda: os.kill(int(given[0]), one)) for one in (9, 15, 19, 2)]"
    assert ANYBODY.attempt(code, str(one_mount.mount.process.pid)).said == ["EPERM"] * 4


def test_limits_of_roots_daemon(one_mount: Scene) -> None:
    code = "import resource; resource.prlimit(int(given[0]), resource.RLIMIT_NOFILE, (8, 8))"
    assert ANYBODY.attempt(code, str(one_mount.mount.process.pid)).how == "EPERM"


def test_abort_roots_connection(one_mount: Scene) -> None:
    """fusectl, where it is mounted: /sys/fs/fuse/connections."""
    minor = os.minor(os.stat(one_mount.root).st_dev)
    with _fusectl():
        abort = f"/sys/fs/fuse/connections/{minor}/abort"
        assert os.path.exists(abort)
        code = "os.write(os.open(given[0], os.O_WRONLY), b'1')"
        assert ANYBODY.attempt(code, abort).how in {"EACCES", "EPERM"}


class _fusectl:  # noqa: N801 - used as a word
    """Mounted for as long as it takes, where it is not."""

    def __enter__(self) -> None:
        self.done = subprocess.run(
            ["mount", "-t", "fusectl", "none", "/sys/fs/fuse/connections"],
            capture_output=True,
            check=False,
        )

    def __exit__(self, *_: object) -> None:
        if self.done.returncode == 0:
            subprocess.run(["umount", "-l", "/sys/fs/fuse/connections"], check=True)


def test_the_descriptors_and_memory_of_ones_own_daemon(own: Mounted) -> None:
    """It is not dumpable, proc(5): also to its own user."""
    said = ANYBODY.attempt(BY_PROC, str(own.process.pid)).said
    assert set(said.values()) <= {"EACCES", "EPERM"}, said


def test_ptrace_of_ones_own_daemon(own: Mounted) -> None:
    said = ANYBODY.attempt(BY_CALLS, str(own.process.pid)).said
    assert set(said.values()) == {"EPERM"}, said


def test_a_core_dump_of_ones_own_daemon(own: Mounted) -> None:
    """It leaves none, and the mount is closed."""
    ANYBODY.attempt("os.kill(int(given[0]), signal.SIGABRT)", str(own.process.pid))
    assert own.process.wait(20) == -signal.SIGABRT
    assert not [name for name in os.listdir("/") if name.startswith("core")]
    assert ANYBODY.attempt("os.listdir(given[0])", own.root).how == "ENOTCONN"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_killing_ones_own_daemon(own: Mounted, number: signal.Signals) -> None:
    """Not refused, and no way in: the mount stays, dead and closed."""
    code = f"os.kill(int(given[0]), {int(number)})"
    assert ANYBODY.attempt(code, str(own.process.pid)).how == "done"
    own.process.wait(20)
    code = "said = [refused(lambda: os.open(given[0] + one, os.O_WRONLY)) for one in ('/theirs/f', '/mine/f')]"
    assert ANYBODY.attempt(code, own.root).said == ["ENOTCONN", "ENOTCONN"]


def test_stopping_ones_own_daemon(own: Mounted) -> None:
    """Whoever writes waits; when it goes on, it looks at its clock and the lease first (P3)."""
    clock, began_s = BoottimeClock(), BoottimeClock().now_s()
    own.hold({**MINE, "trusted_for_s": 0.5})
    process = ANYBODY.stays(
        "tell('here'); next(lines()); os.truncate(given[0], 0)", f"{own.root}/mine/f"
    )
    assert process.hear() == "here"
    own.process.send_signal(signal.SIGSTOP)
    process.go_on()
    eventually(lambda: clock.now_s() > began_s + 1.0, what="the end of the lease's trust")
    own.process.send_signal(signal.SIGCONT)
    assert process.outcome().how == "EACCES"


def test_limits_of_ones_own_daemon(own: Mounted) -> None:
    """One that may open nothing, or write nothing, refuses or dies; it does not let through."""
    code = """
import resource
for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE):
    resource.prlimit(int(given[0]), which, (0, 0))
said = [refused(lambda: os.open(given[1] + "/theirs/f", os.O_WRONLY)), refused(lambda: os.truncate(given[1] + "/theirs/f", 99))]
"""
    how, said = ANYBODY.attempt(code, str(own.process.pid), own.root)
    if how == "done":
        assert "done" not in said


@pytest.mark.parametrize("how", ["fusermount3 -u", "fusermount3 -uz"])
def test_unmounting_ones_own_mount(own: Mounted, how: str) -> None:
    """Not covered: one user, one right; then the tree lies open, and the ledger hears that the mount ended."""
    done = ANYBODY.shell(f'{how} "$1" && cat "$1/theirs/f"', own.root)
    assert (done.returncode, done.stdout) == (0, "old\n"), done.stderr
    assert own.process.wait(20) == 0


def test_another_users_visit(own: Mounted) -> None:
    """A user's own mount lets nobody else in, root neither."""
    code = "said = [refused(lambda: os.listdir(given[0])), refused(lambda: os.open(given[0] + '/mine/f', os.O_WRONLY))]"
    assert Intruder("/", OTHER_UID).attempt(code, own.root).said == ["EACCES", "EACCES"]
    with pytest.raises(PermissionError):
        os.listdir(own.root)


def test_another_user_unmounts_it(own: Mounted) -> None:
    done = Intruder("/", OTHER_UID).shell('fusermount3 -u "$1" || umount "$1"', own.root)
    assert done.returncode != 0


def test_a_second_mount_of_the_same_tree_in_place(own: Mounted) -> None:
    """By the intruder, with leases of its own making: the tree that it would reach is the mount."""
    code = f"import sys; sys.argv[1:] = [{own.root!r}, {own.root!r}, '--lease', '**']; from leasefs.testing.mounted import main; main()"
    done = subprocess.run(
        _as_user_with_ours(code), capture_output=True, text=True, check=False, timeout=60, cwd="/"
    )
    assert "already a leasefs mount" in done.stdout


def _as_user_with_ours(code: str) -> list[str]:
    import sys

    from leasefs.testing.mounted import as_user

    return [*as_user(AGENT_UID), sys.executable, "-c", code]
