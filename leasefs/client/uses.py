"""What keeps leases alive (P4): open write handles, recent writes, running commands.

A lease is renewed at a third of its TTL, and only if it was used since it was last renewed.
Opening a file for reading is no use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from leasefs.client.process import program_name
from leasefs.core.paths import shortened, text

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from leasefs.core.held import HeldLease

KEPT_BY_SHOWN = 5
# One line that the ledger would not take would keep a heartbeat, and all leases in it, from being renewed.
LONGEST_LINE = 250
# A lease in use is renewed this often within its TTL, so two heartbeats may fail without harm.
RENEWALS_PER_TTL = 3


class Use(NamedTuple):
    """One thing that keeps a lease in use for as long as it lasts."""

    token: int
    pid: int
    program: str
    what: bytes | str

    def shown(self) -> str:
        """`pid program path`; the program is asked for only now, because opens are many."""
        program = self.program or program_name(self.pid)
        what = self.what if isinstance(self.what, str) else text(self.what)
        return shortened(f"{self.pid} {program} {what}".rstrip(), LONGEST_LINE)


class Uses:
    """Counts uses and knows which leases are due for renewal. All times CLOCK_BOOTTIME seconds."""

    def __init__(
        self,
        woken: Callable[[], None] = lambda: None,
        now_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`woken` is called at the first use of a lease since it was last renewed."""
        self._woken = woken
        self._now_s = now_s
        self._last_s: dict[int, float] = {}
        # Called when a lease is used no more, by its token.
        self.rested: Callable[[int], None] = lambda _: None
        self._open: dict[int, Use] = {}
        self._open_count: dict[int, int] = {}
        self._used: dict[int, None] = {}
        self._renewed_at_s: dict[int, float] = {}
        self._next_id = 1

    def begin(self, token: int, pid: int, what: bytes | str, program: str = "") -> int:
        """Something uses the lease from now on. Returns an id for `end`."""
        use_id, self._next_id = self._next_id, self._next_id + 1
        self._open[use_id] = Use(token, pid, program, what)
        self._open_count[token] = self._open_count.get(token, 0) + 1
        self.wrote(token)
        return use_id

    def end(self, use_id: int) -> None:
        """That use is over. A use that is not known (its lease is forgotten) is no error."""
        use = self._open.pop(use_id, None)
        if use is not None:
            left = self._open_count[use.token] - 1
            if left:
                self._open_count[use.token] = left
            else:
                del self._open_count[use.token]
                self._last_s[use.token] = self._now_s()
                self.rested(use.token)

    def last_s(self, token: int) -> float:
        """When the lease was used last: infinity if something uses it now, less than any time if nothing ever did."""
        if token in self._open_count:
            return float("inf")
        return self._last_s.get(token, float("-inf"))

    def wrote(self, token: int) -> None:
        """The lease was used just now. Called at every write, so a second one costs two look-ups."""
        if token not in self._open_count:
            self._last_s[token] = self._now_s()
        if token not in self._used:
            self._used[token] = None
            self._woken()

    def in_use(self, token: int) -> bool:
        """Whether it is used, or was since it was last renewed."""
        return token in self._used or token in self._open_count

    def is_open(self, token: int) -> bool:
        """Whether something uses it right now."""
        return token in self._open_count

    def due_at_s(self, lease: HeldLease) -> float:
        """When the lease is to be renewed if it is in use."""
        last_s = self._renewed_at_s.get(lease.token, float("-inf"))
        return last_s + lease.ttl_s / RENEWALS_PER_TTL

    def due(self, leases: Iterable[HeldLease], now_s: float) -> list[HeldLease]:
        """Those in use whose time has come."""
        return [
            lease for lease in leases if self.in_use(lease.token) and now_s >= self.due_at_s(lease)
        ]

    def next_due_s(self, leases: Iterable[HeldLease]) -> float:
        """When the next one in use is due; infinity if none is."""
        return min(
            (self.due_at_s(lease) for lease in leases if self.in_use(lease.token)),
            default=float("inf"),
        )

    def kept_by(self, token: int) -> list[str]:
        """What keeps the lease alive, for people; at most five lines."""
        users = [use for use in self._open.values() if use.token == token]
        shown = [use.shown() for use in users[:KEPT_BY_SHOWN]]
        if len(users) > KEPT_BY_SHOWN:
            shown[-1] = f"and {len(users) - KEPT_BY_SHOWN + 1} more"
        return shown or (["a recent write"] if token in self._used else [])

    def sent(self, tokens: Iterable[int]) -> list[int]:
        """These go into a heartbeat now: what is written from here on counts for the next one.

        Returns those that were used, for `unsent`.
        """
        used = [token for token in tokens if token in self._used]
        for token in used:
            del self._used[token]
        return used

    def unsent(self, tokens: Iterable[int]) -> None:
        """That heartbeat was not answered: these of its leases were used and still need one."""
        for token in tokens:
            self._used[token] = None

    def renewed(self, token: int, sent_s: float) -> None:
        """The ledger renewed it, by a request sent at `sent_s`."""
        self._renewed_at_s[token] = max(sent_s, self._renewed_at_s.get(token, sent_s))

    def keep_only(self, tokens: Container[int]) -> None:
        """Forget leases that are over."""
        for known in (self._used, self._renewed_at_s, self._last_s):
            for token in [token for token in known if token not in tokens]:
                del known[token]
