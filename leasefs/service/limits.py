"""How much of the ledger one client may take, so that none takes all of it.

A client is the identity that asks, else the session, else the local process, else the address: agents that run as one
user are told apart, as many mounts of one user read from a ledger at once. Whoever asks too fast is made to wait, for a
moment here and then at its own side; heartbeats have a pace of their own for each session, so that no flood, not even
one's own, costs a lease.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from msgspec import structs

from leasefs.core.commands import ClaimLease, OpenSession
from leasefs.core.errors import OverLimit
from leasefs.core.exposition import COUNTER, by_label
from leasefs.core.settings import LIMITS
from leasefs.service.bucket import Buckets, Pace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leasefs.core.commands import AnyCommand
    from leasefs.core.exposition import Family
    from leasefs.service.exchange import Call, Connection

BURST_S = 4.0
"""A client that was quiet may do at once what it may do in so many seconds."""
HEARTBEATS = Pace(20.0, 100.0)
"""Of one session. A mount sends one every few seconds, and one for each grant that it hears of."""
STRANGERS = Pace(10.0, 100.0)
"""Failed authentications of one address."""
HOLD_S = 0.5
"""Who is a little too fast is not refused, but held for so long."""
REFUSAL_S = 0.25
"""A refusal takes this long, so that who ignores it does not cost more than who heeds it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of each client; 0 is no limit. `leasefs.core.settings.LIMITS` says what each is."""

    requests: int = LIMITS["requests"][0]
    connects: int = LIMITS["connects"][0]
    connections: int = LIMITS["connections"][0]
    streams: int = LIMITS["streams"][0]
    sessions: int = LIMITS["sessions"][0]
    waiting: int = LIMITS["waiting"][0]


_MOST_DIGITS = 9
_KINDS = ("requests", "connects", "connections", "streams")


def limits_of(given: Iterable[str], limits: Limits | None = None) -> Limits:
    """`limits` with what is given as `NAME=NUMBER`. Raises ValueError for anything else."""
    found: dict[str, int] = {}
    for text in given:
        name, _, number = text.partition("=")
        if name not in LIMITS:
            raise ValueError(f"no limit is called {name!r}; there are {', '.join(LIMITS)}")
        if not (number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS):
            raise ValueError(f"{text}: a limit is a whole number, 0 for none")
        found[name] = int(number)
    return replace(limits or Limits(), **found)


class Limiter:
    """Who has what of a running ledger, and whether they may have more."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._requests = Buckets(Pace(self.limits.requests, BURST_S * self.limits.requests))
        self._connects = Buckets(Pace(self.limits.connects, BURST_S * self.limits.connects))
        self._heartbeats = Buckets(HEARTBEATS)
        self._strangers = Buckets(STRANGERS)
        self._streams: Counter[str] = Counter()
        self._connections: Counter[str] = Counter()
        self._refused = dict.fromkeys((*_KINDS, "heartbeats", "strangers"), 0)

    def families(self) -> Iterator[Family]:
        """For the monitor."""
        yield by_label(
            "leasefs_limited_total",
            COUNTER,
            "Requests and connections refused because their client had enough.",
            "limit",
            self._refused,
        )

    def bounded(self, command: AnyCommand) -> AnyCommand:
        """The command, and with it how much of what it asks for its client may have (`leasefs.core.ceilings`)."""
        if isinstance(command, ClaimLease) and command.wait:
            return structs.replace(command, most_waiting=self.limits.waiting)
        if isinstance(command, OpenSession) and command.identity:
            return structs.replace(command, most_sessions=self.limits.sessions)
        return command

    # -- connections ----------------------------------------------------------------------------

    def enter(self, client: str, *, owner: bool = False) -> Place | None:
        """A place for one more connection of `client`, to be left; None if it has enough, which an `owner` never has."""
        most = self.limits.connections
        if most and not owner and self._connections[client] >= most:
            self._refused["connections"] += 1
            return None
        self._connections[client] += 1
        return Place(self._connections, client)

    def too_many_connections(self, client: str) -> OverLimit:
        """The refusal of a connection that `enter` has no place for."""
        return over_limit("connections", f"{self.limits.connections} connections", client, 2.0)

    async def pace_connect(self, address: str) -> bool:
        """Before a handshake: whether the address may have it, after it was held if it comes too often."""
        may, wait_s = self._connects.take(address, _now_s(), HOLD_S)
        if not may:
            self._refused["connects"] += 1
        elif wait_s:
            await asyncio.sleep(wait_s)
        return may

    # -- requests -------------------------------------------------------------------------------

    async def admit(self, call: Call, *, heartbeat: bool) -> None:
        """Let a request whose sender is known go on when it is its turn. Raises OverLimit."""
        client = client_of(call)
        buckets = self._heartbeats if heartbeat else self._requests
        if heartbeat and call.session is not None:
            client = f"session {call.session.id}"
        may, wait_s = buckets.take(client, _now_s(), HOLD_S)
        if may:
            if wait_s:
                await asyncio.sleep(wait_s)
            return
        name = "heartbeats" if heartbeat else "requests"
        self._refused[name] += 1
        await asyncio.sleep(REFUSAL_S)
        pace = buckets.pace
        raise over_limit(
            name, f"{pace.per_s:g} {name} a second, {pace.burst:g} at once", client, wait_s
        )

    async def strange(self, connection: Connection) -> None:
        """Somebody failed to say who they are: guess as you like, but slowly. A local user has no need to guess."""
        buckets = self._strangers if connection.uid is None else self._requests
        may, wait_s = buckets.take(origin_of(connection), _now_s(), HOLD_S)
        if not may:
            self._refused["strangers"] += 1
        await asyncio.sleep(wait_s if may else HOLD_S)

    def follow(self, call: Call) -> Place:
        """A place for a request that is held open. Raises OverLimit: its client has enough of them."""
        client, most = client_of(call), self.limits.streams
        if most and self._streams[client] >= most:
            self._refused["streams"] += 1
            raise over_limit("streams", f"{most} open streams and long polls", client, 2.0)
        self._streams[client] += 1
        return Place(self._streams, client)


class Place:
    """One of a client's places, until it is left; leaving twice is leaving once."""

    __slots__ = ("_client", "_taken")

    def __init__(self, taken: Counter[str], client: str) -> None:
        self._taken: Counter[str] | None = taken
        self._client = client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Give it back."""
        if self._taken is not None:
            self._taken[self._client] -= 1
            if not self._taken[self._client]:
                del self._taken[self._client]
            self._taken = None


def client_of(call: Call) -> str:
    """Whose limits count for a request."""
    who, session = call.who, call.session
    if who is not None and who.identity:
        return who.key
    if session is not None:
        return f"session {session.id}"
    if call.connection.pid is not None:
        return f"process {call.connection.pid} of {origin_of(call.connection)}"
    return origin_of(call.connection)


def origin_of(connection: Connection) -> str:
    """Who is at the other end, before anything was said: the local user, else the address."""
    if connection.uid is not None:
        return f"uid {connection.uid}"
    return client_of_address(connection.address)


def client_of_address(address: str) -> str:
    """What counts as one client: an IPv4 address, or the /64 that a host has of IPv6 (RFC 4291)."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv4Address):
        return f"address {found}"
    if found.ipv4_mapped is not None:
        return f"address {found.ipv4_mapped}"
    return f"address {ipaddress.ip_network((found, 64), strict=False)}"


def over_limit(name: str, most: str, client: str, wait_s: float) -> OverLimit:
    """The refusal of what is more than `most`."""
    return OverLimit(
        f"{client} has more than this ledger lets one client have: {most}; try again in {wait_s:.1f} s, or have its operator "
        f"raise the limit `{name}` (`leasefs ledger serve --limit`)",
        limit=name,
        most=most,
        client=client,
        retry_after_s=round(wait_s, 3),
    )


def _now_s() -> float:
    return asyncio.get_running_loop().time()
