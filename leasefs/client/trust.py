"""What a session believes it holds, and until when it may believe it (P3).

The one rule: trust is counted from when the request was *sent*, less a margin, and never from when
its answer came. The ledger counts from when the request *arrived*, which is later. So whatever is
slow, lost or suspended in between, the holder stops first.

What one answer proves:

* a heartbeat that names the lease: good for its TTL from when that heartbeat was sent;
* an answer about a granted lease: good for its `expires_in_s` from when that request was sent, also when
  the answer is a remembered one to a repeated key;
* news that a claim which waited is granted: that it was granted after it was sent, so it is good for its TTL from then;
* any other event proves no time at all, only that a heartbeat is worth sending.

No I/O and no waiting here; the loops are in `heartbeats` and `own_events`.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leasefs.client.log_events import Event, note
from leasefs.core.globs import parse_glob
from leasefs.core.held import HeldLease, HeldView
from leasefs.core.lease import Mode, trust_margin_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from leasefs.core.carving import Carved

log = logging.getLogger(__name__)

_REMEMBERED = 1024


class Trust:
    """The held view and everything that changes it.

    A lease that ended never comes back: an answer may overtake or be overtaken by the news of the end.
    Nor does anything with a token that was current before the session ended: tokens only grow, so one
    that does not comes from another log, and handles opened under the old one must not meet it.
    """

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        """`changed` is called after a lease came or went, not when trust is only prolonged."""
        self.view = HeldView()
        self._changed = changed
        self._ended: dict[str, str] = {}
        self._highest_token = 0
        self._floor_token = 0

    def lease(self, lease_id: str) -> HeldLease | None:
        """The held lease with this id."""
        return next((lease for lease in self.view.leases if lease.lease_id == lease_id), None)

    def why_ended(self, lease_id: str) -> str | None:
        """Why a lease that was held here is no longer, or None if it never was or still is."""
        return self._ended.get(lease_id)

    def granted(self, answer: Mapping[str, Any], sent_s: float) -> bool:
        """Take over a granted LeaseAnswer to a request sent at `sent_s`; False if it ended meanwhile."""
        trusted_until_s = sent_s + answer["expires_in_s"] - trust_margin_s(answer["ttl_s"])
        return self._adopt(answer["lease"], answer["token"], answer, trusted_until_s)

    def confirmed(self, claim: Mapping[str, Any], token: int, ttl_s: float, sent_s: float) -> bool:
        """Take over a claim heard to be granted: a request sent at `sent_s` renewed it, or is what it was granted after."""
        return self._adopt(claim["id"], token, claim, sent_s + ttl_s - trust_margin_s(ttl_s))

    def renewed(self, renewals: Iterable[Mapping[str, Any]], sent_s: float) -> None:
        """Prolong trust by the answer to a heartbeat sent at `sent_s`; never moves it back."""
        later: dict[int, float] = {}
        for renewal in renewals:
            lease = self.view.by_token.get(renewal["token"])
            if lease is not None:
                ttl_s = renewal["ttl_s"]
                until_s = sent_s + ttl_s - trust_margin_s(ttl_s)
                later[lease.token] = max(lease.trusted_until_s, until_s)
        if later:
            self.view = self.view.renewed(later)

    def lost(self, lease_id: str, reason: str) -> None:
        """The lease is over; handles opened under it are dead from now on."""
        is_news = lease_id not in self._ended
        self._remember(lease_id, reason)
        lease = self.lease(lease_id)
        if lease is None:
            if is_news:
                self._changed()  # it may have been waited for
            return
        rest = [other for other in self.view.leases if other is not lease]
        gone = {**self.view.lost, lease.token: reason}
        # What was carved out of it stands on its own now: no other lease of ours can lie over that ground.
        carved = [one for one in self.view.carved if one.parent != lease_id]
        self.view = HeldView(rest, dict(list(gone.items())[-_REMEMBERED:]), carved)
        self._changed()

    def not_over(self, lease_id: str) -> None:
        """A claim that was said to be over before it was ever held is not."""
        self._ended.pop(lease_id, None)

    def taken(self, lease_id: str, reason: str) -> None:
        """As `lost`, against the holder's will, which is worth a word."""
        lease = self.lease(lease_id)
        if lease is not None:
            words = f"{lease_id} is lost: {reason}"
            note(log, Event.LEASE_LOST, words, lease=lease_id, token=lease.token, reason=reason)
        self.lost(lease_id, reason)

    def lost_all(self, reason: str) -> None:
        """The session is over, and all of its leases with it."""
        self._floor_token = self._highest_token
        for lease in self.view.leases:
            self.lost(lease.lease_id, reason)

    # -- parts given to others ------------------------------------------------------------------

    def carve(self, carved: Carved) -> None:
        """Nothing is written there any more, whatever lease covers it."""
        self._carve([*self.view.carved, carved])

    def recarve(self, before: Carved, after: Carved) -> None:
        """More is known of a part; of one that was taken back meanwhile nothing is."""
        self._carve([after if one == before else one for one in self.view.carved])

    def uncarve(self, carved: Iterable[Carved]) -> None:
        """These parts are ours to write on again."""
        over = list(carved)
        self._carve([one for one in self.view.carved if one not in over])

    def _carve(self, carved: list[Carved]) -> None:
        self.view = HeldView(self.view.leases, self.view.lost, carved)
        self._changed()

    # -- sharing what was held alone ------------------------------------------------------------

    def set_mode(self, lease_id: str, mode: Mode, token: int | None = None) -> None:
        """The lease is held in this mode from now on, and under this token if one is given; its trust stays."""
        lease = self.lease(lease_id)
        if lease is None:
            return
        token = lease.token if token is None else token
        self._highest_token = max(self._highest_token, token)
        rest = [other for other in self.view.leases if other is not lease]
        changed = replace(lease, mode=mode, token=token)
        self.view = HeldView([*rest, changed], self.view.lost, self.view.carved)
        self._changed()

    def _adopt(
        self, lease_id: str, token: int, claim: Mapping[str, Any], trusted_until_s: float
    ) -> bool:
        if lease_id in self._ended or token <= self._floor_token:
            return False
        self._highest_token = max(self._highest_token, token)
        known = self.view.by_token.get(token)
        if known is not None:
            trusted_until_s = max(known.trusted_until_s, trusted_until_s)
        lease = HeldLease(
            lease_id=lease_id,
            token=token,
            globs=tuple(parse_glob(text) for text in claim["globs"]),
            mode=Mode(claim["mode"]),
            ttl_s=claim["ttl_s"],
            trusted_until_s=trusted_until_s,
            parent=claim.get("parent", ""),
        )
        rest = [other for other in self.view.leases if other.lease_id != lease_id]
        self.view = HeldView([*rest, lease], self.view.lost, self.view.carved)
        if known is None:
            self._changed()
        return True

    def _remember(self, lease_id: str, reason: str) -> None:
        self._ended.setdefault(lease_id, reason)
        if len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]
