"""What is known of a directory is the same however it is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasefs.mount.foreign_known import LEFT_HERE, Known, State

NAMES = st.binary(min_size=1, max_size=20).filter(lambda name: not set(name) & {0, ord("/")})
NUMBERS = st.integers(-(1 << 40), 1 << 63)
STATES = st.builds(
    State, st.integers(0, 0o177777), NUMBERS, st.integers(LEFT_HERE, 1 << 50), NUMBERS, NUMBERS
)
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES, STATES),
    st.tuples(st.just("drop"), NAMES, st.none()),
    st.tuples(st.just("pack"), NAMES, st.none()),
)


@given(st.lists(STEPS, max_size=60))
def test_it_is_a_dictionary(steps: list[tuple[str, bytes, State | None]]) -> None:
    known, expected = Known(), dict[bytes, State]()
    for step, name, state in steps:
        if step == "pack":
            known.pack()
            assert known.is_packed
        elif state is None:
            known.drop(name)
            expected.pop(name, None)
        else:
            known.put(name, state)
            expected[name] = state
        assert known.get(name) == expected.get(name)
        assert dict(known.items()) == expected


@pytest.mark.parametrize("count", [0, 999, 1_000, 1_001, 5_000])
def test_large_directories_are_no_exception(count: int) -> None:
    known = Known()
    states = {b"x%d" % at: State(0o100644, at, at, at * 7, at * 11) for at in range(count)}
    for name, state in states.items():
        known.put(name, state)
    for _ in range(2):
        known.pack()
        assert known.get(b"none") is None
        assert dict(known.items()) == states


def test_a_file_that_was_left_here_is_changed_when_its_times_are_later() -> None:
    left = State(0o100644, 7, LEFT_HERE, 0, 1000)
    same = State(0o100644, 7, 3, 900, 1000)
    assert not same.is_changed_since(left)
    assert not same.is_written_since(left)
    assert same._replace(ctime_ns=1001).is_changed_since(left)
    assert not same._replace(ctime_ns=1001).is_written_since(left)
    assert same._replace(mtime_ns=1001, ctime_ns=1001).is_written_since(left)
    assert same._replace(number=8).is_written_since(left)


def test_what_a_write_shows_in() -> None:
    before = State(0o100644, 7, 3, 900, 1000)
    assert before._replace(size=4).is_written_since(before)
    assert before._replace(mtime_ns=1).is_written_since(before)
    assert not before._replace(mode=0o100755, ctime_ns=2000).is_written_since(before)
    assert before._replace(mode=0o100755).has_other_permissions_than(before)
    assert not before._replace(ctime_ns=2000).has_other_permissions_than(before)
