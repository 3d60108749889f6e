"""What is done before anything is written on new ground: what lies there is kept (P9)."""

from __future__ import annotations

import trio

from leasefs.mount.work import Work
from leasefs.testing.mock_time import on_mock_clock

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
