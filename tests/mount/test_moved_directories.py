"""What a moved directory brings along, found beneath the mount."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from leasefs.mount.fsmonitor import directories_below, finder, finder_of_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def root_fd(tmp_path: Path) -> Iterator[int]:
    for name in ("d/e/f", "d/g/.git/objects", "d e", "outside/x"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "d/file").write_text("x")
    (tmp_path / "d/link").symlink_to("../outside")
    (tmp_path / "link").symlink_to("d")
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    before = len(os.listdir("/proc/self/fd"))
    yield fd
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(fd)


def test_finds_each_directory_and_follows_no_link(root_fd: int) -> None:
    assert set(finder(root_fd)(b"d") or ()) == {b"d/e", b"d/e/f", b"d/g"}


@pytest.mark.parametrize("path", [b"d/file", b"gone", b"gone/deep", b"d/file/x", b"link"])
def test_what_is_no_directory_has_none_below(root_fd: int, path: bytes) -> None:
    assert directories_below(root_fd, path) == []


def test_finds_all_of_the_tree(root_fd: int) -> None:
    below = {b"d/e", b"d/e/f", b"d/g", b"outside/x"}
    assert set(finder_of_all(root_fd)() or ()) == {b"d", b"d e", b"outside", *below}


def test_too_many_are_not_told(root_fd: int) -> None:
    assert directories_below(root_fd, b"d", most=2) is None
    assert len(directories_below(root_fd, b"d", most=3) or ()) == 3


def test_a_directory_that_cannot_be_opened_leaves_it_untold(
    root_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the reason: running out of descriptors, or a mode (root may read anything)."""

    def refuse(directory_fd: int, path: bytes) -> int:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr("leasefs.mount.fsmonitor.open_directory", refuse)
    assert directories_below(root_fd, b"d") is None
