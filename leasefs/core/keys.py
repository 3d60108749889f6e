"""Idempotency keys: a request that is sent twice acts once and is answered the same (P6).

A session remembers its own last requests. An operator has no session, so the ledger remembers: the last requests of all of them.
"""

from __future__ import annotations

from hashlib import blake2s
from typing import TYPE_CHECKING

from leasefs.core.errors import InvalidRequest, KeyReused
from leasefs.core.records import Answered, replace

if TYPE_CHECKING:
    from leasefs.core.records import Session
    from leasefs.core.state import State

REMEMBERED = 256
MAX_KEY_LENGTH = 128


def fingerprint(*parts: object) -> str:
    """What tells one request of a key from another."""
    return blake2s(repr(parts).encode(errors="surrogatepass"), digest_size=8).hexdigest()


def answered_before(session: Session, key: str, request: str) -> str | None:
    """The lease id that this key's first use led to. Raises KeyReused for another request (P6)."""
    if not key or len(key) > MAX_KEY_LENGTH:
        raise InvalidRequest(f"an idempotency key of 1 to {MAX_KEY_LENGTH} characters is needed")
    for answered in session.answered:
        if answered.key == key:
            if answered.request != request:
                raise KeyReused(key)
            return answered.lease_id
    return None


def operated(state: State, key: str, request: str, about: str) -> State:
    """The state that remembers one more request, which was about a lease or a territory."""
    if not key:
        return state
    return replace(
        state, operated=(*state.operated[1 - REMEMBERED :], Answered(key, request, about))
    )


def done_before(state: State, key: str, request: str) -> bool:
    """Whether this very request was carried out already. Without a key it never was.

    Raises:
        KeyReused: another one had this key.
        InvalidRequest: it is no key.
    """
    if len(key) > MAX_KEY_LENGTH:
        raise InvalidRequest(f"an idempotency key has at most {MAX_KEY_LENGTH} characters")
    for one in state.operated if key else ():
        if one.key == key:
            if one.request != request:
                raise KeyReused(key)
            return True
    return False
