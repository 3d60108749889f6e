"""What a request shows of who asks: its session's secret, or this client's token (docs/PROTOCOL.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasefs.client import api
    from leasefs.client.ids import Credentials
    from leasefs.client.tokens import TokenSource
    from leasefs.core.errors import Denied


class Proof:
    """Of one link. What needs a session shows that; all else the token, if there is one.

    A session outlives the token that it was opened with. So where a token is refused and its file has no other, what a
    session may ask as well is asked with that.
    """

    def __init__(self, credentials: Credentials | None, tokens: TokenSource | None) -> None:
        self.credentials = credentials
        self._tokens = tokens
        self._token_is_good = True

    def header(self, call: api.Call) -> str | None:
        """The value of the `Authorization` header. Raises as `TokenSource.current`."""
        session = self.credentials
        if call.needs_session:
            return None if session is None else session.authorization
        if self._tokens is None:
            return None
        token = self._tokens.current()
        if token and (self._token_is_good or _opens(call)):
            return f"Bearer {token}"
        # A Unix socket's ledger knows who connects; to it a session's secret would say less than nothing does.
        nameless = self._tokens.remote or bool(token)
        return session.authorization if session and nameless and not _opens(call) else None

    def lacking(self, call: api.Call) -> Denied | None:
        """A 401 came: what to do, if it came because there was nothing to show."""
        if call.needs_session or self._tokens is None or self.header(call) is not None:
            return None
        return self._tokens.lacking()

    def refused(self, call: api.Call) -> bool:
        """A 401 came for the header of this call: whether there is another to try. Reads a file."""
        tokens = self._tokens
        if call.needs_session or tokens is None or not tokens.current():
            return False
        if tokens.reread():
            self._token_is_good = True
            return True
        if self._token_is_good and self.credentials is not None and not _opens(call):
            self._token_is_good = False
            return True
        return False


def _opens(call: api.Call) -> bool:
    """Whether the session is only being opened by it, so that its secret proves nothing yet."""
    return call.method == "POST" and call.path == "/v1/sessions"
