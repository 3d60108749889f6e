"""SQLite, by several processes at once: nothing committed is lost, nothing half-done is seen, none is corrupt."""

from __future__ import annotations

import os
import signal
import sqlite3
from functools import partial
from typing import TYPE_CHECKING

from suite_runs.checking import all_well, in_child, main, well

if TYPE_CHECKING:
    from collections.abc import Callable

_ACCOUNTS = 50
_TOTAL = _ACCOUNTS * 100
_TRANSFERS = 60


def _open(directory: str, mode: str) -> sqlite3.Connection:
    found = sqlite3.connect(f"{directory}/db", timeout=60, isolation_level=None)
    assert found.execute(f"pragma journal_mode={mode}").fetchone()[0] == mode
    return found


def _fill(directory: str, mode: str) -> None:
    bank = _open(directory, mode)
    bank.execute("create table account (id integer primary key, amount integer not null)")
    bank.execute("create table done (who integer, step integer, note text)")
    bank.execute("begin")
    bank.executemany(
        "insert into account values (?, 100)", [(number,) for number in range(_ACCOUNTS)]
    )
    bank.execute("commit")
    bank.close()


def _transfer(directory: str, mode: str, who: int, steps: int) -> None:
    bank = _open(directory, mode)
    for step in range(steps):
        bank.execute("begin immediate")
        one, other = (who * 7 + step) % _ACCOUNTS, (who * 11 + step * 3) % _ACCOUNTS
        bank.execute("update account set amount = amount - 1 where id = ?", (one,))
        bank.execute("update account set amount = amount + 1 where id = ?", (other,))
        bank.execute("insert into done values (?, ?, ?)", (who, step, "x" * 500))
        bank.execute("rollback" if step % 10 == 9 else "commit")
        if step % 5 == 0:
            assert bank.execute("select sum(amount) from account").fetchone()[0] == _TOTAL
    bank.close()


def _check(directory: str, mode: str) -> int:
    bank = _open(directory, mode)
    assert bank.execute("pragma integrity_check").fetchall() == [("ok",)]
    assert bank.execute("select sum(amount) from account").fetchone()[0] == _TOTAL
    done: int = bank.execute("select count(*) from done").fetchone()[0]
    bank.close()
    return done


def _several(directory: str, mode: str) -> None:
    """Three write; all is there at the end."""
    _fill(directory, mode)
    children = [in_child(partial(_transfer, directory, mode, who, _TRANSFERS)) for who in range(3)]
    assert all_well(children)
    assert _check(directory, mode) == 3 * _TRANSFERS * 9 // 10


def _killed(directory: str, mode: str) -> None:
    """Writers are killed in the middle; what they committed is there and nothing else."""
    _fill(directory, mode)
    for who in range(5):
        reader, told = os.pipe()

        def work(who: int = who, told: int = told) -> None:
            bank = _open(directory, mode)
            bank.execute("pragma cache_size=5")  # pages spill into the file before the commit
            bank.execute("begin immediate")
            bank.execute("update account set amount = amount + 1")
            bank.executemany(
                "insert into done values (?, ?, ?)", [(who, step, "y" * 900) for step in range(300)]
            )
            os.write(told, b"x")
            signal.pause()

        child = in_child(work)
        os.read(reader, 1)
        os.kill(child, signal.SIGKILL)
        assert not well(child)
        assert _check(directory, mode) == who * 9
        _transfer(directory, mode, who, 10)


def _read_while_written(directory: str, mode: str) -> None:
    """A reader sees whole transactions only, at every moment."""
    _fill(directory, mode)
    writer = in_child(lambda: _transfer(directory, mode, 1, _TRANSFERS))
    bank = _open(directory, mode)
    while os.waitpid(writer, os.WNOHANG) == (0, 0):
        assert bank.execute("select sum(amount) from account").fetchone()[0] == _TOTAL
    bank.close()
    assert _check(directory, mode) == _TRANSFERS * 9 // 10


def _snapshot_in_wal(directory: str) -> None:
    """A transaction that reads goes on seeing what it saw, while others commit and checkpoint."""
    _fill(directory, "wal")
    bank = _open(directory, "wal")
    bank.execute("begin")
    assert bank.execute("select count(*) from done").fetchone()[0] == 0
    assert well(in_child(lambda: _transfer(directory, "wal", 1, 20)))
    assert bank.execute("select count(*) from done").fetchone()[0] == 0
    bank.execute("commit")
    assert bank.execute("select count(*) from done").fetchone()[0] == 18
    busy, _, _ = bank.execute("pragma wal_checkpoint(truncate)").fetchone()
    assert busy == 0
    assert os.path.getsize(f"{directory}/db-wal") == 0
    bank.close()
    assert _check(directory, "wal") == 18


def _mapped(directory: str) -> None:
    """With memory-mapped reads."""
    _fill(directory, "wal")
    bank = _open(directory, "wal")
    bank.execute("pragma mmap_size=10000000")
    children = [in_child(partial(_transfer, directory, "wal", who, 20)) for who in range(2)]
    while bank.execute("select count(*) from done").fetchone()[0] < 36:
        assert bank.execute("select sum(amount) from account").fetchone()[0] == _TOTAL
    assert all_well(children)
    bank.execute("vacuum")
    bank.close()
    assert _check(directory, "wal") == 36


def _named(work: Callable[[str, str], None], mode: str) -> Callable[[str], None]:
    def check(directory: str) -> None:
        work(directory, mode)

    check.__name__ = f"{work.__name__.lstrip('_')}_{mode}"
    return check


if __name__ == "__main__":
    checks = [
        _named(work, mode)
        for mode in ("delete", "truncate", "persist", "wal")
        for work in (_several, _killed, _read_while_written)
    ]
    for check in (_snapshot_in_wal, _mapped):
        check.__name__ = check.__name__.lstrip("_")
        checks.append(check)
    main(checks)
