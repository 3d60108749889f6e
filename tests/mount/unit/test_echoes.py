"""Which events stand for nothing but what the mount did itself."""

from __future__ import annotations

import stat

import pytest

from leasefs.mount.echoes import Echoes, gathered, is_echo
from leasefs.mount.inodes import Node
from leasefs.mount.inotify import (
    ATTRIB,
    CLOSE_WRITE,
    CREATE,
    DELETE,
    IS_DIRECTORY,
    MODIFY,
    MOVED_FROM,
    MOVED_TO,
    Event,
)


def mask_of(*masks: int) -> int:
    """The mask of one name to which these happened."""
    found: dict[tuple[int, bytes], int] = {}
    gathered(found, [Event(1, mask, b"f") for mask in masks])
    return found[1, b"f"]


def made(told: int | None = None) -> Node:
    node = Node(7, 7, stat.S_IFREG)
    node.told = told
    return node


@pytest.mark.parametrize(
    "masks",
    [(DELETE,), (MOVED_FROM,), (CREATE, MODIFY, DELETE), (CREATE, MOVED_FROM, CLOSE_WRITE)],
)
def test_what_was_taken_away_here_and_is_gone_needs_no_look(masks: tuple[int, ...]) -> None:
    assert is_echo(False, mask_of(*masks))


@pytest.mark.parametrize(
    "masks", [(CREATE,), (DELETE, CREATE), (MOVED_FROM, MOVED_TO), (MODIFY,), (ATTRIB,)]
)
def test_what_came_after_a_removal_is_looked_at(masks: tuple[int, ...]) -> None:
    assert not is_echo(False, mask_of(*masks))


def test_what_was_made_here_needs_no_look() -> None:
    assert is_echo(made(told=1), mask_of(CREATE))
    assert is_echo(made(told=None), mask_of(CREATE, MODIFY, CLOSE_WRITE))


@pytest.mark.parametrize(
    "masks",
    [
        (MOVED_TO,),  # two moves to one name are told as one
        (CREATE, MOVED_TO),
        (CREATE, DELETE),
        (DELETE, CREATE),
        (CREATE, DELETE, CREATE),
        (CREATE, ATTRIB),
        (CREATE | IS_DIRECTORY,),
        (DELETE,),
        (MODIFY,),
    ],
)
def test_what_others_may_have_done_since_is_looked_at(masks: tuple[int, ...]) -> None:
    assert not is_echo(made(), mask_of(*masks))


def test_bytes_that_the_kernel_believes_to_know_are_looked_at() -> None:
    assert not is_echo(made(told=1), mask_of(CREATE, MODIFY))


@pytest.mark.parametrize("mask", [CREATE, DELETE, MOVED_FROM])
def test_nothing_is_an_echo_of_what_was_not_done_here(mask: int) -> None:
    assert not is_echo(None, mask)
    assert not is_echo(True, mask)


def test_what_was_heard_is_heard_once() -> None:
    echoes, watched, unwatched = Echoes(), Node(3, 3, stat.S_IFDIR), Node(4, 4, stat.S_IFDIR)
    watched.watch = 1
    for directory in (watched, unwatched):
        echoes.made(directory, b"f")
        echoes.removed(directory, b"g")
    assert echoes.known(watched, b"f") is True
    assert echoes.heard(watched, b"f") is True
    assert echoes.heard(watched, b"f") is None
    assert echoes.heard(watched, b"g") is False
    assert echoes.known(unwatched, b"f") is None
