"""Pauses between attempts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leasefs.client.pauses import Pauses


def test_twice_as_long_each_time_up_to_a_bound() -> None:
    pauses = Pauses(0.1, 0.5)
    assert [pauses.after_s(failures) for failures in range(5)] == [0.1, 0.2, 0.4, 0.5, 0.5]


@given(st.integers(0, 10**9))
def test_no_number_of_failures_is_too_many(failures: int) -> None:
    assert 0.1 <= Pauses(0.1, 30.0).after_s(failures) <= 30.0
