"""Judges what clients were answered by the log that is left: no lost and no doubled grant, tokens that only grow, one act for a key."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from leasefs.core import events as ev
from leasefs.core.queue import conflicting_leases
from leasefs.core.state import State, apply
from leasefs.service.entries import recorded_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasefs.core.events import Recorded
    from leasefs.store.port import Store
    from leasefs.testing.restarts.clients import Said

PAGE = 5_000


def violations(store: Store, said: Iterable[Said]) -> list[str]:
    """What does not hold, one line each."""
    log = list(_log(store))
    said = list(said)
    return [
        *_doubled(log),
        *_lost(log, said),
        *_growing(said),
        *(d for one in said for d in one.differences),
    ]


def builds(store: Store) -> set[str]:
    """The versions of those that served this log."""
    started = (one.event for one in _log(store))
    return {one.server.rpartition(" ")[2] for one in started if isinstance(one, ev.LedgerStarted)}


def _log(store: Store) -> Iterable[Recorded]:
    after = store.base()
    while page := store.read(after, PAGE):
        yield from map(recorded_of, page)
        after = page[-1].seq


def _doubled(log: list[Recorded]) -> list[str]:
    """Each grant, judged on the state before it: nobody else may hold overlapping ground (P1); and one grant for each key (P6)."""
    found: list[str] = []
    state, keys = State(), Counter[tuple[str, str]]()
    for recorded in log:
        event = recorded.event
        if isinstance(event, ev.Granted):
            for lease, _ in conflicting_leases(state, event.claim):
                if not lease.lapsed(recorded.at_s):
                    found.append(f"event {recorded.seq} grants what {lease.id} holds")
            if event.key:
                keys[event.claim.session, event.key] += 1
        state = apply(state, recorded)
    found += [
        f"key {key} was granted {count} times" for (_, key), count in keys.items() if count > 1
    ]
    return found


def _lost(log: list[Recorded], said: list[Said]) -> list[str]:
    """What was acknowledged is in the log, with the token that was told."""
    granted = {(one.event.claim.id, one.seq) for one in log if isinstance(one.event, ev.Granted)}
    released = {one.event.lease for one in log if isinstance(one.event, ev.Released)}
    lost = [
        f"{lease} with token {token} was answered, and is not in the log"
        for one in said
        for _, lease, token in one.grants
        if (lease, token) not in granted
    ]
    lost += [
        f"the release of {lease} was answered, and is not in the log"
        for one in said
        for _, lease in one.releases
        if lease not in released
    ]
    return lost


def _growing(said: list[Said]) -> list[str]:
    tokens = [token for one in said for _, _, token in one.grants]
    doubled = [token for token, count in Counter(tokens).items() if count > 1]
    found = [f"token {token} was given out {tokens.count(token)} times" for token in doubled]
    for one in said:
        own = [token for _, _, token in one.grants]
        if own != sorted(own):
            found.append("a client was given a token that is older than one it had")
    return found
