"""What the files of `.leasefs/` say about leases and refusals, for people and for programs.

Text files are lines to read; their `.json` neighbours hold the same facts. The daemon adds what only
it knows (`agent`, `mount.json`).
"""

from __future__ import annotations

import errno
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from leasefs.core.paths import shown, text
from leasefs.mount.refusals import RefusalLog, There, advice_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from leasefs.core.held import HeldLease
    from leasefs.core.policy import RefusalRecord
    from leasefs.mount.holdings import Holdings


_NOBODY = There()


def control_files(
    holdings: Holdings, refusals: RefusalLog, kept_by: Callable[[int], list[str]]
) -> dict[str, Callable[[], bytes]]:
    """The makers of `leases`, `leases.json`, `refusals` and `refusals.json`.

    `kept_by` tells by a lease's token what keeps it alive, each as `pid program path` (P4).
    """
    return {
        "leases": lambda: _lines(map(lease_line, _leases(holdings, kept_by))),
        "leases.json": lambda: _json(_leases(holdings, kept_by)),
        "refusals": lambda: _lines(
            refusal_line(one, refusals.there(one.path)) for one in refusals.newest_first()
        ),
        "refusals.json": lambda: _json(all_refusals(refusals)),
    }


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode() + b"\n"


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _leases(holdings: Holdings, kept_by: Callable[[int], list[str]]) -> list[dict[str, object]]:
    now_s = holdings.now_s()
    return [lease_facts(lease, now_s, kept_by(lease.token)) for lease in holdings.view.leases]


def lease_facts(lease: HeldLease, now_s: float, kept_by: list[str]) -> dict[str, object]:
    """A held lease, JSON-ready. `trusted_for_s` is 0 while it is lapsed."""
    return {
        "id": lease.lease_id,
        "globs": [glob.text for glob in lease.globs],
        "mode": lease.mode.value,
        "token": lease.token,
        "ttl_s": lease.ttl_s,
        "trusted_for_s": round(max(0.0, lease.trusted_until_s - now_s), 1),
        "kept_by": kept_by,
    }


def lease_line(facts: dict[str, object]) -> str:
    """The same on one line."""
    globs, kept_by = facts["globs"], facts["kept_by"]
    trust = f"trusted for {facts['trusted_for_s']} s" if facts["trusted_for_s"] else "lapsed"
    kept = (
        f", kept by {'; '.join(map(str, kept_by))}" if isinstance(kept_by, list) and kept_by else ""
    )
    names = " ".join(map(str, globs)) if isinstance(globs, list) else ""
    return f"{facts['id']} {facts['mode']} {names} ({trust}{kept})"


def all_refusals(refusals: RefusalLog) -> list[dict[str, object]]:
    """The facts of all that are kept, newest first."""
    return [refusal_facts(one, refusals.there(one.path)) for one in refusals.newest_first()]


def refusal_facts(record: RefusalRecord, there: There = _NOBODY) -> dict[str, object]:
    """A refusal, JSON-ready (P10). `there` is who stands there now."""
    return {
        "time": datetime.fromtimestamp(record.wall_s, UTC).isoformat(timespec="milliseconds"),
        "pid": record.pid,
        "program": record.program,
        "operation": record.op.value,
        "path": text(record.path),
        "errno": errno.errorcode[record.errno],
        "code": record.reason.name,
        "reason": record.reason.value,
        "observed": record.observed,
        "lease": record.lease_id,
        "next": record.detail or there.next_step or advice_for(record),
        "there": there.words,
    }


def refusal_line(record: RefusalRecord, there: There = _NOBODY) -> str:
    """The same on one line."""
    facts = refusal_facts(record, there)
    now = f"; there now: {there.words}" if there.words else ""
    outcome = "passed, as this mount only observes" if record.observed else facts["errno"]
    return (
        f"{facts['time']} {facts['program']}[{facts['pid']}] {facts['operation']} "
        f"{shown(record.path)}: {outcome}, {facts['reason']}{now}; {facts['next']}"
    )
