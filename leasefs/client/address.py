"""Where a ledger listens: `unix:/path/of/socket` on this machine, or `https://host:port` anywhere.

There is no plain HTTP over TCP, on loopback neither: any user of the machine could listen at such a port, and would be
handed secrets.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from leasefs.core.errors import InvalidRequest

# sockaddr_un.sun_path of unix(7), with its closing NUL.
MAX_SOCKET_PATH_BYTES = 107
HTTPS_PORT = 443
# A name of RFC 1123 or an IPv4 address; or an IPv6 address in brackets (RFC 3986).
_NAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(\.(?!-)[A-Za-z0-9-]{1,63})*\.?")
_BRACKETED = re.compile(r"\[([0-9A-Fa-f:.]{2,45})\]")


class Address(NamedTuple):
    """A Unix socket's path, or a host and port where TLS is spoken; the other one is empty."""

    socket_path: str = ""
    host: str = ""
    port: int = 0

    @property
    def url(self) -> str:
        """The spelling that `parse_url` reads."""
        if self.socket_path:
            return f"unix:{self.socket_path}"
        return f"https://{self.authority}:{self.port}"

    @property
    def authority(self) -> str:
        """The host as it stands in a URL and in the `Host` header; of a Unix socket a name that means nothing."""
        return f"[{self.host}]" if ":" in self.host else self.host or "leasefs"


def parse_url(url: str) -> Address:
    """The address that `url` names; the port of https is 443 unless it says another.

    Raises:
        InvalidRequest: if it is neither form, or its socket path is relative or longer than 107 bytes.
    """
    if url.startswith("unix:"):
        return Address(socket_path=_socket_path(url, url.removeprefix("unix:").removeprefix("//")))
    if url.startswith("https://"):
        return _tls_address(url)
    if url.startswith("http://"):
        raise _bad(url, "secrets would travel in clear; write https://host:port, or unix:/path")
    raise _bad(url, "it must be unix:/path/of/socket or https://host:port")


def _tls_address(url: str) -> Address:
    rest = url.removeprefix("https://").removesuffix("/")
    if "@" in rest:
        # Not quoted: whoever wrote it there took it for a place of secrets.
        raise InvalidRequest(
            "bad ledger address: no user or secret belongs into it; put the token into a file, see LEASEFS_TOKEN_FILE"
        )
    bracketed = _BRACKETED.match(rest)
    host, port = (bracketed[0], rest[bracketed.end() :]) if bracketed is not None else _split(rest)
    if bracketed is None and not _NAME.fullmatch(host):
        raise _bad(url, "its host cannot be read; it must be https://host:port")
    number = port.removeprefix(":")
    if port and not (port[0] == ":" and _is_decimal(number) and 0 < int(number) < 65536):
        raise _bad(url, "its port is not a number from 1 to 65535")
    return Address(host=host.strip("[]").lower(), port=int(number) if port else HTTPS_PORT)


def _split(authority: str) -> tuple[str, str]:
    host, colon, port = authority.partition(":")
    return host, colon + port


def _is_decimal(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5


def _socket_path(url: str, path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise _bad(url, "the socket's path must be absolute")
    if len(path.encode("utf-8", "surrogateescape")) > MAX_SOCKET_PATH_BYTES:
        raise _bad(
            url, f"the socket's path is longer than {MAX_SOCKET_PATH_BYTES} bytes, see unix(7)"
        )
    return path


def _bad(url: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"bad ledger address {url!r}: {problem}", url=url)
