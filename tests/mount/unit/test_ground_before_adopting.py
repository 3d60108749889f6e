"""What is done before anything is written on new ground: what lies there is kept (P9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
import trio

from leasefs.mount import inheriting
from leasefs.mount.journal import Header
from leasefs.mount.work import Work
from leasefs.testing.mock_time import on_mock_clock

if TYPE_CHECKING:
    from pathlib import Path

MINUTES_S = 180.0


class Recovery:
    """Takes its time: the dead mount left large files."""

    def __init__(self) -> None:
        self.tried = trio.Event()

    async def work(self) -> None:
        await trio.sleep(MINUTES_S)
        self.tried.set()


class Inheritance:
    def __init__(self) -> None:
        self.kept: list[list[str]] = []

    async def keep(self, globs: list[str]) -> None:
        self.kept.append(globs)


@on_mock_clock
async def test_ground_stays_closed_until_what_a_dead_mount_left_is_kept() -> None:
    work = Work.__new__(Work)
    recovery, inheritance = Recovery(), Inheritance()
    work._recovery = recovery  # type: ignore[assignment]
    work._inheritance = inheritance  # type: ignore[assignment]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recovery.work)
        await work._before_adopting(["src/**"])
        assert trio.current_time() >= MINUTES_S
    assert inheritance.kept == [["src/**"]]


class Ledger:
    async def send(self, call: object, *, timeout_s: float) -> dict[str, Any]:
        about = {"lease": "L1", "token": 1, "agent": "bo", "harness": "test", "path": "src/a"}
        return {"intents": [about]}


class Rescuer:
    def __init__(self) -> None:
        self.kept: list[bytes] = []

    async def rescue(self, owner: object, paths: list[bytes], why: str) -> None:
        self.kept += paths


@pytest.mark.trio
@pytest.mark.parametrize("journals", ["missing", "a file"])
async def test_journals_that_cannot_be_read_end_no_mount_and_hide_nothing_else(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    journals: str,
) -> None:
    """As where the state directory was moved, the disk fails, or no descriptor is left."""
    monkeypatch.setattr(inheriting, "_dirty", lambda tree, paths: paths)
    (tmp_path / "a file").touch()
    rescuer = Rescuer()
    header = Header(*["x"] * len(Header._fields))
    keeping = inheriting.Inheritance(
        cast("Any", None),
        header,
        cast("Any", Ledger()),
        cast("Any", rescuer),
        str(tmp_path / journals),
    )
    await keeping.keep(["src/**"])
    assert rescuer.kept == [b"src/a"]
    assert str(tmp_path / journals) in caplog.text
