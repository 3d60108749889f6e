"""What shares ground out, from the command line: parsing and words, with a ledger that answers from a list."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import click
import pytest

from leasefs.core import events as ev
from leasefs.core.errors import ClaimConflict, OverCap
from leasefs.testing.fake_ledger import LEASE, OTHER, WAITING, FakeLedger
from leasefs_cli import sharing
from leasefs_cli.event_lines import EVENT_TYPES, event_line
from leasefs_cli.signal_names import SignalName

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("tree", "ledger")

RECALL = {
    "by": "ann",
    "reason": "ann claimed src/x.py as L51",
    "yields_in_s": 25.0,
    "may_ask_for_s": 30.0,
    "cold": False,
    "claims": ["L51"],
}
FROZEN = {
    **OTHER,
    "lease": "L60",
    "agent": "root",
    "harness": "operator",
    "mode": "shared",
    "note": "about to be split",
    "frozen_by": "root",
    "expires_in_s": 7200.0,
}
PART = {**OTHER, "lease": "L8", "globs": ["src/t/**"], "parent": "L7"}


def _blocker(**fields: Any) -> dict[str, Any]:
    return {"id": "L3", "kind": "lease", "agent": "bo", "expires_in_s": 60.0, **fields}


@pytest.mark.parametrize(
    ("arguments", "priority", "within_s", "waits"),
    [
        ([], 0, None, False),
        (["--priority", "urgent"], 20, None, False),
        (["--priority", "background"], -20, None, False),
        (["--priority", "-7"], -7, None, False),
        (["--priority", "human"], 100, 0.0, True),
        (["--priority=100", "--recall=10s"], 100, 10.0, True),
        (["--recall"], 0, 30.0, True),
        (["--recall", "2m"], 0, 120.0, True),
        (["--priority", "urgent", "--recall", "--wait=5m"], 20, 30.0, True),
        (["--recall", "0s"], 0, 0.0, True),
    ],
)
def test_how_urgent_a_claim_is(
    here: Any,
    ledger: FakeLedger,
    arguments: list[str],
    priority: int,
    within_s: float | None,
    waits: bool,
) -> None:
    assert here("claim", *arguments, "src/**").code == 0
    body = ledger.claimed()
    assert body["globs"] == ["src/**"]
    assert (body["priority"], body.get("recall_within_s"), body["wait"]) == (
        priority,
        within_s,
        waits,
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["claim", "a", "--priority", "now"],
            "give human, urgent, normal, background, or a number",
        ),
        (["claim", "a", "--priority", "101"], "from -100 to 100"),
        (["claim", "a", "--recall", "2h"], "is out of range"),
        (["claim", "--upgrade", "L7", "--shared"], "leave --shared out"),
        (["recall", "L7", "--within", "2h"], "is out of range"),
        (["recall", "src/**"], "'src/**' is no lease's id, like L12"),
        (["hold", "src/**", "1h"], "'src/**' is no lease's id, like L12"),
        (["unfreeze", "src/../**"], "is no lease's id, like L12; `leasefs leases`"),
        (["more-time", "L7", "0s"], "is out of range"),
        (["freeze", "src"], "missing option '--reason'"),
        (["delegate", "L7", "src"], "missing option '--to'"),
        (["delegate", "L7", "src", "--to", "bo", "--keep", "--rescue"], "choose one of"),
        (["admission", "set"], "name a limit to change"),
        (["admission", "set", "--max-share", "0%"], "above 0% and at most 100%"),
        (["admission", "set", "--max-share", "2"], "above 0% and at most 100%"),
        (["admission", "set", "--max-leases", "-1"], "not in the range"),
        (["run", "--on-recall", "NOPE", "--", "true"], "is no signal"),
    ],
)
def test_what_makes_no_sense_is_said(here: Any, arguments: list[str], words: str) -> None:
    ran = here(*arguments)
    assert (ran.code, words in ran.err, len(ran.err.splitlines())) == (2, True, 1), ran.err


def test_an_upgrade_takes_the_globs_of_its_lease(here: Any, ledger: FakeLedger) -> None:
    shared = {**LEASE, "mode": "shared", "globs": ["src/**", "odd [name]"]}
    ledger.answers["GET /v1/leases/L7"] = shared
    ran = here("claim", "--upgrade", "L7", "--wait")
    assert (ran.code, ran.err) == (0, "")
    body = ledger.claimed()
    assert (body["replaces"], body["globs"]) == ("L7", ["src/**", "odd [name]"])
    ledger.answers["GET /v1/leases/L9"] = {"lease": "L9", "state": "ended"}
    assert here("claim", "--upgrade", "L9").code == 5


def test_the_share_is_counted_when_the_ledger_asks_for_it(
    here: Any, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = OverCap("say the share", max_share=0.5, needs="share")
    ledger.answers["POST /v1/leases"] = [asked, LEASE]
    monkeypatch.setattr(sharing, "_share_of", lambda place, globs: 0.25)
    assert here("claim", "src/**").code == 0
    first, second = ledger.sent("POST", "/v1/leases")
    assert first.body is not None
    assert second.body == {**first.body, "share": 0.25}


def test_other_caps_are_refusals(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["POST /v1/leases"] = OverCap("you have 3 leases", max_leases=3)
    ran = here("claim", "src/**", "--json")
    assert (ran.code, json.loads(ran.out)["error"]["code"]) == (3, "over-cap")
    assert len(ledger.sent("POST", "/v1/leases")) == 1


@pytest.mark.parametrize(
    ("arguments", "method", "path", "body"),
    [
        (["downgrade", "L7"], "POST", "/v1/leases/L7/downgrade", {}),
        (["downgrade", "src/**"], "POST", "/v1/leases/L7/downgrade", {}),
        (
            ["delegate", "L7", "src/t", "--to", "bo", "--ttl", "10m", "--note", "n", "--keep"],
            "POST",
            "/v1/leases/L7/delegate",
            {"globs": ["src/t"], "to": "bo", "ttl_s": 600.0, "note": "n", "dirty": "keep"},
        ),
        (
            ["delegate", "L7", "src", "--to", "bo"],
            "POST",
            "/v1/leases/L7/delegate",
            {"globs": ["src/**"], "to": "bo", "note": "", "dirty": "refuse"},
        ),
        (
            ["recall", "L3", "--within", "2m", "--reason", "r"],
            "POST",
            "/v1/leases/L3/recall",
            {"within_s": 120.0, "reason": "r", "by": "ada"},
        ),
        (["more-time", "L7", "60s"], "POST", "/v1/leases/L7/more-time", {"extra_s": 60.0}),
        (["hold", "L3", "4h"], "POST", "/v1/leases/L3/hold", {"hold_s": 14400.0, "by": "ada"}),
        (
            ["freeze", "src", "--reason", "r", "--within", "0s", "--for", "2h"],
            "POST",
            "/v1/freezes",
            {
                "globs": ["src/**"],
                "territory": "T",
                "reason": "r",
                "within_s": 0.0,
                "ttl_s": 7200.0,
                "by": "ada",
            },
        ),
        (["unfreeze", "L60"], "DELETE", "/v1/freezes/L60", None),
        (["admission", "clear"], "PUT", "/v1/admission", {"by": "ada"}),
    ],
)
def test_what_is_sent(
    here: Any,
    ledger: FakeLedger,
    arguments: list[str],
    method: str,
    path: str,
    body: dict[str, Any] | None,
) -> None:
    ledger.answers[f"{method} {path}"] = {**LEASE, "recall": RECALL}
    ran = here(*arguments, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out)["lease"] == "L7"
    (call,) = ledger.sent(method, path)
    sent = None if call.body is None else {n: call.body[n] for n in call.body if n != "key"}
    assert sent == body
    assert here(*arguments).code == 0


def test_a_change_of_somebody_else_in_between_is_not_undone(here: Any, ledger: FakeLedger) -> None:
    """The limits are looked at again, and what was named is changed of those."""
    names = ("max_exclusive", "max_unlanded", "max_leases", "max_share", "max_hold_s")
    before = {**dict.fromkeys(names), "reason": "", "by": "", "version": 0}
    theirs = {**before, "max_leases": 3, "version": 9}
    ledger.answers["GET /v1/admission"] = [{"admission": before}, {"admission": theirs}]
    said = {"territory": "T", "admission": theirs, "exclusive": 1, "unlanded": 2, "waiting": 3}
    ledger.answers["PUT /v1/admission"] = [ClaimConflict("others were set"), said]
    assert here("admission", "set", "--max-exclusive", "5").code == 0
    first, second = [call.body or {} for call in ledger.sent("PUT", "/v1/admission")]
    assert (first["max_leases"], first["expected"]) == (None, 0)
    assert (second["max_exclusive"], second["max_leases"], second["expected"]) == (5, 3, 9)
    assert first["key"] != second["key"]


def test_limits_that_are_not_named_stay(here: Any, ledger: FakeLedger) -> None:
    now = {
        "max_exclusive": 4,
        "max_unlanded": None,
        "max_leases": 2,
        "max_share": 0.5,
        "max_hold_s": None,
        "reason": "before",
        "by": "ann",
        "version": 17,
    }
    answer = {"territory": "T", "admission": now, "exclusive": 1, "unlanded": 2, "waiting": 3}
    ledger.answers["GET /v1/admission"] = ledger.answers["PUT /v1/admission"] = answer
    ran = here("admission", "set", "--max-share", "20%", "--max-hold", "2h", "--max-leases", "none")
    assert ran.code == 0
    (call,) = ledger.sent("PUT", "/v1/admission")
    assert call.body is not None
    assert call.body.pop("key")
    assert call.body == {
        "max_exclusive": 4,
        "max_unlanded": None,
        "max_leases": None,
        "max_share": 0.2,
        "max_hold_s": 7200.0,
        "reason": "before",
        "by": "ada",
        "expected": 17,
    }
    assert here("admission", "show").out.splitlines() == [
        "territory:            T",
        "exclusive leases:     at most 4; 1 now",
        "with unlanded work:   no limit; 2 now",
        "leases of one agent:  at most 2",
        "files under a lease:  at most 50%",
        "held:                 no limit",
        "waiting claims:       3",
        "set by:               ann: before",
    ]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"waits_for": [_blocker()]}, "bo (L3)"),
        ({"waits_for": [_blocker(yields_in_s=25.0)]}, "bo (L3, yields within 25s)"),
        ({"waits_for": [_blocker(revoked=True)]}, "bo (L3, revoked, free within 1m)"),
        ({"waits_for": [_blocker(kind="claim")]}, "bo (L3, waits too)"),
        (
            {"waits_for": [_blocker(kind="freeze", reason="split it")]},
            "the freeze L3 by bo: split it",
        ),
        (
            {"waits_for": [_blocker(kind="claim", reason="split it")]},
            "the freeze L3 by bo, which comes first: split it",
        ),
        (
            {"waits_for": [_blocker(kind="admission", id="", agent="", reason="40 are live")]},
            "admission: 40 are live",
        ),
        ({"waits_for": [_blocker()] * 5}, "bo (L3), bo (L3), bo (L3) and 2 more"),
        ({"eta_s": None}, "unknown"),
        (
            {"eta_s": 120.0, "eta_low_s": 40.0, "eta_high_s": 540.0, "eta_from": 12},
            "2m (40s to 9m, from 12 holds)",
        ),
        ({"priority": 100}, "human"),
        ({"priority": 7}, "  7  "),
        (
            {
                "globs": ["a/**", "b"],
                "places": [
                    {"glob": "a/**", "position": 3, "waits_for": ["L3"]},
                    {"glob": "b", "position": 1, "waits_for": []},
                ],
            },
            "a/** (3) b (1)",
        ),
        ({"resumes": "L2"}, "L9 waits to bring back what L2 had when it was recalled"),
        ({"replaces": "L2"}, "L9 takes the place of the shared L2 when it is granted"),
    ],
)
def test_the_queue_says_what_is_waited_for(
    here: Any, ledger: FakeLedger, fields: dict[str, Any], words: str
) -> None:
    ledger.answers["GET /v1/queue"] = {"waiters": [{**WAITING, **fields}]}
    assert words in here("queue").out


@pytest.mark.parametrize(
    ("lease", "words"),
    [
        (
            {**LEASE, "recall": RECALL},
            (
                "L7 is recalled by ann (ann claimed src/x.py as L51): yield within 25s; for more time, once: "
                "leasefs more-time L7 30s"
            ),
        ),
        ({**LEASE, "recall": {**RECALL, "may_ask_for_s": 0.0}}, "as L51): yield within 25s\n"),
        ({**LEASE, "recall": {**RECALL, "cold": True}}, "nothing may be written under it any more"),
        ({**LEASE, "recall": RECALL, "state": "revoked"}, "comes back to its holder by itself"),
        (FROZEN, "L60 is frozen by root for 2h, nobody may write there: about to be split"),
        ({**FROZEN, "expires_in_s": 3e9}, "frozen by root until lifted, nobody"),
        ({**FROZEN, "expires_in_s": 3e9}, "when lifted"),
        ({**LEASE, "delegated": ["src/t/**"]}, "does not write: src/t/**"),
        (PART, "L8 is a part of L7, and goes back to it when it ends"),
        ({**LEASE, "resumes": "L2"}, "L7 brought back what L2 had when it was recalled"),
        ({**LEASE, "hold_ends_in_s": 60.0}, "L7 will be recalled in 1m: this territory limits"),
        ({**LEASE, "hold_ends_in_s": -1.0}, "L7 will be recalled now"),
    ],
)
def test_leases_say_what_is_asked_of_them(
    here: Any, ledger: FakeLedger, lease: dict[str, Any], words: str
) -> None:
    ledger.answers["GET /v1/leases"] = {"leases": [lease]}
    assert words in here("leases").out


def test_of_a_region_with_many_globs_the_first_are_shown(here: Any, ledger: FakeLedger) -> None:
    globs = [f"g{number}" for number in range(30)]
    places = [{"glob": glob, "position": at + 1, "waits_for": []} for at, glob in enumerate(globs)]
    ledger.answers["GET /v1/leases"] = {"leases": [{**LEASE, "globs": globs}]}
    ledger.answers["GET /v1/queue"] = {"waiters": [{**WAITING, "globs": globs, "places": places}]}
    assert "  g0 g1 g2 g3 g4 g5 and 24 more  " in here("leases").out
    assert "  g0 (1) g1 (2) g2 (3) g3 (4) g4 (5) g5 (6) and 24 more  " in here("queue").out
    assert json.loads(here("leases", "--json").out)["leases"][0]["globs"] == globs


def test_an_upgrade_that_was_granted_is_a_lease_like_any(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["GET /v1/leases"] = {"leases": [{**LEASE, "replaces": "L2"}]}
    assert "takes the place" not in here("leases").out


def test_a_far_cap_is_not_told(here: Any, ledger: FakeLedger) -> None:
    ledger.answers["GET /v1/leases"] = {"leases": [{**LEASE, "hold_ends_in_s": 7000.0}]}
    assert len(here("leases").out.splitlines()) == 2


@pytest.mark.parametrize(
    ("claims", "path", "code", "words"),
    [
        ([{**FROZEN, "globs": ["docs/**"]}], "docs/a.md", 3, "nobody may write there: about to be"),
        ([LEASE, PART], "src/t/a", 3, "bo (shell) holds src/t/** as L8 (exclusive, delegated out"),
        ([LEASE, PART], "src/t/a", 3, "next: leasefs recall L8"),
        ([LEASE, PART], "src", 3, "next: leasefs recall L8"),
        ([{**LEASE, "recall": RECALL}], "src/x.py", 0, "; L7 is recalled by ann"),
        (
            [{**LEASE, "recall": {**RECALL, "cold": True}}],
            "src/x.py",
            3,
            "nothing may be written under it any more\nnext: wait: it comes back by itself",
        ),
        ([{**OTHER, "recall": RECALL}], "docs/a.md", 3, "recalled by ann, yields within 25s"),
        (
            [{**OTHER, "recall": RECALL, "state": "revoked"}],
            "docs/a.md",
            3,
            "(exclusive), revoked, free within ",
        ),
        (
            [{**LEASE, "mode": "shared"}, {**OTHER, "mode": "shared", "globs": ["src/**"]}],
            "src/x.py",
            3,
            "next: leasefs claim --upgrade L7 --wait",
        ),
        (
            [OTHER, {**WAITING, "globs": ["docs/**"], "resumes": "L2"}],
            "docs/a.md",
            3,
            "next: your claim L9 waits to bring back L2 at position 2, behind bo (L3)",
        ),
    ],
)
def test_why_knows_of_recalls_parts_and_freezes(
    here: Any, mounted: FakeLedger, claims: list[Any], path: str, code: int, words: str
) -> None:
    mounted.answers["GET /v1/who"] = {"leases": claims}
    mounted.answers["GET /v1/leases"] = {"leases": claims}
    mounted.answers["GET /v1/queue"] = {"waiters": []}
    ran = here("why", path)
    assert words in ran.out
    assert (ran.code, ran.err) == (code, "")


def test_status_tells_of_recalls_and_parts(here: Any, mounted: FakeLedger) -> None:
    told = {
        "lease": "L7",
        "globs": ["src/**"],
        "by": "ann",
        "reason": "why",
        "yields_in_s": 25.0,
        "next": "commit what you have there",
    }
    mounted.answers["GET /v1/mount"]["recalls"] = [told, {**told, "yields_in_s": None}]
    mounted.answers["GET /v1/status"] = {"version": "0.1.0"}
    mounted.answers["GET /v1/mount"]["delegations"] = [{"words": "bo has src/t/** as L8"}]
    lease = {**LEASE, "recall": RECALL, "delegated": ["src/t/**"], "resumes": "L2"}
    mounted.answers["GET /v1/leases"] = {"leases": [lease, OTHER]}
    shown = here("status").out
    assert "L7 src/** is recalled by ann (why), to be given up within 25s; commit what" in shown
    assert "L7 src/** was recalled by ann (why); commit what" in shown
    assert shown.count("is recalled by") == 1
    assert "bo has src/t/** as L8\n" in shown
    assert "delegated to others" not in shown
    assert "L7 brought back what L2 had when it was recalled" in shown
    said = json.loads(here("status", "--json").out)
    assert [one["lease"] for one in said["leases"]] == ["L7"]


def test_what_is_frozen_is_listed_with_its_reason(here: Any, ledger: FakeLedger) -> None:
    waiting = {**FROZEN, "lease": "L61", "state": "waiting", "waits_for": [_blocker()]}
    ledger.answers["GET /v1/freezes"] = {"freezes": [FROZEN, waiting]}
    lines = here("freezes").out.splitlines()
    assert lines[1].split() == ["L60", "root", "2h", "docs/**", *["about", "to", "be", "split"]]
    assert "waits for bo (L3)" in lines[2]
    ledger.answers["GET /v1/freezes"] = {"freezes": []}
    assert here("freezes").out == "nothing is frozen\n"


def _line(**event: Any) -> str:
    recorded = {"seq": 5, "at_s": 100.0, "wall_s": 0.0, "event": event}
    line = event_line(recorded)
    assert "\n" not in line
    return line


def test_every_event_of_the_ledger_has_its_line() -> None:
    tags = {str(type_.__struct_config__.tag) for type_ in ev.AnyEvent.__args__}
    assert set(EVENT_TYPES) == tags


_HANDOFF = {"lease": "L3", "agent": "bo", "text": "", "commit": "c0ffee" * 7}
_ASKED = {"by": "ann", "reason": "why", "deadline_s": 130.0, "within_s": 30.0}
_OWN = {"lease": "L7", "agent": "ada", "token": 7}


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"type": "recalled", **_OWN, "recall": _ASKED}, "L7 by ann: why; to yield within 30s"),
        (
            {"type": "recalled", **_OWN, "recall": {**_ASKED, "extended": True}},
            "within 30s, which is more time than before",
        ),
        (
            {"type": "recalled", **_OWN, "recall": {**_ASKED, "cold": True}},
            "why; nothing may be written any more",
        ),
        ({"type": "recall-ended", **_OWN, "reason": "L9 is gone"}, "L7 may be kept: L9 is gone"),
        (
            {"type": "revoked", **_OWN, "by": "ann", "for_recall": True},
            "by ann, at the deadline of a recall",
        ),
        ({"type": "downgraded", **_OWN, "former_token": 3}, "L7 is shared from here on"),
        ({"type": "hold-set", **_OWN, "hold_until_s": 160.0, "by": "ann"}, "L7 may be held for 1m"),
        (
            {
                "type": "admission-set",
                "territory": "T",
                "admission": {"max_exclusive": 4, "max_share": 0.2, "reason": "CI", "by": "ann"},
            },
            "T: at most 4 exclusive leases, 20% of the files under one lease (CI)",
        ),
        ({"type": "admission-set", "territory": "T", "admission": {}}, "T: no limits"),
        (
            {"type": "granted", "claim": {**PART, "id": "L8"}, "notes": [_HANDOFF]},
            ", delegated out of L7; after bo (L3) at commit c0ffeec0ffee",
        ),
        (
            {
                "type": "granted",
                "claim": {**LEASE, "id": "L7"},
                "notes": [{**_HANDOFF, "text": "t"}],
            },
            "; note from bo (L3) at commit c0ffeec0ffee: t",
        ),
        (
            {"type": "queued", "claim": {**LEASE, "id": "L9", "resumes": "L7"}, "behind": ["L3"]},
            ", brings back L7, behind L3",
        ),
        (
            {"type": "queued", "claim": {**LEASE, "id": "L9"}, "behind": [], "eta_s": 90.0},
            ", for admission, ETA 1m30s",
        ),
        (
            {"type": "released", **_OWN, "reason": "released", "commit": "c0ffee" * 7},
            "L7: released at commit c0ffeec0ffee",
        ),
        (
            {"type": "released", **_OWN, "reason": "released", "returns_to": "S-bo"},
            "; its ground goes back to who delegated it",
        ),
        (
            {"type": "granted", "claim": {**FROZEN, "id": "L60"}},
            "L60 docs/** frozen: about to be split",
        ),
    ],
)
def test_what_happens_is_one_line(event: dict[str, Any], words: str) -> None:
    assert words in _line(**event)


@pytest.mark.parametrize("text", ["TERM", "term", "SIGTERM", "15"])
def test_signals_have_their_names(text: str) -> None:
    assert SignalName().convert(text, None, None) is signal.SIGTERM


@pytest.mark.parametrize("text", ["", "0", "SIG", "TERMINATE", "-15", "\N{SUPERSCRIPT ONE}"])
def test_what_is_no_signal_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no signal"):
        SignalName().convert(text, None, None)


def test_names_of_others_are_shown_escaped(here: Any, ledger: FakeLedger, tree: Path) -> None:
    hostile = "\x1b[2J\n"
    lease = {**LEASE, "recall": {**RECALL, "reason": hostile}}
    ledger.answers["GET /v1/leases"] = {"leases": [lease, {**FROZEN, "note": hostile}]}
    ledger.answers["GET /v1/freezes"] = {"freezes": [{**FROZEN, "note": hostile}]}
    blocked = {**WAITING, "waits_for": [_blocker(kind="admission", reason=hostile)]}
    ledger.answers["GET /v1/queue"] = {"waiters": [blocked]}
    for command in ("leases", "freezes", "queue"):
        assert "\x1b" not in here(command).out
    assert "\x1b" not in _line(type="recalled", **_OWN, recall={**_ASKED, "reason": hostile})
