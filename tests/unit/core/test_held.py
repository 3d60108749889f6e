"""The held view: what is trusted, what has lapsed, what a tree needs."""

from __future__ import annotations

import pytest

from leasefs.core.globs import literal_tree, parse_glob
from leasefs.core.held import NOTHING_HELD, HeldLease, HeldView
from leasefs.core.lease import Mode
from leasefs.core.overlap import TooComplex, uncovered

NOW_S = 100.0


def lease(
    token: int, *globs: str, mode: Mode = Mode.EXCLUSIVE, until_s: float = 200.0
) -> HeldLease:
    return HeldLease(f"l{token}", token, tuple(parse_glob(g) for g in globs), mode, 60.0, until_s)


def test_nothing_held_allows_nothing() -> None:
    assert NOTHING_HELD.writable(b"a", NOW_S) is None
    assert NOTHING_HELD.lapsed(b"a", NOW_S) is None
    assert NOTHING_HELD.may_need(b"", NOW_S) is None
    assert not NOTHING_HELD.covers_tree(b"a", NOW_S)


def test_trust_ends_exactly_at_its_deadline() -> None:
    view = HeldView([lease(1, "a")])
    assert view.writable(b"a", 199.999)
    assert view.writable(b"a", 200.0) is None
    assert view.lapsed(b"a", 200.0)
    assert view.lapsed(b"a", 199.999) is None


def test_the_oldest_trusted_lease_answers() -> None:
    view = HeldView([lease(9, "a"), lease(3, "*", until_s=50.0), lease(5, "*")])
    found = view.writable(b"a", NOW_S)
    assert found is not None
    assert found.token == 5


def test_shared_leases_are_never_writable() -> None:
    view = HeldView([lease(1, "**", mode=Mode.SHARED)])
    assert view.writable(b"a", NOW_S) is None
    assert view.trusted(NOW_S) == []
    assert not view.covers_tree(b"a", NOW_S)


def test_renewal_keeps_what_was_learnt_and_moves_the_deadline() -> None:
    view = HeldView([lease(1, "a", until_s=150.0)])
    assert view.writable(b"a", 160.0) is None
    renewed = view.renewed({1: 300.0})
    assert renewed.writable(b"a", 160.0)
    assert view.writable(b"a", 160.0) is None


def test_everything_is_covered_by_a_lease_that_names_every_path() -> None:
    assert HeldView([lease(1, "a"), lease(2, "**")]).covers_everything(NOW_S)
    assert HeldView([lease(1, "*", "*/**")]).covers_everything(NOW_S)
    assert not HeldView([lease(1, "*"), lease(2, "a/**")]).covers_everything(NOW_S)
    assert not HeldView([lease(1, "**", mode=Mode.SHARED)]).covers_everything(NOW_S)
    assert not NOTHING_HELD.covers_everything(NOW_S)
    ending = HeldView([lease(1, "**", until_s=NOW_S)])
    assert not ending.covers_everything(NOW_S)
    assert ending.renewed({1: NOW_S + 1}).covers_everything(NOW_S)


def test_a_tree_is_covered_by_the_union_of_leases() -> None:
    view = HeldView([lease(1, "d", "d/*"), lease(2, "d/*/**")])
    assert view.covers_tree(b"d", NOW_S)
    assert not HeldView([lease(1, "d", "d/*")]).covers_tree(b"d", NOW_S)
    assert not HeldView([lease(1, "d/**")]).covers_tree(b"d", NOW_S)
    assert not HeldView([lease(1, "d", "d/**", until_s=NOW_S)]).covers_tree(b"d", NOW_S)


def test_a_tree_that_costs_too_much_to_decide_is_not_covered() -> None:
    """Together these match every name below d, but only an exponential search could tell."""
    long = [f"d/**/*{start}{'?' * 16}" for start in ("a", "[!a]")]
    short = [f"d/**/{'?' * length}" for length in range(1, 17)]
    hostile = HeldView([lease(1, "d", *long, *short)])
    with pytest.raises(TooComplex):
        uncovered(literal_tree("d"), hostile.leases[0].globs)
    assert not hostile.covers_tree(b"d", NOW_S)


def test_a_directory_is_needed_if_a_lease_could_match_below_it() -> None:
    view = HeldView([lease(1, "a/b/*.py")])
    assert view.may_need(b"a", NOW_S)
    assert view.may_need(b"a/b", NOW_S)
    assert view.may_need(b"a/c", NOW_S) is None
    assert view.may_need(b"a/b/c", NOW_S) is None


def test_the_memory_of_paths_is_bounded() -> None:
    view = HeldView([lease(1, "**")])
    for at in range(70_000):
        assert view.writable(b"%d" % at, NOW_S)
    assert len(view._memo) <= 65_536
