"""The mount's control socket: what a shell inside the mount asks, with the mount's own session.

The secret never leaves the daemon. A request about leases is passed on to the ledger, and the mount's
view is kept true on the way: a granted claim is in the view before its answer goes out, a released
one is out of it before the ledger is asked. The rest is about the mount itself.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from leasefs.client import api
from leasefs.client.ids import new_key
from leasefs.client.sse import StreamEvent
from leasefs.core.errors import (
    Denied,
    InvalidRequest,
    LeasefsError,
    LedgerUnavailable,
    ProtocolMismatch,
    UnknownLease,
)
from leasefs.core.intents import OnDirty, Require
from leasefs.mount import monitored
from leasefs.mount.control_files import all_refusals, lease_facts
from leasefs.mount.control_http import Answer, Request, Streaming, Told, TooLarge
from leasefs.mount.control_operating import is_operating, operate
from leasefs.mount.control_routes import NotFound, require_served
from leasefs.mount.giving_back import GivingBack, Wanted
from leasefs.mount.recall_words import recall_facts
from leasefs.mount.using import Using

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from leasefs.client.lessee import Lessee
    from leasefs.client.transport import Transport
    from leasefs.mount.delegating import Delegating
    from leasefs.mount.refusals import RefusalLog

Release = Callable[[str, str, Mapping[str, str]], Awaitable[api.Body]]

LONGEST_WAIT_S = 300.0
STREAM_SILENCE_S = 50.0
_FORWARD_TIMEOUT_S = 10.0
_READS = frozenset(
    {
        *("leases", "queue", "who", "sessions", "status", "events", "intents", "rescues"),
        *("admission", "freezes", "history"),
    }
)

# By name, what may be said; nothing where it is any text.
_RELEASE_WISHES: dict[str, frozenset[str]] = {
    "require": frozenset(one.value for one in Require),
    "dirty": frozenset({"rescue", *(one.value for one in OnDirty)}),  # `releasing` does that
    "again": frozenset({"true", "false", "1", "0"}),
    "note": frozenset(),
    "commit": frozenset(),
}

# The ledger's own table, for the codes that can come through here; what is not named is a 400.
STATUS_OF = {
    "denied": 403,
    "agent-busy": 409,
    "session-ended": 401,
    "conflict": 409,
    "over-cap": 409,
    "deadlock": 409,
    "not-holder": 403,
    "unknown-lease": 404,
    "lost": 410,
    "dirty": 409,
    "checks-failed": 409,
    "over-limit": 429,
    "unavailable": 503,
    "not-found": 404,
    "wrong-method": 405,
}


def refusal(error: LeasefsError) -> tuple[int, dict[str, Any]]:
    """Status and body of a refused request."""
    status = 413 if isinstance(error, TooLarge) else STATUS_OF.get(error.code, 400)
    return status, {
        "error": {"code": error.code, "message": error.message, "details": error.details}
    }


class ControlServer:
    """Answers the requests. `about` are the facts of `mount.json`; `tree_uid` owns the tree's root.

    `release` gives a lease back, by its id, an idempotency key, and what `api.release` takes besides; `look` brings
    the ledger up to date about what is uncommitted; `delegating` gives parts away and shares whole leases.

    `revive`, if given, may start a ledger when there is none, and raises what `Transport.send` raises.
    """

    def __init__(
        self,
        lessee: Lessee,
        transport: Transport,
        refusals: RefusalLog,
        about: dict[str, Any],
        tree_uid: int,
        release: Release,
        look: Callable[[], Awaitable[None]],
        delegating: Delegating,
        revive: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.tree_uid = tree_uid
        self._lessee = lessee
        self._release = release
        self._look = look
        self._delegating = delegating
        self._revive = revive
        self._giving_back = GivingBack(lessee)
        # Hears of each lease that somebody claimed here.
        self.claimed: Callable[[str], None] = lambda _: None
        # Answers a monitor.
        self.monitored: monitored.Monitored | None = None
        # Claims again what was changed here at these paths.
        self.take_back: Callable[[list[bytes]], Awaitable[None]] = _nothing
        self._wanted = Wanted()
        self._using = Using(lessee)
        self._transport = transport
        self._refusals = refusals
        self._about = about
        # Whether somebody asked for the end here, as `leasefs unmount` does.
        self.asked_to_stop = False
        self._allowed = {0, os.geteuid(), tree_uid}

    async def run(self) -> None:
        """Do what no request waits for, for ever."""
        await self._giving_back.run()

    async def handle(self, request: Request) -> Answer:
        """One request. Raises LeasefsError for what is refused."""
        if request.peer.uid not in self._allowed:
            raise Denied(
                f"this mount belongs to another user; user {request.peer.uid} may not use its leases",
                uid=request.peer.uid,
            )
        require_served(request.method, request.path)
        if self.monitored is not None and request.path in monitored.PATHS:
            return await self.monitored.answer(request)
        try:
            return await self._handle(request)
        except LedgerUnavailable as error:
            # One that does not answer runs; one that is not there can be started. Asked twice, all act once.
            away = not isinstance(error, ProtocolMismatch) and "waited_s" not in error.details
            if self._revive is None or not away:
                raise
            await self._revive()
            return await self._handle(request)

    async def _handle(self, request: Request) -> Answer:
        parts = request.path.removeprefix("/v1/").split("/")
        if is_operating(request.method, parts):
            return 200, await operate(request, self._forward)
        match parts:
            case ["mount", *rest]:
                return await self._mount(request, "/".join(rest))
            case ["leases", *rest]:
                return await self._leases(request, rest)
            case ["regions"]:
                return await self._claim_regions(request)
            case ["rescues", rescue_id]:
                return 200, await self._forward(api.drop_rescue(rescue_id))
            case [read] if read in _READS:
                return await self._read(request, read)
            case ["history", _]:
                return await self._read(request, "history")
            case ["", "openapi.json"]:
                return await self._describe(request)
        raise NotFound(f"{request.path} is not served by a mount; ask the ledger itself")

    async def _leases(self, request: Request, rest: list[str]) -> Answer:
        body = request.body or {}
        match request.method, rest:
            case "POST", []:
                return await self._claim(request)
            case "GET", []:
                return await self._read(request, "leases")
            case _, [lease_id]:
                return await self._lease(request, lease_id)
            case "POST", [lease_id, "more-time"]:
                return 200, await self._lessee.more_time(lease_id, _extra_s(request), _key(body))
            case "POST", [lease_id, "delegate"]:
                return 201, await self._delegating.delegate(lease_id, body)
            case "POST", [lease_id, "downgrade"]:
                return 200, await self._delegating.downgrade(lease_id, body)
        raise NotFound(f"{request.path} is not served by a mount; ask the ledger itself")

    # -- leases ---------------------------------------------------------------------------------

    async def _claim(self, request: Request) -> Answer:
        call = api.Call("POST", "/v1/leases", request.body or {}, needs_session=True)
        began_s = self._lessee.now_s()
        answer = await self._lessee.claim(call)
        lease_id = answer["lease"]
        self.claimed(lease_id)
        self._wanted.by(
            self._lessee.recalls.first(lease_id), str(call.body.get("key")) if call.body else ""
        )
        if answer["state"] == "waiting":
            self._giving_back.made(lease_id)
            return self._told_of(202, answer)
        if (answer.get("held_for_s") or 0.0) <= self._lessee.now_s() - began_s:
            self._giving_back.made(lease_id)  # not held before this claim
        return self._told_of(201, answer)

    async def _claim_regions(self, request: Request) -> Answer:
        call = api.Call("POST", "/v1/regions", request.body or {}, needs_session=True)
        began_s = self._lessee.now_s()
        answer = await self._lessee.claim_regions(call)
        for lease in answer["leases"]:
            self.claimed(lease["lease"])
            if (lease.get("held_for_s") or 0.0) <= self._lessee.now_s() - began_s:
                self._giving_back.made(lease["lease"])
        told = [self._told_of(201, lease) for lease in answer["leases"]]

        def heard(heard: bool) -> None:
            for one in told:
                one.heard(heard)

        return Told(201, answer, heard)

    def _told_of(self, status: int, answer: api.Body) -> Told:
        """What became of a claim; once its maker has heard that, it is not watched any more."""
        lease_id, over = answer["lease"], answer["state"] != "waiting"

        def heard(heard: bool) -> None:
            if not heard:
                self._giving_back.unheard(lease_id)
            elif over:
                self._giving_back.known(lease_id)

        return Told(status, answer, heard)

    async def _lease(self, request: Request, lease_id: str) -> Answer:
        if request.method == "GET":
            with self._giving_back.asking(lease_id):
                return self._told_of(200, await self._lessee.waited(lease_id, _wait_s(request)))
        query = dict(request.query)
        key = query.pop("key", "") or new_key()
        return 200, await self._give_back(lease_id, key, _release_wishes(query))

    async def _read(self, request: Request, what: str) -> Answer:
        patience_s = api.REPLAY_WITHIN_S if what == "history" else 0.0
        call = api.Call("GET", request.target, patience_s=patience_s)
        if what == "events" and (request.wants_stream or _follows(request)):
            return Streaming(self._followed(call))
        return 200, await self._forward(call)

    async def _describe(self, request: Request) -> Answer:
        from leasefs.mount.described import document  # only who asks pays for it

        return 200, document(await self._forward(api.Call("GET", "/openapi.json")))

    async def _forward(self, call: api.Call) -> api.Body:
        return await self._transport.send(call, timeout_s=_FORWARD_TIMEOUT_S)

    async def _followed(self, call: api.Call) -> AsyncGenerator[StreamEvent, None]:
        try:
            async with self._transport.stream(call, silence_s=STREAM_SILENCE_S) as events:
                async for event in events:
                    yield event
        except LeasefsError as error:
            yield StreamEvent(0, "error", refusal(error)[1])

    # -- the mount itself -----------------------------------------------------------------------

    async def _mount(self, request: Request, what: str) -> Answer:
        match what:
            case "":
                await self._refusals.ask()
                return 200, self._facts()
            case "stop":
                self._stop(lazy=bool((request.body or {}).get("lazy")))
                return 200, {"ok": True}
            case "heartbeat":
                return 200, await self._lessee.renew_all()
            case "look":
                await self._look()
                return 200, {"ok": True}
            case "uses":
                return self._using.stream(request)
            case "leave":
                return 200, await self._leave(request)
            case "take-back":
                await self.take_back(_paths(request))
                return 200, {"ok": True}
        raise NotFound(f"{request.path} is not something that a mount can do")

    def _facts(self) -> dict[str, Any]:
        lessee, now_s = self._lessee, self._lessee.now_s()
        return {
            **self._about,
            "ledger_reachable": lessee.ledger_reachable,
            "leases": [
                lease_facts(lease, now_s, lessee.kept_by(lease.token))
                for lease in lessee.view.leases
            ],
            "delegations": self._delegating.facts(),
            "recalls": [recall_facts(recall, now_s) for recall in lessee.recalls],
            "refusals": all_refusals(self._refusals),
        }

    def _stop(self, *, lazy: bool) -> None:
        """As a signal would; a second one tells `serve` not to wait for those who use the mount."""
        self.asked_to_stop = True
        os.kill(os.getpid(), signal.SIGTERM)
        if lazy:
            os.kill(os.getpid(), signal.SIGINT)

    async def _leave(self, request: Request) -> api.Body:
        """A claim is done with: its lease is released, unless other claims led to it too."""
        body = request.body or {}
        lease_id, key = body.get("lease"), body.get("key")
        if not (isinstance(lease_id, str) and isinstance(key, str)):
            raise InvalidRequest("leaving names a `lease`, and the `key` of the claim")
        if not lease_id.isascii():
            raise UnknownLease(lease_id)
        recalls = self._lessee.recalls
        if self._wanted.without(recalls.first(lease_id), key):
            return await self._lessee.waited(recalls.latest(lease_id), 0.0)
        return await self._give_back(lease_id, new_key(), {})

    async def _give_back(self, lease_id: str, key: str, wishes: Mapping[str, str]) -> api.Body:
        # Whoever gives up a lease that was recalled does not want it back either.
        lease_id = self._lessee.recalls.latest(lease_id)
        answer = await self._release(lease_id, key, wishes)
        self._giving_back.known(lease_id)
        return answer


async def _nothing(_: list[bytes]) -> None:
    """Where nothing is claimed by writes."""


def _paths(request: Request) -> list[bytes]:
    paths = (request.body or {}).get("paths")
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise InvalidRequest("`paths` is a list of paths")
    return [os.fsencode(path) for path in paths]


def _wait_s(request: Request) -> float:
    try:
        wait_s = float(request.query.get("wait_s", "0"))
    except ValueError:
        raise InvalidRequest("wait_s is not a number") from None
    if not 0 <= wait_s <= LONGEST_WAIT_S:
        raise InvalidRequest(f"wait_s is not in 0..{LONGEST_WAIT_S:g}")
    return wait_s


def _release_wishes(query: dict[str, str]) -> dict[str, str]:
    """What a release asks for besides, also where the ledger need not be asked. Raises InvalidRequest."""
    for name, value in query.items():
        known = _RELEASE_WISHES.get(name)
        if known is None or (known and value.lower() not in known):
            raise InvalidRequest(f"a release has no {name}={value[:100]!r}")
    return query


def _follows(request: Request) -> bool:
    """Whether the ledger will take `follow` for yes; any other value is for it to refuse, or asks for a page."""
    try:
        return float(request.query.get("follow", "0")) == 1.0
    except ValueError:
        return False


def _key(body: api.Body) -> str:
    key = body.get("key")
    if key is None or key == "":
        return new_key()
    if not isinstance(key, str):
        raise InvalidRequest("`key` is an idempotency key, a string")
    return key


def _extra_s(request: Request) -> float:
    extra_s = (request.body or {}).get("extra_s")
    if isinstance(extra_s, bool) or not isinstance(extra_s, int | float):
        raise InvalidRequest("more time is asked for as `extra_s`, a number of seconds")
    return float(extra_s)
