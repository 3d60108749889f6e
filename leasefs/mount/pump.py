"""Waiting for requests, without a round through trio's scheduler for each.

pyfuse3 waits with the names of its module global `trio`, which is made to be replaced (its own
`pyfuse3.asyncio` does). `Pump` takes that place: it looks at the connection first, then for some
microseconds more if the last looks paid, and goes through trio only when nothing came. Measured on two
cores: a getattr costs 73 µs with trio's own `wait_readable` and `Lock`, 26 µs with these.

Everything else in the process runs at least once in `_TURN_S`: heartbeats, control requests, the watcher.
"""

from __future__ import annotations

import os
import select
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, cast

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from types import TracebackType

    from leasefs.mount.cpu_latency import CpuLatency
    from leasefs.mount.handshake import Handshake

    _Await = Callable[[], Generator[Any, Any, None]]

# How long requests are served before the other tasks of the loop get their turn. Each turn costs a round of trio's, and
# what woke meanwhile: with a fourth of this, creating and renaming files take a tenth longer.
_TURN_S = 0.004
# A client that works through files asks again within this time; sleeping costs both sides a wake-up.
_LOOK_S = 50e-6
# Looks that found nothing, in a row, after which only one wait in `_SELDOM` looks again.
_PATIENCE = 4
_SELDOM = 16


class _Done:
    """What has nothing to wait for: awaiting it costs no coroutine, several of which each request would need."""

    __slots__ = ()
    __await__: ClassVar[_Await] = cast("_Await", ().__iter__)


_DONE = _Done()


class _Free:
    """pyfuse3's lock around waiting: tasks take turns in `Pump.wait_readable` itself."""

    def __aenter__(self) -> _Done:
        """Never waits."""
        return _DONE

    def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> _Done:
        """Nothing to release."""
        return _DONE


class Pump:
    """What pyfuse3 sees of `trio.lowlevel`; one for each connection."""

    def __init__(
        self,
        handshake: Handshake | None = None,
        begun: Callable[[], None] = lambda: None,
        latency: CpuLatency | None = None,
    ) -> None:
        """`begun` is called once the handshake is over; `latency` hears whenever no request was there at once."""
        self._handshake = handshake
        self._waited = latency.waited if latency is not None else lambda: None
        self._begun = begun
        self._poll = select.poll()
        self._polled_fd = -1
        self._ready = self._poll.poll
        self._others = trio.lowlevel.ParkingLot()
        self._waiting = False
        self._closed = False
        # Until then one task after the other may take a request at once: nobody sleeps, nothing ends.
        self._turn_ends_s = 0.0
        self._missed = 0
        # With a single processor whoever asks cannot run while we look.
        self._looks = len(os.sched_getaffinity(0)) > 1

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever trio has by that name
        return getattr(trio.lowlevel, name)

    def notify_closing(self, fd: int) -> None:
        """End all waiting, for good: the main loop is to return."""
        self._closed = True
        self._turn_ends_s = 0.0
        self._others.unpark_all()
        trio.lowlevel.notify_closing(fd)

    def wait_readable(self, fd: int) -> Awaitable[None]:
        """Await it for a request to read. Raises ClosedResourceError after `notify_closing`."""
        if perf_counter() < self._turn_ends_s and self._ready(0):
            return _DONE
        return self._wait(fd)

    async def _wait(self, fd: int) -> None:
        while self._waiting and not self._closed:
            await self._others.park()
        if self._closed:
            raise trio.ClosedResourceError
        if self._handshake is not None and await self._shake_hands(self._handshake):
            return
        self._waited()
        if perf_counter() >= self._turn_ends_s:
            await trio.lowlevel.checkpoint()
            if not self._is_mine():
                await self._wait(fd)
                return
            self._begin_turn(fd)
        if not self._comes_soon():
            await self._sleep(fd)

    def _begin_turn(self, fd: int) -> None:
        if fd != self._polled_fd:
            self._poll.register(fd, select.POLLIN)
            self._polled_fd = fd
        self._turn_ends_s = perf_counter() + _TURN_S

    def _is_mine(self) -> bool:
        return not self._waiting and not self._closed

    async def _shake_hands(self, handshake: Handshake) -> bool:
        """Whether there is something to read; no more of this once the handshake is done."""
        self._waiting = True
        try:
            if await handshake.step():
                self._handshake = None
                self._begun()
            return self._handshake is not None
        finally:
            self._waiting = False
            self._others.unpark()

    async def _sleep(self, fd: int) -> None:
        self._waiting = True
        self._turn_ends_s = 0.0
        try:
            await trio.lowlevel.wait_readable(fd)
        finally:
            self._waiting = False
            # Somebody has to listen while this request is served, should it wait for something.
            self._others.unpark()
        self._begin_turn(fd)

    def _comes_soon(self) -> bool:
        ready = self._ready
        if ready(0):
            return True
        if not self._looks:
            return False
        if self._missed >= _PATIENCE and self._missed % _SELDOM:
            self._missed += 1
            return False
        until_s = perf_counter() + _LOOK_S
        while perf_counter() < until_s:
            if ready(0):
                self._missed = 0
                return True
        self._missed += 1
        return False


class PumpedTrio:
    """Stands in for the module `trio` inside pyfuse3."""

    Lock = _Free

    def __init__(self, pump: Pump) -> None:
        self.lowlevel = pump

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever trio has by that name
        return getattr(trio, name)
