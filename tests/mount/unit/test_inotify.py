"""Watching directories by descriptor."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from leasefs.mount import inotify
from leasefs.mount.inotify import Event, Inotify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def queue() -> Iterator[Inotify]:
    queue = Inotify()
    yield queue
    queue.close()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def test_nothing_yet(queue: Inotify) -> None:
    assert queue.read() == []


def test_tells_each_kind_of_change(queue: Inotify, directory: int, tmp_path: Path) -> None:
    watch = queue.watch(directory)
    (tmp_path / "f").write_bytes(b"x")
    (tmp_path / "f").chmod(0o600)
    (tmp_path / "f").rename(tmp_path / "g")
    (tmp_path / "g").unlink()
    seen = queue.read()
    assert {event.watch for event in seen} == {watch}
    kinds = [(event.mask & 0xFFF, event.name) for event in seen]
    for kind, name in [
        (inotify.CREATE, b"f"),
        (inotify.MODIFY, b"f"),
        (inotify.CLOSE_WRITE, b"f"),
        (inotify.ATTRIB, b"f"),
        (inotify.MOVED_FROM, b"f"),
        (inotify.MOVED_TO, b"g"),
        (inotify.DELETE, b"g"),
    ]:
        assert (kind, name) in kinds


def test_names_are_bytes_of_any_kind(queue: Inotify, directory: int, tmp_path: Path) -> None:
    queue.watch(directory)
    names = [b"\xff\xfe", b"n" * 255, b" ", b"a\nb"]
    for name in names:
        os.close(os.open(os.fsencode(tmp_path) + b"/" + name, os.O_CREAT))
    made = [event.name for event in queue.read() if event.mask & inotify.CREATE]
    assert made == names


def test_the_same_directory_is_the_same_watch(queue: Inotify, directory: int) -> None:
    assert queue.watch(directory) == queue.watch(directory)


def test_a_link_to_a_directory_is_not_followed(queue: Inotify, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    fd = os.open(tmp_path / "link", os.O_PATH | os.O_NOFOLLOW)
    with pytest.raises(NotADirectoryError):
        queue.watch(fd)
    os.close(fd)


def test_after_unwatch_only_its_end_is_told(queue: Inotify, directory: int, tmp_path: Path) -> None:
    watch = queue.watch(directory)
    queue.unwatch(watch)
    (tmp_path / "f").touch()
    assert queue.read() == [Event(watch, inotify.IGNORED, b"")]
