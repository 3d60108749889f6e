"""What others change is seen where the kernel can tell no more: events lost, nothing left to watch with."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from leasefs.testing.eventually import eventually
from leasefs.testing.mounted import mounted

pytestmark = [pytest.mark.mount, pytest.mark.root]

SEEN_WITHIN_S = 5.0


@pytest.mark.parametrize("flags", [(), ("--older-kernel",)], ids=["this", "before 6.16"])
def test_events_that_were_lost(place: Path, flags: tuple[str, ...]) -> None:
    """More happened at once than the kernel keeps: everything is asked for again, absence included."""
    base = place / f"lost-{len(flags)}"
    for name in ("source/d/sub", "mount"):
        (base / name).mkdir(parents=True)
    beneath, mount = base / "source/d", base / "mount/d"
    for name in ("f", "away", "sub/f"):
        (beneath / name).write_text("old")
    (beneath / "link").symlink_to("old")
    with mounted(str(base / "source"), str(base / "mount"), "--lease", "**", *flags) as child:
        assert sorted(os.listdir(mount)) == ["away", "f", "link", "sub"]
        assert (mount / "sub/f").read_text() == (mount / "away").read_text() == "old"
        assert os.readlink(mount / "link") == "old"
        assert not (mount / "new").exists()
        assert not (mount / "sub/new").exists()
        child.process.send_signal(signal.SIGSTOP)
        try:
            change_all(beneath)
        finally:
            child.process.send_signal(signal.SIGCONT)
        eventually((mount / "new").exists, SEEN_WITHIN_S)
        eventually((mount / "sub/new").exists, SEEN_WITHIN_S)
        eventually(lambda: not (mount / "away").exists(), SEEN_WITHIN_S)
        eventually(lambda: (mount / "sub/f").stat().st_size == len("longer"), SEEN_WITHIN_S)
        eventually(lambda: os.readlink(mount / "link") == "new", SEEN_WITHIN_S)
        assert sorted(os.listdir(mount)) == ["f", "link", "new", "sub"]


def change_all(beneath: Path) -> None:
    """First more than the queue holds, then what is to be seen all the same."""
    queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for at in range(queue // 2 + 100):
        (beneath / "f").chmod(0o600 + at % 2)
        os.utime(beneath / "sub")
    (beneath / "new").touch()
    (beneath / "sub/new").touch()
    (beneath / "away").unlink()
    (beneath / "sub/f").write_text("longer")
    (beneath / "link").unlink()
    (beneath / "link").symlink_to("new")


@pytest.mark.parametrize(
    ("left", "setting"), [("1", "max_user_watches"), ("none", "max_user_instances")]
)
def test_where_watches_or_instances_run_out_it_takes_a_second(
    place: Path, capfd: pytest.CaptureFixture[str], left: str, setting: str
) -> None:
    base = place / setting
    for name in ("source/d", "mount"):
        (base / name).mkdir(parents=True)
    (base / "source/d/f").write_text("old")
    flags = ("--lease", "**", "--watches", left)
    with mounted(str(base / "source"), str(base / "mount"), *flags):
        sees_within_a_second(base)
    assert setting in capfd.readouterr().err


def sees_within_a_second(base: Path) -> None:
    mount = base / "mount"
    assert (mount / "d/f").read_text() == "old"
    assert not (mount / "d/n").exists()
    (base / "source/d/f").write_text("longer")
    assert (mount / "d/f").read_text() == "longer"
    (base / "source/d/n").touch()
    (base / "source/d/f").chmod(0o640)
    eventually((mount / "d/n").exists, SEEN_WITHIN_S)
    eventually(lambda: (mount / "d/f").stat().st_mode & 0o777 == 0o640, SEEN_WITHIN_S)
    (base / "source/d/f").unlink()
    eventually(lambda: not (mount / "d/f").exists(), SEEN_WITHIN_S)
