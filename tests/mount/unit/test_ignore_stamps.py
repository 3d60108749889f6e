"""What tells whether the ignore files above a path are those that were read: found in one descent, however deep it is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.mount.scratch import _stamps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEEP = 400


@pytest.fixture
def root_fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def _stamp_of(path: Path) -> tuple[int, int, int, int]:
    found = path.lstat()
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def test_each_directory_above_has_its_own(tmp_path: Path, root_fd: int) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / ".gitignore").write_text("x\n")
    (tmp_path / "a/b/.gitignore").symlink_to("nowhere")
    assert _stamps(root_fd, b"a/b") == {
        b"a/b": _stamp_of(tmp_path / "a/b/.gitignore"),
        b"a": None,
        b"": _stamp_of(tmp_path / ".gitignore"),
    }


@pytest.mark.parametrize("way", ["missing", "a link", "a file"])
def test_what_cannot_be_reached_has_none(tmp_path: Path, root_fd: int, way: str) -> None:
    (tmp_path / "there/b").mkdir(parents=True)
    for directory in ("", "there/", "there/b/"):
        (tmp_path / f"{directory}.gitignore").write_text("x\n")
    if way == "a link":
        (tmp_path / "a").symlink_to("there")
    elif way == "a file":
        (tmp_path / "a").write_text("")
    top = _stamp_of(tmp_path / ".gitignore")
    before = len(os.listdir("/proc/self/fd"))
    assert _stamps(root_fd, b"a/b") == {b"a/b": None, b"a": None, b"": top}
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_deep_path_costs_a_step_for_each_directory(
    root_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each for itself is as many steps as it lies deep: a thousand directories were half a million system calls."""
    opened = 0
    real = os.open

    def counted(*args: Any, **more: Any) -> int:
        nonlocal opened
        opened += 1
        return real(*args, **more)

    fd = os.dup(root_fd)
    for _ in range(DEEP):
        os.mkdir("d", dir_fd=fd)
        below = real("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    monkeypatch.setattr(os, "open", counted)
    stamps = _stamps(root_fd, b"/".join([b"d"] * DEEP))
    assert len(stamps) == DEEP + 1
    assert opened <= 3 * DEEP
