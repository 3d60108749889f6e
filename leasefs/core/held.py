"""What one mount holds, as one immutable value that the write check reads without any I/O.

The lessee replaces the whole view when something changes; a check works on the view it began with.
Times are seconds of the holder's own CLOCK_BOOTTIME (P3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from leasefs.core.globs import Glob, literal_glob, literal_tree
from leasefs.core.lease import Mode
from leasefs.core.overlap import TooComplex, uncovered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# One entry per path asked about; a mount asks about the paths it writes, not the whole tree.
_MEMO_LIMIT = 65536


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A granted lease as its holder knows it."""

    lease_id: str
    token: int
    globs: tuple[Glob, ...]
    mode: Mode
    ttl_s: float
    trusted_until_s: float

    def matches(self, path: bytes) -> bool:
        """Whether one of the lease's globs names `path`."""
        for glob in self.globs:  # noqa: SIM110 - asked at every new path; a generator doubles its price
            if glob.matches(path):
                return True
        return False


class HeldView:
    """All leases of one session, with answers for paths remembered until the leases change."""

    __slots__ = ("_everywhere", "_memo", "by_token", "leases", "lost")

    def __init__(
        self, leases: Iterable[HeldLease] = (), lost: Mapping[int, str] | None = None
    ) -> None:
        self.leases = tuple(sorted(leases, key=lambda lease: lease.token))
        self.by_token = {lease.token: lease for lease in self.leases}
        self.lost: Mapping[int, str] = dict(lost or {})
        self._memo: dict[bytes, tuple[int, ...]] = {}
        self._everywhere: tuple[int, ...] | None = None

    def renewed(self, trusted_until_s: Mapping[int, float]) -> HeldView:
        """The same leases with later trust; what was learnt about paths is kept."""
        view = HeldView(
            (
                replace(
                    lease, trusted_until_s=trusted_until_s.get(lease.token, lease.trusted_until_s)
                )
                for lease in self.leases
            ),
            self.lost,
        )
        view._memo = self._memo
        view._everywhere = self._everywhere
        return view

    def _covering(self, path: bytes) -> tuple[int, ...]:
        tokens: tuple[int, ...] = ()
        for lease in self.leases:
            if lease.mode is Mode.EXCLUSIVE and lease.matches(path):
                tokens += (lease.token,)
        if len(self._memo) >= _MEMO_LIMIT:
            self._memo.clear()
        self._memo[path] = tokens
        return tokens

    def writable(self, path: bytes, now_s: float) -> HeldLease | None:
        """The oldest trusted exclusive lease over `path`, or None."""
        tokens = self._memo.get(path)
        for token in self._covering(path) if tokens is None else tokens:
            lease = self.by_token[token]
            if now_s < lease.trusted_until_s:
                return lease
        return None

    def lapsed(self, path: bytes, now_s: float) -> HeldLease | None:
        """An exclusive lease over `path` that is still ours but no longer trusted, or None."""
        for token in self._covering(path):
            lease = self.by_token[token]
            if now_s >= lease.trusted_until_s:
                return lease
        return None

    def trusted(self, now_s: float) -> list[HeldLease]:
        """All exclusive leases that may be written under now."""
        return [
            lease
            for lease in self.leases
            if lease.mode is Mode.EXCLUSIVE and now_s < lease.trusted_until_s
        ]

    def covers_tree(self, directory: bytes, now_s: float) -> bool:
        """Whether trusted leases contain `directory` and every path below it, decided exactly.

        A decision that would cost too much counts as no.
        """
        globs = [glob for lease in self.trusted(now_s) for glob in lease.globs]
        try:
            return (
                uncovered(literal_tree(directory), globs) is None
                and uncovered(literal_glob(directory), globs) is None
            )
        except TooComplex:
            return False

    def covers_everything(self, now_s: float) -> bool:
        """Whether a single trusted lease names every path, as `**` does. Decided once, asked often."""
        if self._everywhere is None:
            self._everywhere = tuple(
                lease.token
                for lease in self.leases
                if lease.mode is Mode.EXCLUSIVE and _names_everything(lease)
            )
        return any(now_s < self.by_token[token].trusted_until_s for token in self._everywhere)

    def may_need(self, directory: bytes, now_s: float) -> HeldLease | None:
        """A trusted lease that could match some path below `directory`, or None."""
        for lease in self.trusted(now_s):
            if any(glob.may_match_below(directory) for glob in lease.globs):
                return lease
        return None


def _names_everything(lease: HeldLease) -> bool:
    try:
        return uncovered(literal_tree(b""), lease.globs) is None
    except TooComplex:
        return False


NOTHING_HELD = HeldView()
