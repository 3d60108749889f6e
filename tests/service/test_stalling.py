"""Who takes nothing of an answer is cut off; who takes little is not."""

from __future__ import annotations

from typing import Any

from leasefs.service.stalling import Stalling


class Peer:
    """A transport and a loop: what is left to send, whether it was cut off, and the timer."""

    def __init__(self) -> None:
        self.left_bytes = 0
        self.cut_off = False
        self.timers: list[Any] = []

    def get_write_buffer_size(self) -> int:
        return self.left_bytes

    def abort(self) -> None:
        self.cut_off = True

    def call_later(self, delay_s: float, call: Any) -> Any:
        assert delay_s == 30.0
        self.timers.append(call)
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def time_passes(self) -> None:
        call = self.timers.pop()
        call()


def stalling() -> tuple[Any, Stalling]:
    peer: Any = Peer()
    return peer, Stalling(peer, peer, 30.0)


def test_nothing_is_watched_when_all_is_taken() -> None:
    peer, watch = stalling()
    watch.watch()
    assert not peer.timers


def test_who_takes_nothing_is_cut_off() -> None:
    peer, watch = stalling()
    peer.left_bytes = 1000
    watch.watch()
    peer.time_passes()
    assert peer.cut_off


def test_who_takes_some_each_time_is_not() -> None:
    peer, watch = stalling()
    peer.left_bytes = 1000
    watch.watch()
    for left_bytes in (900, 100, 1):
        peer.left_bytes = left_bytes
        peer.time_passes()
    assert not peer.cut_off
    peer.time_passes()
    assert peer.cut_off


def test_what_was_taken_before_more_was_written_counts() -> None:
    peer, watch = stalling()
    peer.left_bytes = 100
    watch.watch()
    peer.left_bytes = 5000
    watch.watch()
    assert len(peer.timers) == 1
    peer.left_bytes = 4000
    peer.time_passes()
    assert not peer.cut_off


def test_all_taken_ends_it_and_so_does_the_end_of_the_connection() -> None:
    peer, watch = stalling()
    peer.left_bytes = 100
    watch.watch()
    peer.left_bytes = 0
    peer.time_passes()
    assert not peer.timers
    peer.left_bytes = 100
    watch.watch()
    watch.stop()
    assert not peer.timers
