"""A mount made anew where the last one died: the tree is never bare in between (P12)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.mount.mountinfo import mounts, top_at
from leasefs.testing.eventually import eventually
from leasefs.testing.hanging import killed_with_a_thread_left

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.mount, pytest.mark.root, pytest.mark.slow]


@pytest.fixture
def tree(installed: Any, tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    (root / "src" / "one").write_text("1\n")
    subprocess.run(["git", "init", "-q", root], check=True)
    yield root
    for place in (root, tmp_path / "ws"):
        if top_at(str(place)) is not None:
            ran = installed("unmount", str(place))
            assert ran.code == 0, ran.err
    assert installed("ledger", "stop").code in (0, 7)


def kill_daemon(place: Path) -> None:
    pid = int(json.loads((place / ".leasefs" / "mount.json").read_text())["pid"])
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not os.path.exists(f"/proc/{pid}"), what="the daemon's end")


def layers(place: Path) -> int:
    return sum(mount.mountpoint == os.fsencode(place) for mount in mounts())


@contextmanager
def somebody_tries_to_write(place: Path, tries: list[str]) -> Iterator[None]:
    """Without end, and without a lease."""
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            with suppress(OSError):
                (place / "bare").write_text("got through")
                tries.append("got through")
            tries.append("refused")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


def test_in_place_it_stays_closed_all_the_while(installed: Any, tree: Path) -> None:
    assert installed("mount", str(tree), "--agent", "ada").code == 0
    tries: list[str] = []
    for died in (1, 2):
        kill_daemon(tree)
        with somebody_tries_to_write(tree, tries):
            ran = installed("mount", str(tree), "--agent", "ada", "--over-dead")
            assert ran.code == 0, ran.err
        assert layers(tree) == died + 1
    assert set(tries) == {"refused"}
    assert (tree / "src" / "one").read_text() == "1\n"
    assert installed("-C", str(tree), "claim", "src/**").code == 0
    (tree / "src" / "one").write_text("2\n")
    assert installed("unmount", str(tree)).code == 0
    # What lay beneath went along.
    assert layers(tree) == 0
    assert (tree / "src" / "one").read_text() == "2\n"
    assert not (tree / "bare").exists()


def control_socket(place: Path) -> str:
    facts = json.loads((place / ".leasefs" / "mount.json").read_text())
    return str(facts["control"]).removeprefix("unix:")


def test_elsewhere_too(installed: Any, tree: Path, tmp_path: Path) -> None:
    place = tmp_path / "ws"
    place.mkdir()
    assert installed("mount", str(tree), str(place), "--agent", "ada").code == 0
    former = control_socket(place)
    kill_daemon(place)
    assert os.path.exists(former)
    ran = installed("mount", str(tree), str(place), "--agent", "ada", "--over-dead")
    assert ran.code == 0, ran.err
    assert (place / "src" / "one").read_text() == "1\n"
    # What the dead one left to connect to is gone with it.
    assert not os.path.exists(former)
    assert os.path.exists(control_socket(place))
    assert installed("unmount", str(place)).code == 0
    assert layers(place) == 0


def test_a_stack_of_dead_ones_is_cleared_by_one_unmount(installed: Any, tree: Path) -> None:
    assert installed("mount", str(tree), "--agent", "ada").code == 0
    kill_daemon(tree)
    assert installed("mount", str(tree), "--agent", "ada", "--over-dead").code == 0
    kill_daemon(tree)
    assert layers(tree) == 2
    assert installed("unmount", str(tree)).code == 0
    assert layers(tree) == 0


def test_a_live_mount_is_not_mounted_over(installed: Any, tree: Path) -> None:
    assert installed("mount", str(tree), "--agent", "ada").code == 0
    ran = installed("mount", str(tree), "--agent", "bob", "--over-dead")
    assert ran.code != 0
    assert "already a leasefs mount" in ran.err


@pytest.mark.parametrize("again", ["mount", "unmount"])
def test_one_whose_daemon_was_killed_while_a_thread_of_it_hangs(
    installed: Any, tree: Path, again: str
) -> None:
    """It waits for a lock in the kernel whose holder waits for its answer: neither of them can end by itself."""
    assert installed("mount", str(tree), "--agent", "ada").code == 0
    pid = int(json.loads((tree / ".leasefs" / "mount.json").read_text())["pid"])
    with (
        killed_with_a_thread_left(pid),
        subprocess.Popen(["stat", tree / "src" / "new"], stderr=subprocess.PIPE) as waiting,
    ):
        inside = installed("-C", str(tree), "status")
        assert (inside.code, f"leasefs unmount {tree}" in inside.err) == (10, True)
        if again == "mount":
            ran = installed("mount", str(tree), "--agent", "ada", "--over-dead")
        else:
            ran = installed("unmount", str(tree))
        assert ran.code == 0, ran.err
        assert "connection was aborted" in ran.err
        waiting.communicate(timeout=20)
    assert (tree / "src" / "one").read_text() == "1\n"


def test_what_was_served_natively_is_so_again(installed: Any, tree: Path) -> None:
    """The dead mount's redirects lie beneath with it, and are not in the way of new ones."""
    (tree / ".gitignore").write_text("build/\n")
    (tree / "build").mkdir()
    for number in range(1200):
        (tree / "build" / str(number)).touch()

    def is_native() -> bool:
        os.listdir(tree / "build")
        return os.stat(tree / "build").st_dev != os.stat(tree).st_dev

    assert installed("mount", str(tree), "--agent", "ada").code == 0
    eventually(is_native, what="a redirect")
    kill_daemon(tree)
    assert installed("mount", str(tree), "--agent", "ada", "--over-dead").code == 0
    eventually(is_native, what="a redirect in the new mount")
    assert installed("unmount", str(tree)).code == 0
    assert not [mount for mount in mounts() if mount.mountpoint.startswith(bytes(tree))]
