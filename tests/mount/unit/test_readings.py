"""What is remembered of reading: whose reading counts, and that own changes are none of others'."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from leasefs.mount.readings import PATHS_KEPT, THREADS_KEPT, Readings

if TYPE_CHECKING:
    from pathlib import Path

ME = os.getpid()
# No thread has these numbers.
GONE, OTHER = 2**22 + 1, 2**22 + 2


@pytest.fixture
def readings() -> Readings:
    return Readings()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "f"
    path.write_text("x")
    return path


def changed(file: Path) -> os.stat_result:
    """It is written, and is like this then."""
    file.write_text(file.read_text() + "x")
    return file.stat()


def test_what_nobody_read_is_not_stale(readings: Readings, file: Path) -> None:
    assert not readings.is_stale(b"f", ME, file.stat())
    assert not readings.is_stale(b"f", ME, None)


def test_what_changed_since_is(readings: Readings, file: Path) -> None:
    readings.read(b"f", ME, file.stat())
    assert not readings.is_stale(b"f", ME, file.stat())
    assert readings.is_stale(b"f", ME, changed(file))
    assert readings.is_stale(b"f", ME, None), "removed by others"
    readings.read(b"f", ME, file.stat())
    assert not readings.is_stale(b"f", ME, file.stat()), "read again"


def test_another_file_under_the_same_name_is_a_change(
    readings: Readings, file: Path, tmp_path: Path
) -> None:
    readings.read(b"f", ME, file.stat())
    other = tmp_path / "other"
    other.write_text("x")
    os.utime(other, ns=(0, file.stat().st_mtime_ns))
    os.rename(other, file)
    assert readings.is_stale(b"f", ME, file.stat())


def test_ones_own_change_is_none(readings: Readings, file: Path) -> None:
    readings.read(b"f", ME, file.stat())
    readings.wrote(b"f", changed(file))
    assert not readings.is_stale(b"f", ME, file.stat())
    readings.wrote(b"f", None)
    assert not readings.knows(b"f")


def test_the_writers_own_reading_counts_before_a_newer_one_of_others(
    readings: Readings, file: Path
) -> None:
    """Who has read the old content writes it back, whatever a `grep` saw since."""
    readings.read(b"f", ME, file.stat())
    readings.read(b"f", OTHER, changed(file))
    assert readings.is_stale(b"f", ME, file.stat())
    assert not readings.is_stale(b"f", OTHER, file.stat())
    assert not readings.is_stale(b"f", GONE, file.stat()), (
        "who did not read goes by the last reading"
    )


def test_the_threads_of_a_process_have_read_what_one_of_them_has(
    readings: Readings, file: Path
) -> None:
    readings.read(b"f", ME, file.stat())
    found = changed(file)
    read_by = threading.Event(), threading.Event()

    def read() -> None:
        readings.read(b"f", threading.get_native_id(), found)
        read_by[0].set()
        read_by[1].wait()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        read_by[0].wait()
        assert not readings.is_stale(b"f", ME, found)
    finally:
        read_by[1].set()
        thread.join()


def test_only_so_much_is_remembered(readings: Readings, file: Path) -> None:
    found = file.stat()
    for at in range(PATHS_KEPT + 10):
        readings.read(b"%d" % at, ME, found)
    assert not readings.knows(b"9")
    assert readings.knows(b"10")
    for thread in range(THREADS_KEPT + 1):
        readings.read(b"f", GONE + thread, found)
    newer = changed(file)
    readings.read(b"f", OTHER, newer)
    assert not readings.is_stale(b"f", GONE, newer), "the oldest is forgotten, the last one counts"
