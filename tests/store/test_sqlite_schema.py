"""Schema versions: newer refused, older migrated in one transaction; and the file's modes."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from leasefs.store import sqlite_schema
from leasefs.store.errors import SchemaTooNew, SchemaTooOld, StoreMissing, StoreUnavailable
from leasefs.store.port import Entry
from leasefs.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    store = SqliteStore(path)
    store.append(0, [b"a", b"b"])
    store.close()
    return path


def pragma(path: Path, name: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def set_version(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")


def test_a_ledger_says_what_it_is(path: Path) -> None:
    assert pragma(path, "application_id") == int.from_bytes(b"LEAS", "big")
    assert pragma(path, "user_version") == 1


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_newer_schema_is_refused_and_left_alone(path: Path, exclusive: bool) -> None:
    set_version(path, 7)
    before = path.read_bytes()
    with pytest.raises(
        SchemaTooNew, match="schema version 7, and this leasefs knows up to 1"
    ) as caught:
        SqliteStore(path, exclusive=exclusive)
    assert (caught.value.found, caught.value.supported) == (7, 1)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_a_schema_older_than_the_oldest_is_refused(path: Path) -> None:
    set_version(path, 0)
    with pytest.raises(SchemaTooOld, match="migrates from 1 on"):
        SqliteStore(path)


@pytest.fixture
def version_1_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger of today, met by a later release that has one more step."""
    step = ("CREATE INDEX event_by_sum ON event (sum)",)
    monkeypatch.setattr(sqlite_schema, "MIGRATIONS", (*sqlite_schema.MIGRATIONS, step))
    monkeypatch.setattr(sqlite_schema, "TABLES", sqlite_schema.TABLES | {b"event_by_sum"})
    return path


def test_the_owner_migrates_an_older_schema_and_keeps_every_event(version_1_file: Path) -> None:
    path = version_1_file
    assert pragma(path, "user_version") == 1
    store = SqliteStore(path)
    assert store.read(0, 10) == [Entry(1, b"a"), Entry(2, b"b")]
    assert store.append(2, [b"c"]) == 3
    store.close()
    assert pragma(path, "user_version") == 2


def test_a_guest_does_not_migrate(version_1_file: Path) -> None:
    path = version_1_file
    with pytest.raises(SchemaTooOld):
        SqliteStore(path, exclusive=False)
    assert pragma(path, "user_version") == 1


def test_a_migration_that_fails_half_way_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        broken = ("CREATE TABLE more (x)", "CREATE TABLE more (x)")
        patched.setattr(sqlite_schema, "MIGRATIONS", (*sqlite_schema.MIGRATIONS, broken))
        with pytest.raises(StoreUnavailable, match="already exists"):
            SqliteStore(path)
    assert pragma(path, "user_version") == 1
    store = SqliteStore(path)
    assert store.head() == 2
    store.close()


def test_a_guest_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing, match="no ledger here"):
        SqliteStore(tmp_path / "none.db", exclusive=False)
    assert list(tmp_path.iterdir()) == []


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    """Whatever the umask: the log names paths and people."""
    path = tmp_path / "state" / "ledger.db"
    old_umask = os.umask(0)
    try:
        store = SqliteStore(path)
        store.append(0, [b"a"])
    finally:
        os.umask(old_umask)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert set(modes) == {f"ledger.db{suffix}" for suffix in ("", "-wal", "-shm", ".lock", ".head")}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    store.close()


def test_a_crashed_creation_is_begun_anew(tmp_path: Path) -> None:
    """The half-made file lies under another name and never counts as a ledger."""
    for suffix in ("", "-journal"):
        (tmp_path / f"ledger.db.creating{suffix}").write_bytes(b"half made")
    store = SqliteStore(tmp_path / "ledger.db")
    assert store.append(0, [b"a"]) == 1
    store.close()
    assert {file.name for file in tmp_path.iterdir()} == {
        "ledger.db",
        "ledger.db.lock",
        "ledger.db.head",
    }


def test_odd_names_of_files(tmp_path: Path) -> None:
    """Nothing in a path is taken for a part of a URI."""
    for name in ("a b?mode=memory", "50%41#x", "caf\u00e9", os.fsdecode(b"\xff.db")):
        store = SqliteStore(tmp_path / name)
        store.append(0, [b"a"])
        store.close()
        assert (tmp_path / name).is_file()
        assert SqliteStore(tmp_path / name, exclusive=False).head() == 1


def test_the_file_behind_a_symlink_is_one_ledger(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    store = SqliteStore(link)
    assert store.path == str(path)
    assert store.head() == 2
    store.close()
