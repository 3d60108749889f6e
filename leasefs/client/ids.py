"""What a client chooses itself: idempotency keys, session ids and their secrets."""

from __future__ import annotations

import os
from typing import NamedTuple


def new_key() -> str:
    """A fresh idempotency key: a request sent twice with it acts once (P6)."""
    return os.urandom(12).hex()


class IssuedToken(NamedTuple):
    """A token that was just made: the public id in it, and the whole text, which only its owner keeps."""

    id: str
    text: str

    def __repr__(self) -> str:
        """Without the secret, which must not reach a log or a traceback."""
        return f"IssuedToken(id={self.id!r})"


def new_token() -> IssuedToken:
    """A token nobody else has (`leasefs.core.tokens`)."""
    from leasefs.core import tokens  # seldom needed

    id_ = os.urandom(tokens.ID_HEX_DIGITS // 2).hex()
    return IssuedToken(id_, tokens.spelled(id_, os.urandom(tokens.SECRET_HEX_DIGITS // 2).hex()))


class Credentials(NamedTuple):
    """A session's id and its 256-bit secret. The secret never leaves the owner's processes and files."""

    session: str
    secret: str

    def __repr__(self) -> str:
        """Without the secret, which must not reach a log or a traceback."""
        return f"Credentials(session={self.session!r})"

    @property
    def authorization(self) -> str:
        """The value of the `Authorization` header."""
        return f"Leasefs {self.session}:{self.secret}"


def new_credentials() -> Credentials:
    """A session id and secret nobody else has."""
    return Credentials("S" + os.urandom(12).hex(), os.urandom(32).hex())
