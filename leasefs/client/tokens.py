"""The token that says who this client is, and where it is found; never in argv, never in the environment.

Looked for in this order, for the ledger at one address:

1. the file that LEASEFS_TOKEN_FILE, or the setting `ledger.token_file`, names;
2. `leasefs-token` among the credentials that systemd passes to a service (`LoadCredential=`, systemd.exec(5));
3. `$XDG_CONFIG_HOME/leasefs/tokens/HOST:PORT`, then `.../HOST`; of a Unix socket `.../` and its path with a `-` for each
   slash: a user may speak to several ledgers.

This user's own ledger is never sent one: it knows its user by the kernel's word.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leasefs.client import config, paths
from leasefs.client.config_files import config_home
from leasefs.client.private_file import credentials_dir, read_secret
from leasefs.core.errors import Denied, InvalidRequest

if TYPE_CHECKING:
    from leasefs.client.address import Address

FILE_VARIABLE = "LEASEFS_TOKEN_FILE"
CREDENTIAL = "leasefs-token"
# Where one could think that a token itself belongs.
_NEVER = "LEASEFS_TOKEN"


class TokenSource:
    """The token for one ledger: read when it is first needed, and again when the ledger refused it."""

    def __init__(self, address: Address) -> None:
        self.remote = not address.socket_path
        self._address = address
        self._token: str | None = None

    def current(self) -> str:
        """The token; "" if there is none.

        Raises:
            Denied: the file that would have it is open to others, not ours, or holds none.
            InvalidRequest: what names the file is wrong.
        """
        if self._token is None:
            self._token = _read(self._address)
        return self._token

    def reread(self) -> bool:
        """Read it again; whether it is another one now. Raises as `current`."""
        former, self._token = self._token, _read(self._address)
        return self._token not in ("", former)

    def lacking(self) -> Denied:
        """That the ledger wants a token, and where to put it."""
        place = os.path.join(tokens_dir(), token_names(self._address)[0])
        return Denied(
            f"the ledger at {self._address.url} wants to know who you are, and there is no token: put the one that its operator "
            f"gave you (`leasefs agent add`) into {place}, mode 0600, or name its file in {FILE_VARIABLE}",
            url=self._address.url,
        )


def token_file(address: Address) -> str | None:
    """The file that the token for this ledger is read from; None if there is none.

    Raises:
        InvalidRequest: LEASEFS_TOKEN holds a token, or what is configured cannot be read.
    """
    if _NEVER in os.environ:
        raise InvalidRequest(
            f"{_NEVER} is set; every child process could read a token there: unset it, put the token into a file of mode "
            f"0600, and name that in {FILE_VARIABLE}"
        )
    if _is_own_ledger(address):
        return None
    named = config.path("ledger.token_file")
    if named:
        return named
    return next((path for path in _places(address) if os.path.lexists(path)), None)


def token_names(address: Address) -> tuple[str, ...]:
    """Under which names the file of this ledger's token may lie in the directory of tokens."""
    if address.socket_path:
        return (address.socket_path.strip("/").replace("/", "-"),)
    return (f"{address.host}:{address.port}", address.host)


def tokens_dir() -> str:
    """`$XDG_CONFIG_HOME/leasefs/tokens` (XDG base directories 0.8)."""
    return os.path.join(config_home(), "leasefs", "tokens")


def _places(address: Address) -> list[str]:
    credentials = credentials_dir()
    passed = [os.path.join(credentials, CREDENTIAL)] if credentials else []
    return passed + [os.path.join(tokens_dir(), name) for name in token_names(address)]


def _is_own_ledger(address: Address) -> bool:
    if not address.socket_path:
        return False
    try:
        return address.socket_path == paths.ledger_socket()
    except Denied:
        return False  # a user who can have no state directory has no ledger in it


def _read(address: Address) -> str:
    path = token_file(address)
    if path is None:
        return ""
    from leasefs.core.tokens import id_of  # seldom needed

    token = read_secret(path, "the token file").decode("ascii", "replace").strip()
    if id_of(token) is None:
        raise Denied(
            f"the token file {path} holds no token as `leasefs agent add` prints one; have a new one made",
            path=path,
        )
    return token
