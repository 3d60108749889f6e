"""Clients that claim, renew and release all the time, send each request until it is answered, and some of them twice."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leasefs.client import api
from leasefs.client.blocking import Link
from leasefs.client.ids import new_credentials, new_key
from leasefs.core.errors import ClaimConflict, Deadlock, LedgerUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

GROUND = ("hot/**", "hot/a", "warm/*", "warm/x", "cold/**", "cold/x/y")
TTL_S = 600.0
TERRITORY = "restarts"
_AGAIN_S = 0.005


@dataclass(slots=True)
class Said:
    """What one client was answered: grants as (key, lease, token), releases by key, and what two answers to one request differ in."""

    grants: list[tuple[str, str, int]] = field(default_factory=list)
    releases: list[tuple[str, str]] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    requests: int = 0
    repeated: int = 0
    longest_gap_s: float = 0.0


class Client(threading.Thread):
    """One session, in a thread of its own."""

    def __init__(self, url: str, number: int, stop: threading.Event) -> None:
        super().__init__(name=f"client-{number}")
        self._credentials = new_credentials()
        self._link = Link(url, self._credentials, timeout_s=30.0)
        self._random = random.Random(number)  # noqa: S311 - no secret
        self._number, self._stopped = number, stop
        self._held: dict[str, int] = {}
        self._answered_at_s = 0.0
        self.said = Said()
        self.trouble = ""

    def run(self) -> None:
        """Until told to stop; `trouble` says what ended it before."""
        try:
            self._insist(self._opening())
            while not self._stopped.is_set():
                self._step()
        except LedgerUnavailable as error:
            if not self._stopped.is_set():
                self.trouble = repr(error)
        except Exception as error:  # noqa: BLE001 -- whoever started us reports it
            self.trouble = repr(error)

    def _opening(self) -> api.Call:
        return api.open_session(
            session=self._credentials.session,
            secret=self._credentials.secret,
            agent=f"client-{self._number}",
            harness="test",
            territory=TERRITORY,
            kind="shell",
            host="here",
            pid=1,
            process="",
        )

    def _insist(self, call: api.Call) -> api.Body:
        """Send one and the same request until it is answered (P6), and measure how long that took."""
        began_s = time.monotonic()
        while True:
            try:
                answer = self._link.send(call)
            except LedgerUnavailable:
                if self._stopped.is_set():
                    raise
                self._stopped.wait(_AGAIN_S)
                continue
            finally:
                took_s = time.monotonic() - began_s
                self.said.longest_gap_s = max(self.said.longest_gap_s, took_s)
            self.said.requests += 1
            return answer

    def _twice(self, call: api.Call, told: Callable[[api.Body], object]) -> api.Body:
        """As `_insist`; sometimes the answer is taken for lost, and the request sent again."""
        answer = self._insist(call)
        if self._random.random() < 0.2:
            self.said.repeated += 1
            again = self._insist(call)
            if told(again) != told(answer):
                self.said.differences.append(f"{call.path}: {told(answer)}, then {told(again)}")
        return answer

    def _step(self) -> None:
        chosen = self._random.random()
        if self._held and chosen < 0.35:
            self._release()
        elif self._held and chosen < 0.5:
            self._renew()
        else:
            self._claim()

    def _claim(self) -> None:
        own = f"own/{self._number}/{self._random.randrange(50)}"
        glob = self._random.choice((*GROUND, own))
        key = new_key()
        call = api.claim([glob], key=key, ttl_s=TTL_S)
        try:
            answer = self._twice(call, lambda one: (one["lease"], one["token"], one["state"]))
        except (ClaimConflict, Deadlock):
            return
        if answer["lease"] not in self._held:
            self.said.grants.append((key, answer["lease"], answer["token"]))
            self._held[answer["lease"]] = answer["token"]

    def _release(self) -> None:
        lease = self._random.choice(list(self._held))
        key = new_key()
        self._twice(api.release(lease, key=key), lambda one: one["state"])
        self.said.releases.append((key, lease))
        del self._held[lease]

    def _renew(self) -> None:
        beats = [{"lease": id_, "token": token, "kept_by": []} for id_, token in self._held.items()]
        answer = self._insist(api.heartbeat(self._credentials.session, beats))
        for lost in answer["lost"]:
            self.said.differences.append(
                f"{lost['lease']} was granted, and then lost: {lost['reason']}"
            )
            self._held.pop(lost["lease"], None)
