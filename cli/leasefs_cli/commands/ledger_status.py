"""`leasefs ledger status`."""

from __future__ import annotations

from leasefs.client import api
from leasefs.client.blocking import Link
from leasefs.client.paths import ledger_url
from leasefs_cli.durations import in_words
from leasefs_cli.printing import say_fields, say_json
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "status",
    examples=[
        ("leasefs ledger status", "for a person"),
        ("leasefs ledger status --json", "for a monitor; 7 if it cannot be reached"),
    ],
)
@json_option
def command(as_json: bool) -> None:
    """Show what the ledger is and how much it holds. Starts none."""
    url, embedded = ledger_url()
    said = Link(url).send(api.status())
    if as_json:
        say_json({"url": url, "embedded": embedded, **said})
    else:
        say_fields(ledger_fields(url, said))


def ledger_fields(url: str, said: api.Body) -> list[tuple[str, str]]:
    """The ledger's own answer as named values."""
    territories = said.get("territories", [])
    closed_for_s = said.get("closed_for_s", 0.0)
    # Nothing is said of the usual, that claims are granted.
    closed = f"not granted for {in_words(closed_for_s)}: it was brought back from a backup"
    return [
        ("ledger", f"{url}, leasefs {said['version']}, up {in_words(said['started_ago_s'])}"),
        ("log", f"events {said.get('base', 0) + 1} to {said['seq']} in {said['store']}"),
        *([("claims", closed)] if closed_for_s else []),
        ("sessions", f"{said['sessions']}, {said['live_sessions']} of them live"),
        ("leases", f"{said['leases']}, {said['lapsed']} of them lapsed"),
        ("waiters", str(said["waiters"])),
        ("intents", f"{said['dirty']} dirty, {said['unlanded']} committed and not landed"),
        ("rescues", str(said["rescues"])),
        ("territories", ", ".join(map(str, territories)) if territories else "none"),
    ]
