"""What a row of a lease has no room for: recalls, freezes, delegation, caps, each as one line for a person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from leasefs_cli.durations import in_words
from leasefs_cli.printing import printable, say

Answer = Mapping[str, Any]

# A freeze without an end is a lease of a hundred years.
_FOR_EVER_S = 10 * 365 * 86400.0
# Nearer than this the end that a cap puts to a lease is told.
_SOON_S = 600.0


def lifted_by_hand(lease: Answer) -> bool:
    """Whether this is a freeze without an end."""
    return bool(lease.get("frozen_by")) and (lease.get("expires_in_s") or 0.0) > _FOR_EVER_S


def say_notes(leases: Iterable[Answer]) -> None:
    """The lines about these leases and waiters, below their rows."""
    for lease in leases:
        for line in note_lines(lease):
            say(printable(line))


def note_lines(lease: Answer) -> Iterator[str]:
    """One line after the other about a lease or waiter; none if it is like most. Not escaped yet."""
    id_ = lease["lease"]
    if lease.get("frozen_by"):
        yield freeze_words(lease)
        return
    yield from _asked_for(lease)
    if lease.get("parent"):
        yield f"{id_} is a part of {lease['parent']}, and goes back to it when it ends"
    if lease.get("delegated"):
        parts = " ".join(lease["delegated"])
        yield f"{id_} has parts delegated to others, which its holder does not write: {parts}"
    if lease.get("resumes"):
        yield _comes_back(lease)
    if lease.get("replaces") and lease["state"] == "waiting":
        yield f"{id_} takes the place of the shared {lease['replaces']} when it is granted (upgrade)"


def _asked_for(lease: Answer) -> Iterator[str]:
    """Why and by when it must be given up, or that this is near."""
    ends_in_s = lease.get("hold_ends_in_s")
    recall = lease.get("recall")
    if recall and lease["state"] == "revoked":
        yield (
            f"{lease['lease']} was recalled by {recall['by']} ({recall['reason']}) and is revoked: nothing may be written "
            "under it; it comes back to its holder by itself"
        )
    elif recall:
        yield recall_words(lease["lease"], recall)
    elif ends_in_s is not None and ends_in_s < _SOON_S:
        left = f"in {in_words(ends_in_s)}" if ends_in_s > 0 else "now"
        yield (
            f"{lease['lease']} will be recalled {left}: this territory limits how long a lease is held "
            f"(leasefs hold {lease['lease']} 2h, as operator)"
        )


def recall_words(lease_id: str, recall: Answer) -> str:
    """`L7 is recalled by ann (ann claimed src/a as L51): yield within 25s; once more time: leasefs more-time L7 30s`."""
    how = f"yield within {in_words(recall['yields_in_s'])}"
    if recall.get("cold"):
        how = "nothing may be written under it any more"
    elif recall.get("may_ask_for_s"):
        more_s = f"{recall['may_ask_for_s']:g}s"
        how += f"; for more time, once: leasefs more-time {lease_id} {more_s}"
    return f"{lease_id} is recalled by {recall['by']} ({recall['reason']}): {how}"


def freeze_words(freeze: Answer) -> str:
    """`L60 is frozen by ann: about to be split (for 2h; leasefs unfreeze L60)`."""
    id_ = freeze["lease"]
    if freeze["state"] == "waiting":
        return (
            f"{id_} will freeze this for {freeze['frozen_by']} when its holders have yielded: {freeze['note']} "
            f"(leasefs unfreeze {id_} gives it up)"
        )
    left_s = freeze.get("expires_in_s") or 0.0
    how_long = "until lifted" if lifted_by_hand(freeze) else f"for {in_words(max(0.0, left_s))}"
    return (
        f"{id_} is frozen by {freeze['frozen_by']} {how_long}, nobody may write there: {freeze['note']} "
        f"(leasefs unfreeze {id_} lifts it)"
    )


def _comes_back(lease: Answer) -> str:
    id_, former = lease["lease"], lease["resumes"]
    if lease["state"] != "waiting":
        return f"{id_} brought back what {former} had when it was recalled"
    return f"{id_} waits to bring back what {former} had when it was recalled; nothing need be done for that"
