"""The ledger's verbs as plain values: one function per verb makes a `Call`, `answer` reads the reply.

Verbs that share ground out are in `api_scheduling`, those about checks in `api_fresh`.
No socket here and no second twin of a verb: the blocking and the trio transport only carry Calls.
Kept free of msgspec and trio, because the command line's start time counts. The struct of an answer,
where one is named, stands in `leasefs.core.answers`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from leasefs.core.errors import LeasefsError, LedgerUnavailable, error_of
from leasefs.core.lease import DEFAULT_TTL_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Body = dict[str, Any]
REPLAY_WITHIN_S = 300.0
"""How long the ledger may take to replay its log, and more: it has many seconds' work at most."""


class Call(NamedTuple):
    """One request. `patience_s` is how long the ledger may hold the answer back on purpose."""

    method: str
    path: str
    body: Body | None = None
    needs_session: bool = False
    patience_s: float = 0.0


def open_session(
    *,
    session: str,
    secret: str,
    agent: str,
    harness: str,
    territory: str,
    kind: str,
    host: str,
    pid: int,
    process: str,
    replace: bool = False,
) -> Call:
    """Begin a session; the answer is a SessionAnswer. Sent twice, it opens one (P6)."""
    body: Body = {
        "session": session,
        "secret": secret,
        "agent": agent,
        "harness": harness,
        "territory": territory,
        "kind": kind,
        "host": host,
        "pid": pid,
        "process": process,
        "replace": replace,
    }
    return Call("POST", "/v1/sessions", body)


def end_session(session: str) -> Call:
    """End the caller's session: all that it holds is free at once."""
    return Call("DELETE", f"/v1/sessions/{quoted(session)}", needs_session=True)


def sessions(territory: str | None = None) -> Call:
    """All sessions: `{"sessions": [SessionAnswer]}`."""
    return Call("GET", "/v1/sessions" + query(territory=territory))


def heartbeat(session: str, renew: Iterable[Body] = (), dropped: Iterable[str] = ()) -> Call:
    """Renew leases `{lease, token, kept_by}` and name revoked ones that are no longer trusted."""
    body: Body = {"renew": list(renew), "dropped": list(dropped)}
    return Call("POST", f"/v1/sessions/{quoted(session)}/heartbeat", body, needs_session=True)


def claim(
    globs: Iterable[str],
    *,
    key: str,
    shared: bool = False,
    ttl_s: float = DEFAULT_TTL_S,
    priority: int = 0,
    wait: bool = False,
    note: str = "",
    recall_within_s: float | None = None,
    replaces: str = "",
    share: float | None = None,
) -> Call:
    """Ask for a lease over all globs or none; the answer is a LeaseAnswer, granted or waiting.

    With `recall_within_s` (and `wait`) holders of lower priority must yield within so many seconds. `replaces` is
    a shared lease to upgrade. `share` is the part of all files under the globs, 0 to 1, where that is capped.
    """
    body: Body = {
        "key": key,
        "globs": list(globs),
        "mode": "shared" if shared else "exclusive",
        "ttl_s": ttl_s,
        "priority": priority,
        "wait": wait,
        "note": note,
    }
    if recall_within_s is not None:
        body["recall_within_s"] = recall_within_s
    if replaces:
        body["replaces"] = replaces
    if share is not None:
        body["share"] = share
    return Call("POST", "/v1/leases", body, needs_session=True)


def leases(territory: str | None = None) -> Call:
    """All held leases: `{"leases": [LeaseAnswer]}`."""
    return Call("GET", "/v1/leases" + query(territory=territory))


def lease(lease_id: str, wait_s: float = 0.0) -> Call:
    """One lease or waiter; with `wait_s` (at most 300) answered when it stops waiting, by push."""
    path = f"/v1/leases/{quoted(lease_id)}" + query(wait_s=f"{wait_s:g}" if wait_s else None)
    return Call("GET", path, patience_s=wait_s)


def release(
    lease_id: str,
    *,
    key: str,
    require: str | None = None,
    dirty: str = "refuse",
    note: str = "",
    commit: str = "",
    again: bool = False,
) -> Call:
    """Give back a lease, or withdraw a waiting claim.

    `require` (none, committed, pushed) is what its intents must have come to: if None, what the mount's project
    asks for, of a ledger committed. `dirty` (refuse, keep, force, rescued, hand-on; to a mount's control socket also rescue)
    what to do if they have not; `note` and `commit`, what was checked out, are for whoever holds the ground next.
    With `again` a lease that was recalled is claimed again at once.
    """
    wishes = query(
        key=key,
        require=require,
        dirty=None if dirty == "refuse" else dirty,
        note=note or None,
        commit=commit or None,
        again="true" if again else None,
    )
    return Call("DELETE", f"/v1/leases/{quoted(lease_id)}" + wishes, needs_session=True)


def revoke(lease_id: str, *, by: str = "") -> Call:
    """As operator, end somebody's lease; `by` says in words on whose behalf."""
    body: Body = {"by": by} if by else {}
    return Call("POST", f"/v1/leases/{quoted(lease_id)}/revoke", body)


def queue(territory: str | None = None) -> Call:
    """All waiters in the order of service: `{"waiters": [LeaseAnswer]}`."""
    return Call("GET", "/v1/queue" + query(territory=territory))


def who(territory: str, path: str) -> Call:
    """Who holds, then who waits for `path` (str with surrogateescape): `{"leases": [LeaseAnswer]}`."""
    return Call("GET", "/v1/who" + query(territory=territory, path=path))


def report_refusals(refusals: Iterable[Body]) -> Call:
    """Write a mount's refusals (WriteRefused) into the history."""
    return Call("POST", "/v1/refusals", {"refusals": list(refusals)}, needs_session=True)


def report_intents(
    tree: str,
    notes: Iterable[Body],
    *,
    host: str,
    root: str,
    recovered: bool = False,
    agent: str = "",
    harness: str = "",
) -> Call:
    """What changed in a tree: `{path, kind, lease, token, wall_s}`, `pid`, `program`, `size`, `other`.

    `recovered` notes are a dead mount's, whose journal names `agent` and `harness` (IntentsAnswer).
    """
    body: Body = {"tree": tree, "host": host, "root": root, "notes": list(notes)}
    if recovered:
        body |= {"recovered": True, "agent": agent, "harness": harness}
    return Call("POST", "/v1/intents", body, needs_session=True)


def settle_intents(
    tree: str, settled: Iterable[Body], *, as_of_wall_s: float | None = None
) -> Call:
    """What became of paths: `{path, outcome}`, `commit`, `blob`, `done` (SettledAnswer).

    Intents noted with a later time than `as_of_wall_s` are left alone.
    """
    body: Body = {"tree": tree, "settled": list(settled)}
    if as_of_wall_s is not None:
        body["as_of_wall_s"] = as_of_wall_s
    return Call("POST", "/v1/intents/settled", body, needs_session=True)


def intents(territory: str | None = None, **wanted: str | None) -> Call:
    """What is uncommitted or has not landed, oldest first: `{"intents": [IntentAnswer], "total": N}`.

    `wanted` are `agent`, `tree`, `lease`, `state`, `unkept` ("1": under no lease, nor handed on), and `limit`.
    """
    return Call("GET", "/v1/intents" + query(territory=territory, **wanted))


def report_foreign_writes(
    tree: str,
    changes: Iterable[Body],
    *,
    how: str = "beside",
    about: str = "",
    events_lost: bool = False,
) -> Call:
    """What changed in a tree that no lease stood for: `{path, what, wall_s}` (ForeignAnswer).

    `how` is beside (all mounts), git (it moved history there), commit (one that got past the hooks) or observed (by a
    mount that refuses nothing), and `about` names that command or commit. `events_lost`: the kernel dropped events, and these are what was
    found different afterwards.
    """
    body: Body = {"tree": tree, "changes": list(changes), "how": how, "about": about}
    body["events_lost"] = events_lost
    return Call("POST", "/v1/foreign-writes", body, needs_session=True)


def report_rescue(rescue: Body, contained: Iterable[str] | None = None) -> Call:
    """A snapshot (Rescue) was made of `contained`, or if that is None of its `names` (RescueAnswer)."""
    body: Body = {"rescue": rescue}
    if contained is not None:
        body["contained"] = list(contained)
    return Call("POST", "/v1/rescues", body, needs_session=True)


def rescues(territory: str | None = None) -> Call:
    """All rescues, newest first: `{"rescues": [Rescue]}`."""
    return Call("GET", "/v1/rescues" + query(territory=territory))


def drop_rescue(rescue_id: str) -> Call:
    """Forget a rescue: `{"dropped": whether there was one}`."""
    return Call("DELETE", f"/v1/rescues/{quoted(rescue_id)}", needs_session=True)


def batch(requests: Iterable[Body]) -> Call:
    """Many claims and releases in one request: `{"answers": [{"status", "body"}]}`."""
    return Call("POST", "/v1/batch", {"requests": list(requests)}, needs_session=True)


def events(
    *,
    after: int = 0,
    limit: int | None = None,
    territory: str | None = None,
    session: str | None = None,
    types: Iterable[str] = (),
) -> Call:
    """A page of the log: `{"events": [...], "head": SEQ}`."""
    return Call("GET", _events_path(after, territory, session, types, limit=limit))


def follow(
    *,
    after: int,
    territory: str | None = None,
    session: str | None = None,
    types: Iterable[str] = (),
) -> Call:
    """The log as a stream without end, from `after` on; send it with a transport's `stream`."""
    return Call("GET", _events_path(after, territory, session, types, follow=1))


def status() -> Call:
    """What the ledger is and how much it holds."""
    return Call("GET", "/v1/status")


def mount() -> Call:
    """Of a mount's control socket: who am I, what do I hold, what was refused."""
    return Call("GET", "/v1/mount")


def stop_mount(*, lazy: bool = False) -> Call:
    """Of a mount's control socket: unmount, end the session, exit."""
    return Call("POST", "/v1/mount/stop", {"lazy": lazy})


def renew_mount() -> Call:
    """Of a mount's control socket: renew everything that the mount holds, now (HeartbeatAnswer)."""
    return Call("POST", "/v1/mount/heartbeat", {}, patience_s=10.0)


def look() -> Call:
    """Of a mount's control socket: ask git now what became of all that is uncommitted, and tell the ledger."""
    return Call("POST", "/v1/mount/look", {}, patience_s=60.0)


def use(lease_id: str, *, pid: int | None = None, program: str = "") -> Call:
    """Of a mount's control socket: a stream that keeps the lease in use for as long as it is open.

    Its first event is `using` or `lapsed`, and again one of them whenever that changes; `lost`, with a
    `reason`, is the last. `pid` and `program` are shown as what keeps the lease; else the caller is.
    """
    body: Body = {"lease": lease_id}
    if pid is not None:
        body |= {"pid": pid, "program": program}
    return Call("POST", "/v1/mount/uses", body)


def leave(lease_id: str, *, key: str) -> Call:
    """Of a mount's control socket: the claim with this key is done with (LeaseAnswer).

    Its lease is released, unless other claims of the mount led to it too.
    """
    return Call("POST", "/v1/mount/leave", {"lease": lease_id, "key": key})


def encode(call: Call) -> bytes:
    """The body's bytes: ASCII JSON, so that lone surrogates (names not in UTF-8) survive."""
    return b"" if call.body is None else json.dumps(call.body, separators=(",", ":")).encode()


def answer(call: Call, status_code: int, body: bytes) -> Body:
    """What the ledger said.

    Raises:
        LeasefsError: the refusal it answered with, as its own class.
        LedgerUnavailable: if that was no answer of a ledger at all.
    """
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    if isinstance(said, dict):
        if 200 <= status_code < 300:
            return said
        error = said.get("error")
        if isinstance(error, dict) and "code" in error:
            raise _error(error)
    raise LedgerUnavailable(
        f"{call.method} {call.path.partition('?')[0]}: the answer ({status_code}) is not one of a leasefs "
        "ledger; check ledger.url (LEASEFS_LEDGER)",
        status=status_code,
    )


def decided(status_code: int, body: Body) -> Body | LeasefsError:
    """One answer of a `batch`: what was said, or the refusal."""
    return body if 200 <= status_code < 300 else _error(body["error"])


def _error(error: Mapping[str, Any]) -> LeasefsError:
    details = error.get("details")
    return error_of(
        str(error["code"]),
        str(error.get("message", "refused without a reason")),
        dict(details) if isinstance(details, dict) else {},
    )


def _events_path(
    after: int,
    territory: str | None,
    session: str | None,
    types: Iterable[str],
    limit: int | None = None,
    follow: int | None = None,
) -> str:
    return "/v1/events" + query(
        after=str(after),
        limit=None if limit is None else str(limit),
        territory=territory,
        session=session,
        types=",".join(types) or None,
        follow=None if follow is None else str(follow),
    )


def query(**fields: str | None) -> str:
    """A query string of those fields that are given, with its question mark; empty if none is."""
    given = [f"{name}={quoted(value)}" for name, value in fields.items() if value is not None]
    return "?" + "&".join(given) if given else ""


_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def quoted(value: str) -> str:
    """Percent-encoded (RFC 3986). `urllib.parse` would cost the command line 5 ms for this line."""
    raw = value.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in raw)
