"""Where a ledger listens: `unix:/path/of/socket`, or `http://127.0.0.1:port` on this machine."""

from __future__ import annotations

import re
from typing import NamedTuple

from leasefs.core.errors import InvalidRequest

# sockaddr_un.sun_path of unix(7), with its closing NUL.
MAX_SOCKET_PATH_BYTES = 107
_LOOPBACK = re.compile(r"127(\.\d{1,3}){3}|localhost|\[::1\]")


class Address(NamedTuple):
    """A Unix socket's path, or a host and port; the other one is empty."""

    socket_path: str = ""
    host: str = ""
    port: int = 0

    @property
    def url(self) -> str:
        """The spelling that `parse_url` reads."""
        if self.socket_path:
            return f"unix:{self.socket_path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def parse_url(url: str) -> Address:
    """The address that `url` names.

    Raises:
        InvalidRequest: if it is neither form, its socket path is relative or longer than 107 bytes, or
            its host is not this machine: secrets travel in clear, so they must not leave it.
    """
    if url.startswith("unix:"):
        return Address(socket_path=_socket_path(url, url.removeprefix("unix:").removeprefix("//")))
    if url.startswith("http://"):
        host, _, port = url.removeprefix("http://").rstrip("/").rpartition(":")
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise _bad(url, "its port is missing or out of range")
        if not _LOOPBACK.fullmatch(host):
            raise _bad(url, "only a ledger on this machine can be used over http")
        return Address(host=host.strip("[]"), port=int(port))
    raise _bad(url, "it must be unix:/path/of/socket or http://127.0.0.1:port")


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
