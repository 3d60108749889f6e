"""Releasing, renewing, running, and where a command stands, with a ledger that answers from a list."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from leasefs.client import blocking
from leasefs.core import errors
from leasefs.testing.fake_ledger import LEASE, OTHER, WAITING, FakeLedger
from leasefs_cli.waiting_line import WaitingLine

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("tree", "ledger")


def test_release_by_id_asks_nobody_else(here: Any, ledger: FakeLedger) -> None:
    ran = here("release", "L7")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert [call.method for call in ledger.calls] == ["DELETE"]


def test_release_by_glob_takes_only_our_own(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["GET /v1/leases"] = {"leases": [{**OTHER, "globs": ["src/**"]}, LEASE]}
    ledger.answers["GET /v1/queue"] = {"waiters": []}
    assert here("release", "src").code == 0
    assert len(ledger.sent("DELETE", "/v1/leases/L7")) == 1


def test_release_of_what_is_not_held_fails(here: Any, ledger: FakeLedger) -> None:
    ran = here("release", "docs/**")
    assert ran.code == 5
    assert "you hold no lease over 'docs/**'" in ran.err
    ledger.answers["DELETE /v1/leases/L8"] = errors.UnknownLease("L8")
    assert here("release", "L8").code == 5


def test_release_does_not_tear_a_lease_apart(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["GET /v1/leases"] = {"leases": [{**LEASE, "globs": ["src/**", "lib/**"]}]}
    ledger.answers["GET /v1/queue"] = {"waiters": []}
    ran = here("release", "src")
    assert ran.code == 2
    assert "and also lib/**" in ran.err
    assert here("release", "src", "lib/**").code == 0


def test_release_all_goes_on_after_a_failure(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["DELETE /v1/leases/L7"] = errors.SessionEnded("S-ada")
    ran = here("release", "--all", "--json")
    said = json.loads(ran.out)
    assert ran.code == 9
    assert [lease["lease"] for lease in said["released"]] == ["L9"]
    assert said["failed"][0]["lease"] == "L7"


@pytest.mark.parametrize("released", [True, False])
def test_a_ledger_that_goes_away_after_a_release_leaves_one_answer(
    here: Any, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch, released: bool
) -> None:
    """What became of the leases is the answer; that a shell's session could not be ended does not change it."""

    def away(place: object) -> None:
        raise errors.LedgerUnavailable("away")

    monkeypatch.setattr("leasefs_cli.commands.release.forget_empty_shell", away)
    if not released:
        ledger.answers["DELETE /v1/leases/L7"] = errors.LedgerUnavailable("away")
    ran = here("release", "L7", "--json")
    said = json.loads(ran.out)
    assert ran.code == (0 if released else 7)
    assert bool(said["released"]) is released
    assert ran.err.count("away") == 1


def test_force_is_by_id_and_as_operator(here: Any, ledger: FakeLedger) -> None:
    assert here("release", "--force", "docs/**").code == 5
    ledger.answers["POST /v1/leases/L3/revoke"] = {**OTHER, "state": "revoked"}
    ran = here("release", "--force", "L3")
    assert ran.code == 0
    assert "L3 of bo is revoked; its ground is free within 28m20s" in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--all", "L7"],
        ["--force"],
        ["--keep", "--force", "L7"],
        ["--rescue", "--keep", "L7"],
        ["--require", "landed", "L7"],
    ],
)
def test_release_without_a_clear_aim_is_a_usage_error(
    here: Any, ledger: FakeLedger, arguments: list[str]
) -> None:
    assert here("release", *arguments).code == 2
    assert ledger.calls == []


def test_heartbeat_renews_what_the_mount_holds(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["POST /v1/mount/heartbeat"] = {
        "renewed": [{"lease": "L7", "token": 7, "ttl_s": 1800.0}],
        "lost": [{"lease": "L5", "reason": "revoked by root"}],
    }
    ran = here("heartbeat", "L7")
    assert (ran.code, ran.out) == (0, "LEASE  GOOD FOR\nL7     30m\n")
    assert here("heartbeat").code == 5
    assert here("heartbeat", "L5").code == 5
    assert here("heartbeat", "L6").code == 5


@pytest.mark.parametrize("line", [["run", "--", "true"], ["run", "--claim", "src", "true"]])
def test_run_releases_what_it_claimed_and_nothing_else(
    here: Any, ledger: FakeLedger, line: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking.Link, "stream", lambda *_: iter(()))
    assert here(*line).code == 0
    claimed = [call.body["key"] for call in ledger.sent("POST", "/v1/leases") if call.body]
    left = [call.body["key"] for call in ledger.sent("POST", "/v1/mount/leave") if call.body]
    assert left == claimed
    assert len(claimed) == line.count("--claim")
    assert ledger.sent("DELETE", "/v1/leases/L7") == []


@pytest.mark.parametrize(
    ("line", "printed", "waits"),
    [
        (["--claim", "src", "echo", "--wait", "x", "--wait"], "--wait x --wait\n", False),
        (["--claim", "src", "--wait", "echo", "--wait"], "--wait\n", True),
        (["--claim", "src", "--wait", "5m", "echo", "--wait"], "--wait\n", True),
        (["--claim", "src", "--wait", "--", "echo", "--wait"], "--wait\n", True),
        (["--claim", "src", "--note", "--wait", "echo", "a"], "a\n", False),
    ],
)
def test_options_of_the_command_that_is_run_are_its_own(
    capfd: pytest.CaptureFixture[str],
    here: Any,
    ledger: FakeLedger,
    monkeypatch: pytest.MonkeyPatch,
    line: list[str],
    printed: str,
    waits: bool,
) -> None:
    monkeypatch.setattr(blocking.Link, "stream", lambda *_: iter(()))
    ran = here("run", *line)
    assert (ran.code, ran.out) == (0, printed)
    assert ledger.claimed()["wait"] is waits


@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        ("unix:/nowhere/ledger", 7, "gone"),
        ("unix:/nowhere/control", 10, "the daemon of the mount at"),
    ],
)
def test_a_mount_that_is_gone_is_not_called_a_ledger_that_is(
    here: Any, monkeypatch: pytest.MonkeyPatch, url: str, code: int, words: str
) -> None:
    def gone(link: object, call: object) -> NoReturn:
        raise errors.LedgerUnavailable("gone", url=url)

    monkeypatch.setattr(blocking.Link, "send", gone)
    ran = here("claim", "src/**")
    assert (ran.code, ran.out) == (code, "")
    assert words in ran.err
    assert ran.err.count("\n") == 1


def test_run_with_nothing_to_keep_is_refused(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["GET /v1/leases"] = {"leases": [OTHER]}
    ran = here("run", "--", "true")
    assert ran.code == 2
    assert "give --claim GLOB" in ran.err


def test_c_moves_what_relative_names_mean(here: Any, ledger: FakeLedger, tree: Path) -> None:
    before = os.getcwd()
    try:
        assert here("-C", "src", "claim", "x.py").code == 0
    finally:
        os.chdir(before)
    assert ledger.claimed()["globs"] == ["src/x.py"]


def test_on_a_terminal_the_waiting_line_is_rewritten(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = WaitingLine(quiet=False)
    line.show(WAITING)
    assert capsys.readouterr().err.startswith("leasefs: L9 waits: position 2")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    line = WaitingLine(quiet=False)
    for position in (2, 2, 1):
        line.show({**WAITING, "position": position})
    line.close()
    shown = capsys.readouterr().err
    assert shown.count("\r\x1b[Kleasefs: L9 waits: position ") == 2
    assert shown.count("\n") == 1
    assert shown.endswith("ETA 2m30s\n")
