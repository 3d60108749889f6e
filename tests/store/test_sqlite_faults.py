"""Killed writers, full disks, failing disks: what was acknowledged is there, nothing is there by half."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from leasefs.store.errors import StoreFull, StoreUnavailable
from leasefs.store.port import Snapshot
from leasefs.store.sqlite import SqliteStore
from leasefs.store.sqlite_backup import back_up

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Appends batches of 1 to 20 events, each saying which batch and how long, and acknowledges each batch.
WRITE_ON = """
import os, random, sys
from leasefs.store.port import Snapshot
from leasefs.store.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
rng = random.Random(sys.argv[2])
head = store.head()
while True:
    size = rng.randint(1, 20)
    batch = [b"%d %d " % (head, size) + b"x" * rng.randint(0, 3000) for _ in range(size)]
    head = store.append(head, batch)
    os.write(1, b"%d\\n" % head)
    if rng.random() < 0.05:
        store.save_snapshot(Snapshot(head, b"s" * 100_000))
"""


def kill_a_writer(path: Path, rng: random.Random) -> int:
    """Let a process append and kill -9 it somewhere; the last head it acknowledged, or 0."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITE_ON, str(path), str(rng.random())], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        acknowledged = process.stdout.readline()
        for _ in range(rng.randint(0, 40)):
            acknowledged = process.stdout.readline()
        # A spin of random length lands the kill at any point of an append, not just after a reply.
        for _ in range(rng.randint(0, 20_000)):
            pass
        process.kill()
        rest = process.stdout.read().splitlines(keepends=True)
    whole = [line for line in (acknowledged, *rest) if line.endswith(b"\n")]
    return int(whole[-1])


def check_whole_batches(store: SqliteStore) -> None:
    entries = store.read(0, 1_000_000)
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    at = 0
    while at < len(entries):
        started, size = map(int, entries[at].data.split()[:2])
        assert started == at, f"event {at + 1} belongs to the batch after {started}"
        batch = entries[at : at + size]
        assert len(batch) == size, f"the batch after {at} is there by half"
        assert all(entry.data.startswith(b"%d %d " % (at, size)) for entry in batch)
        at += size


@pytest.mark.chaos
@pytest.mark.slow
def test_kill_9_loses_no_acknowledged_append_and_leaves_none_by_half(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    rng = random.Random(9)
    before = 0
    for _ in range(30):
        acknowledged = kill_a_writer(path, rng)
        store = SqliteStore(path)
        head = store.head()
        assert head >= acknowledged > before
        check_whole_batches(store)
        assert store.verify().problems == ()
        store.close()
        before = head


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 1 MiB."""
    if os.getuid() != 0:
        pytest.skip("mounting a small file system needs root")
    mountpoint = tmp_path / "small"
    mountpoint.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mountpoint], check=True)
    yield mountpoint
    subprocess.run(["umount", mountpoint], check=True)


def fill(directory: Path) -> Path:
    """Take every byte that is left."""
    ballast = directory / "ballast"
    fd = os.open(ballast, os.O_CREAT | os.O_WRONLY)
    try:
        for size in (65_536, 4_096, 1):
            while True:
                try:
                    os.write(fd, bytes(size))
                except OSError:
                    break
    finally:
        os.close(fd)
    return ballast


@pytest.mark.root
def test_a_full_disk_refuses_the_append_and_works_again_after_freeing(small_disk: Path) -> None:
    store = SqliteStore(small_disk / "ledger.db")
    assert store.append(0, [b"a" * 5_000]) == 1
    ballast = fill(small_disk)
    for _ in range(3):
        with pytest.raises(StoreFull, match="nothing was written") as caught:
            store.append(1, [b"b" * 100_000, b"c"])
        assert caught.value.happened is False
        with pytest.raises(StoreFull):
            store.save_snapshot(Snapshot(1, b"s" * 100_000))
    assert store.head() == 1
    assert store.read(0, 10)[0].data == b"a" * 5_000
    ballast.unlink()
    assert store.append(1, [b"b" * 100_000, b"c"]) == 3
    store.close()
    store = SqliteStore(small_disk / "ledger.db")
    assert store.head() == 3
    assert store.verify().problems == ()
    store.close()


@pytest.mark.root
def test_a_full_disk_refuses_a_backup_and_is_the_one_that_is_named(
    small_disk: Path, tmp_path: Path
) -> None:
    source = tmp_path / "ledger.db"
    store = SqliteStore(source)
    store.append(0, [b"a" * 50_000])
    store.close()
    ballast = fill(small_disk)
    with pytest.raises(StoreFull, match=str(small_disk)):
        back_up(str(source), str(small_disk / "copy.db"), lambda _done, _all: None)
    ballast.unlink()
    assert os.listdir(small_disk) == []
    back_up(str(source), str(small_disk / "copy.db"), lambda _done, _all: None)


@pytest.mark.root
def test_a_full_disk_refuses_creation_and_leaves_no_ledger(small_disk: Path) -> None:
    ballast = fill(small_disk)
    path = small_disk / "ledger.db"
    with pytest.raises(StoreFull):
        SqliteStore(path)
    assert not path.exists()
    ballast.unlink()
    store = SqliteStore(path)
    assert store.append(0, [b"a"]) == 1
    store.close()


# The third append meets a disk whose sync fails; then the disk is well again.
SYNC_FAILS = """
import sys
from leasefs.store.errors import StoreUnavailable
from leasefs.store.sqlite import SqliteStore
store = SqliteStore(sys.argv[1], exclusive=False)
outcomes = []
head = store.head()
for attempt in range(6):
    try:
        head = store.append(head, [b"attempt %d" % attempt])
        outcomes.append("ok")
    except StoreUnavailable as error:
        outcomes.append(f"failed happened={error.happened}")
print(outcomes, store.head())
"""


@pytest.mark.chaos
@pytest.mark.skipif(shutil.which("strace") is None, reason="failing a sync needs strace")
def test_a_failed_sync_is_never_reported_as_done(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    SqliteStore(path).close()
    traced = subprocess.run(
        [
            "strace", "-f", "-o", str(tmp_path / "trace"), "-e", "trace=fdatasync,fsync",
            "-e", "inject=fdatasync,fsync:error=EIO:when=3",
            sys.executable, "-c", SYNC_FAILS, str(path),
        ],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    outcomes, _, head = traced.stdout.strip().rpartition(" ")
    assert outcomes.count("failed happened=None") == 1, traced.stdout
    assert outcomes.count("'ok'") == 5
    assert int(head) == 5
    store = SqliteStore(path)
    assert store.head() == 5
    assert store.verify().problems == ()
    failed = outcomes.strip("[]").split(", ").index("'failed happened=None'")
    assert b"attempt %d" % failed not in [entry.data for entry in store.read(0, 10)]
    store.close()


def test_every_append_is_synced_before_it_returns(tmp_path: Path) -> None:
    """The setting that the promise of durability hangs on."""
    store = SqliteStore(tmp_path / "ledger.db")
    full = 2
    assert store._writer.execute("PRAGMA synchronous").fetchone()[0] == full
    assert store._writer.execute("PRAGMA journal_mode").fetchone()[0] == b"wal"
    store.close()


@pytest.mark.skipif(os.getuid() != 0, reason="becoming another user needs root")
@pytest.mark.root
def test_a_file_of_another_user_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    SqliteStore(path).close()
    tmp_path.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(StoreUnavailable, match="Permission denied"):
            SqliteStore(path)
    finally:
        os.seteuid(0)
