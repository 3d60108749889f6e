"""Where a mount may be made, and how it ends: by request, by force, by a fault (P12)."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.mount.mountinfo import top_at
from leasefs.testing.mount_trees import NOBODY, give
from leasefs.testing.mounted import mounted

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mount, pytest.mark.root]

DROP_CACHES = "/proc/sys/vm/drop_caches"


@pytest.fixture
def base(place: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    base = place / f"{request.node.name}"
    for name in ("source/sub", "mount"):
        (base / name).mkdir(parents=True)
    (base / "source/f").write_text("x")
    (base / "file").write_text("x")
    yield base
    for name in ("mount", "source"):
        if top_at(str(base / name)):
            subprocess.run(["umount", "-l", base / name], check=True)


def refused(source: Path, mountpoint: Path) -> str:
    """The message with which a mount is refused."""
    command = [sys.executable, "-m", "leasefs.testing.mounted", str(source), str(mountpoint)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", timeout=30)
    assert done.returncode == 1, done
    assert top_at(str(mountpoint)) is None or not done.stdout.startswith('{"ready"')
    return done.stdout


@pytest.mark.parametrize(
    ("source", "mountpoint", "words"),
    [
        ("missing", "mount", "does not exist"),
        ("source", "missing", "mkdir -p"),
        ("file", "mount", "not a directory"),
        ("source", "file", "not a directory"),
        ("source", "source/sub", "contain itself"),
        ("source/sub", "source", "cover its own source"),
        ("mount", "source", "not empty"),
    ],
)
def test_what_cannot_be_mounted_says_why(
    base: Path, source: str, mountpoint: str, words: str
) -> None:
    assert words in refused(base / source, base / mountpoint)


def test_a_second_mount_on_the_same_place_is_refused(base: Path) -> None:
    with mounted(str(base / "source"), str(base / "source")):
        assert "already a leasefs mount" in refused(base / "source", base / "source")
        assert "lies inside the leasefs mount" in refused(base / "source/sub", base / "mount")


def test_names_with_spaces_and_newlines(base: Path) -> None:
    """/proc/self/mountinfo escapes them in octal."""
    strange = base / "a b\nc\\d"
    strange.mkdir()
    with mounted(str(base / "source"), str(strange)):
        assert os.listdir(strange) == os.listdir(base / "source")
        assert "already a leasefs mount" in refused(base / "source", strange)


def test_several_mounts_of_one_source(base: Path) -> None:
    (base / "second").mkdir()
    with (
        mounted(str(base / "source"), str(base / "mount"), "--lease", "f"),
        mounted(str(base / "source"), str(base / "second"), "--lease", "sub/**"),
    ):
        (base / "mount/f").write_text("one")
        (base / "second/sub/g").write_text("two")
        with pytest.raises(PermissionError):
            (base / "second/f").write_text("three")
        assert (base / "second/f").read_text() == "one"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_unmounts(base: Path, number: signal.Signals) -> None:
    with mounted(str(base / "source"), str(base / "source")) as child:
        child.process.send_signal(number)
        assert child.process.wait(timeout=10) == 0
        assert top_at(str(base / "source")) is None


def test_umount_from_outside_ends_the_daemon_well(base: Path) -> None:
    with mounted(str(base / "source"), str(base / "mount")) as child:
        subprocess.run(["umount", base / "mount"], check=True)
        assert child.process.wait(timeout=10) == 0


@pytest.mark.parametrize("from_outside", [True, False])
def test_unmounted_while_closes_are_on_their_way_it_ends_well(
    base: Path, from_outside: bool
) -> None:
    """The kernel aborts the connection then; that is no fault, and no end with an error."""
    code = "import os,sys\nfor _ in range(200): os.open(sys.argv[1], os.O_RDONLY)"
    for _ in range(5):
        with mounted(str(base / "source"), str(base / "mount")) as child:
            subprocess.run([sys.executable, "-c", code, base / "mount/f"], check=True)
            if from_outside:
                subprocess.run(["umount", base / "mount"], check=True)
                assert child.process.wait(timeout=10) == 0


def test_a_mount_in_use_is_said_to_be_and_then_detached(
    base: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flags = ("--unmount-within", "0.3")
    with mounted(str(base / "source"), str(base / "mount"), *flags) as child:
        held = os.open(base / "mount/f", os.O_RDONLY)
        child.process.send_signal(signal.SIGTERM)
        assert child.process.wait(timeout=10) == 0
        assert top_at(str(base / "mount")) is None
        with pytest.raises(OSError, match="not connected"):
            os.read(held, 1)
        with contextlib.suppress(OSError):
            os.close(held)
        said = capfd.readouterr().err
        assert re.search(rf"in use by \S+\[{os.getpid()}\]", said)
        assert "detaching" in said


@pytest.mark.skipif(
    not os.access(DROP_CACHES, os.W_OK),
    reason=f"{DROP_CACHES} cannot be written: not root, or in a container",
)
def test_nothing_stays_open_in_the_daemon(base: Path) -> None:
    """Descriptors come back: directories within their bound, files with their handles, orphans when forgotten."""
    with mounted(str(base / "source"), str(base / "mount"), "--lease", "**") as child:
        os.listdir(base / "mount")  # libfuse opens a pipe for its first request
        before = child.report()["descriptors"]
        for at in range(50):
            path = base / f"mount/{at}"
            path.write_text("x")
            path.read_text()
            path.unlink()
        os.listdir(base / "mount")
        Path(DROP_CACHES).write_text("2")
        assert child.report()["descriptors"] <= before + 2


@pytest.mark.parametrize("how", ["fault", "SIGKILL"])
@pytest.mark.parametrize("where", ["source", "mount"])
def test_a_fault_leaves_the_mount_closed(base: Path, how: str, where: str) -> None:
    """P12: a dead mount exposes no writable tree."""
    root = base / where
    with mounted(str(base / "source"), str(root), "--lease", "**", ends_well=False) as child:
        if how == "fault":
            child.command("fault")
        else:
            child.process.kill()
        assert child.process.wait(timeout=10) != 0
        with pytest.raises(OSError) as caught:  # noqa: PT011 - the errno is what matters
            os.listdir(root)
        assert caught.value.errno == errno.ENOTCONN
        with pytest.raises(OSError):  # noqa: PT011 - any error will do
            (root / "new").write_text("x")
        assert "leasefs unmount" in refused(base / "source", root)


def test_an_ordinary_user_without_the_right_to_let_others_in(
    base: Path, fuse_for_all: None
) -> None:
    give(base, NOBODY)
    with (
        pytest.raises(AssertionError, match="user_allow_other"),
        mounted(
            str(base / "source"), str(base / "mount"), "--allow-other", user=NOBODY, ends_well=False
        ),
    ):
        pass


def test_the_tree_beneath_is_not_reachable_through_the_daemon(
    base: Path, fuse_for_all: None
) -> None:
    """Agents run as the daemon's user: its descriptors are not for them."""
    give(base, NOBODY)
    root = str(base / "source")
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    with mounted(root, root, user=NOBODY) as child:
        # The kernel gives /proc/PID of a process that is not dumpable to root (proc(5)).
        assert os.stat(f"/proc/{child.process.pid}/fd").st_uid == 0
        for command in (f"ls /proc/{child.process.pid}/fd", f"ls /proc/{child.process.pid}/cwd/"):
            done = subprocess.run(
                [*user, "sh", "-c", command], capture_output=True, text=True, check=False
            )
            assert "ermission denied" in done.stderr


def test_an_ordinary_user_mounts_in_place(base: Path, fuse_for_all: None) -> None:
    give(base, NOBODY)
    root = str(base / "source")
    with mounted(root, root, "--lease", "f", user=NOBODY):
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        script = f"cd {root} && echo new > f && ! echo new > g && ls"
        done = subprocess.run(
            [*user, "sh", "-c", script], capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == ["f", "sub"]
        # Root may not look into a user's mount, so it cannot be tricked by one either.
        with pytest.raises(PermissionError):
            os.listdir(root)
    assert (base / "source/f").read_text() == "new\n"


@pytest.mark.parametrize("attempt", range(5))
def test_changes_and_visitors_while_it_is_being_mounted(base: Path, attempt: int) -> None:
    """Whatever happens beneath and at the mountpoint meanwhile, the first exchange with the kernel comes first."""
    source, mountpoint = base / "source", base / "mount"
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            (source / "coming").write_text("x")
            (source / "coming").unlink()

    def visit() -> None:
        while not over.is_set():
            os.stat(mountpoint)

    threads = [threading.Thread(target=work, daemon=True) for work in (change, visit)]
    for thread in threads:
        thread.start()
    try:
        with mounted(str(source), str(mountpoint), "--lease", "**"):
            (mountpoint / "f").write_text(str(attempt))
            over.set()
            for thread in threads:
                thread.join(30)
                assert not thread.is_alive()
    finally:
        over.set()
