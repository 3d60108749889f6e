"""Parsing, printing and exit codes, with a ledger that answers from a list."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from leasefs.client import api, blocking
from leasefs.client.find import MountFound
from leasefs.core import errors
from leasefs_cli import place
from leasefs_cli.waiting_line import WaitingLine

if TYPE_CHECKING:
    from pathlib import Path

    from leasefs.client.sse import StreamEvent

LEASE = {
    "lease": "L7",
    "state": "granted",
    "agent": "ada",
    "harness": "shell",
    "session": "S-ada",
    "territory": "T",
    "globs": ["src/**"],
    "mode": "exclusive",
    "ttl_s": 1800.0,
    "priority": 0,
    "token": 7,
    "expires_in_s": 1700.0,
    "held_for_s": 100.0,
    "kept_by": ["41 vim src/x.py"],
    "waiting_for_s": None,
    "position": None,
    "eta_s": None,
    "waits_for": [],
    "note": "",
}
FRESH = {**LEASE, "held_for_s": 0.0}
OTHER = {**LEASE, "lease": "L3", "agent": "bo", "session": "S-bo", "globs": ["docs/**"]}
WAITING = {
    **LEASE,
    "lease": "L9",
    "state": "waiting",
    "token": 0,
    "expires_in_s": None,
    "waiting_for_s": 12.0,
    "position": 2,
    "eta_s": 150.0,
    "waits_for": [{"id": "L3", "agent": "bo", "kind": "lease"}],
}

Answer = dict[str, Any] | BaseException


@dataclass
class FakeLedger:
    """Answers each path from `answers` (a list is used up one by one), and keeps the calls."""

    answers: dict[str, Any]
    calls: list[api.Call] = field(default_factory=list)
    streams: dict[str, list[StreamEvent]] = field(default_factory=dict)

    def send(self, _link: blocking.Link, call: api.Call) -> dict[str, Any]:
        self.calls.append(call)
        key = f"{call.method} {call.path.partition('?')[0]}"
        answer = self.answers[key]
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, dict)
        return answer

    def sent(self, method: str, path: str) -> list[api.Call]:
        return [c for c in self.calls if c.method == method and c.path.partition("?")[0] == path]


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> FakeLedger:
    fake = FakeLedger(
        {
            "GET /v1/leases": {"leases": [OTHER, LEASE]},
            "GET /v1/queue": {"waiters": [WAITING]},
            "POST /v1/leases": LEASE,
            "DELETE /v1/leases/L7": {**LEASE, "state": "ended"},
            "DELETE /v1/leases/L9": {**WAITING, "state": "ended"},
            "POST /v1/mount/leave": {**LEASE, "state": "ended"},
        }
    )
    monkeypatch.setattr(blocking.Link, "send", lambda link, call: fake.send(link, call))
    return fake


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that passes for ada's mount, with the shell in it."""
    root = tmp_path / "tree"
    (root / "src").mkdir(parents=True)
    (root / "src" / "x.py").touch()
    (root / "app" / "[slug]").mkdir(parents=True)
    (root / "app" / "[slug]" / "page.tsx").touch()
    found = MountFound(
        agent="ada",
        harness="shell",
        session="S-ada",
        territory="T",
        ledger="unix:/nowhere/ledger",
        control="unix:/nowhere/control",
        source=str(root),
        mountpoint=str(root),
        pid=1,
        process="",
        version="0.1.0",
    )

    def find_mount(directory: str) -> MountFound | None:
        return found if (directory + "/").startswith(f"{root}/") else None

    monkeypatch.setattr(place, "find_mount", find_mount)
    monkeypatch.chdir(root)
    return root


pytestmark = pytest.mark.usefixtures("tree", "ledger")


def _body(ledger: FakeLedger) -> dict[str, Any]:
    (call,) = ledger.sent("POST", "/v1/leases")
    assert call.body is not None
    return call.body


def test_claim_prints_the_id_alone(here: Any, ledger: FakeLedger) -> None:
    ran = here("claim", "src/**")
    assert (ran.code, ran.out, ran.err) == (0, "L7\n", "")
    body = _body(ledger)
    assert body["globs"] == ["src/**"]
    assert (body["ttl_s"], body["wait"], body["mode"]) == (1800.0, False, "exclusive")


def test_claim_passes_every_option_on(here: Any, ledger: FakeLedger) -> None:
    ran = here(
        *("claim", "--ttl", "10m", "--shared", "--priority", "-3", "--note", "why", "--wait=5m"),
        *("src/*.py", "lib/**"),
    )
    assert ran.code == 0
    body = _body(ledger)
    assert body["globs"] == ["src/*.py", "lib/**"]
    assert (body["ttl_s"], body["mode"], body["priority"]) == (600.0, "shared", -3)
    assert (body["note"], body["wait"]) == ("why", True)


def test_claim_says_what_it_took_a_name_for(here: Any, ledger: FakeLedger) -> None:
    ran = here("claim", "src", "app/[slug]/page.tsx", "new.py")
    assert _body(ledger)["globs"][0] == "src/**"
    assert ran.out == "L7\n"
    assert "'src' is taken for everything below the directory src/" in ran.err
    assert "'app/[slug]/page.tsx' is taken for the existing file" in ran.err
    assert "'new.py' is taken for the path new.py, which does not exist yet" in ran.err


def test_claim_is_silent_where_it_is_plain_and_with_q(here: Any) -> None:
    assert here("claim", "src/x.py").err == ""
    assert here("claim", "-q", "src").err == ""


def test_claim_json_tells_all(here: Any) -> None:
    ran = here("claim", "src", "--json")
    said = json.loads(ran.out)
    assert (said["lease"], said["token"], ran.err) == ("L7", 7, "")
    assert said["understood"] == ["everything below the directory src/"]


@pytest.mark.parametrize(
    ("arguments", "waits_s"),
    [
        (["--wait", "src/**"], None),
        (["src/**", "--wait"], None),
        (["--wait", "90s", "src/**"], 90.0),
        (["src/**", "--wait", "90"], 90.0),
        (["--wait=1h30m", "src/**"], 5400.0),
        (["--wait", "--ttl", "5m", "src/**"], None),
    ],
)
def test_wait_with_and_without_a_duration(
    here: Any,
    ledger: FakeLedger,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    waits_s: float | None,
) -> None:
    seen: list[float | None] = []

    def wait(link: Any, waiting: Any, *, timeout_s: float | None, on_change: Any) -> Any:
        seen.append(timeout_s)
        return LEASE

    monkeypatch.setattr("leasefs.client.waiting.wait_for_grant", wait)
    ledger.answers["POST /v1/leases"] = WAITING
    ran = here("claim", *arguments)
    assert (ran.code, ran.out) == (0, "L7\n")
    assert seen == [waits_s]
    assert _body(ledger)["globs"] == ["src/**"]


def test_waiting_is_told_once_per_change(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["POST /v1/leases"] = WAITING
    ledger.answers["GET /v1/leases/L9"] = [
        WAITING,
        {**WAITING, "position": 1, "eta_s": None},
        {**LEASE, "lease": "L9"},
    ]
    ran = here("claim", "src/**", "--wait")
    assert (ran.code, ran.out) == (0, "L9\n")
    assert ran.err.splitlines() == [
        "leasefs: L9 waits: position 2, behind bo (L3), about 2m30s",
        "leasefs: L9 waits: position 1, behind bo (L3)",
    ]
    assert all(call.patience_s > 0 for call in ledger.sent("GET", "/v1/leases/L9"))


def test_an_interrupted_wait_withdraws_the_claim(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["POST /v1/leases"] = [WAITING, {**WAITING, "state": "ended"}]
    ledger.answers["GET /v1/leases/L9"] = KeyboardInterrupt()
    ran = here("claim", "src/**", "--wait", "-q")
    assert (ran.code, ran.out, ran.err) == (130, "", "")
    assert len(ledger.sent("DELETE", "/v1/leases/L9")) == 1


def test_a_claim_interrupted_before_its_answer_is_given_back(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["POST /v1/leases"] = [KeyboardInterrupt(), FRESH]
    ran = here("claim", "src/**")
    assert (ran.code, ran.out) == (130, "")
    first, second = ledger.sent("POST", "/v1/leases")
    assert first.body is not None
    assert second.body is not None
    assert first.body["key"] == second.body["key"]
    (left,) = ledger.sent("POST", "/v1/mount/leave")
    assert left.body == {"lease": "L7", "key": first.body["key"]}


def test_a_claim_whose_answer_was_lost_is_given_back(here: Any, ledger: FakeLedger) -> None:
    """The ledger may have taken it; nobody knows of it."""
    ledger.answers["POST /v1/leases"] = [errors.LedgerUnavailable("too slow"), FRESH]
    assert here("claim", "src/**").code == 7
    assert len(ledger.sent("POST", "/v1/mount/leave")) == 1


def test_a_second_signal_does_not_stop_the_first_one_from_giving_back(
    here: Any, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.answers["POST /v1/leases"] = [WAITING, WAITING]
    ledger.answers["GET /v1/leases/L9"] = KeyboardInterrupt()
    send = ledger.send

    def hammered(link: blocking.Link, call: api.Call) -> dict[str, Any]:
        if call.method == "DELETE" or call.path.endswith("/leave"):
            os.kill(os.getpid(), signal.SIGINT)
        return send(link, call)

    monkeypatch.setattr(blocking.Link, "send", hammered)
    assert here("claim", "src/**", "--wait", "-q").code == 130
    assert len(ledger.sent("POST", "/v1/mount/leave")) == 1


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (errors.ClaimConflict("held by bo"), 3),
        (errors.Deadlock(["ada", "bo"]), 8),
        (errors.SessionEnded("S-ada"), 9),
        (errors.LedgerUnavailable("away"), 7),
    ],
)
def test_a_refused_claim_prints_no_id(
    here: Any, ledger: FakeLedger, failure: errors.LeasefsError, code: int
) -> None:
    ledger.answers["POST /v1/leases"] = failure
    ran = here("claim", "src/**")
    assert (ran.code, ran.out) == (code, "")
    assert failure.message in ran.err


def test_another_agents_name_in_a_mount_is_denied(here: Any, ledger: FakeLedger) -> None:
    ran = here("claim", "src/**", "--agent", "bo")
    assert (ran.code, ran.out) == (9, "")
    assert "is ada's, not bo's" in ran.err
    assert ledger.calls == []


def test_outside_any_mount_an_agent_must_be_named(
    here: Any, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch, own_world: Path
) -> None:
    monkeypatch.chdir(own_world)
    ran = here("claim", "src/**")
    assert ran.code == 10
    assert "not inside a leasefs mount" in ran.err
    assert ledger.calls == []


def test_an_absolute_path_leads_to_its_mount(
    here: Any, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch, own_world: Path, tree: Path
) -> None:
    monkeypatch.chdir(own_world)
    assert here("claim", f"{tree}/src/x.py").code == 0
    assert _body(ledger)["globs"] == ["src/x.py"]


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


def test_force_is_by_id_and_as_operator(here: Any, ledger: FakeLedger) -> None:
    assert here("release", "--force", "docs/**").code == 2
    ledger.answers["POST /v1/leases/L3/revoke"] = {**OTHER, "state": "revoked"}
    ran = here("release", "--force", "L3")
    assert ran.code == 0
    assert "L3 of bo is revoked; its ground is free within 28m20s" in ran.err


@pytest.mark.parametrize("arguments", [[], ["--all", "L7"], ["--force"], ["--force", "--all"]])
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


def test_lists_are_columns(here: Any) -> None:
    ran = here("leases")
    assert ran.out.splitlines() == [
        "LEASE  AGENT        STATE    MODE       EXPIRES IN  GLOBS    KEPT BY",
        "L3     bo (shell)   granted  exclusive  28m20s      docs/**  41 vim src/x.py",
        "L7     ada (shell)  granted  exclusive  28m20s      src/**   41 vim src/x.py",
    ]
    assert "L3" not in here("leases", "--mine").out
    queue = here("queue").out.splitlines()
    assert queue[1].split() == [
        "L9",
        "ada",
        "(shell)",
        "2",
        "0",
        "12s",
        "2m30s",
        "src/**",
        "bo",
        "(L3)",
    ]


def test_lists_are_of_this_territory_unless_all_is_asked_for(here: Any, ledger: FakeLedger) -> None:
    here("leases")
    here("leases", "--all")
    assert [call.path for call in ledger.calls] == ["/v1/leases?territory=T", "/v1/leases"]


def test_nothing_to_list_is_said(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["GET /v1/leases"] = {"leases": []}
    ledger.answers["GET /v1/queue"] = {"waiters": []}
    assert here("leases").out == "no leases\n"
    assert here("queue").out == "nobody waits\n"
    assert json.loads(here("queue", "--json").out) == {"waiters": []}


def test_who_asks_for_a_path_and_looks_for_a_directory(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["GET /v1/who"] = {"leases": [LEASE, WAITING]}
    ran = here("who", "src/x.py", "--json")
    said = json.loads(ran.out)
    assert [one["lease"] for one in said["held"] + said["waiting"]] == ["L7", "L9"]
    assert ledger.calls[-1].path == "/v1/who?territory=T&path=src%2Fx.py"
    said = json.loads(here("who", "src", "--json").out)
    assert [one["lease"] for one in said["held"] + said["waiting"]] == ["L7", "L9"]
    said = json.loads(here("who", "docs/a*", "--json").out)
    assert [one["lease"] for one in said["held"]] == ["L3"]
    ledger.answers["GET /v1/who"] = {"leases": []}
    assert here("who", "README.md").out == "nobody holds README.md or waits for it\n"


def test_names_of_others_are_shown_escaped(here: Any, ledger: FakeLedger) -> None:
    hostile = {**OTHER, "kept_by": ["1 \x1b[2J x"]}
    ledger.answers["GET /v1/leases"] = {"leases": [hostile]}
    assert "\x1b" not in here("leases").out


def _event(seq: int, **fields: Any) -> dict[str, Any]:
    return {"seq": seq, "at_s": 1.0, "wall_s": 1767225600.0, "event": fields}


def test_log_shows_one_line_per_event(here: Any, ledger: FakeLedger) -> None:
    events = [
        _event(5, type="released", lease="L7", agent="ada", token=7, reason="released"),
        _event(6, type="new-kind", agent="bo", more=1),
    ]
    ledger.answers["GET /v1/events"] = {"events": events, "head": 6, "next": 6}
    ran = here("log")
    lines = ran.out.splitlines()
    assert [line.split()[0] for line in lines] == ["5", "6"]
    assert lines[0].endswith("released         ada               L7: released")
    assert '"more": 1' in lines[1]
    assert [json.loads(line)["seq"] for line in here("log", "--json").out.splitlines()] == [5, 6]


def test_log_reaches_back_until_enough_match(here: Any, ledger: FakeLedger) -> None:
    one = _event(900, type="revoked", lease="L7", agent="ada", token=7, by="root")
    ledger.answers["GET /v1/events"] = [
        {"events": [], "head": 1000, "next": 1},
        {"events": [], "head": 1000, "next": 1000},
        *[{"events": [one] * (n > 5), "head": 1000, "next": 1000} for n in range(9)],
    ]
    ran = here("log", "-n", "1", "--type", "revoked")
    assert (ran.code, len(ran.out.splitlines())) == (0, 1)


def test_log_after_stops_at_n(here: Any, ledger: FakeLedger) -> None:
    events = [_event(n, type="lapsed", lease="L1", agent="a", token=1) for n in (8, 9)]
    ledger.answers["GET /v1/events"] = {"events": events, "head": 99, "next": 9}
    assert len(here("log", "--after", "7", "-n", "2").out.splitlines()) == 2
    assert "after=7&limit=2&territory=T" in ledger.calls[-1].path


def test_an_unknown_event_type_is_a_usage_error(here: Any) -> None:
    ran = here("log", "--type", "grnated")
    assert ran.code == 2
    assert "granted" in ran.err


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
    assert _body(ledger)["wait"] is waits


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
    assert _body(ledger)["globs"] == ["src/x.py"]


REFUSAL = {
    "time": "2026-01-01T00:00:00.000+00:00",
    "pid": 41,
    "program": "sed",
    "operation": "create",
    "path": "docs/a.md",
    "errno": "EACCES",
    "code": "NOT_LEASED",
    "reason": "no lease of this mount covers the path",
    "lease": None,
    "next": "claim it first",
}
TRUSTED = {
    "id": "L7",
    "globs": ["src/**"],
    "mode": "exclusive",
    "token": 7,
    "ttl_s": 1800.0,
    "trusted_for_s": 1690.0,
    "kept_by": ["41 vim src/x.py"],
}


@pytest.fixture
def mounted(ledger: FakeLedger) -> FakeLedger:
    ledger.answers["GET /v1/mount"] = {"leases": [TRUSTED], "refusals": [REFUSAL]}
    ledger.answers["GET /v1/who"] = {"leases": []}
    return ledger


@pytest.mark.parametrize(
    ("claims", "path", "code", "words"),
    [
        ([LEASE], "src/x.py", 0, "L7 src/** is yours, for 28m20s after its last use"),
        ([], "README.md", 3, "and nobody else holds it\nnext: leasefs claim README.md"),
        ([OTHER], "docs/a.md", 3, "bo (shell) holds docs/** as L3 (exclusive), for 28m20s unless"),
        ([OTHER], "docs/a.md", 3, "next: leasefs claim docs/a.md --wait"),
        ([OTHER], "docs/a.md", 3, "last refused: create by sed[41] at "),
        ([{**LEASE, "mode": "shared"}], "src/x.py", 3, "is shared: it lets nobody write"),
        ([{**LEASE, "mode": "shared"}], "src/x.py", 3, "leasefs release L7 && leasefs claim"),
        ([{**LEASE, "state": "revoked"}], "src/x.py", 3, "was revoked by an operator"),
        ([{**LEASE, "expires_in_s": -3.0, "state": "lapsed"}], "src/x.py", 3, "has lapsed"),
        (
            [OTHER, {**WAITING, "globs": ["docs/**"]}],
            "docs/a.md",
            3,
            "waits at position 2, about 2m30s",
        ),
        ([LEASE], "src", 0, "L7 src/** is yours"),
        (
            [{**LEASE, "globs": ["src/*.py"]}],
            "src",
            3,
            "do not contain everything below the directory, for example src/",
        ),
        ([], ".leasefs/agent", 3, "control directory cannot be changed"),
        ([OTHER], "docs/it's.md", 3, "leasefs claim 'docs/it'\"'\"'s.md' --wait"),
        ([LEASE], "src/.x.py.swp", 0, "L7 src/** is yours"),
        (
            [{**LEASE, "globs": ["src/x.py"]}],
            "src/.x.py.swp",
            0,
            "a companion file of an atomic save under L7 src/x.py",
        ),
    ],
)
def test_why(
    here: Any, mounted: FakeLedger, claims: list[Any], path: str, code: int, words: str
) -> None:
    mounted.answers["GET /v1/who"] = {"leases": claims}
    mounted.answers["GET /v1/leases"] = {"leases": claims}
    mounted.answers["GET /v1/queue"] = {"waiters": []}
    ran = here("why", path)
    assert words in ran.out
    assert (ran.code, ran.err) == (code, "")


def test_why_counts_ignored_ground_as_free(here: Any, mounted: FakeLedger, tree: Path) -> None:
    subprocess.run(["git", "init", "-q", tree], check=True)
    (tree / ".gitignore").write_text("build/\n")
    (tree / "build").mkdir()
    for path in ("build/out.o", "build", ".git/config"):
        ran = here("why", path)
        assert (ran.code, "no lease is needed there" in ran.out) == (0, True), path
    assert here("why", "src/x.py").code == 3


def test_why_json_has_the_facts(here: Any, mounted: FakeLedger) -> None:
    mounted.answers["GET /v1/who"] = {"leases": [OTHER]}
    said = json.loads(here("why", "docs/a.md", "--json").out)
    assert (said["path"], said["passes"]) == ("docs/a.md", False)
    assert [lease["lease"] for lease in said["theirs"]] == ["L3"]
    assert said["last_refusal"]["pid"] == 41
    assert said["next"] == "leasefs claim docs/a.md --wait"


def test_why_warns_of_hard_links(here: Any, mounted: FakeLedger, tree: Path) -> None:
    os.link(tree / "src" / "x.py", tree / "src" / "y.py")
    assert "has 2 names (hard links)" in here("why", "src/x.py").out


def test_why_outside_a_mount_is_no_question(
    here: Any, mounted: FakeLedger, monkeypatch: pytest.MonkeyPatch, own_world: Path
) -> None:
    monkeypatch.setenv("LEASEFS_LEDGER", "unix:/nowhere/ledger.sock")
    monkeypatch.chdir(own_world)
    assert here("why", "x").code == 10


def test_status_in_a_mount(here: Any, mounted: FakeLedger) -> None:
    mounted.answers["GET /v1/status"] = {"version": "0.1.0"}
    ran = here("status")
    assert "agent:      ada (shell), session S-ada" in ran.out
    assert "ledger:     unix:/nowhere/ledger, leasefs 0.1.0" in ran.out
    assert "L7     exclusive  28m10s       src/**  41 vim src/x.py" in ran.out
    assert "L9     ada (shell)" in ran.out
    assert "docs/a.md: create by sed[41] at" in ran.out


def test_status_without_its_ledger_still_tells_what_is_held(here: Any, mounted: FakeLedger) -> None:
    mounted.answers["GET /v1/status"] = errors.LedgerUnavailable("the ledger is away")
    ran = here("status")
    assert ran.code == 0
    assert "ledger:     the ledger is away" in ran.out
    assert "L7" in ran.out
    said = json.loads(here("status", "--json").out)
    assert said["ledger"]["error"] == "the ledger is away"


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
    assert shown.endswith("about 2m30s\n")
