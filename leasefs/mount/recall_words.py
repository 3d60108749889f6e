"""What a holder is told of its recalls, in `.leasefs/recalls`, by the control socket and by `leasefs status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.client.recalls import Recall, Stage
from leasefs.core.paths import shown, text

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMED = 3


def recall_facts(recall: Recall, now_s: float) -> dict[str, object]:
    """A recall, JSON-ready; `yields_in_s` is None once writes have stopped."""
    asked = recall.stage is Stage.ASKED
    return {
        "lease": recall.lease_id,
        "globs": list(recall.globs),
        "state": recall.stage.value,
        "by": recall.by,
        "reason": recall.reason,
        "cold": recall.cold,
        "yields_in_s": round(max(0.0, recall.until_s - now_s), 1) if asked else None,
        "may_ask_for_s": recall.may_ask_for_s if asked else 0.0,
        "again": recall.again or None,
        "rescue": recall.rescue or None,
        "in_tree": [text(path) for path in recall.in_tree],
        "changed": [text(path) for path in recall.changed],
        "next": _next(recall),
    }


def recall_line(recall: Recall, now_s: float) -> str:
    """The same on one line."""
    facts = recall_facts(recall, now_s)
    when = (
        f", to be given up within {facts['yields_in_s']} s" if recall.stage is Stage.ASKED else ""
    )
    globs = " ".join(recall.globs)
    return f"{recall.lease_id} {globs} {recall.words()}{when}; {facts['next']}"


def _next(recall: Recall) -> str:
    """What to do, and what of it."""
    match recall.stage:
        case Stage.ASKED:
            more = (
                f"; for more time: leasefs more-time {recall.lease_id} {recall.may_ask_for_s:g}s"
                if recall.may_ask_for_s
                else ""
            )
            return f"commit what you have there and close its files{more}"
        case Stage.STOPPED:
            return "nothing is written there any more, and what is uncommitted is being kept"
        case Stage.GIVEN_UP | Stage.WAITING:
            back = f"it comes back as {recall.again}" if recall.again else "it is given up"
            if recall.goes_to:
                back = f"it went back to {recall.goes_to}, out of which it was delegated to you"
            return f"{back}: leasefs queue{_kept(recall)}"
        case Stage.BACK:
            return f"it is back, as {recall.again}{_kept_now(recall)}"
        case _:
            why = recall.why_not or "it does not come back: claim it again"
            return f"{why}{_kept(recall)}"


def _kept(recall: Recall) -> str:
    if not recall.rescue:
        return ""
    return (
        f"; what was uncommitted is kept, and lies in the tree until somebody changes it: "
        f"leasefs rescue show {recall.rescue}"
    )


def _kept_now(recall: Recall) -> str:
    if not recall.rescue:
        return ""
    if not recall.changed:
        return f"; what was uncommitted lies in the tree as it was ({_names(recall.in_tree)})"
    return f"; changed meanwhile: {_names(recall.changed)}; what you had: leasefs rescue apply {recall.rescue}"


def _names(paths: Iterable[bytes]) -> str:
    names = sorted(map(shown, paths))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more if names else "it is committed by now"
