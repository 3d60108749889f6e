"""Copies of a ledger while it is served, and putting one in its place: whole, checked, and safe against a crash anywhere."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import threading
from contextlib import closing
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.store import sqlite_backup
from leasefs.store.errors import StoreCorrupt, StoreError, StoreLocked, StoreUnavailable
from leasefs.store.port import Snapshot
from leasefs.store.sqlite import SqliteStore
from leasefs.store.sqlite_backup import Replacing, Standing, back_up, look_at
from leasefs.store.sqlite_reading import ReadOnlyStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def nothing(_done: int, _total: int) -> None:
    pass


def filled(path: Path, events: int = 500, size: int = 400) -> SqliteStore:
    store = SqliteStore(path)
    store.append(0, [b"%d " % n + b"x" * size for n in range(1, events + 1)])
    store.save_snapshot(Snapshot(events // 2, b"state"))
    return store


def test_a_copy_is_of_one_moment_while_appends_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not begin again with each append, and is what the log was when it began."""
    monkeypatch.setattr(sqlite_backup, "PAGES_AT_ONCE", 5)
    store = filled(tmp_path / "ledger.db", events=3_000)
    stop, steps = threading.Event(), []

    def append() -> None:
        while not stop.is_set():
            store.append(store.head(), [b"meanwhile"])

    writer = threading.Thread(target=append)
    writer.start()
    try:
        copied = back_up(
            store.path, str(tmp_path / "copy.db"), lambda done, total: steps.append((done, total))
        )
    finally:
        stop.set()
        writer.join()
    assert len(steps) > 20
    assert [done for done, _ in steps] == sorted({done for done, _ in steps})
    assert 3_000 <= copied.head < store.head()
    copy = tmp_path / "copy.db"
    assert copy.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy.db"]
    with closing(ReadOnlyStore(copy)) as reading:
        assert reading.verify().problems == ()
        assert reading.read(0, 10_000) == store.read(0, copied.head)
        assert reading.load_snapshot() == Snapshot(1_500, b"state")
        with pytest.raises(StoreUnavailable, match="reading only"):
            reading.append(copied.head, [b"x"])
    store.close()


def test_a_copy_can_be_read_where_nothing_can_be_written(tmp_path: Path) -> None:
    filled(tmp_path / "ledger.db").close()
    place = tmp_path / "media"
    place.mkdir()
    back_up(str(tmp_path / "ledger.db"), str(place / "copy.db"), nothing)
    shutil.copy(tmp_path / "ledger.db", place / "stopped.db")
    for name in ("copy.db", "stopped.db"):
        os.chmod(place / name, 0o444)
    os.chmod(place, 0o555)
    before = sorted(os.listdir(place))
    for name in ("copy.db", "stopped.db"):
        with closing(ReadOnlyStore(place / name)) as reading:
            assert reading.head() == 500
    assert sorted(os.listdir(place)) == before
    os.chmod(place, 0o755)


def test_what_is_there_is_not_written_over_and_what_is_damaged_is_no_backup(tmp_path: Path) -> None:
    filled(tmp_path / "ledger.db").close()
    (tmp_path / "copy.db").write_text("mine")
    with pytest.raises(FileExistsError):
        back_up(str(tmp_path / "ledger.db"), str(tmp_path / "copy.db"), nothing)
    assert (tmp_path / "copy.db").read_text() == "mine"
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as database:
        database.execute("UPDATE event SET data = x'00' WHERE seq = 7")
    with pytest.raises(StoreCorrupt, match="event 7"):
        back_up(str(tmp_path / "ledger.db"), str(tmp_path / "second.db"), nothing)
    assert not list(tmp_path.glob("second*"))


def test_what_is_there_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    assert look_at(str(path)) == Standing(there=False)
    filled(path).close()
    assert look_at(str(path)) == Standing(there=True, head=500, sound=True)
    (tmp_path / "ledger.db.head").write_bytes(b"%020d %b\n" % (700, b"0" * 16))
    assert look_at(str(path)) == Standing(there=True, head=700, sound=False)
    path.write_bytes(b"x" * 5_000)
    assert look_at(str(path)) == Standing(there=True, head=700, sound=False)
    os.unlink(path)
    assert look_at(str(path)) == Standing(there=True, head=700, sound=False)


def replaced(path: Path, backup: Path, seq: int = 2_000) -> None:
    with closing(Replacing(str(path))) as replacing:
        replacing.copy(str(backup), nothing)
        replacing.append(seq, b"restored")
        replacing.put_in_place(f"{path}.aside")


def test_the_copy_takes_the_place_and_the_old_one_is_kept(tmp_path: Path) -> None:
    path, backup = tmp_path / "ledger.db", tmp_path / "copy.db"
    store = filled(path)
    back_up(str(path), str(backup), nothing)
    store.append(500, [b"later"] * 300)
    with pytest.raises(StoreLocked):
        Replacing(str(path))
    store.close()
    replaced(path, backup)
    store = SqliteStore(path)
    assert (store.head(), store.read(500, 9)[0].seq) == (2_000, 2_000)
    assert store.append(2_000, [b"goes on"]) == 2_001
    assert store.verify().problems == ()
    store.close()
    with closing(ReadOnlyStore(f"{path}.aside")) as aside:
        assert aside.head() == 800
    assert (tmp_path / "ledger.db.aside.head").read_bytes().startswith(b"%020d" % 800)
    assert not list(tmp_path.glob("*.restoring*"))
    with closing(Replacing(str(path))) as another:
        another.copy(str(backup), nothing)
        with pytest.raises(ValueError, match="head is 500"):
            another.append(500, b"again")


def dies(path: Path, backup: Path, die_at: int) -> None:
    seen = 0

    def step() -> None:
        nonlocal seen
        seen += 1
        if seen == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def dying(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            step()
            answer = call(*arguments, **options)
            step()
            return answer

        return wrapped

    for module, name in (
        *((os, name) for name in ("link", "unlink", "rename", "fsync", "pwrite")),
        (shutil, "copyfile"),
    ):
        setattr(module, name, dying(getattr(module, name)))
    replaced(path, backup)


@pytest.mark.parametrize("crashed", [False, True])
def test_killed_at_any_step_it_is_the_old_one_the_new_one_or_refused(
    tmp_path: Path, crashed: bool
) -> None:
    """Never a new, empty ledger, never the old one without its end; and it can always be done again."""
    made = tmp_path / "made"
    made.mkdir()
    store = filled(made / "ledger.db", events=60)
    back_up(store.path, str(tmp_path / "copy.db"), nothing)
    store.append(60, [b"later"] * 30)
    if crashed:  # its end is in the -wal alone
        shutil.copytree(made, tmp_path / "crashed")
        store.close()
        os.unlink(tmp_path / "crashed" / "ledger.db-shm")
        made = tmp_path / "crashed"
    else:
        store.close()
    fork, seen, killed = get_context("fork"), set[str](), 0
    for die_at in range(1, 100):
        place = tmp_path / str(die_at)
        shutil.copytree(made, place)
        path = place / "ledger.db"
        child = fork.Process(target=dies, args=(path, tmp_path / "copy.db", die_at))
        child.start()
        child.join(60)
        seen.add(what_opens(path))
        replaced_again(path, tmp_path / "copy.db")
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
        killed += 1
    else:
        pytest.fail("it never came to its end")
    assert killed > 15
    assert seen == {"old", "new", "refused"}


def what_opens(path: Path) -> str:
    try:
        with closing(SqliteStore(path)) as store:
            head = store.head()
    except StoreError:
        return "refused"
    assert head in {90, 2_000}, f"a ledger that ends at {head}"
    return "old" if head == 90 else "new"


def replaced_again(path: Path, backup: Path) -> None:
    for left in path.parent.glob("*.aside*"):
        left.unlink()
    replaced(path, backup, seq=5_000)
    with closing(SqliteStore(path)) as store:
        assert store.head() == 5_000
