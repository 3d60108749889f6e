"""The table of nodes: numbers, names, lookup counts. No kernel, no files."""

from __future__ import annotations

import stat
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasefs.mount.inodes import CONTROL_NUMBER, FIRST_SYNTHETIC, GONE, ROOT_NUMBER, Inodes, Node

FILE, DIRECTORY = stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755


@dataclass(frozen=True)
class Found:
    """As little of an `os.stat_result` as the table needs."""

    st_ino: int
    st_mode: int = FILE
    st_dev: int = 1
    st_nlink: int = 1
    st_uid: int = 0
    st_gid: int = 0
    st_size: int = 0
    st_rdev: int = 0
    st_blksize: int = 4096
    st_blocks: int = 0
    st_atime_ns: int = 0
    st_mtime_ns: int = 0
    st_ctime_ns: int = 0


def table() -> Inodes:
    return Inodes(Found(500, DIRECTORY))


def told(inodes: Inodes, parent: Node, name: bytes, found: Found) -> Node:
    """As a lookup does it."""
    node = inodes.learn(parent, name, found)
    node.lookups += 1
    return node


def test_numbers_are_the_lower_ones() -> None:
    inodes = table()
    node = told(inodes, inodes.root, b"a", Found(7))
    assert (node.number, inodes.path(node)) == (7, b"a")
    assert inodes.root.number == ROOT_NUMBER
    assert inodes.path(inodes.root) == b""


def test_numbers_that_could_clash_get_one_of_their_own() -> None:
    inodes = table()
    strangers = [Found(7, st_dev=2), Found(7, st_dev=3), Found(1), Found(CONTROL_NUMBER + 5)]
    nodes = [told(inodes, inodes.root, b"%d" % at, found) for at, found in enumerate(strangers)]
    assert [node.number for node in nodes] == [FIRST_SYNTHETIC + at for at in range(4)]
    assert [inodes.find(found) for found in strangers] == nodes
    assert told(inodes, inodes.root, b"x", Found(7)).number == 7


def test_a_renamed_directory_takes_everything_along() -> None:
    inodes = table()
    top = told(inodes, inodes.root, b"top", Found(2, DIRECTORY))
    mid = told(inodes, top, b"mid", Found(3, DIRECTORY))
    leaf = told(inodes, mid, b"leaf", Found(4))
    inodes.move(top, inodes.root, b"top", inodes.root, b"moved")
    assert inodes.path(leaf) == b"moved/mid/leaf"
    assert inodes.is_below(leaf, top)
    assert not inodes.is_below(top, leaf)


def test_hard_links_are_one_node_with_several_names() -> None:
    inodes = table()
    node = told(inodes, inodes.root, b"a", Found(7))
    assert told(inodes, inodes.root, b"b", Found(7, st_nlink=2)) is node
    assert sorted(inodes.paths(node)) == [b"a", b"b"]
    inodes.lose_name(node, inodes.root, b"a")
    assert inodes.paths(node) == [b"b"]
    inodes.lose_name(node, inodes.root, b"b")
    assert inodes.path(node) is None


def test_a_number_that_is_found_at_another_name_alone_is_another_inode() -> None:
    """So that the kernel does not serve it at the old name, which it may still believe in."""
    inodes = table()
    node = told(inodes, inodes.root, b"a", Found(7))
    other = told(inodes, inodes.root, b"b", Found(7))
    assert (other.number, other.shown) == (FIRST_SYNTHETIC, 7)
    assert (inodes.paths(node), inodes.paths(other)) == ([], [b"b"])


def test_a_number_that_is_found_after_its_file_lost_its_name_is_another_inode() -> None:
    """What is being written beside a file, to take its place, may have the number that the last one but one had."""
    inodes = table()
    node = told(inodes, inodes.root, b"a", Found(7))
    inodes.lose_name(node, inodes.root, b"a")
    other = told(inodes, inodes.root, b"new", Found(7))
    assert (node.number, other.number) == (7, FIRST_SYNTHETIC)
    assert (inodes.paths(node), inodes.paths(other)) == ([], [b"new"])


@pytest.mark.parametrize("loses", [False, True])
def test_what_is_open_was_renamed(loses: bool) -> None:
    inodes = table()
    node = told(inodes, inodes.root, b"a", Found(7))
    if loses:
        inodes.lose_name(node, inodes.root, b"a")
    inodes.is_open = lambda one: one is node
    assert told(inodes, inodes.root, b"b", Found(7)) is node


def test_what_is_kept_without_a_name_got_one_again() -> None:
    inodes = table()
    node = told(inodes, inodes.root, b"a", Found(7))
    inodes.lose_name(node, inodes.root, b"a")
    node.orphan_fd = 3
    assert told(inodes, inodes.root, b"b", Found(7)) is node


def test_a_directory_has_one_name() -> None:
    """Found elsewhere, it was renamed behind our back."""
    inodes = table()
    node = told(inodes, inodes.root, b"a", Found(7, DIRECTORY))
    told(inodes, inodes.root, b"b", Found(7, DIRECTORY))
    assert inodes.paths(node) == [b"b"]


def test_a_lower_number_in_use_again_is_told_as_another_until_the_old_one_is_forgotten() -> None:
    """The kernel answers EIO for an inode whose number it hears of with another type."""
    inodes = table()
    old = told(inodes, inodes.root, b"a", Found(7))
    new = told(inodes, inodes.root, b"a", Found(7, DIRECTORY))
    newer = told(inodes, inodes.root, b"a", Found(7))
    assert [node.number for node in (old, new, newer)] == [7, FIRST_SYNTHETIC, FIRST_SYNTHETIC + 1]
    assert [node.shown for node in (old, new, newer)] == [7, 7, 7]
    assert [old.kind, new.kind] == [GONE, GONE]
    assert inodes.find(Found(7)) is newer
    for node in (old, newer, new):
        assert inodes.forget(node.number, 1) == [node]
    assert told(inodes, inodes.root, b"a", Found(7)).number == 7
    assert inodes.forget(7, 1)
    assert len(inodes) == 1
    assert inodes.find(Found(7)) is None


def test_another_file_of_the_same_name_is_not_the_same() -> None:
    inodes = table()
    node = told(inodes, inodes.root, b"a", Found(7))
    assert inodes.is_same(node, Found(7))
    assert not inodes.is_same(node, Found(8))
    assert not inodes.is_same(node, Found(7, DIRECTORY))
    assert not inodes.is_same(node, Found(7, st_dev=2))


def test_forgotten_nodes_go_and_their_waiting_parents_with_them() -> None:
    inodes = table()
    top = told(inodes, inodes.root, b"top", Found(2, DIRECTORY))
    leaf = told(inodes, top, b"leaf", Found(4))
    leaf.lookups += 1
    assert inodes.forget(2, 1) == []  # a node below is still known
    assert inodes.forget(4, 1) == []
    assert inodes.forget(4, 1) == [leaf, top]
    assert len(inodes) == 1
    assert inodes.forget(4, 1) == []
    assert inodes.forget(ROOT_NUMBER, 99) == []


def test_a_strangers_number_is_free_again_after_it_was_forgotten() -> None:
    inodes = table()
    node = told(inodes, inodes.root, b"a", Found(7, st_dev=2))
    inodes.forget(node.number, 1)
    assert inodes.find(Found(7, st_dev=2)) is None
    assert len(inodes) == 1


NAMES = st.sampled_from([b"a", b"b", b"c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("look"), st.integers(0, 3), NAMES, st.integers(2, 7)),
        st.tuples(st.just("forget"), st.integers(2, 7), st.integers(1, 2), st.none()),
        st.tuples(st.just("lose"), st.integers(2, 7), NAMES, st.none()),
    ),
    max_size=40,
)


@given(STEPS)
def test_whatever_happens_nothing_leaks_and_no_count_is_wrong(
    steps: list[tuple[object, ...]],
) -> None:
    """Children counted as they are, and an empty table once the kernel has forgotten everything."""
    inodes = table()
    for step in steps:
        _act(inodes, step)
        for node in inodes:
            below = [name for other in inodes for name in other.names() if name[0] is node]
            assert node.children == len(below)
            assert inodes.path(node) == _way_down(inodes, node)
    for _ in range(8):
        for node in list(inodes):
            if node is not inodes.root:
                inodes.forget(node.number, node.lookups)
    assert [node.number for node in inodes] == [ROOT_NUMBER]


def _way_down(inodes: Inodes, node: Node) -> bytes | None:
    names = []
    while node.parent is not None:
        names.append(node.name)
        node = node.parent
    return b"/".join(reversed(names)) if node is inodes.root else None


def _act(inodes: Inodes, step: tuple[object, ...]) -> None:
    match step:
        case ("look", int(above), bytes(name), int(number)):
            parent = inodes.get(above) if above > 1 else inodes.root
            # Even numbers are directories, each below smaller numbers only: no cycles.
            if parent is None or parent.number >= number or not parent.is_dir:
                return
            told(inodes, parent, name, Found(number, DIRECTORY if number % 2 == 0 else FILE))
        case ("forget", int(number), int(count), _):
            inodes.forget(number, count)
        case ("lose", int(number), bytes(name), _):
            node = inodes.get(number)
            for parent, known in node.names() if node else []:
                if known == name:
                    assert node is not None
                    inodes.lose_name(node, parent, known)


def test_directories_that_changed_places_do_not_lie_below_each_other() -> None:
    """Somebody moved `d/sub` up and `d` below it; the second is heard of first."""
    inodes = table()
    above = told(inodes, inodes.root, b"d", Found(7, DIRECTORY))
    below = told(inodes, above, b"sub", Found(8, DIRECTORY))
    told(inodes, below, b"d", Found(7, DIRECTORY))
    assert inodes.path(above) is None
    assert inodes.path(below) is None
    told(inodes, inodes.root, b"sub", Found(8, DIRECTORY))
    assert inodes.path(above) == b"sub/d"
    assert inodes.forget(7, 2) == [above]
    assert inodes.forget(8, 2) == [below]


def test_a_directory_never_lies_in_itself() -> None:
    inodes = table()
    node = told(inodes, inodes.root, b"d", Found(7, DIRECTORY))
    told(inodes, node, b".", Found(7, DIRECTORY))
    assert inodes.path(node) is None
    assert inodes.forget(7, 2) == [node]
