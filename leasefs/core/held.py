"""What one mount holds, as one immutable value that the write check reads without any I/O.

The lessee replaces the whole view when something changes; a check works on the view it began with.
Times are seconds of the holder's own CLOCK_BOOTTIME (P3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from leasefs.core.carving import Carved, is_left, touches
from leasefs.core.globs import Glob, literal_glob, literal_tree, part_below
from leasefs.core.lease import Mode
from leasefs.core.overlap import TooComplex, uncovered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# One entry per path asked about; a mount asks about the paths it writes, not the whole tree.
_MEMO_LIMIT = 65536
_EXCLUSIVE = Mode.EXCLUSIVE  # a member takes long to be looked up in its class (`policy.Op`)


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A granted lease as its holder knows it; `parent` is the lease that it was delegated out of."""

    lease_id: str
    token: int
    globs: tuple[Glob, ...]
    mode: Mode
    ttl_s: float
    trusted_until_s: float
    parent: str = ""

    def matches(self, path: bytes) -> bool:
        """Whether one of the lease's globs names `path`."""
        for glob in self.globs:  # noqa: SIM110 - asked at every new path; a generator doubles its price
            if glob.matches(path):
                return True
        return False


class HeldView:
    """All leases of one session, with answers for paths remembered until the leases change.

    `carved` is what was delegated out of them: nothing is writable there, whichever lease covers it. `whole` are the
    exclusive leases that nothing was carved out of, by token: all that an open handle asks for.
    """

    __slots__ = ("_everywhere", "_memo", "_parts", "by_token", "carved", "leases", "lost", "whole")

    def __init__(
        self,
        leases: Iterable[HeldLease] = (),
        lost: Mapping[int, str] | None = None,
        carved: Iterable[Carved] = (),
    ) -> None:
        self.leases = tuple(sorted(leases, key=lambda lease: lease.token))
        self.by_token = {lease.token: lease for lease in self.leases}
        self.lost: Mapping[int, str] = dict(lost or {})
        self.carved = tuple(carved)
        exclusive = [lease for lease in self.leases if lease.mode is Mode.EXCLUSIVE]
        self.whole = {
            lease.token: lease for lease in exclusive if not touches(lease.globs, self.carved)
        }
        self._parts = frozenset(
            lease.token
            for lease in exclusive
            if lease.token not in self.whole and is_left(lease.globs, self.carved)
        )
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
            self.carved,
        )
        view._memo = self._memo
        view._everywhere = self._everywhere
        return view

    def _covering(self, path: bytes) -> tuple[int, ...]:
        tokens: tuple[int, ...] = ()
        if self.carved_at(path) is None:
            for lease in self.leases:
                if lease.mode is _EXCLUSIVE and lease.matches(path):
                    tokens += (lease.token,)
        if len(self._memo) >= _MEMO_LIMIT:
            self._memo.clear()
        self._memo[path] = tokens
        return tokens

    def carved_at(self, path: bytes) -> Carved | None:
        """What `path` was delegated by, or None."""
        for one in self.carved:
            if one.matches(path):
                return one
        return None

    def carved_in(self, directory: bytes) -> Carved | None:
        """Something that was delegated at `directory` or below it, or None."""
        return next((one for one in self.carved if one.meets_tree(directory)), None)

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
        """All exclusive leases that something may be written under now."""
        return [
            lease
            for lease in self.leases
            if (lease.token in self.whole or lease.token in self._parts)
            and now_s < lease.trusted_until_s
        ]

    def covers_tree(self, directory: bytes, now_s: float) -> bool:
        """Whether trusted leases contain `directory` and every path below it, decided exactly.

        A decision that would cost too much counts as no.
        """
        if self.carved_in(directory) is not None:
            return False
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
        if self.carved:
            return False
        if self._everywhere is None:
            self._everywhere = tuple(
                lease.token
                for lease in self.leases
                if lease.mode is Mode.EXCLUSIVE and _names_everything(lease)
            )
        return any(now_s < self.by_token[token].trusted_until_s for token in self._everywhere)

    def may_need(self, directory: bytes, now_s: float) -> HeldLease | None:
        """A trusted lease under which some path below `directory` could be written, or None."""
        return self._with_ground_below(directory, now_s)

    def writes_in(self, directory: bytes, now_s: float) -> HeldLease | None:
        """A trusted lease under which some name of `directory` itself could be written, or None."""
        return self._with_ground_below(directory, now_s, one_name=True)

    def _with_ground_below(
        self, directory: bytes, now_s: float, *, one_name: bool = False
    ) -> HeldLease | None:
        for lease in self.trusted(now_s):
            for glob in lease.globs:
                if not one_name and lease.token in self.whole:
                    if glob.may_match_below(directory):
                        return lease
                    continue
                if is_left(part_below(glob, directory, one_name=one_name), self.carved):
                    return lease
        return None


def _names_everything(lease: HeldLease) -> bool:
    try:
        return uncovered(literal_tree(b""), lease.globs) is None
    except TooComplex:
        return False


NOTHING_HELD = HeldView()
