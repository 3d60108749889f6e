"""What a holder finds on its ground, in words (P9): notes, rescues, uncommitted work of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs_cli.durations import in_words
from leasefs_cli.lease_rows import who_is

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.client import api

_SHOWN = 5


def inherited_lines(lease: api.Body) -> Iterator[str]:
    """One line after the other; none if the ground was left clean. Not escaped yet."""
    inherits = lease.get("inherits")
    if not inherits:
        return
    for note in [inherits["note"], *inherits["earlier_notes"]]:
        if note is not None:
            yield from _note_lines(note)
    for rescue in inherits["rescues"][:_SHOWN]:
        yield (
            f"rescue {rescue['id']}: {_uncommitted(rescue)} of {rescue['agent']} {_was(rescue)} kept from here "
            f"(leasefs rescue show {rescue['id']})"
        )
    # A ledger that tells all of them says no number.
    count = inherits.get("rescues_count") or len(inherits["rescues"])
    yield from _more(count, "rescues", "leasefs rescue list")
    for intent in inherits["uncommitted"][:_SHOWN]:
        yield f"uncommitted: {intent['agent']} changed {intent['path']} under {intent['lease']}"
    yield from _more(inherits["uncommitted_count"], "uncommitted paths", "leasefs intents")


def own_work_lines(rescues: list[api.Body]) -> Iterator[str]:
    """For whoever lost a lease: where its own uncommitted work is."""
    for rescue in rescues[:_SHOWN]:
        yield (
            f"your own work: {_uncommitted(rescue)} of {rescue['lease']} {_was(rescue)} kept when it was lost "
            f"(leasefs rescue show {rescue['id']})"
        )
    yield from _more(len(rescues), "rescues", "leasefs rescue list")


def _note_lines(note: api.Body) -> Iterator[str]:
    ago = in_words(note["left_ago_s"])
    commit = f" at commit {note['commit'][:12]}" if note.get("commit") else ""
    if not note["text"]:
        yield f"before you: {who_is(note)}, who gave {note['lease']} back {ago} ago{commit}"
        return
    yield f"note from {who_is(note)}, left with {note['lease']} {ago} ago{commit}:"
    for line in note["text"].splitlines():
        yield f"  {line}"


def _more(count: int, what: str, command: str) -> Iterator[str]:
    if count > _SHOWN:
        yield f"{count - _SHOWN} more {what}: {command}"


def _uncommitted(rescue: api.Body) -> str:
    count = rescue["paths"]
    return f"{count} uncommitted path{'s' * (count != 1)}"


def _was(rescue: api.Body) -> str:
    return "was" if rescue["paths"] == 1 else "were"
