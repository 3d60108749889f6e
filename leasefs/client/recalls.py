"""What this session knows of recalls: which of its leases must be given up, by when, and what comes back (P7).

A recall is heard by event, and again in the answers to heartbeats, should the stream be broken. Deadlines are told
as seconds that are left, and counted from when the request was sent. No I/O and no waiting here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from leasefs.client.trust import Trust
    from leasefs.core.held import HeldLease

REMEMBERED = 256
# Two answers about one deadline may differ by as much as they took.
_SAME_S = 1.0


class Stage(StrEnum):
    """How far a recall has come."""

    ASKED = "asked"
    """The lease is to be given up, and may still be written under."""
    STOPPED = "stopped"
    """Nothing is written under it any more; the ledger has still to hear of that."""
    GIVEN_UP = "given-up"
    WAITING = "waiting"
    """Its ground is claimed again for its holder, who waits."""
    BACK = "back"
    """It may be written under again."""
    OVER = "over"
    """Nothing more comes of it."""


@dataclass(eq=False)
class Recall:
    """A lease that was recalled, and what became of that.

    `until_s` is the deadline on the holder's own clock, `within_s` how far away it was when first heard of; `held` is
    the lease as it was last seen. `again` is the claim that brings the ground back, `why_not` why there is none.
    `rescue` is where the uncommitted work of it is kept. Once that is `taken_up` again, `in_tree` are the paths of it
    that still are as they were left, and `changed` those that are not.
    """

    lease_id: str
    by: str
    reason: str
    until_s: float
    within_s: float
    may_ask_for_s: float
    cold: bool
    globs: tuple[str, ...] = ()
    stage: Stage = Stage.ASKED
    as_of_s: float = float("-inf")
    held: HeldLease | None = None
    again: str = ""
    why_not: str = ""
    rescue: str = ""
    taken_up: bool = False
    in_tree: tuple[bytes, ...] = ()
    changed: tuple[bytes, ...] = ()

    @property
    def goes_to(self) -> str:
        """The lease that the ground goes back to instead of coming back; "" unless it was delegated out of one."""
        return "" if self.held is None or self.again else self.held.parent

    def words(self) -> str:
        """Who recalled it and why."""
        return f"recalled by {self.by}: {self.reason}"


class Recalls:
    """All recalls of one session, each under the id of the lease that was recalled."""

    def __init__(
        self, trust: Trust, now_s: Callable[[], float], changed: Callable[[], None]
    ) -> None:
        """`changed` is called whenever something is heard."""
        self._trust = trust
        self._now_s = now_s
        self._changed = changed
        self._of: dict[str, Recall] = {}
        self._former: dict[str, str] = {}
        self._released: Recall | None = None
        self._given_up: Recall | None = None
        # When it was heard that a recall had ended: an answer to what was asked before may still tell of it.
        self._ended_s: dict[str, float] = {}

    def __iter__(self) -> Iterator[Recall]:
        return iter(list(self._of.values()))

    def of(self, lease_id: str) -> Recall | None:
        """The recall of this lease."""
        return self._of.get(lease_id)

    def latest(self, lease_id: str) -> str:
        """The claim or lease that the ground of this one came back with, itself if it did not."""
        while (recall := self._of.get(lease_id)) is not None and recall.again:
            lease_id = recall.again
        return lease_id

    def first(self, lease_id: str) -> str:
        """The lease that was claimed, of which this one is what came back."""
        while lease_id in self._former:
            lease_id = self._former[lease_id]
        return lease_id

    def away(self, path: bytes) -> Recall | None:
        """The newest recall for which ground with this path was given up and has not come back."""
        gone = Stage.STOPPED, Stage.GIVEN_UP, Stage.WAITING
        for recall in reversed(self._of.values()):
            held = recall.held
            if recall.stage in gone and held is not None and held.matches(path):
                return recall
        return None

    # -- what is heard --------------------------------------------------------------------------

    def heard(self, fact: Mapping[str, Any], at_s: float) -> None:
        """Of a `Recalled` event, decided at `at_s` of the ledger's clock."""
        asked = fact["recall"]
        self._ask(
            fact["lease"],
            asked,
            self._now_s() + max(0.0, asked["deadline_s"] - at_s),
            0.0 if asked["extended"] else asked["within_s"],
            self._now_s(),
        )

    def told(self, lease_id: str, answer: Mapping[str, Any], sent_s: float) -> None:
        """By a RecallAnswer to a request that was sent at `sent_s`; an older one that comes late says nothing."""
        known = self._of.get(lease_id)
        as_of_s = self._ended_s.get(lease_id, float("-inf")) if known is None else known.as_of_s
        if sent_s < as_of_s:
            return
        until_s = sent_s + answer["yields_in_s"]
        self._ask(lease_id, answer, until_s, answer["may_ask_for_s"], sent_s)

    def _ask(
        self,
        lease_id: str,
        asked: Mapping[str, Any],
        until_s: float,
        may_ask_for_s: float,
        as_of_s: float,
    ) -> None:
        recall = self._of.get(lease_id)
        if recall is None:
            if self._trust.why_ended(lease_id) is not None:
                return  # old news
            within_s = until_s - self._now_s()
            recall = Recall(lease_id, "", "", until_s, within_s, may_ask_for_s, cold=False)
            self._remember(recall)
        recall.by, recall.reason = asked["by"], asked["reason"]
        if until_s < recall.until_s - _SAME_S:
            recall.within_s = until_s - self._now_s()
        recall.until_s, recall.may_ask_for_s = until_s, may_ask_for_s
        recall.cold, recall.as_of_s = asked["cold"], as_of_s
        self._see(recall)
        if recall.cold and recall.stage is Stage.ASKED:
            self.stop(recall)
        self._changed()

    def heard_end(self, lease_id: str) -> None:
        """Nobody asks for the lease any more: all is as before, or will be, if writes under it have stopped already."""
        recall = self._of.get(lease_id)
        if recall is not None and recall.stage is Stage.ASKED:
            recall.stage = Stage.OVER
            del self._of[lease_id]
            self._ended_s[lease_id] = self._now_s()
            if len(self._ended_s) > REMEMBERED:
                del self._ended_s[next(iter(self._ended_s))]
            self._changed()

    def heard_over(self, lease_id: str) -> None:
        """The ledger ended the lease: it was released, or revoked and dropped."""
        recall = self._of.get(lease_id)
        # What was not stopped here was ended by its holder's own wish.
        if recall is None or recall.stage is Stage.ASKED:
            self._forget_all_of(lease_id)
            if recall is not None:
                recall.stage, self._released = Stage.OVER, recall
        elif recall.stage in (Stage.STOPPED, Stage.GIVEN_UP):
            recall.stage, self._given_up = Stage.GIVEN_UP, recall
        self._changed()

    def just_given_up(self) -> Recall | None:
        """What the last event was about; if its ground comes back, the next event of the session says so."""
        recall, self._given_up = self._given_up, None
        return recall

    def forget_unless_it_comes_back(self, recall: Recall | None) -> None:
        """That event was heard."""
        if recall is not None and recall.stage is Stage.GIVEN_UP:
            recall.stage = Stage.OVER
            self._of.pop(recall.lease_id, None)
            self._changed()

    def _forget_all_of(self, lease_id: str) -> None:
        """Its ground is gone for good: the recalls that it came back from are of no interest any more."""
        former: str | None = lease_id
        while former is not None:
            self._of.pop(former, None)
            former = self._former.pop(former, None)

    def heard_revoked(self, lease_id: str) -> None:
        """Its deadline is over, before it was given up."""
        recall = self._of.get(lease_id)
        if recall is not None and recall.stage is Stage.ASKED:
            self.stop(recall)

    def heard_queued(self, claim: Mapping[str, Any]) -> None:
        """Ground of a lease that was recalled is claimed again for us."""
        former = claim["resumes"]
        if not former:
            return
        recall = self._of.get(former)
        if recall is None:
            recall = Recall(
                former, "the ledger", "it was recalled", self._now_s(), 0.0, 0.0, cold=False
            )
            self._remember(recall)
        recall.globs = tuple(claim["globs"])
        recall.again, recall.stage = claim["id"], Stage.WAITING
        self._former[claim["id"]] = former
        self._changed()

    def heard_refused(self, message: str) -> None:
        """The ledger could not claim ground again that was given up, and says why (`core.recalling.come_back`)."""
        lease_id, found, _ = message.partition(" does not come back")
        recall = self._of.get(lease_id) if found else None
        if recall is not None and recall.stage in (Stage.STOPPED, Stage.GIVEN_UP):
            recall.stage, recall.why_not = Stage.OVER, message
            self._changed()

    def heard_withdrawn(self, claim_id: str) -> None:
        """It does not come back: the claim is out of the queue."""
        recall = self._of.get(self._former.get(claim_id, ""))
        if recall is not None and recall.stage is Stage.WAITING:
            recall.stage = Stage.OVER
            self._changed()

    def held_changed(self) -> None:
        """A lease came into the view, or left it: perhaps one that was waited for."""
        for recall in self._of.values():
            if recall.stage is Stage.WAITING and self._trust.lease(recall.again) is not None:
                recall.stage = Stage.BACK

    # -- what the holder does -------------------------------------------------------------------

    def stop(self, recall: Recall) -> None:
        """Nothing is written under the lease from this moment; what is left is to give it up."""
        self._see(recall)
        recall.stage = Stage.STOPPED
        self._trust.lost(recall.lease_id, recall.words())
        self._changed()

    def _see(self, recall: Recall) -> None:
        lease = self._trust.lease(recall.lease_id)
        if lease is not None:
            recall.held = lease
            recall.globs = tuple(glob.text for glob in lease.globs)

    def given_back(self, recall: Recall) -> None:
        """The ledger was told, or has ended the lease itself."""
        if recall.stage is Stage.STOPPED:
            recall.stage = Stage.GIVEN_UP
            self._changed()

    def forget_all(self) -> None:
        """The session is over, and whatever it waited for with it."""
        for recall in self._of.values():
            if recall.stage is not Stage.BACK:
                recall.stage = Stage.OVER
        self._of.clear()
        self._former.clear()
        self._changed()

    def _remember(self, recall: Recall) -> None:
        self._of[recall.lease_id] = recall
        if len(self._of) > REMEMBERED:
            done = (id_ for id_, one in self._of.items() if one.stage in (Stage.BACK, Stage.OVER))
            oldest = next(done, next(iter(self._of)))
            self._former.pop(self._of.pop(oldest).again, None)
