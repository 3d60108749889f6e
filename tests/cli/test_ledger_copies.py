"""`leasefs ledger backup|restore|reopen|verify|compact`, as a person uses them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client.paths import store_dir

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def repo(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEASEFS_AGENT", "ann")
    return repo


def held(installed: Any) -> list[Any]:
    return [lease["globs"] for lease in json.loads(installed("leases", "--json").out)["leases"]]


def test_from_backup_to_restore(repo: Path, tmp_path: Path, installed: Any) -> None:
    copy = str(tmp_path / "copy.db")
    installed("claim", "src/a", "--ttl", "10m")
    made = installed("ledger", "backup", copy)
    assert (made.code, made.err) == (0, "")
    assert os.stat(copy).st_mode & 0o777 == 0o600
    again = installed("ledger", "backup", copy)
    assert (again.code, "is there already" in again.err) == (3, True)
    assert "all as they were written" in installed("ledger", "verify", "--store", copy).out
    assert "src/a" in installed("log", "--store", copy).out
    token = json.loads(installed("claim", "src/b", "--json").out)["token"]

    running = installed("ledger", "restore", copy, "--replace")
    assert (running.code, "in use by process" in running.err) == (3, True)
    assert "`leasefs unmount` each before" in running.err
    assert installed("ledger", "stop").code == 0
    there = installed("ledger", "restore", copy)
    assert (there.code, "a ledger, sound, with" in there.err, "--replace" in there.err) == (
        3,
        True,
        True,
    )
    done = json.loads(installed("ledger", "restore", copy, "--replace", "--json").out)
    assert done["head_before"] >= token > done["backup_seq"]
    assert done["seq"] > token
    assert (done["closed_for_s"], done["leases_ended"]) == (1800.0, 1)
    assert os.path.exists(done["aside"])

    assert held(installed) == []
    refused = installed("claim", "src/a")
    assert (refused.code, "brought back from a backup" in refused.err) == (3, True)
    waiting = installed("claim", "src/a", "--wait", "1s")
    assert waiting.code == 4, waiting.err
    assert "brought back a backup" in installed("log", "--all", "--type", "ledger-restored").out
    assert installed("ledger", "reopen").code == 0
    claimed = json.loads(installed("claim", "src/a", "--json").out)
    assert claimed["token"] > done["seq"]
    assert "opened again" in installed("log", "--all", "--type", "ledger-reopened").out
    assert installed("log", "--at", str(done["backup_seq"])).code == 0


def test_a_freeze_keeps_no_restored_ledger_closed(
    repo: Path, tmp_path: Path, installed: Any
) -> None:
    """It has no end, but nobody writes under it."""
    copy = str(tmp_path / "copy.db")
    assert installed("freeze", "lib/**", "--reason", "the format is changing").code == 0
    installed("claim", "src/a", "--ttl", "10m")
    installed("ledger", "backup", copy)
    installed("release", "--all")
    installed("ledger", "stop")
    done = json.loads(installed("ledger", "restore", copy, "--replace", "--json").out)
    assert done["closed_for_s"] == 0.0
    assert installed("claim", "src/a").code == 0
    assert installed("claim", "lib/a").code == 3


def test_a_damaged_ledger_is_replaced_and_kept(repo: Path, tmp_path: Path, installed: Any) -> None:
    """Nothing can be told of its leases, so the longest time to live is waited for, unless one is named."""
    copy, ledger = str(tmp_path / "copy.db"), f"{store_dir()}/ledger.sqlite3"
    installed("claim", "src/a")
    installed("ledger", "backup", copy)
    installed("ledger", "stop")
    with open(ledger, "r+b") as file:
        file.seek(5_000)
        file.write(b"x" * 5_000)
    assert installed("ledger", "verify", "--store", ledger).code == 7
    there = installed("ledger", "restore", copy)
    assert (there.code, "a damaged ledger" in there.err) == (3, True)
    done = json.loads(installed("ledger", "restore", copy, "--replace", "--json").out)
    assert done["closed_for_s"] == 24 * 3600.0
    again = ["ledger", "restore", copy, "--replace", "--closed-for", "0s", "--json"]
    assert json.loads(installed(*again).out)["closed_for_s"] == 0.0
    assert installed("claim", "src/a").code == 0


def test_to_an_empty_place_numbers_go_far_on(repo: Path, tmp_path: Path, installed: Any) -> None:
    copy, place = str(tmp_path / "copy.db"), str(tmp_path / "new")
    installed("claim", "src/a")
    installed("ledger", "backup", copy)
    done = json.loads(installed("ledger", "restore", copy, "--store", place, "--json").out)
    assert (done["head_before"], done["aside"]) == (0, "")
    assert done["seq"] == done["backup_seq"] + 1_000_000_000
    assert installed("ledger", "verify", "--store", place).code == 0
    for wrong in ([str(repo), "--store", place], [__file__, "--store", place, "--replace"]):
        refused = installed("ledger", "restore", *wrong)
        assert refused.code in (2, 7)
        assert "Traceback" not in refused.err
    assert installed("ledger", "verify", "--store", place).code == 0


@pytest.mark.parametrize("what", [("backup", "x.db"), ("verify",)])
def test_a_ledger_of_another_host_is_not_looked_for_here(
    repo: Path, installed: Any, monkeypatch: pytest.MonkeyPatch, what: tuple[str, ...]
) -> None:
    """The path that it would name may be that of another ledger on this host."""
    monkeypatch.setenv("LEASEFS_LEDGER", "https://ledger.example:8470")
    refused = installed("ledger", *what)
    assert refused.code == 2
    assert "lies on its own host" in refused.err
    assert "--store" in refused.err
    monkeypatch.delenv("LEASEFS_LEDGER")


def test_a_backup_is_not_brought_back_to_another_ledger_than_is_spoken_to(
    repo: Path, tmp_path: Path, installed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = str(tmp_path / "copy.db")
    installed("claim", "src/a")
    installed("ledger", "backup", copy)
    installed("ledger", "stop")
    monkeypatch.setenv("LEASEFS_LEDGER", f"unix:{tmp_path}/another.sock")
    refused = installed("ledger", "restore", copy, "--replace")
    assert (refused.code, f"your own is {store_dir()}" in refused.err) == (2, True)
    named = installed("ledger", "restore", copy, "--replace", "--store", store_dir())
    assert named.code == 0, named.err
    monkeypatch.delenv("LEASEFS_LEDGER")


def test_what_cannot_be_written_is_told_of_the_place_it_goes_to(
    repo: Path, tmp_path: Path, installed: Any
) -> None:
    installed("claim", "src/a")
    nowhere = installed("ledger", "backup", str(tmp_path / "none" / "copy.db"))
    assert (nowhere.code, f": {tmp_path}/none/copy.db: No such file" in nowhere.err) == (7, True)
    archive = installed("ledger", "verify", "--archive", str(tmp_path / "none"))
    assert (archive.code, "Errno" in archive.err) == (7, False)
    assert f"No such file or directory ({tmp_path}/none)" in archive.err


def test_old_events_are_dropped_by_hand(repo: Path, tmp_path: Path, installed: Any) -> None:
    usage = installed("ledger", "compact")
    assert (usage.code, "--keep-events" in usage.err) == (2, True)
    for name in "abc":
        installed("claim", name)
        installed("ledger", "stop")  # each stop saves the state
    everything = installed("log", "--all", "--after", "0").out.splitlines()
    archive = str(tmp_path / "archive")
    done = installed("ledger", "compact", "--keep-events", "0", "--store", store_dir())
    assert done.code == 3, "a ledger that runs has its lock"
    installed("ledger", "stop")
    done = installed(
        *("ledger", "compact", "--keep-events", "2", "--store", store_dir()),
        *("--archive", archive, "--json"),
    )
    found = json.loads(done.out)
    assert 0 < found["base"] < len(everything)
    assert installed("ledger", "verify", "--archive", archive).code == 0
    shorter = installed("log", "--all", "--after", "0")
    assert f"events up to {found['base']} were dropped" in shorter.err
    assert int(shorter.out.split()[0]) == found["base"] + 1
    assert sorted(held(installed)) == [["a"], ["b"], ["c"]]
    assert installed("log", "--at", "1").code != 0
    running = json.loads(installed("ledger", "compact", "--keep-events", "0", "--json").out)
    assert running["base"] >= found["base"]
    assert sorted(held(installed)) == [["a"], ["b"], ["c"]]
