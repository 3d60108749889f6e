"""One owner at a time, and the lock dies with its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from leasefs.store.errors import StoreLocked
from leasefs.store.lock import LedgerLock
from leasefs.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

OWN = """
import sys
from leasefs.store.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
store.append(0, [b"a"])
print("open", flush=True)
sys.stdin.read()
"""


def own(path: Path) -> subprocess.Popen[str]:
    """Another process that owns the ledger until its stdin ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWN, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def test_a_second_owner_is_told_who_the_first_is(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with own(path) as process:
        with pytest.raises(StoreLocked, match=f"in use by process {process.pid}") as caught:
            SqliteStore(path)
        assert caught.value.holder_pid == process.pid
        assert str(path) in str(caught.value)
        guest = SqliteStore(path, exclusive=False)
        assert guest.head() == 1
        assert guest.verify().problems == ()
        guest.close()
        assert process.stdin is not None
        process.stdin.close()
    store = SqliteStore(path)
    assert store.head() == 1
    store.close()


def test_the_lock_dies_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with own(path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        store = SqliteStore(path)
        assert store.head() == 1
        store.close()


def test_the_same_process_cannot_own_it_twice(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    store = SqliteStore(path)
    with pytest.raises(StoreLocked) as caught:
        SqliteStore(path)
    assert caught.value.holder_pid == os.getpid()
    assert store.append(0, [b"a"]) == 1
    store.close()


def test_a_failed_opening_lets_go_of_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.mkdir()
    for _ in range(2):  # a kept lock would show as StoreLocked the second time
        with pytest.raises(Exception, match="not a regular file"):
            SqliteStore(path)


def test_a_dead_pid_in_the_file_accuses_nobody(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.db")
    lock = LedgerLock(path)
    with subprocess.Popen([sys.executable, "-c", "pass"]) as dead:
        dead.wait()
    (tmp_path / "ledger.db.lock").write_text(f"{dead.pid}\n")
    with pytest.raises(StoreLocked, match="in use by another process") as caught:
        LedgerLock(path)
    assert caught.value.holder_pid is None
    lock.release()
    lock.release()


def test_the_lock_remembers_that_there_was_an_owner(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.db")
    first = LedgerLock(path)
    assert not first.owned_before
    first.release()
    second = LedgerLock(path)
    assert second.owned_before
    second.release()
