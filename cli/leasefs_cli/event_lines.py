"""An event of the ledger's log as one readable line. Its fields: `leasefs.core.events`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from leasefs_cli import identity_lines, scheduling_lines
from leasefs_cli.durations import in_words
from leasefs_cli.printing import cells_wide, coloured, printable

Event = Mapping[str, Any]

_COLOURS = {
    "granted": "green",
    "released": "blue",
    "queued": "cyan",
    "claim-refused": "yellow",
    "writes-refused": "yellow",
    "release-refused": "yellow",
    "foreign-writes": "yellow",
    "rescued": "cyan",
    "lapsed": "yellow",
    "expired": "red",
    "revoked": "red",
    "recalled": "yellow",
    "recall-ended": "blue",
    "downgraded": "cyan",
    "agent-revoked": "red",
}
_AGENT_WIDTH = 16
_TYPE_WIDTH = 15


def event_line(recorded: Mapping[str, Any]) -> str:
    """`   412  2026-03-01 14:02:11  granted          agent-07          L412 docs/** exclusive for 30m`."""
    # Deadlines are ledger times; the line says how long it was until them.
    event = {**recorded["event"], "at_s": recorded.get("at_s", 0.0)}
    type_ = str(event.get("type", "?"))
    agent, words = _told(type_, event)
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(recorded.get("wall_s", 0.0)))
    padded_type = coloured(
        printable(type_).ljust(_TYPE_WIDTH), _COLOURS.get(type_, "dim"), sys.stdout
    )
    agent = printable(agent)
    gap = " " * max(0, _AGENT_WIDTH - cells_wide(agent))
    return f"{recorded['seq']:>6}  {when}  {padded_type}  {agent}{gap}  {printable(words)}"


def _told(type_: str, event: Event) -> tuple[str, str]:
    tell = _TELLERS.get(type_)
    if tell is None:
        fields = {name: event[name] for name in event if name != "at_s"}
        return str(event.get("agent", "")), json.dumps(fields)
    return tell(event)


def _ledger_started(event: Event) -> tuple[str, str]:
    return "ledger", f"{event['server']} serves; nothing expires for {in_words(event['grace_s'])}"


def _ledger_restored(event: Event) -> tuple[str, str]:
    lost = f", {event['head_before'] - event['backup_seq']} later ones are lost"
    return "ledger", (
        f"{event['by']} brought back a backup that ends at event {event['backup_seq']}"
        f"{lost if event['head_before'] else ''}; all leases are over, and nothing is granted for "
        f"{in_words(event['closed_for_s'])}"
    )


def _ledger_reopened(event: Event) -> tuple[str, str]:
    by = f" by {event['by']}" if event["by"] else ""
    return "ledger", f"opened again{by}: claims are granted"


def _session_opened(event: Event) -> tuple[str, str]:
    session = event["session"]
    where = f"{session['kind']} of {session['harness']} on {session['host']}, pid {session['pid']}"
    return session["agent"], f"{session['id']} {where}, in {session['territory']}"


def _session_ended(event: Event) -> tuple[str, str]:
    return event["agent"], f"{event['session']}: {event['reason']}"


def _claim_refused(event: Event) -> tuple[str, str]:
    return event["agent"], f"{' '.join(event['globs'])}: {event['message']}"


def _withdrawn(event: Event) -> tuple[str, str]:
    return event["agent"], f"{event['claim']}: {event['reason']}"


def _renewed(event: Event) -> tuple[str, str]:
    leases = event["leases"]
    kept = ", ".join(
        lease["lease"] + (f" (by {lease['kept_by'][0]})" if lease.get("kept_by") else "")
        for lease in leases
    )
    return event.get("agent", ""), f"{event['session']} lives; renewed {kept or 'no lease'}"


def _lapsed(event: Event) -> tuple[str, str]:
    return event[
        "agent"
    ], f"{event['lease']}: not renewed in time; its holder may still get it back"


def _release_refused(event: Event) -> tuple[str, str]:
    paths = _some(list(event["paths"]), event["count"])
    return event["agent"], f"{event['lease']} is dirty: {paths}"


def _some(paths: list[str], count: int) -> str:
    shown = ", ".join(paths[:3])
    return f"{shown} and {count - 3} more" if count > 3 else shown


def _intents_noted(event: Event) -> tuple[str, str]:
    intents = event["intents"]
    whose = sorted({intent["agent"] for intent in intents} - {event["agent"]})
    of = f" (of {', '.join(whose)}, from a journal)" if whose else ""
    stale = sum(intent["fenced"] for intent in intents)
    fenced = f"; {stale} under a lease that was over" if stale else ""
    paths = _some([intent["path"] for intent in intents], len(intents))
    return event["agent"], f"{paths} in {event['host']}:{event['root']}{of}{fenced}"


def _intents_settled(event: Event) -> tuple[str, str]:
    by_outcome: dict[str, list[str]] = {}
    for settled in event["settled"]:
        by_outcome.setdefault(settled["outcome"], []).append(settled["path"])
    words = (f"{outcome}: {_some(paths, len(paths))}" for outcome, paths in by_outcome.items())
    return event["agent"], "; ".join(words)


_UNLEASED = {
    "beside": "saw beside all mounts",
    "git": "git left it other than HEAD, and no lease covers it",
    "commit": "a commit got past the hooks: ",
    "observed": "observed, no lease covers it",
}


def _foreign_writes(event: Event) -> tuple[str, str]:
    changes = event["changes"]
    words = [
        f"{one['what']} {one['path']}"
        + (f" (of {one['holder']['agent']}, {one['holder']['lease']})" if one["holder"] else "")
        for one in changes
    ]
    how = _UNLEASED.get(event.get("how", ""), _UNLEASED["beside"])
    return event["agent"], f"{how}{event.get('about', '')}: {_some(words, len(words))}"


def _rescued(event: Event) -> tuple[str, str]:
    rescue = event["rescue"]
    paths = _some(list(rescue["names"]), rescue["paths"])
    why = f" ({rescue['reason']})" if rescue["reason"] else ""
    return event["agent"], f"kept {paths} of {rescue['agent']} as rescue {rescue['id']}{why}"


def _rescue_dropped(event: Event) -> tuple[str, str]:
    rescue = event["rescue"]
    return event["agent"], f"rescue {rescue['id']} of {rescue['agent']}, {rescue['commit']}"


def _writes_refused(event: Event) -> tuple[str, str]:
    refusals = event["refusals"]
    if not refusals:
        return event["agent"], "none"
    first = refusals[0]
    more = f" (and {len(refusals) - 1} more)" if len(refusals) > 1 else ""
    by = f"{first['program']}[{first['pid']}]"
    passed = "passed, since the mount only observes: " if first.get("observed") else ""
    return event["agent"], f"{first['op']} {first['path']} by {by}: {passed}{first['reason']}{more}"


def _fresh_recorded(event: Event) -> tuple[str, str]:
    fresh = event["fresh"]
    where = f"on {' '.join(fresh['globs'])} ({fresh['files']} files)"
    return fresh["agent"], f"{fresh['key']} succeeded {where}, on {fresh['host']}"


_TELLERS: dict[str, Callable[[Event], tuple[str, str]]] = {
    "ledger-started": _ledger_started,
    "ledger-restored": _ledger_restored,
    "ledger-reopened": _ledger_reopened,
    "session-opened": _session_opened,
    "session-ended": _session_ended,
    **scheduling_lines.TELLERS,
    "claim-refused": _claim_refused,
    "withdrawn": _withdrawn,
    "renewed": _renewed,
    "lapsed": _lapsed,
    "release-refused": _release_refused,
    "writes-refused": _writes_refused,
    "intents-noted": _intents_noted,
    "intents-settled": _intents_settled,
    "foreign-writes": _foreign_writes,
    "rescued": _rescued,
    "rescue-dropped": _rescue_dropped,
    "fresh-recorded": _fresh_recorded,
    **identity_lines.TELLERS,
}

EVENT_TYPES = tuple(_TELLERS)
