"""What vanishes from a directory is counted; what git takes and gives back there with every command is not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from leasefs.mount.deletions import Deletions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def deletions() -> Iterator[Deletions]:
    counted = Deletions()
    yield counted
    counted.close()


@pytest.fixture
def directory_fd(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "below").mkdir()
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def _come_and_go(above: Path, *names: str) -> None:
    for name in names:
        (above / name).touch()
        (above / name).unlink()


@pytest.mark.parametrize(("alone", "counted"), [(False, 5), (True, 2)])
def test_what_vanishes_is_counted(
    deletions: Deletions, directory_fd: int, tmp_path: Path, alone: bool, counted: int
) -> None:
    assert deletions.watch("tag", directory_fd, alone=alone)
    _come_and_go(tmp_path, "HEAD", "config", "index.lock", "HEAD.lock", "below/file")
    deletions.drain()
    assert deletions.counts == {"tag": counted}


def test_the_same_tag_may_be_watched_otherwise_later(
    deletions: Deletions, directory_fd: int, tmp_path: Path
) -> None:
    for alone, counted in ((True, 0), (False, 1)):
        assert deletions.watch("tag", directory_fd, alone=alone)
        _come_and_go(tmp_path, "index.lock")
        deletions.drain()
        assert deletions.counts == {"tag": counted}
        deletions.forget("tag")
        assert deletions.counts == {}
