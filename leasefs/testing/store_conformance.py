"""One suite for every store engine, the one in RAM included.

To hold an engine to the port's rules, subclass ``StoreConformance`` in a test module and give it a
fixture ``make_store``: a function that opens a new, empty store on each call::

    class TestMyEngine(StoreConformance):
        @pytest.fixture
        def make_store(self): ...
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from leasefs.store.errors import EventsDropped, SequenceConflict, StoreClosed
from leasefs.store.port import SNAPSHOTS_KEPT, Entry, Snapshot, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leasefs.store.waiting import Waiter

_LONG_S = 30.0
"""A bound that only a hanging engine reaches."""


class SignallingWaiter:
    """A ``Waiter`` on which time passes only by waiting, and which tells when somebody waits."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self.waiting = threading.Event()
        self.waits_s: list[float] = []

    def now_s(self) -> float:
        """Seconds waited so far."""
        return self._now_s

    def wait(self, condition: threading.Condition, timeout_s: float) -> None:
        """Really wait, so that notifications count, but for no longer than a hang would take."""
        self.waits_s.append(timeout_s)
        self.waiting.set()
        if not condition.wait(_LONG_S):
            self._now_s += timeout_s


class SteppingWaiter:
    """A ``Waiter`` for which every wait times out at once."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self.waits_s: list[float] = []

    def now_s(self) -> float:
        """Seconds waited so far."""
        return self._now_s

    def wait(self, condition: threading.Condition, timeout_s: float) -> None:
        """Let ``timeout_s`` seconds pass without anything happening."""
        del condition
        self.waits_s.append(timeout_s)
        self._now_s += timeout_s


def append_at_head(store: Store, event: bytes) -> int:
    """Append one event wherever the head is by now; its number. What a losing writer does."""
    after_seq = store.head()
    while True:
        try:
            return store.append(after_seq, [event])
        except SequenceConflict as conflict:
            if conflict.actual <= after_seq:
                raise
            after_seq = conflict.actual


class StoreConformance:
    """The rules of ``leasefs.store.port``, each as a test."""

    @pytest.fixture
    def make_store(self) -> Callable[[Waiter | None], Store]:
        """Override: a function that opens a new, empty store, waiting by the given waiter."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, make_store: Callable[[Waiter | None], Store]) -> Iterator[Store]:
        """A new, empty store."""
        store = make_store(None)
        yield store
        store.close()

    def test_a_new_log_is_empty(self, store: Store) -> None:
        """Head 0, nothing to read, no snapshot."""
        assert store.head() == 0
        assert store.read(0, 10) == []
        assert store.load_snapshot() is None

    def test_events_are_numbered_from_1_without_gap(self, store: Store) -> None:
        """Rule 1."""
        assert store.append(0, [b"a", b"b"]) == 2
        assert store.append(2, [b"c"]) == 3
        assert store.head() == 3
        assert store.read(0, 10) == [Entry(1, b"a"), Entry(2, b"b"), Entry(3, b"c")]

    def test_reading_starts_after_a_number_and_stops_at_the_limit(self, store: Store) -> None:
        """Any range can be read; past the head there is nothing."""
        store.append(0, [b"%d" % i for i in range(1, 101)])
        assert store.read(40, 3) == [Entry(41, b"41"), Entry(42, b"42"), Entry(43, b"43")]
        assert [entry.seq for entry in store.read(98, 10)] == [99, 100]
        assert store.read(100, 10) == []
        assert store.read(5_000, 10) == []

    @pytest.mark.parametrize(("after_seq", "limit"), [(-1, 1), (0, 0), (0, -1)])
    def test_a_senseless_range_is_refused(self, store: Store, after_seq: int, limit: int) -> None:
        """Not silently empty, and never everything."""
        with pytest.raises(ValueError, match="read"):
            store.read(after_seq, limit)

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\x00",
            bytes(range(256)),
            b"\xff\xfe",
            '{"path":"\u00e9"}'.encode(),
            b"x" * 3_000_000,
        ],
        ids=["empty", "nul", "every byte", "not utf-8", "utf-8", "3 MB"],
    )
    def test_data_is_opaque(self, store: Store, data: bytes) -> None:
        """Rule 4: what was appended is read back exactly."""
        store.append(0, [data, b"next"])
        assert store.read(0, 2) == [Entry(1, data), Entry(2, b"next")]

    @pytest.mark.parametrize("after_seq", [0, 1, 3, 99, -1])
    def test_a_moved_head_is_a_conflict_and_writes_nothing(
        self, store: Store, after_seq: int
    ) -> None:
        """Rule 3: the error says where the head is."""
        store.append(0, [b"a", b"b"])
        with pytest.raises(SequenceConflict) as caught:
            store.append(after_seq, [b"x", b"y"])
        assert (caught.value.expected, caught.value.actual) == (after_seq, 2)
        assert store.read(0, 10) == [Entry(1, b"a"), Entry(2, b"b")]
        assert store.append(2, [b"c"]) == 3

    def test_appending_nothing_only_checks_the_head(self, store: Store) -> None:
        """An empty append is no event, and still conflicts."""
        store.append(0, [b"a"])
        assert store.append(1, []) == 1
        with pytest.raises(SequenceConflict):
            store.append(0, [])
        assert store.head() == 1

    def test_an_append_that_fails_half_way_leaves_nothing(self, store: Store) -> None:
        """Rule 2: all of its events or none."""
        bad: list[bytes] = [b"a", None, b"c"]  # type: ignore[list-item]
        with pytest.raises(TypeError):
            store.append(0, bad)
        assert store.head() == 0
        assert store.append(0, [b"a"]) == 1

    def test_of_racing_appends_one_wins_each_number(self, store: Store) -> None:
        """Rules 3 and 6: losers get a conflict, catch up and lose nothing."""
        writers, events_each = 4, 25
        start = threading.Barrier(writers)

        def write(writer: int) -> None:
            start.wait(_LONG_S)
            for i in range(events_each):
                append_at_head(store, b"%d %d" % (writer, i))

        with ThreadPoolExecutor(writers) as pool:
            list(pool.map(write, range(writers)))
        found = store.read(0, 1_000)
        assert [entry.seq for entry in found] == list(range(1, writers * events_each + 1))
        for writer in range(writers):
            own = [entry.data for entry in found if entry.data.startswith(b"%d " % writer)]
            assert own == [b"%d %d" % (writer, i) for i in range(events_each)]

    def test_a_reader_never_sees_part_of_an_append(self, store: Store) -> None:
        """Rule 2, from another thread while appends go on."""
        batch, batches = 7, 60

        def write() -> None:
            for i in range(batches):
                store.append(i * batch, [b"x"] * batch)

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            seen = [0]
            while seen[-1] < batch * batches and not (writing.done() and writing.exception()):
                seen.append(len(store.read(0, 10_000)))
            writing.result()
        assert seen == sorted(seen)
        assert all(count % batch == 0 for count in seen)

    def test_the_newest_snapshot_is_loaded(self, store: Store) -> None:
        """By number, not by the order of saving; saving again replaces."""
        store.append(0, [b"x"] * 10)
        store.save_snapshot(Snapshot(7, b"seven"))
        store.save_snapshot(Snapshot(3, b"three"))
        assert store.load_snapshot() == Snapshot(7, b"seven")
        store.save_snapshot(Snapshot(7, b"\x00seven again"))
        assert store.load_snapshot() == Snapshot(7, b"\x00seven again")

    def test_many_snapshots_and_a_big_one(self, store: Store) -> None:
        """Only a few are kept; the events are untouched."""
        store.append(0, [b"x"] * 10)
        for seq in range(SNAPSHOTS_KEPT + 5):
            store.save_snapshot(Snapshot(seq, b"%d" % seq * 200_000))
        last = SNAPSHOTS_KEPT + 4
        assert store.load_snapshot() == Snapshot(last, b"%d" % last * 200_000)
        assert len(store.read(0, 100)) == 10

    @pytest.mark.parametrize("seq", [-1, 3])
    def test_a_snapshot_of_what_has_not_happened_is_refused(self, store: Store, seq: int) -> None:
        """A state after an event that is not in the log is nobody's state."""
        store.append(0, [b"a", b"b"])
        with pytest.raises(ValueError, match="head is 2"):
            store.save_snapshot(Snapshot(seq, b"?"))
        assert store.load_snapshot() is None

    def test_an_older_snapshot_is_loaded_when_asked_for(self, store: Store) -> None:
        """The newest that is not after the number; none if there is none."""
        store.append(0, [b"x"] * 10)
        for seq in (3, 7, 9):
            store.save_snapshot(Snapshot(seq, b"%d" % seq))
        assert store.snapshots() == [3, 7, 9]
        assert store.load_snapshot(upto_seq=8) == Snapshot(7, b"7")
        assert store.load_snapshot(upto_seq=7) == Snapshot(7, b"7")
        assert store.load_snapshot(upto_seq=2) is None

    def test_the_oldest_snapshot_stays(self, store: Store) -> None:
        """Whatever comes later: older states are replayed from there."""
        store.append(0, [b"x"] * 20)
        for seq in range(4, 20):
            store.save_snapshot(Snapshot(seq, b"s"))
        assert store.snapshots() == [4, 17, 18, 19]

    def test_old_events_are_dropped_bite_by_bite(self, store: Store) -> None:
        """Rule 6: the numbers of the others stay, and what is gone is told as gone."""
        store.append(0, [b"%d" % i for i in range(1, 101)])
        for seq in (10, 60, 80):
            store.save_snapshot(Snapshot(seq, b"s"))
        assert store.base() == 0
        assert [store.drop(60, 25), store.drop(60, 25), store.drop(60, 25)] == [25, 50, 60]
        assert store.drop(60, 25) == store.base() == 60
        assert (store.head(), store.snapshots()) == (100, [60, 80])
        assert store.read(60, 1) == [Entry(61, b"61")]
        for gone in (0, 59):
            with pytest.raises(EventsDropped) as caught:
                store.read(gone, 1)
            assert caught.value.base == 60
        assert store.append(100, [b"101"]) == 101
        assert store.read(99, 9) == [Entry(100, b"100"), Entry(101, b"101")]
        with pytest.raises(ValueError, match="base is 60"):
            store.save_snapshot(Snapshot(59, b"late"))

    def test_all_events_may_go_but_not_the_state(self, store: Store) -> None:
        """Two snapshots are left, or nothing is dropped."""
        store.append(0, [b"x"] * 10)
        store.save_snapshot(Snapshot(8, b"8"))
        for upto_seq in (8, 5):
            with pytest.raises(ValueError, match="two snapshots"):
                store.drop(upto_seq, 5)
        store.save_snapshot(Snapshot(10, b"10"))
        with pytest.raises(ValueError, match="drop"):
            store.drop(8, 0)
        assert store.drop(8, 1_000) == 8
        assert store.base() == 8
        assert [entry.seq for entry in store.read(8, 10)] == [9, 10]
        assert store.load_snapshot() == Snapshot(10, b"10")

    def test_dropping_makes_room(self, store: Store) -> None:
        """What is gone takes none."""
        assert store.append(0, [b"x" * 1_000] * 2_000) == 2_000
        full_bytes = store.size_bytes()
        assert full_bytes >= 2_000_000
        for seq in (1_900, 2_000):
            store.save_snapshot(Snapshot(seq, b"s"))
        while store.drop(1_900, 300) < 1_900:
            pass
        assert store.size_bytes() < full_bytes / 4

    def test_appends_and_reads_go_on_while_old_events_are_dropped(self, store: Store) -> None:
        """Rule 7, from three threads at once: nothing that is kept is missed."""
        store.append(0, [b"x"] * 1_000)
        for seq in (900, 1_000):
            store.save_snapshot(Snapshot(seq, b"s"))

        def drop() -> None:
            while store.drop(900, 7) < 900:
                pass

        def append() -> None:
            for head in range(1_000, 1_200):
                store.append(head, [b"y"])

        with ThreadPoolExecutor(2) as pool:
            going = [pool.submit(drop), pool.submit(append)]
            while not all(future.done() for future in going):
                found = [entry.seq for entry in store.read(950, 10_000)]
                assert found == list(range(951, 951 + len(found)))
            for future in going:
                future.result()
        assert (store.base(), store.head()) == (900, 1_200)

    def test_watch_returns_at_once_when_there_is_news(
        self, make_store: Callable[[Waiter | None], Store]
    ) -> None:
        """No waiting for what is already there."""
        waiter = SteppingWaiter()
        store = make_store(waiter)
        store.append(0, [b"a", b"b"])
        assert store.watch(0, 60.0) == 2
        assert store.watch(1, 60.0) == 2
        assert waiter.waits_s == []
        store.close()

    def test_watch_gives_up_after_its_timeout(
        self, make_store: Callable[[Waiter | None], Store]
    ) -> None:
        """Then it answers the head as it is; a timeout of 0 only looks."""
        waiter = SteppingWaiter()
        store = make_store(waiter)
        store.append(0, [b"a"])
        assert store.watch(1, 0.0) == 1
        assert waiter.waits_s == []
        assert store.watch(1, 2.5) == 1
        assert sum(waiter.waits_s) == pytest.approx(2.5)
        store.close()

    def test_an_append_wakes_every_watcher(
        self, make_store: Callable[[Waiter | None], Store]
    ) -> None:
        """By notification: time does not pass for this waiter."""
        waiters = SignallingWaiter()
        store = make_store(waiters)
        with ThreadPoolExecutor(2) as pool:
            watching = [pool.submit(store.watch, 0, 60.0) for _ in range(2)]
            assert waiters.waiting.wait(_LONG_S)
            store.append(0, [b"a", b"b"])
            assert [future.result(_LONG_S) for future in watching] == [2, 2]
        assert waiters.now_s() == 0.0
        store.close()

    def test_closing_wakes_a_watcher(self, make_store: Callable[[Waiter | None], Store]) -> None:
        """It learns that nothing more will come."""
        waiter = SignallingWaiter()
        store = make_store(waiter)
        with ThreadPoolExecutor(1) as pool:
            watching = pool.submit(store.watch, 0, 60.0)
            assert waiter.waiting.wait(_LONG_S)
            store.close()
            with pytest.raises(StoreClosed):
                watching.result(_LONG_S)

    def test_a_closed_store_refuses_everything(self, store: Store) -> None:
        """With its own error; closing again is fine."""
        store.append(0, [b"a"])
        store.close()
        store.close()
        for call in (
            lambda: store.append(1, [b"b"]),
            lambda: store.read(0, 1),
            store.head,
            lambda: store.watch(0, 1.0),
            lambda: store.save_snapshot(Snapshot(1, b"s")),
            store.load_snapshot,
            store.snapshots,
            store.base,
            lambda: store.drop(1, 1),
            store.size_bytes,
        ):
            with pytest.raises(StoreClosed):
                call()
