"""Leases without a ledger: a view that a test sets, and a record of what the mount told it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from leasefs.core.globs import parse_glob
from leasefs.core.held import HeldLease, HeldView
from leasefs.core.lease import Mode
from leasefs.core.paths import text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from leasefs.core.carving import Carved
    from leasefs.core.policy import RefusalRecord


def held(
    token: int, *globs: str, mode: Mode = Mode.EXCLUSIVE, trusted_until_s: float = float("inf")
) -> HeldLease:
    """A lease as its holder knows it; trusted for ever unless said otherwise."""
    return HeldLease(
        lease_id=f"lease-{token}",
        token=token,
        globs=tuple(parse_glob(glob) for glob in globs),
        mode=mode,
        ttl_s=1800.0,
        trusted_until_s=trusted_until_s,
    )


@dataclass
class StaticHoldings:
    """Implements the mount's `Holdings`.

    `confirm` is the view that `revalidate` brings, if any, after `confirm_after_s`.
    """

    view: HeldView = field(default_factory=HeldView)
    confirm: HeldView | None = None
    confirm_after_s: float = 0.0
    ahead_s: float = 0.0
    users: dict[int, tuple[int, bytes, int]] = field(default_factory=dict)
    written: dict[int, float] = field(default_factory=dict)
    refusals: list[RefusalRecord] = field(default_factory=list)
    asked: int = 0
    given: Callable[[Carved], None] = lambda _: None
    redirects: list[str] = field(default_factory=list)
    _next_use: int = 1

    def hold(self, leases: Iterable[HeldLease], lost: Mapping[int, str] | None = None) -> None:
        """Replace what is held."""
        self.view = HeldView(leases, lost)

    def now_s(self) -> float:
        """CLOCK_BOOTTIME, put ahead by `ahead_s`."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) + self.ahead_s

    def writer_opened(self, token: int, path: bytes, pid: int) -> int:
        """Note a user of a lease."""
        self.users[self._next_use] = (token, path, pid)
        self._next_use += 1
        return self._next_use - 1

    def writer_closed(self, use_id: int) -> None:
        """Forget it again."""
        del self.users[use_id]

    def kept_by(self, token: int) -> list[str]:
        """What keeps a lease alive."""
        return [f"{pid} {text(path)}" for used, path, pid in self.users.values() if used == token]

    def wrote(self, token: int) -> None:
        """Note the time of a change."""
        self.written[token] = self.now_s()

    async def revalidate(self) -> None:
        """Take over `confirm`."""
        self.asked += 1
        await trio.sleep(self.confirm_after_s)
        if self.confirm is not None:
            self.view = self.confirm

    def refused(self, refusal: RefusalRecord) -> None:
        """Keep a refusal."""
        self.refusals.append(refusal)

    def when_given(self, call: Callable[[Carved], None]) -> None:
        """Keep it for the test to call."""
        self.given = call
