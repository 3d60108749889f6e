"""What the ledger says by push of the leases that a shell's session holds, as a mount would tell it of a use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.client import api

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from leasefs.client.sse import StreamEvent
    from leasefs_cli.place import Place

_TYPES = (
    *("recalled", "recall-ended", "revoked", "expired"),
    *("queued", "granted", "claim-refused", "withdrawn"),
)
ENDED = frozenset({"revoked", "expired"})
"""The types of events after which a heartbeat tells what is lost, and why."""


class ShellNews:
    """Recalls of some leases of a session outside a mount, and what comes back for them.

    `held` are the tokens of the leases that it holds of those now. Raises what `Link.stream` raises.
    """

    def __init__(self, place: Place, leases: Sequence[api.Body]) -> None:
        self._place = place
        self._use_of: dict[str, str] = {lease["lease"]: lease["lease"] for lease in leases}
        self.held: dict[str, int] = {lease["lease"]: lease["token"] for lease in leases}
        self._recalled: set[str] = set()
        self._seq = 0

    def begin(self) -> None:
        """What happens from now on, or since it was followed last, is told; a heartbeat tells what was before."""
        if not self._seq:
            self._seq = self._place.link.send(api.events(limit=1))["head"]

    def use_of(self, lease_id: str) -> str:
        """The lease as which this one was first known."""
        return self._use_of[lease_id]

    def is_lost(self, lease_id: str) -> bool:
        """A heartbeat said that it is gone: whether that is news, and not the end of a recall, of which more comes."""
        if lease_id in self._recalled:
            return False
        return self.held.pop(lease_id, None) is not None

    def latest(self, use: str) -> str:
        """The lease, or the waiting claim, that the lease `use` is by now."""
        return [id_ for id_, first in self._use_of.items() if first == use][-1]

    def follow(self) -> Iterator[tuple[str, StreamEvent]]:
        """Each event with the lease as which its lease was first known; ends when the ledger ends it."""
        call = api.follow(after=self._seq, session=self._place.session, types=_TYPES)
        for event in self._place.link.stream(call):
            self._seq = max(self._seq, event.seq)
            told = self._told(event)
            if told is not None:
                yield told

    def _told(self, event: StreamEvent) -> tuple[str, StreamEvent] | None:
        fact = event.data["event"]
        match event.type:
            case "queued" | "granted":
                return self._comes_back(event, fact["claim"])
            case "claim-refused" | "withdrawn":
                return self._does_not(event, fact)
            case _ if fact["lease"] in self.held:
                return self._befell(event, fact)
        return None

    def _befell(self, event: StreamEvent, fact: api.Body) -> tuple[str, StreamEvent] | None:
        """What became of a lease that is still held as far as is known."""
        id_, type_ = fact["lease"], event.type
        data: api.Body = {"lease": id_}
        if type_ == "recalled":
            self._recalled.add(id_)
            data["recall"] = _answer(fact["recall"], event.data["at_s"])
        elif type_ == "recall-ended":
            self._recalled.discard(id_)
        elif id_ in self._recalled and not fact.get("returns_to"):
            return None  # it was to be expected; what comes of it is told next
        else:
            self._recalled.discard(id_)
        return self._use_of[id_], event._replace(type=type_, data=data)

    def _comes_back(self, event: StreamEvent, claim: api.Body) -> tuple[str, StreamEvent] | None:
        """A claim was made for the holder of what was recalled, or was granted."""
        former, id_ = claim["resumes"], claim["id"]
        use = self._use_of.get(former)
        if use is None or claim["session"] != self._place.session:
            return None
        self._use_of[id_] = use
        if event.type == "queued":
            self.held.pop(former, None)
            return use, event._replace(type="yielded", data={"lease": former, "claim": id_})
        self.held[id_] = event.seq
        return use, event._replace(type="back", data={"lease": id_})

    def _does_not(self, event: StreamEvent, fact: api.Body) -> tuple[str, StreamEvent] | None:
        """The claim for what was recalled was not made, or is gone again."""
        if event.type == "withdrawn":
            id_, reason = fact["claim"], fact["reason"]
        else:
            reason = fact["message"]
            id_ = reason.partition(" ")[0]
            if not reason.startswith(f"{id_} does not come back"):
                return None
        use = self._use_of.get(id_)
        if use is None:
            return None
        self.held.pop(id_, None)
        return use, event._replace(type="lost", data={"lease": id_, "reason": reason})


def _answer(recall: api.Body, at_s: float) -> api.Body:
    """As `core.answers.RecallAnswer` has it."""
    return {
        "by": recall["by"],
        "reason": recall["reason"],
        "yields_in_s": max(0.0, recall["deadline_s"] - at_s),
        "may_ask_for_s": 0.0 if recall["extended"] else recall["within_s"],
        "cold": recall["cold"],
    }
