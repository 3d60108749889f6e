"""Token buckets: nobody gets more than their pace, nobody is refused below it, memory is bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasefs.service.bucket import Buckets, Pace

gaps_s = st.lists(st.floats(0.0, 3.0), min_size=1, max_size=60)


@given(st.floats(0.1, 50.0), st.integers(1, 20), gaps_s)
def test_in_no_window_more_than_burst_and_pace(per_s: float, burst: int, gaps: list[float]) -> None:
    buckets, now_s, taken = Buckets(Pace(per_s, burst)), 0.0, []
    for gap_s in gaps:
        now_s += gap_s
        may, wait_s = buckets.take("a", now_s)
        assert may == (wait_s == 0.0)
        if may:
            taken.append(now_s)
    for first, start_s in enumerate(taken):
        for last in range(first, len(taken)):
            passed_s = taken[last] - start_s
            assert last - first + 1 <= burst + per_s * passed_s + 1e-3


@given(st.floats(0.1, 50.0), st.integers(1, 20), st.integers(0, 40))
def test_who_waits_as_told_is_served(per_s: float, burst: int, before: int) -> None:
    buckets, now_s = Buckets(Pace(per_s, burst)), 5.0
    for _ in range(before):
        buckets.take("a", now_s)
    may, wait_s = buckets.take("a", now_s)
    assert may == (before < burst)
    if not may:
        assert 0.0 < wait_s <= 1.0 / per_s + 1e-6
        assert buckets.take("a", now_s + wait_s + 1e-6) == (True, 0.0)


@given(st.floats(1.0, 50.0), st.integers(1, 5), st.integers(1, 60))
def test_with_patience_turns_follow_one_another_at_the_pace(
    per_s: float, burst: int, asked: int
) -> None:
    buckets, turns_s = Buckets(Pace(per_s, burst)), []
    for _ in range(asked):
        may, wait_s = buckets.take("a", 0.0, patience_s=0.5)
        if may:
            turns_s.append(wait_s)
            assert wait_s <= 0.5
    assert turns_s == sorted(turns_s)
    assert len(turns_s) <= burst + per_s * 0.5 + 1e-3
    assert turns_s[:burst] == [0.0] * min(burst, asked)


def test_clients_do_not_pay_for_one_another() -> None:
    buckets = Buckets(Pace(1.0, 2))
    while buckets.take("flood", 0.0)[0]:
        pass
    assert buckets.take("other", 0.0) == (True, 0.0)


def test_zero_is_no_limit_and_remembers_nobody() -> None:
    buckets = Buckets(Pace(0.0, 0.0))
    assert all(buckets.take("a", 0.0) == (True, 0.0) for _ in range(1000))
    assert len(buckets) == 0


@pytest.mark.parametrize("busy", [True, False])
def test_invented_clients_take_no_memory(busy: bool) -> None:
    buckets = Buckets(Pace(1.0, 1), most_clients=100)
    for number in range(1000):
        buckets.take(f"invented {number}", 0.0 if busy else number * 2.0)
    assert len(buckets) <= 101
    may = [buckets.take(f"new {number}", 0.0)[0] for number in range(10)]
    if busy:
        assert not any(may)  # all of them are one client together
        assert buckets.take("invented 0", 2.0)[0]
