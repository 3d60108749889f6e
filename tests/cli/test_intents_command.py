"""`intents`, the gate of `release`, and what a new holder is told: with a ledger that answers from a list."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core import errors
from leasefs.testing.fake_ledger import LEASE, OTHER, FakeLedger
from leasefs_cli.event_lines import event_line

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("tree", "ledger")

NOW_S = 1_800_000_000.0
INTENT = {
    "path": "src/x.py",
    "kind": "modify",
    "tree": "t-1",
    "lease": "L7",
    "token": 7,
    "agent": "ada",
    "harness": "shell",
    "pid": 41,
    "program": "vim",
    "first_wall_s": NOW_S - 3 * 3600,
    "last_wall_s": NOW_S - 60,
    "size": 10,
    "state": "dirty",
    "commit": "",
    "blob": "",
    "other": "",
    "fenced": False,
    "recovered": False,
    "territory": "T",
    "host": "h1",
    "root": "/r",
    "held": True,
}
MOVED = {
    **INTENT,
    "path": "src/new",
    "kind": "rename-from",
    "other": "src/old\x1b",
    "agent": "bo",
    "first_wall_s": NOW_S - 90_000,
    "state": "committed",
    "fenced": True,
    "held": False,
}
NOTE = {"lease": "L2", "agent": "bo", "harness": "codex", "globs": ["src/**"], "left_ago_s": 90.0}
INHERITS = {
    "note": {**NOTE, "text": "half done:\n\x1b[2Jparser"},
    "earlier_notes": [],
    "rescues": [{"id": "L2", "agent": "bo", "paths": 3}],
    "uncommitted": [{"agent": "bo", "path": f"src/{n}", "lease": "L2"} for n in range(7)],
    "uncommitted_count": 9,
}


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasefs.client.clock.BoottimeClock.wall_s", lambda _: NOW_S)


def test_intents_are_columns(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["GET /v1/intents"] = {"intents": [MOVED, INTENT], "total": 2}
    lines = here("intents").out.splitlines()
    assert lines[0].split() == ["AGENT", "STATE", "SINCE", "KIND", "PATH", "LEASE", "TREE", "NOTE"]
    assert lines[1].split("  ")[0] == "bo (shell)"
    for word in ("committed", "1d01h", "src/new (was src/old\\x1b)", "h1:/r", "lease over, fenced"):
        assert word in lines[1]
    for word in ("ada (shell)", "dirty", "3h", "src/x.py", "L7"):
        assert word in lines[2]
    assert lines[2].endswith("-")


def test_the_forgotten_are_found(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["GET /v1/intents"] = {"intents": [MOVED, INTENT], "total": 5}
    ran = here("intents", "--older", "24h", "--json")
    said = json.loads(ran.out)
    assert [one["path"] for one in said["intents"]] == ["src/new"]
    assert said["unseen"] == 3
    assert "3 more" in here("intents").err


def test_intents_are_asked_for_as_they_are_wanted(here: Any, ledger: FakeLedger) -> None:
    assert (
        here("intents", "--mine", "--state", "dirty").out == "nothing is uncommitted or unpushed\n"
    )
    here("intents", "--all", "--agent", "bo", "--lease", "L2")
    assert [call.path for call in ledger.calls] == [
        "/v1/intents?territory=T&agent=ada&state=dirty",
        "/v1/intents?agent=bo&lease=L2",
    ]
    assert here("intents", "--mine", "--agent", "bo").code == 2
    assert here("intents", "--state", "lost").code == 2
    assert here("intents", "--older", "soon").code == 2


def test_status_counts_them(here: Any, mounted: FakeLedger) -> None:
    mounted.answers["GET /v1/status"] = {"version": "0.1.0"}
    mounted.answers["GET /v1/intents"] = [
        {"intents": [INTENT], "total": 2},
        {"intents": [MOVED], "total": 4},
    ] * 2
    assert "2 dirty, the oldest for 3h; 4 committed and not landed" in here("status").out
    said = json.loads(here("status", "--json").out)
    assert said["uncommitted"] == {"dirty": 2, "oldest_dirty_s": 10800.0, "unlanded": 4}


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        ([], ""),
        (["--require", "pushed"], "&require=pushed"),
        (["--rescue"], "&dirty=rescue"),
        (["--keep"], "&dirty=keep"),
        (["--force"], "&dirty=force"),
        (["--note", "see a/b"], "&note=see%20a%2Fb"),
    ],
)
def test_a_release_says_what_to_do_about_the_uncommitted(
    here: Any, ledger: FakeLedger, arguments: list[str], query: str
) -> None:
    assert here("release", "L7", *arguments).code == 0
    (call,) = ledger.sent("DELETE", "/v1/leases/L7")
    path, _, asked = call.path.partition("?")
    key, _, rest = asked.partition("&")
    assert (path, key[:4], "&" * bool(rest) + rest) == ("/v1/leases/L7", "key=", query)


def test_a_dirty_lease_is_exit_code_6(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["DELETE /v1/leases/L7"] = errors.Dirty("L7", ["src/x.py"], 1, wanted="committed")
    ran = here("release", "L7", "--json")
    assert ran.code == 6
    assert "'src/x.py'" in ran.err
    assert json.loads(ran.out)["failed"][0]["details"]["paths"] == ["src/x.py"]


def test_force_is_ones_own_and_as_operator_others(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["POST /v1/leases/L3/revoke"] = {**OTHER, "state": "revoked"}
    assert here("release", "--force", "L3", "L7").code == 0
    assert len(ledger.sent("POST", "/v1/leases/L3/revoke")) == 1
    assert "dirty=force" in ledger.sent("DELETE", "/v1/leases/L7")[0].path
    assert here("release", "--force", "--all").code == 0
    assert len(ledger.sent("DELETE", "/v1/leases/L9")) == 1


def test_checks_stand_before_the_release(here: Any, ledger: FakeLedger, tree: Path) -> None:
    (tree / ".leasefs.toml").write_text(
        "[release]\nchecks = [\"tr '\\\\0' : < $LEASEFS_PATHS; echo $LEASEFS_LEASE; test -e ok\"]\n"
    )
    committed = {**INTENT, "state": "committed"}
    ledger.answers["GET /v1/intents"] = {
        "intents": [committed, {**committed, "path": "b"}],
        "total": 2,
    }
    ran = here("release", "L7", "--json")
    assert ran.code == 6
    failed = json.loads(ran.out)["failed"][0]
    assert failed["code"] == "checks-failed"
    assert "exit code 1" in failed["details"]["failed"][0]
    kept = failed["details"]["failed"][0].partition(": exit code 1 (")[2].rstrip(")")
    with open(kept) as output:
        assert output.read() == "b:src/x.py:L7\n"
    assert ledger.sent("DELETE", "/v1/leases/L7") == []
    assert here("release", "L7", "--force").code == 0
    (tree / "ok").touch()
    ran = here("release", "L7")
    assert ran.code == 0
    assert "running 1 release checks on 2 paths" in ran.err


def test_checks_are_not_run_on_what_is_dirty_or_only_waits(
    here: Any, ledger: FakeLedger, tree: Path
) -> None:
    (tree / ".leasefs.toml").write_text('[release]\nchecks = ["touch was-run"]\n')
    ledger.answers["GET /v1/intents"] = {"intents": [INTENT], "total": 1}
    assert here("release", "L7").code == 0
    ledger.answers["GET /v1/leases/L9"] = {**LEASE, "lease": "L9", "state": "waiting"}
    assert here("release", "L9").code == 0
    assert not (tree / "was-run").exists()
    assert here("release", "L7", "--require", "none").code == 0
    assert (tree / "was-run").exists()


def test_a_wrong_project_file_stops_a_release_and_says_where(
    here: Any, ledger: FakeLedger, tree: Path
) -> None:
    (tree / ".leasefs.toml").write_text("[release]\n\nchekcs = []\n")
    ran = here("release", "L7")
    assert (ran.code, ledger.calls) == (2, [])
    assert ".leasefs.toml:3" in ran.err


def test_a_new_holder_is_told_what_lies_there(here: Any, ledger: FakeLedger) -> None:
    """P9: and an escape sequence of somebody else's stays one."""
    ledger.answers["POST /v1/leases"] = {**LEASE, "inherits": INHERITS}
    ran = here("claim", "src/**")
    assert ran.out == "L7\n"
    lines = [line.removeprefix("leasefs: ") for line in ran.err.splitlines()]
    assert lines[:3] == [
        "note from bo (codex), left with L2 1m30s ago:",
        "  half done:",
        "  \\x1b[2Jparser",
    ]
    assert "rescue L2: 3 uncommitted paths of bo were kept from here" in lines[3]
    assert lines[4] == "uncommitted: bo changed src/0 under L2"
    assert lines[-1] == "4 more uncommitted paths: leasefs intents"
    assert here("claim", "src/**", "-q").err == ""
    said = json.loads(here("claim", "src/**", "--json").out)
    assert said["inherits"] == INHERITS


def test_rescues_that_are_not_told_one_by_one_are_counted(here: Any, ledger: FakeLedger) -> None:
    several = {**INHERITS, "rescues": INHERITS["rescues"] * 6}
    ledger.answers["POST /v1/leases"] = {**LEASE, "inherits": {**several, "rescues_count": 99}}
    assert "94 more rescues: leasefs rescue list" in here("claim", "src/**").err
    ledger.answers["POST /v1/leases"] = {**LEASE, "inherits": several}  # of a ledger that says none
    assert "1 more rescues: leasefs rescue list" in here("claim", "src/**").err


def test_nothing_is_said_of_clean_ground(here: Any, ledger: FakeLedger) -> None:
    clean = {**INHERITS, "note": None, "rescues": [], "uncommitted": [], "uncommitted_count": 0}
    ledger.answers["POST /v1/leases"] = {**LEASE, "inherits": clean}
    assert here("claim", "src/**").err == ""


def test_why_shows_what_lies_on_ones_ground(here: Any, mounted: FakeLedger) -> None:
    mounted.answers["GET /v1/who"] = {"leases": [LEASE]}
    mounted.answers["GET /v1/leases/L7"] = {**LEASE, "inherits": INHERITS}
    ran = here("why", "src/x.py")
    assert (ran.code, "\x1b" in ran.out) == (0, False)
    assert "note from bo (codex), left with L2 1m30s ago:\n  half done:\n" in ran.out
    said = json.loads(here("why", "src/x.py", "--json").out)
    assert said["inherits"] == [INHERITS]


CLAIM = {"id": "L7", "globs": ["src/**"], "mode": "exclusive", "ttl_s": 60.0, "agent": "ada"}
HELD = {"agent": "ada", "lease": "L7"}
RESCUE = {
    "id": "L7",
    "agent": "ada",
    "paths": 2,
    "names": ["a", "b"],
    "reason": "expired",
    "commit": "c",
}


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            {"type": "granted", "claim": CLAIM, "notes": [{**NOTE, "text": "half done"}]},
            "ada               L7 src/** exclusive for 1m; note from bo (L2): half done",
        ),
        (
            {
                "type": "released",
                "lease": "L7",
                "reason": "released",
                "left": "forced",
                "note": "n",
            },
            "L7: released; forced, although work is uncommitted; note for the next holder: n",
        ),
        (
            {"type": "release-refused", "lease": "L7", "count": 9, "paths": ["a", "b", "c", "d"]},
            "L7 is dirty: a, b, c and 6 more",
        ),
        (
            {"type": "intents-noted", "host": "h", "root": "/r", "intents": [INTENT, MOVED]},
            "src/x.py, src/new in h:/r (of bo, from a journal); 1 under a lease that was over",
        ),
        (
            {
                "type": "intents-settled",
                "settled": [
                    {"path": "a", "outcome": "clean"},
                    {"path": "b", "outcome": "landed"},
                    {"path": "c", "outcome": "clean"},
                ],
            },
            "clean: a, c; landed: b",
        ),
        (
            {
                "type": "foreign-writes",
                "changes": [
                    {"path": "a", "what": "deleted", "wall_s": 1.0, "holder": HELD},
                    {"path": "b", "what": "created", "wall_s": 1.0, "holder": None},
                ],
            },
            "saw beside all mounts: deleted a (of ada, L7), created b",
        ),
        (
            {
                "type": "foreign-writes",
                "how": "commit",
                "about": "c0ffee",
                "changes": [{"path": "a", "what": "modified", "wall_s": 1.0, "holder": HELD}],
            },
            "a commit got past the hooks: c0ffee: modified a (of ada, L7)",
        ),
        ({"type": "rescued", "rescue": RESCUE}, "kept a, b of ada as rescue L7 (expired)"),
        ({"type": "rescue-dropped", "rescue": RESCUE}, "rescue L7 of ada, c"),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
def test_each_event_is_a_line(event: dict[str, Any], words: str) -> None:
    line = event_line({"seq": 1, "wall_s": 1.0, "event": {"agent": "ada", **event}})
    assert line.endswith(words)
