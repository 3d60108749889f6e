"""Answers that nobody takes: they would be kept for ever, and the connection with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


class Stalling:
    """Watches what one connection has still to send; its peer is cut off after `stall_s` seconds without taking any of it."""

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, stall_s: float
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._stall_s = stall_s
        self._left_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Something was written: see that it is taken, from now on."""
        self._left_bytes = self._transport.get_write_buffer_size()
        if self._left_bytes and self._timer is None:
            self._timer = self._loop.call_later(self._stall_s, self._look)

    def stop(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        left_bytes = self._transport.get_write_buffer_size()
        if left_bytes and left_bytes >= self._left_bytes:
            self._transport.abort()
        else:
            self.watch()
