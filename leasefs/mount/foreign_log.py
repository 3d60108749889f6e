"""The last foreign writes on ground that this mount holds, kept for whoever wonders about a changed file."""

from __future__ import annotations

import json
import logging
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from leasefs.client.log_events import Event, note
from leasefs.core.paths import shown, text

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping
    from typing import Any

log = logging.getLogger(__name__)

KEPT = 100
_HOW = {
    "beside": "beside all mounts",
    "git": "by git, which moved history",
    "commit": "by a commit",
    "observed": "through a mount that only observes",
}


class ForeignFact(NamedTuple):
    """One foreign write on ground that is held here under `lease`."""

    path: bytes
    what: str
    wall_s: float
    lease: str
    how: str = "beside"
    about: str = ""


class ForeignLog:
    """The last `KEPT` of them, each once, also if both the mount itself and the ledger tell of it."""

    def __init__(self) -> None:
        self._last: deque[ForeignFact] = deque(maxlen=KEPT)

    def add(self, fact: ForeignFact) -> None:
        """Note one."""
        if any((one.path, one.what, one.wall_s) == fact[:3] for one in self._last):
            return
        words = f"foreign write on leased ground: {_words(fact)}"
        note(log, Event.FOREIGN_WRITE, words, path=fact.path, what=fact.what, how=fact.how)
        self._last.append(fact)

    def heard(self, fact: Mapping[str, Any], leases: Container[str]) -> None:
        """The ledger tells of foreign writes (`core.events.ForeignWrites`), some on ground of these leases."""
        for one in fact["changes"]:
            holder = one["holder"]
            if holder is not None and holder["lease"] in leases:
                path, how = (
                    one["path"].encode("utf-8", "surrogateescape"),
                    fact.get("how", "beside"),
                )
                about = fact.get("about", "")
                self.add(ForeignFact(path, one["what"], one["wall_s"], holder["lease"], how, about))

    def newest_first(self) -> Iterable[ForeignFact]:
        """The kept ones."""
        return reversed(self._last)

    def files(self) -> dict[str, Callable[[], bytes]]:
        """The makers of `foreign` and `foreign.json` in `.leasefs/`."""
        return {
            "foreign": lambda: "".join(map(foreign_line, self.newest_first())).encode(),
            "foreign.json": lambda: _json([foreign_facts(one) for one in self.newest_first()]),
        }


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode() + b"\n"


def foreign_facts(fact: ForeignFact) -> dict[str, object]:
    """One, JSON-ready."""
    return {
        "time": _when(fact),
        "path": text(fact.path),
        "what": fact.what,
        "lease": fact.lease,
        "how": fact.how,
        "about": fact.about,
    }


def foreign_line(fact: ForeignFact) -> str:
    """The same on one line."""
    return f"{_when(fact)} {_words(fact)}\n"


def _words(fact: ForeignFact) -> str:
    about = f" {fact.about}" if fact.about else ""
    how = _HOW.get(fact.how, fact.how)
    return f"{shown(fact.path)} {fact.what} {how}{about}, though {fact.lease} holds it"


def _when(fact: ForeignFact) -> str:
    return datetime.fromtimestamp(fact.wall_s, UTC).isoformat(timespec="milliseconds")
