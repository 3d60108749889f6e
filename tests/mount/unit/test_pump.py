"""Waiting for requests: whoever waits is woken, nobody else starves, and the end ends all waiting."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from leasefs.mount.pump import Pump, PumpedTrio

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """(read end, write end)."""
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)


@pytest.mark.trio
async def test_returns_at_once_when_there_is_something(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"x")
    await Pump().wait_readable(pipe[0])


@pytest.mark.trio
async def test_returns_when_something_comes(pipe: tuple[int, int]) -> None:
    pump, seen = Pump(), []

    async def wait() -> None:
        await pump.wait_readable(pipe[0])
        seen.append(os.read(pipe[0], 1))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        os.write(pipe[1], b"x")
    assert seen == [b"x"]


@pytest.mark.trio
async def test_others_listen_while_one_serves(pipe: tuple[int, int]) -> None:
    """A request that waits for something must not keep the next one from being read."""
    pump, served, go_on = Pump(), [], trio.Event()

    async def serve() -> None:
        await pump.wait_readable(pipe[0])
        request = os.read(pipe[0], 1)
        if request == b"s":
            await go_on.wait()
        served.append(request)
        go_on.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        nursery.start_soon(serve)
        await trio.testing.wait_all_tasks_blocked()
        os.write(pipe[1], b"s")
        await trio.testing.wait_all_tasks_blocked()
        os.write(pipe[1], b"q")
    assert served == [b"q", b"s"]


@pytest.mark.trio
async def test_a_stream_of_requests_leaves_other_tasks_their_turn(pipe: tuple[int, int]) -> None:
    pump, turns = Pump(), 0

    async def beside() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    os.write(pipe[1], b"x")  # never read: there is always something
    async with trio.open_nursery() as nursery:
        nursery.start_soon(beside)
        for _ in range(20_000):
            await pump.wait_readable(pipe[0])
        nursery.cancel_scope.cancel()
    assert turns > 1


@pytest.mark.trio
async def test_the_end_wakes_all_and_is_final(pipe: tuple[int, int]) -> None:
    pump, ended = Pump(), []

    async def wait() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await pump.wait_readable(pipe[0])
        ended.append(True)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        pump.notify_closing(pipe[0])
    assert len(ended) == 3
    with pytest.raises(trio.ClosedResourceError):
        await pump.wait_readable(pipe[0])


@pytest.mark.trio
async def test_waiting_can_be_cancelled(pipe: tuple[int, int]) -> None:
    pump = Pump()
    with trio.move_on_after(0):
        await pump.wait_readable(pipe[0])
    os.write(pipe[1], b"x")
    await pump.wait_readable(pipe[0])


def test_the_rest_is_trio() -> None:
    pumped = PumpedTrio(Pump())
    assert pumped.ClosedResourceError is trio.ClosedResourceError
    assert pumped.lowlevel.current_task is trio.lowlevel.current_task
