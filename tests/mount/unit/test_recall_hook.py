"""The command that is run at recalls: what it is told, and that nothing it does harms the mount."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import trio

from leasefs.client.recalls import Recall
from leasefs.mount.recall_hook import RecallHook
from leasefs.testing.eventually import eventually
from leasefs.testing.own_world import is_gone

if TYPE_CHECKING:
    from pathlib import Path

RECALL = Recall("L7", "ada", "a 'hot' fix; $(touch pwned)", 0.0, 60.0, 60.0, cold=False)


def run(command: str, place: Path, *, within_s: float = 30.0, left_s: float = 41.6) -> None:
    trio.run(RecallHook(command, str(place), within_s=within_s).run, RECALL, left_s)


def test_it_runs_in_the_mount_and_is_told_who_wants_what_and_until_when(tmp_path: Path) -> None:
    names = "LEASE", "RECALL_BY", "RECALL_REASON", "RECALL_WITHIN_S"
    run("; ".join(f'echo "$LEASEFS_{name}" >> said' for name in names), tmp_path)
    assert (tmp_path / "said").read_text().splitlines() == ["L7", "ada", RECALL.reason, "42"]
    assert os.listdir(tmp_path) == ["said"]


def test_what_it_makes_has_an_ordinary_mode(tmp_path: Path) -> None:
    """The daemon's own umask is none of its business."""
    before = os.umask(0)
    try:
        run("touch made", tmp_path)
    finally:
        os.umask(before)
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("command", "says"),
    [("exit 3", "ended with 3"), ("no-such-command", "ended with 127"), ("kill -9 $$", "-9")],
)
def test_its_failure_is_logged_and_nothing_else(
    command: str, says: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(command, tmp_path)
    assert says in caplog.text


def test_a_place_that_is_gone_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run("touch made", tmp_path / "gone")
    assert "ended with" in caplog.text


def test_it_is_ended_in_time_with_all_that_it_started(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run("sleep 1000 & echo $! > child; sleep 1000", tmp_path, within_s=1.0)
    assert "took too long" in caplog.text
    child = int((tmp_path / "child").read_text())
    eventually(lambda: is_gone(child), what="the child's end")


def test_it_ends_with_the_mount(tmp_path: Path) -> None:
    async def mounted_and_gone() -> None:
        async with trio.open_nursery() as nursery:
            hook = RecallHook("echo $$ > own; touch started; sleep 1000", str(tmp_path))
            nursery.start_soon(hook.run, RECALL, 1.0)
            await trio.to_thread.run_sync(eventually, (tmp_path / "started").exists)
            nursery.cancel_scope.cancel()

    trio.run(mounted_and_gone)
    own = int((tmp_path / "own").read_text())
    eventually(lambda: is_gone(own), what="the command's end")


def test_without_a_command_nothing_is_run(tmp_path: Path) -> None:
    run("", tmp_path)
    assert os.listdir(tmp_path) == []
