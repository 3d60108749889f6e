"""Lists, `who`, `why`, `status` and `log`, with a ledger that answers from a list."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core import errors
from leasefs.testing.fake_ledger import LEASE, OTHER, REFUSAL, WAITING, FakeLedger

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("tree", "ledger")


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
        "normal",
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


@pytest.mark.parametrize(
    ("claims", "path", "code", "words"),
    [
        ([LEASE], "src/x.py", 0, "L7 src/** is yours, for 28m20s after its last use"),
        ([], "README.md", 3, "and nobody else holds it\nnext: leasefs claim README.md"),
        ([OTHER], "docs/a.md", 3, "bo (shell) holds docs/** as L3 (exclusive), for 28m20s unless"),
        ([OTHER], "docs/a.md", 3, "next: leasefs claim docs/a.md --wait"),
        ([OTHER], "docs/a.md", 3, "last refused: create by sed[41] at "),
        ([{**LEASE, "mode": "shared"}], "src/x.py", 3, "is shared: it lets nobody write"),
        ([{**LEASE, "mode": "shared"}], "src/x.py", 3, "leasefs claim --upgrade L7 --wait"),
        ([{**LEASE, "state": "revoked"}], "src/x.py", 3, "was revoked by an operator"),
        ([{**LEASE, "expires_in_s": -3.0, "state": "lapsed"}], "src/x.py", 3, "has lapsed"),
        (
            [OTHER, {**WAITING, "globs": ["docs/**"]}],
            "docs/a.md",
            3,
            "waits at position 2, behind bo (L3), ETA 2m30s",
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


@pytest.mark.parametrize(
    ("policy", "claims", "code", "words"),
    [
        ("deny", [], 3, "is closed to you: no lease of this mount covers the path, and nobody"),
        ("claim", [], 0, "may be written: nobody has it, and a write claims it first"),
        ("claim+wait", [], 0, "a write claims it first, by this mount's policy (claim+wait)"),
        ("claim", [OTHER], 3, "next: leasefs claim docs/a.md --wait"),
        ("claim+wait", [OTHER], 3, "next: a write waits for it, for 1m at most (claim+wait); or:"),
        ("wait", [], 3, "next: a write waits for it, for 1m at most (wait); or: leasefs claim"),
        ("observe", [OTHER], 0, "this mount only observes, and reports it: bo (shell) holds docs"),
    ],
)
def test_why_knows_what_the_mount_does_where_no_lease_covers(
    here: Any, mounted: FakeLedger, policy: str, claims: list[Any], code: int, words: str
) -> None:
    """Its exit code says whether a write would pass, whatever the mount's policy."""
    mounted.answers["GET /v1/mount"]["unleased"] = {"policy": policy, "wait_s": 60.0}
    mounted.answers["GET /v1/who"] = {"leases": claims}
    ran = here("why", "docs/a.md")
    assert words in ran.out
    assert ran.code == code


def test_what_was_only_observed_is_not_told_as_refused(here: Any, mounted: FakeLedger) -> None:
    observed = {**REFUSAL, "observed": True, "path": "docs/a.md"}
    mounted.answers["GET /v1/mount"]["refusals"] = [observed]
    told = here("why", "docs/a.md").out
    assert "last observed: " in told
    assert ": passed, since the mount only observes: " in told


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


def test_why_tells_whoever_lost_a_lease_where_its_work_is(here: Any, mounted: FakeLedger) -> None:
    """P9: only of one's own, and on that ground."""
    kept = {"id": "L2", "lease": "L2", "agent": "ada", "globs": ["docs/**"], "paths": 4}
    others = [{**kept, "id": "L4", "agent": "bo"}, {**kept, "id": "L5", "globs": ["src/**"]}]
    mounted.answers["GET /v1/rescues"] = {"rescues": [kept, *others]}
    mounted.answers["GET /v1/who"] = {"leases": [OTHER]}
    told = here("why", "docs/a.md").out
    assert "4 uncommitted paths of L2 were kept when it was lost (leasefs rescue show L2)" in told
    assert "L4" not in told
    assert "L5" not in told
    said = json.loads(here("why", "docs/a.md", "--json").out)
    assert [rescue["id"] for rescue in said["own_work"]] == ["L2"]


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
