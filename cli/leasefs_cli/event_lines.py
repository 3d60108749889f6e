"""An event of the ledger's log as one readable line. Its fields: `leasefs.core.events`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from leasefs_cli.durations import in_words
from leasefs_cli.printing import cells_wide, coloured, printable

Event = Mapping[str, Any]

_COLOURS = {
    "granted": "green",
    "released": "blue",
    "queued": "cyan",
    "claim-refused": "yellow",
    "writes-refused": "yellow",
    "lapsed": "yellow",
    "expired": "red",
    "revoked": "red",
}
_AGENT_WIDTH = 16
_TYPE_WIDTH = 15


def event_line(recorded: Mapping[str, Any]) -> str:
    """`   412  2026-03-01 14:02:11  granted          agent-07          L412 docs/** exclusive for 30m`."""
    event = recorded["event"]
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
        return str(event.get("agent", "")), json.dumps(event)
    return tell(event)


def _ledger_started(event: Event) -> tuple[str, str]:
    return "ledger", f"{event['server']} serves; nothing expires for {in_words(event['grace_s'])}"


def _session_opened(event: Event) -> tuple[str, str]:
    session = event["session"]
    where = f"{session['kind']} of {session['harness']} on {session['host']}, pid {session['pid']}"
    return session["agent"], f"{session['id']} {where}, in {session['territory']}"


def _session_ended(event: Event) -> tuple[str, str]:
    return event["agent"], f"{event['session']}: {event['reason']}"


def _claim(claim: Event) -> str:
    return (
        f"{claim['id']} {' '.join(claim['globs'])} {claim['mode']} for {in_words(claim['ttl_s'])}"
    )


def _granted(event: Event) -> tuple[str, str]:
    return event["claim"]["agent"], _claim(event["claim"])


def _queued(event: Event) -> tuple[str, str]:
    return event["claim"]["agent"], f"{_claim(event['claim'])}, behind {', '.join(event['behind'])}"


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


def _ended(event: Event) -> tuple[str, str]:
    return event["agent"], f"{event['lease']}: {event['reason']}"


def _revoked(event: Event) -> tuple[str, str]:
    return event["agent"], f"{event['lease']}: by {event['by']}"


def _writes_refused(event: Event) -> tuple[str, str]:
    refusals = event["refusals"]
    if not refusals:
        return event["agent"], "none"
    first = refusals[0]
    more = f" (and {len(refusals) - 1} more)" if len(refusals) > 1 else ""
    by = f"{first['program']}[{first['pid']}]"
    return event["agent"], f"{first['op']} {first['path']} by {by}: {first['reason']}{more}"


def _fresh_recorded(event: Event) -> tuple[str, str]:
    fresh = event["fresh"]
    where = f"on {' '.join(fresh['globs'])} ({fresh['files']} files)"
    return fresh["agent"], f"{fresh['key']} succeeded {where}, on {fresh['host']}"


_TELLERS: dict[str, Callable[[Event], tuple[str, str]]] = {
    "ledger-started": _ledger_started,
    "session-opened": _session_opened,
    "session-ended": _session_ended,
    "granted": _granted,
    "queued": _queued,
    "claim-refused": _claim_refused,
    "withdrawn": _withdrawn,
    "renewed": _renewed,
    "lapsed": _lapsed,
    "released": _ended,
    "revoked": _revoked,
    "expired": _ended,
    "writes-refused": _writes_refused,
    "fresh-recorded": _fresh_recorded,
}

EVENT_TYPES = tuple(_TELLERS)
