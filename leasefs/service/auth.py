"""Who asks: the session behind an Authorization header, and the operator behind a connection."""

from __future__ import annotations

import hashlib
import hmac
import pwd
from typing import TYPE_CHECKING

from leasefs.core.errors import Denied, SessionEnded
from leasefs.service.exchange import Connection, HttpProblem

if TYPE_CHECKING:
    from leasefs.core.records import Session
    from leasefs.core.state import State

_SCHEME = b"leasefs"


def secret_hash(secret: str) -> str:
    """What the ledger keeps of a session's secret. Secrets are random, so a plain hash is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def authenticated(state: State, authorization: bytes | None) -> Session:
    """The session of `Authorization: Leasefs <session>:<secret>`.

    Raises:
        HttpProblem: 401, no such header or not of this form.
        SessionEnded: the session is not known.
        Denied: the secret is another.
    """
    id_, secret = _credentials(authorization)
    session = state.sessions.get(id_)
    if session is None:
        raise SessionEnded(id_[:64])
    if not hmac.compare_digest(hashlib.sha256(secret).hexdigest(), session.secret_sha256):
        raise Denied(f"the secret is not that of session {id_}")
    return session


def _credentials(authorization: bytes | None) -> tuple[str, bytes]:
    scheme, _, rest = (authorization or b"").partition(b" ")
    id_, colon, secret = rest.strip().partition(b":")
    if scheme.lower() != _SCHEME or not id_ or not colon or not id_.isascii():
        raise HttpProblem(
            401,
            "denied",
            "this needs a session: send `Authorization: Leasefs <session>:<secret>`",
            headers=[(b"www-authenticate", b"Leasefs")],
        )
    return id_.decode("ascii"), secret


def require_peer(connection: Connection, own_uid: int) -> None:
    """Only the server's own user and root may ask at all. Raises Denied."""
    if connection.uid not in {own_uid, 0}:
        raise Denied(
            f"this ledger belongs to uid {own_uid}, and you are uid {connection.uid}; "
            "use your own ledger, or a shared one over TCP",
            uid=connection.uid,
            owner_uid=own_uid,
        )


def operator_name(connection: Connection, by: str) -> str:
    """Who revokes, for the history: the user behind the connection, and on whose behalf."""
    try:
        user = pwd.getpwuid(connection.uid).pw_name
    except KeyError:
        user = f"uid {connection.uid}"
    return f"{user} ({by})" if by else user
