"""What is kept of listings, and for how long."""

from __future__ import annotations

import stat

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from leasefs.mount.inodes import Node
from leasefs.mount.listing import Item, Listing, Listings


def directory(number: int) -> Node:
    return Node(number, number, stat.S_IFDIR)


def listing(count: int, mtime_ns: int = 1) -> Listing:
    return Listing([b"%d" % at for at in range(count)], mtime_ns)


def test_known_by_modification_time() -> None:
    kept, node, one = Listings(), directory(2), listing(3)
    assert kept.known(node, 1) is None
    kept.keep(node, one)
    assert kept.known(node, 1) is one
    assert kept.known(node, 2) is None


@given(st.lists(st.tuples(st.integers(2, 12), st.integers(0, 40)), max_size=60))
def test_never_more_entries_than_allowed_except_the_last(asked: list[tuple[int, int]]) -> None:
    kept = Listings(most=100)
    nodes = {number: directory(number) for number in range(2, 13)}
    for number, count in asked:
        kept.keep(nodes[number], listing(count))
        entries = sum(len(node.listing.names) for node in nodes.values() if node.listing)
        assert entries <= 100
        assert nodes[number].listing is not None


def test_the_least_recently_used_goes_first() -> None:
    kept, nodes = Listings(most=10), [directory(at) for at in range(2, 5)]
    for node in nodes[:2]:
        kept.keep(node, listing(4))
    kept.known(nodes[0], 1)
    kept.keep(nodes[2], listing(4))
    assert [node.listing is not None for node in nodes] == [True, False, True]


def test_an_item_lasts_only_with_what_was_told() -> None:
    node = directory(2)
    node.told = 7
    assert Item(b"n", None, node, lasting=True).told == 7
    assert Item(b"n", None, node).told is None
    assert Item(b".", None).told is None


def test_of_an_outdated_listing_the_entries_are_used_again_that_are_where_they_were() -> None:
    above, other = directory(2), directory(3)
    former = Listing([b"stays", b"moved", b"gone", b"unknown"], 1)
    for at, (parent, name) in enumerate([(above, b"stays"), (above, b"new"), (other, b"gone")]):
        node = Node(10 + at, 10 + at, stat.S_IFREG)
        node.parent, node.name = parent, name
        former.items[at] = Item(former.names[at], None, node)
    former.outdate()
    assert former.is_outdated
    now = Listing([b"new", b"unknown", b"moved", b"stays"], 2)
    now.take_over(above, former)
    assert now.items == [None, None, None, former.items[0]]
    assert not now.is_outdated


def test_an_outdated_listing_is_known_at_no_time() -> None:
    kept, node = Listings(), directory(2)
    kept.keep(node, one := listing(3))
    one.outdate()
    assert kept.known(node, 1) is None
    assert node.listing is one


@pytest.mark.trio
async def test_nobody_lists_for_a_while(autojump_clock: trio.testing.MockClock) -> None:
    kept, node = Listings(), directory(2)
    kept.keep(node, listing(3))
    kept.known(node, 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.tidy)
        await trio.sleep(61)
        assert node.listing is not None
        await trio.sleep(60)
        assert node.listing is None
        nursery.cancel_scope.cancel()
