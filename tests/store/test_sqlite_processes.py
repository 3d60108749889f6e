"""Real processes on one file: appends race and exactly one wins; a watcher sees what others append."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from leasefs.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

RACE = """
import json, sys
from leasefs.store.errors import SequenceConflict
from leasefs.store.sqlite import SqliteStore
path, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = SqliteStore(path, exclusive=False)
print("ready", flush=True)
sys.stdin.readline()
won, lost = [], 0
head = store.head()
while head < rounds:
    try:
        head = store.append(head, [b"%s %d" % (name.encode(), head + 1)])
        won.append(head)
    except SequenceConflict as conflict:
        assert conflict.expected == head < conflict.actual
        head, lost = conflict.actual, lost + 1
store.close()
print(json.dumps([won, lost]), flush=True)
"""


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_of_racing_processes_exactly_one_wins_each_number(tmp_path: Path) -> None:
    path, rounds, names = tmp_path / "ledger.db", 400, "abcd"
    SqliteStore(path).close()
    racers = [start(RACE, path, name, rounds) for name in names]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    results = [json.loads(racer.communicate(timeout=60)[0]) for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * len(names)

    winners = Counter(seq for won, _ in results for seq in won)
    assert set(winners.values()) == {1}
    store = SqliteStore(path)
    entries = store.read(0, 10_000)
    assert [entry.seq for entry in entries] == list(range(1, store.head() + 1))
    assert sorted(winners) == [entry.seq for entry in entries]
    for name, (won, _) in zip(names, results, strict=True):
        assert all(entries[seq - 1].data == f"{name} {seq}".encode() for seq in won)
    assert sum(lost for _, lost in results) > 0, "nobody ever raced: the test shows nothing"
    assert store.verify().problems == ()
    store.close()


APPEND_ONCE = """
import sys
from leasefs.store.sqlite import SqliteStore
store = SqliteStore(sys.argv[1], exclusive=False)
print("ready", flush=True)
sys.stdin.readline()
store.append(0, [b"a", b"b"])
store.close()
"""


def test_a_watcher_sees_what_another_process_appends(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    SqliteStore(path).close()
    store = SqliteStore(path, exclusive=False)
    other = start(APPEND_ONCE, path)
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(store.watch, 0, 30.0)
        other.communicate("go\n", timeout=30)
        assert watching.result(timeout=30) == 2
    store.close()


class SteppingClock:
    """Every wait times out at once; the first of them lets another store append."""

    def __init__(self, other: SqliteStore) -> None:
        self.other = other
        self.waits_s: list[float] = []

    def now_s(self) -> float:
        return sum(self.waits_s)

    def wait(self, condition: object, timeout_s: float) -> None:
        del condition
        self.waits_s.append(timeout_s)
        if len(self.waits_s) == 3:
            self.other.append(0, [b"a"])


@pytest.mark.parametrize("interval_s", [0.05, 0.5])
def test_polling_stops_at_the_first_look_after_the_append(
    tmp_path: Path, interval_s: float
) -> None:
    path = tmp_path / "ledger.db"
    other = SqliteStore(path)
    waiter = SteppingClock(other)
    store = SqliteStore(path, exclusive=False, waiter=waiter, poll_interval_s=interval_s)
    assert store.watch(0, 60.0) == 1
    assert waiter.waits_s == [interval_s] * 3
    store.close()
    other.close()
