"""What other mounts held a moment ago: leases that writes claim are over before anybody looks at what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from leasefs.core.companions import companion_of
from leasefs.core.globs import parse_glob
from leasefs.core.held import HeldLease, HeldView
from leasefs.core.lease import Mode

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from leasefs.client import api

LEASE_EVENTS = ("granted", "released", "expired", "revoked")
# So many are remembered beyond their end, the newest.
_MOST = 10_000
# What was done under a lease is noticed by then after it was over, unless the machine is very busy.
_AFTER_S = 0.25
_FOREVER_S = 1e18


class _Lately(NamedTuple):
    """A lease of another session, and when it was over, as far as is known."""

    session: str
    lease: HeldLease
    from_wall_s: float
    until_wall_s: float


class HeldLately:
    """Follows grants and ends of exclusive leases by the ledger's log."""

    def __init__(self) -> None:
        self._leases: dict[str, _Lately] = {}

    def heard(self, recorded: api.Body) -> None:
        """One of LEASE_EVENTS, as the log has it."""
        event, wall_s = recorded["event"], recorded["wall_s"]
        if event["type"] == "granted":
            self._granted(event["claim"], recorded["seq"], wall_s)
            return
        known = self._leases.get(event["lease"])
        if known is not None:
            self._leases[event["lease"]] = known._replace(until_wall_s=wall_s)

    def _granted(self, claim: api.Body, token: int, wall_s: float) -> None:
        if claim["mode"] != Mode.EXCLUSIVE.value:
            return
        globs = tuple(map(parse_glob, claim["globs"]))
        lease = HeldLease(
            claim["id"], token, globs, Mode.EXCLUSIVE, claim["ttl_s"], trusted_until_s=_FOREVER_S
        )
        self._leases[claim["id"]] = _Lately(claim["session"], lease, wall_s, _FOREVER_S)
        if len(self._leases) > _MOST:
            for old in list(self._leases)[: _MOST // 2]:
                del self._leases[old]

    def held(self, session: str, path: bytes, wall_s: float) -> bool:
        """Whether this session held the path, or what it is a companion of, at that time."""
        return _covers(
            path,
            (
                one.lease
                for one in self._leases.values()
                if one.session == session and one.from_wall_s <= wall_s <= one.until_wall_s
            ),
        )

    def was_held(self, sessions: Container[str], path: bytes, wall_s: float) -> bool:
        """Whether one of these sessions held it at about that time, and has it no more.

        What they still hold, and what of it they delegated, the ledger says by itself.
        """
        return _covers(
            path,
            (
                one.lease
                for one in self._leases.values()
                if one.session in sessions
                and one.from_wall_s <= wall_s
                and wall_s - _AFTER_S <= one.until_wall_s < _FOREVER_S
            ),
        )


def _covers(path: bytes, leases: Iterable[HeldLease]) -> bool:
    view = HeldView(leases)
    return view.writable(path, 0.0) is not None or companion_of(path, view, 0.0) is not None
