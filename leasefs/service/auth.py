"""Who asks: a local user by their connection, an identity by its token, a session by its secret; and what they may.

A request may carry one `Authorization` header:

    Bearer <token>               an identity that this ledger issued (RFC 6750)
    Leasefs <session>:<secret>   a session, and through it the identity that opened it, if one did

Without one, a local user is known by the kernel's word (unix(7), SO_PEERCRED): the ledger's own user and root, who
could edit its store as well, are operators; another one is the identity that was bound to them. Over TCP nobody is
known without a header, and a session counts there only if an identity opened it.
"""

from __future__ import annotations

import hashlib
import hmac
import pwd
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from leasefs.core import tokens
from leasefs.core.entitled import revoked
from leasefs.core.errors import Denied, SessionEnded
from leasefs.core.roles import Role
from leasefs.service.exchange import HttpProblem
from leasefs.service.routes import Auth

if TYPE_CHECKING:
    from leasefs.core.records import Identity, Session
    from leasefs.core.state import State
    from leasefs.service.context import Ledger
    from leasefs.service.exchange import Call, Connection

_SESSION, _TOKEN = b"leasefs", b"bearer"
_CHALLENGE = (b"www-authenticate", b"Bearer, Leasefs")
_NEEDS = {
    Auth.PEER: Role.OBSERVER,
    Auth.AGENT: Role.AGENT,
    Auth.SESSION: Role.AGENT,
    Auth.EITHER: Role.AGENT,
    Auth.OPERATOR: Role.OPERATOR,
}


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. `identity` is empty for the ledger's own user and root; `uid` is None over TCP."""

    role: Role
    identity: str = ""
    uid: int | None = None

    @property
    def name(self) -> str:
        """As the history has them: the identity's name, or the local user's."""
        return self.identity or user_name(self.uid)

    @property
    def key(self) -> str:
        """What tells one from another, for limits and counts."""
        return f"identity {self.identity}" if self.identity else f"uid {self.uid}"

    def acting(self, by: str) -> str:
        """Whom a forced act is laid to: who asks, and in brackets on whose behalf they say they do."""
        return f"{self.name} ({by})" if by and by != self.name else self.name


def admit(needed: Auth, call: Call, ledger: Ledger) -> None:
    """Find out who asks and set `call.who`, and `call.session` if they sent the secret of one.

    Raises:
        HttpProblem: 401, nobody is known by what was sent, or not any more.
        SessionEnded: the session is not known.
        Denied: they are known, and may not do this.
    """
    if needed is Auth.ANYBODY:
        return
    call.who = _who(call, ledger)
    if needed is Auth.SESSION and call.session is None:
        raise _problem("this needs a session: send `Authorization: Leasefs <session>:<secret>`")
    if needed is not Auth.SESSION and call.session is not None and call.session.revoked_by:
        # Where a session acts, the rules of the ledger leave it one thing to say; elsewhere nobody would look.
        raise SessionEnded(call.session.id, call.session.revoked_by)
    role = _NEEDS[needed]
    if needed is Auth.EITHER and call.session is None:
        role = Role.OPERATOR
    if not call.who.role.may(role):
        raise Denied(
            f"{call.who.name} is an {call.who.role}, and this needs the role {role}; ask an operator (`leasefs agent list` "
            f"shows who is one), or use the token of one",
            identity=call.who.identity,
            role=str(call.who.role),
            needs=str(role),
        )


def _who(call: Call, ledger: Ledger) -> Principal:
    connection, state = call.connection, ledger.state
    scheme, rest = _authorization(call)
    if scheme == _SESSION:
        call.session = authenticated(state, rest)
        found = _of_session(state, call.session, connection, ledger.own_uid)
    elif scheme == _TOKEN:
        identity = identity_of(state, rest, ledger.now_s())
        _require_own_user(identity, connection, ledger.own_uid)
        found = Principal(identity.role, identity.name, connection.uid)
    else:
        found = _local(state, connection, ledger.own_uid)
    if found.identity:
        ledger.heard_of[found.identity] = ledger.now_s()
    return found


def is_still_known(call: Call, ledger: Ledger) -> bool:
    """Whether who was let in is known yet by what they sent then: for what goes on after that.

    A session that has ended since still is: who follows it hears of its end.
    """
    state, name = ledger.state, call.principal.identity
    if not name:
        return True
    if call.session is not None:
        session = state.sessions.get(call.session.id)
        return state.identities[name].is_live and (session is None or not session.revoked_by)
    scheme, token = _authorization(call)
    if scheme != _TOKEN:
        return call.connection.uid is not None and state.by_uid.get(call.connection.uid) == name
    try:
        return identity_of(state, token, ledger.now_s()).name == name
    except HttpProblem:
        return False


def _authorization(call: Call) -> tuple[bytes, bytes]:
    """The scheme, in lower case, and what follows it; both empty if nothing was sent."""
    sent = [value for name, value in call.headers if name == b"authorization"]
    if not sent:
        return b"", b""
    scheme, _, rest = sent[0].strip().partition(b" ")
    if len(sent) > 1 or scheme.lower() not in {_SESSION, _TOKEN}:
        raise _problem(
            "send one `Authorization` header: `Bearer <token>`, or `Leasefs <session>:<secret>`"
        )
    return scheme.lower(), rest.strip()


def _problem(message: str) -> HttpProblem:
    return HttpProblem(401, "denied", message, headers=[_CHALLENGE])


def secret_hash(secret: str) -> str:
    """What the ledger keeps of a session's secret. Secrets are random, so a plain hash is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def authenticated(state: State, credentials: bytes) -> Session:
    """The session of `<session>:<secret>`.

    Raises:
        HttpProblem: 401, not of this form.
        SessionEnded: the session is not known.
        Denied: the secret is another.
    """
    id_, colon, secret = credentials.partition(b":")
    if not id_ or not colon or not id_.isascii():
        raise _problem("this is not `Authorization: Leasefs <session>:<secret>`")
    name = id_.decode("ascii")
    session = state.sessions.get(name)
    if session is None:
        raise SessionEnded(name[:64])
    if not hmac.compare_digest(hashlib.sha256(secret).hexdigest(), session.secret_sha256):
        raise Denied(f"the secret is not that of session {name}")
    return session


def identity_of(state: State, token: bytes, now_s: float) -> Identity:
    """The identity whose token this is. Raises HttpProblem, 401: nobody's, or good no more.

    Why it is good no more is told only to who has it.
    """
    text = token.decode("latin-1")
    id_ = tokens.id_of(text)
    name = state.by_token.get(id_) if id_ else None
    if id_ is None or name is None:
        raise _problem(
            "this ledger knows no such token; ask an operator for one: `leasefs agent add`"
        )
    identity = state.identities[name]
    kept = next(token for token in identity.tokens if token.id == id_)
    if not hmac.compare_digest(tokens.hashed(text), kept.sha256):
        raise _problem(
            "this ledger knows no such token; ask an operator for one: `leasefs agent add`"
        )
    if not identity.is_live:
        raise _problem(revoked(name, identity).message)
    if not kept.is_good(now_s):
        raise _problem(
            f"this token of {name} was replaced by another one"
            + (f" by {identity.rotated_by}" if identity.rotated_by else "")
            + "; use that, or ask an operator: `leasefs agent rotate`"
        )
    return identity


def _of_session(state: State, session: Session, connection: Connection, own_uid: int) -> Principal:
    """Who has opened the session. Its secret alone is not enough for who is known to be somebody else.

    One whose identity was revoked may still give up what it holds, so the rules of the ledger decide what it may.
    """
    if not session.identity:
        if connection.uid is None:
            raise Denied(
                f"session {session.id} was opened by a local user, and over TCP only those of identities count; open one "
                "with a token"
            )
        return _owner(connection, own_uid) or _deny_stranger(connection, own_uid)
    identity = state.identities[session.identity]
    _require_own_user(identity, connection, own_uid)
    whose = None if connection.uid is None else state.by_uid.get(connection.uid)
    if whose not in {None, identity.name} and _owner(connection, own_uid) is None:
        raise Denied(f"you are {whose}, and session {session.id} is of {identity.name}")
    role = Role.AGENT if session.revoked_by else identity.role
    return Principal(role, identity.name, connection.uid)


def _require_own_user(identity: Identity, connection: Connection, own_uid: int) -> None:
    """What is bound to a local user is no other local user's, whoever has come by a copy of it."""
    strange = connection.uid not in {None, identity.uid, own_uid, 0}
    if identity.uid is not None and strange:
        raise Denied(
            f"{identity.name} belongs to local user {identity.user or identity.uid}, and you are "
            f"{user_name(connection.uid)}; use an identity of your own",
            identity=identity.name,
            uid=connection.uid,
        )


def _local(state: State, connection: Connection, own_uid: int) -> Principal:
    """Who is known by the connection alone."""
    if connection.uid is None:
        raise _problem(
            "over TCP this needs a token that the ledger has issued: send `Authorization: Bearer <token>`"
        )
    owner = _owner(connection, own_uid)
    if owner is not None:
        return owner
    name = state.by_uid.get(connection.uid)
    if name is None:
        _deny_stranger(connection, own_uid)
    return Principal(state.identities[name].role, name, connection.uid)


def _owner(connection: Connection, own_uid: int) -> Principal | None:
    if connection.uid in {own_uid, 0}:
        return Principal(Role.OPERATOR, "", connection.uid)
    return None


def _deny_stranger(connection: Connection, own_uid: int) -> NoReturn:
    you = user_name(connection.uid)
    raise Denied(
        f"this ledger belongs to {user_name(own_uid)} and does not know you, {you} (uid {connection.uid}); an operator lets "
        f"you in (`leasefs agent add NAME --user {you}`), or send a token that it has issued",
        uid=connection.uid,
        owner_uid=own_uid,
    )


@lru_cache(maxsize=256)
def user_name(uid: int | None) -> str:
    """How a local user is called."""
    if uid is None:
        return "somebody"
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
