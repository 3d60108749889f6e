"""Looking back: `log --at|--since|--until|--agent|--path|--store`, and `--at` of what is listed."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click
import pytest

from leasefs.client.paths import store_dir
from leasefs_cli.moments import Moment

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def repo(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEASEFS_AGENT", "ann")
    return repo


def events(installed: Any, *options: str) -> list[tuple[int, str]]:
    ran = installed("log", "--json", *options)
    assert ran.code == 0, ran.err
    found = [json.loads(line) for line in ran.out.splitlines()]
    return [(one["seq"], one["event"]["type"]) for one in found]


def test_what_held_then_is_told_as_it_was_told_then(repo: Path, installed: Any) -> None:
    """P11, from the shell, while the ledger runs and from its file afterwards."""
    first = installed("claim", "src/a").out.strip()
    then = {
        "leases": json.loads(installed("leases", "--json").out)["leases"],
        "waiters": json.loads(installed("queue", "--json").out)["waiters"],
    }
    (at, _) = events(installed, "--type", "granted")[-1]
    second = installed("claim", "src/b").out.strip()
    assert installed("release", first).code == 0

    def names(leases: list[Any]) -> list[Any]:
        fixed = ("lease", "token", "globs", "agent", "state", "mode", "ttl_s")
        return [[lease[name] for name in fixed] for lease in leases]

    for store in ([], ["--store", store_dir()]):
        past = json.loads(installed("log", "--at", str(at), "--json", *store).out)
        assert past["seq"] == at
        assert names(past["leases"]) == names(then["leases"])
        assert past["waiters"] == then["waiters"]
    past = json.loads(installed("leases", "--at", str(at), "--json").out)["leases"]
    assert names(past) == names(then["leases"])
    assert json.loads(installed("queue", "--at", str(at), "--json").out)["waiters"] == []
    assert json.loads(installed("intents", "--at", str(at), "--json").out)["intents"] == []
    told = installed("log", "--at", "now")
    assert second in told.out
    assert first not in told.out
    assert "at event" in told.err
    assert installed("leases", "--at", "1d").out == "no leases\n"


def test_the_log_is_narrowed_down(repo: Path, installed: Any, monkeypatch: Any) -> None:
    held = installed("claim", "src/a").out.strip()
    other = installed("claim", "docs/**").out.strip()
    assert installed("claim", "src/**", "--agent", "bo").code == 3
    installed("release", held)
    installed("release", other)
    whole = events(installed, "-n", "1000")
    about = events(installed, "--path", "src/a", "-n", "1000")
    assert [type_ for _, type_ in about] == ["granted", "claim-refused", "released"]
    of_bo = events(installed, "--agent", "bo", "--since", "1h")
    assert [type_ for _, type_ in of_bo] == ["session-opened", "claim-refused", "session-ended"]
    assert events(installed, "--agent", "bo", "--type", "claim-refused") == [
        one for one in of_bo if one[1] == "claim-refused"
    ]
    first, last = whole[1][0], whole[-2][0]
    assert events(installed, "--since", str(first), "--until", str(last)) == whole[1:-1]
    assert events(installed, "--until", str(last), "-n", "2") == whole[-3:-1]
    assert events(installed, "--since", "1h", "--store", store_dir()) == events(
        installed, "--after", "0"
    )
    assert events(installed, "--since", "now") == []
    nothing = installed("log", "--agent", "nobody")
    assert (nothing.code, nothing.out, "--all has" in nothing.err) == (0, "", True)


def test_a_time_before_all_that_is_kept_is_not_answered_with_what_came_later(
    repo: Path, installed: Any
) -> None:
    installed("claim", "src/a")
    assert installed("leases", "--at", "1h").out == "no leases\n"
    for _ in range(2):  # each saves the state, and up to one of them is dropped
        installed("ledger", "stop")
        installed("claim", "src/b")
    assert installed("ledger", "compact", "--keep-events", "0").code == 0
    for asked in (["leases"], ["log"], ["queue"]):
        refused = installed(*asked, "--at", "1h")
        assert (refused.code, "older events were dropped" in refused.err) == (2, True), refused
    assert "src/a" in installed("leases", "--at", "now").out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["log", "--at", "3", "--type", "granted"], 2, "leave the other options out"),
        (["log", "--follow", "--until", "3"], 2, "leave --until, --at and --store out"),
        (["log", "--after", "3", "--since", "1h"], 2, "give one of them"),
        (["log", "--at", "yesterday"], 2, "is none of these"),
        (["log", "--at", "99999"], 1, "the log ends at"),
        (["log", "--store", "nothing.db"], 7, "no ledger here"),
        (["log", "--store", "other"], 7, "not an SQLite file"),
    ],
)
def test_what_cannot_be_looked_at(
    repo: Path, installed: Any, arguments: list[str], code: int, words: str
) -> None:
    (repo / "other").write_text("x" * 200)
    ran = installed(*arguments)
    assert words in ran.err
    assert ran.code in {code, 2}, ran.err
    assert "Traceback" not in ran.err


def test_a_moment_is_a_number_an_age_or_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr(time, "clock_gettime", lambda _: 1_767_225_600.0)  # 2026-01-01 00:00
    read = Moment().convert
    assert read("4711", None, None) == (4711, None)
    assert read("1h30m", None, None) == (None, 1_767_220_200.0)
    assert read("2025-12-31", None, None) == (None, 1_767_139_200.0)
    assert read("2025-12-31 12:00", None, None) == (None, 1_767_182_400.0)
    assert read("2025-12-31T13:00+01:00", None, None) == (None, 1_767_182_400.0)
    assert read("00:30", None, None) == (None, 1_767_227_400.0)
    for wrong in ("", "-1", "1e9", "99:99", "9" * 30, "2025-13-01"):
        with pytest.raises(click.BadParameter):
            read(wrong, None, None)
