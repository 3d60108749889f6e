"""Checks of what dead mounts left behind: journals that nobody has taken over."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from leasefs.core.errors import LeasefsError
from leasefs.mount.catching_up import catch_up, left_behind
from leasefs_cli.checks.finding import OK, UNKNOWN, WARN, Finding, Repair

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.mount.catching_up import LeftBehind
    from leasefs.mount.journal import Header


def journal_findings() -> Iterator[Finding]:
    """One finding for each tree whose mounts died. A journal is replayed, never thrown away."""
    try:
        found = list(left_behind())
    except LeasefsError as error:
        yield Finding(UNKNOWN, "journals", error.message, "")
        return
    if not found:
        yield Finding(OK, "journals", "no dead mount left any")
    by_tree: dict[str, list[LeftBehind]] = {}
    for one in found:
        by_tree.setdefault(one.header.tree, []).append(one)
    for left in by_tree.values():
        yield _left(left)


def _left(left: list[LeftBehind]) -> Finding:
    header = left[0].header
    notes = sum(one.unanswered for one in left)
    agents = ", ".join(sorted({one.header.agent for one in left}))
    return Finding(
        WARN,
        f"journals of {header.root}",
        f"{len(left)} mounts of {agents} died; {notes} changes of theirs are unknown to the ledger",
        "mount the tree again, or leasefs doctor --fix: it tells the ledger and keeps what is uncommitted",
        Repair("tell the ledger, and keep what is uncommitted", partial(_taken_over, header)),
    )


def _taken_over(header: Header) -> str:
    catch_up(header)
    return "taken over; leasefs intents and leasefs rescue list show what was left"
