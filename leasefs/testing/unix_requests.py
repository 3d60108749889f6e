"""`requests` over a Unix socket, for tools that bring their own HTTP client: `http://NAME/…` goes to the socket of that name."""

from __future__ import annotations

import socket

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

_TIMEOUT_S = 30.0


def unix_session(**socket_paths: str) -> requests.Session:
    """A session in which each host named here is a socket; nothing of the environment (proxies, .netrc) has a say."""
    session = requests.Session()
    session.trust_env = False
    for host, path in socket_paths.items():
        session.mount(f"http://{host}", _Adapter(host, path))
    return session


class _Connection(HTTPConnection):
    def __init__(self, host: str, path: str) -> None:
        super().__init__(host)
        self._path = path

    def _new_conn(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_TIMEOUT_S)
        connection.connect(self._path)
        return connection


class _Pool(HTTPConnectionPool):
    def __init__(self, host: str, path: str) -> None:
        super().__init__(host)
        self._path = path

    def _new_conn(self) -> _Connection:
        return _Connection(self.host, self._path)


class _Adapter(HTTPAdapter):
    def __init__(self, host: str, path: str) -> None:
        super().__init__()
        self._pool = _Pool(host, path)

    def get_connection_with_tls_context(self, *_args: object, **_named: object) -> _Pool:
        return self._pool

    def close(self) -> None:
        self._pool.close()
        super().close()
