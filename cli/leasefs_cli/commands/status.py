"""`leasefs status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from leasefs.client import api
from leasefs.client.clock import BoottimeClock
from leasefs.core.errors import LedgerUnavailable
from leasefs_cli.commands.ledger_status import ledger_fields
from leasefs_cli.intent_rows import counts, counts_in_words
from leasefs_cli.lease_notes import say_notes
from leasefs_cli.lease_rows import say_leases, say_sessions
from leasefs_cli.mount_view import mount_recall_words, refusal_words, say_trusted
from leasefs_cli.place import view
from leasefs_cli.printing import printable, say, say_fields, say_json
from leasefs_cli.teaching import json_option, teaching_command
from leasefs_cli.waiter_rows import say_waiters

if TYPE_CHECKING:
    from leasefs.client.find import MountFound
    from leasefs_cli.place import View

REFUSALS_SHOWN = 5
_TOLD_BY_MOUNT = {"recall": None, "delegated": (), "parent": ""}


@teaching_command(
    "status",
    examples=[
        ("leasefs status", "in a mount: this agent; elsewhere: the ledger"),
        ("leasefs status --json", "the same for a program"),
    ],
)
@json_option
def command(as_json: bool) -> None:
    """Show who you are, what you hold and wait for, what is uncommitted, and what was refused last.

    Outside a mount it shows the ledger, its sessions and leases. With the ledger away, a mount still
    tells what it holds; writes go on inside leases that it trusts.
    """
    seen = view()
    if seen.mount is None:
        _show_ledger(seen, as_json=as_json)
    else:
        _show_mount(seen, seen.mount, as_json=as_json)


def _show_ledger(seen: View, *, as_json: bool) -> None:
    url = seen.link.address.url
    said = seen.link.send(api.status())
    sessions = seen.link.send(api.sessions(seen.territory))["sessions"]
    leases = seen.link.send(api.leases(seen.territory))["leases"]
    if as_json:
        say_json({"ledger": {"url": url, **said}, "sessions": sessions, "leases": leases})
        return
    say_fields([*ledger_fields(url, said), ("shown below", seen.territory or "all territories")])
    say("")
    say_sessions(sessions)
    say("")
    say_leases(leases)


def _show_mount(seen: View, mount: MountFound, *, as_json: bool) -> None:
    mine = seen.link.send(api.mount())
    said = _ledger_of(seen, mount)
    ledger, waiting, uncommitted = said.status, said.waiting, said.uncommitted
    if as_json:
        say_json(
            {
                "mount": mine,
                "waiting": waiting,
                "ledger": ledger,
                "uncommitted": uncommitted,
                "leases": said.leases,
            }
        )
        return
    where = mount.mountpoint
    if mount.source and mount.source != mount.mountpoint:
        where += f", of {mount.source}"
    say_fields(
        [
            ("agent", f"{mount.agent} ({mount.harness}), session {mount.session}"),
            ("mount", f"{where}, daemon {mount.pid}"),
            ("territory", mount.territory),
            ("ledger", str(ledger.get("error") or f"{mount.ledger}, leasefs {ledger['version']}")),
            ("intents", counts_in_words(uncommitted)),
            ("unleased", (mine.get("unleased") or {}).get("policy", "deny")),
            ("native", printable(", ".join(mine.get("redirects", ())) or "nothing")),
        ]
    )
    say("")
    say_trusted(mine["leases"])
    for part in mine.get("delegations", ()):
        say(printable(part["words"]))
    for recall in mine.get("recalls", ()):
        say(printable(mount_recall_words(recall)))
    # What the mount does not tell by itself.
    say_notes({**lease, **_TOLD_BY_MOUNT} for lease in said.leases)
    if waiting:
        say("")
        say_waiters(waiting)
    _show_refusals(mine["refusals"])


class _Said(NamedTuple):
    """What the ledger says of the session: its own status, what waits and is held, how much is uncommitted."""

    status: api.Body
    waiting: list[api.Body]
    leases: list[api.Body]
    uncommitted: api.Body | None


def _ledger_of(seen: View, mount: MountFound) -> _Said:
    """With the ledger away: why, and nothing else."""
    try:
        status = seen.link.send(api.status())
        waiters = seen.link.send(api.queue(seen.territory))["waiters"]
        leases = seen.link.send(api.leases(seen.territory))["leases"]
        uncommitted = counts(seen, mount.agent, BoottimeClock().wall_s())
    except LedgerUnavailable as error:
        return _Said({"url": mount.ledger, "error": error.message}, [], [], None)
    return _Said(
        {"url": mount.ledger, **status},
        [waiter for waiter in waiters if waiter["session"] == mount.session],
        [lease for lease in leases if lease["session"] == mount.session],
        uncommitted,
    )


def _show_refusals(refusals: list[api.Body]) -> None:
    if not refusals:
        return
    say(f"\nlast refused (of {len(refusals)} kept):")
    for refusal in refusals[:REFUSALS_SHOWN]:
        say(f"  {printable(refusal['path'])}: {printable(refusal_words(refusal))}")
