"""A real ledger in a process of its own, on a Unix socket, for tests that kill it or talk to it raw."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from leasefs.core import tokens

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from leasefs.testing.certificates import Leaf

SECRET = "s" * 40
_TIMEOUT_S = 30.0


class Reply(NamedTuple):
    """Status and JSON body."""

    status: int
    json: Any


class LedgerProcess:
    """`python -m leasefs.service` on `<directory>/ledger.sock` and `<directory>/store`."""

    def __init__(self, directory: str, *options: str, store: str | None = None) -> None:
        """Start it and wait until it is ready; with `store` use another place, such as `:memory:`.

        Raises:
            RuntimeError: it ended instead; the message has what it said.
        """
        self.socket_path = os.path.join(directory, "ledger.sock")
        self.store = store or os.path.join(directory, "store")
        ready, ready_child = os.pipe()
        self.process = subprocess.Popen(
            [*command(self.socket_path, self.store), "--ready-fd", str(ready_child), *options],
            pass_fds=[ready_child],
            stderr=subprocess.PIPE,
        )
        os.close(ready_child)
        with open(ready, "rb") as ready_end:
            if ready_end.read() != b"ready\n":
                _, said = self.process.communicate(timeout=_TIMEOUT_S)
                raise RuntimeError(f"exit {self.process.returncode}: {said.decode()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.kill()
        if self.process.stderr is not None:
            self.process.stderr.close()

    def ask(self, method: str, path: str, body: object = None, credentials: str = "") -> Reply:
        """One request on a connection of its own; `credentials` are `<session>:<secret>`."""
        connection = _UnixConnection(self.socket_path)
        try:
            data = None if body is None else json.dumps(body)
            headers = {"Authorization": f"Leasefs {credentials}"} if credentials else {}
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            return Reply(response.status, json.loads(response.read()))
        finally:
            connection.close()

    def open_session(self, session: str, agent: str, *, process: str = "") -> str:
        """Open a session in territory `t`; its credentials."""
        body = {
            "session": session,
            "secret": SECRET,
            "agent": agent,
            "harness": "test",
            "territory": "t",
            "kind": "shell",
            "host": "here",
            "pid": 1,
            "process": process,
        }
        reply = self.ask("POST", "/v1/sessions", body)
        if reply.status != 201:
            raise RuntimeError(str(reply))
        return f"{session}:{SECRET}"

    def add_agent(self, name: str, role: str = "agent") -> str:
        """Issue an identity; its token."""
        token = tokens.spelled(os.urandom(6).hex(), os.urandom(32).hex())
        body = {
            "agent": name,
            "role": role,
            "token_id": tokens.id_of(token),
            "token_sha256": tokens.hashed(token),
        }
        reply = self.ask("POST", "/v1/agents", body)
        if reply.status != 201:
            raise RuntimeError(str(reply))
        return token

    def raw(self) -> socket.socket:
        """A bare connection."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_TIMEOUT_S)
        connection.connect(self.socket_path)
        return connection

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self.process.kill()
        self.process.wait(_TIMEOUT_S)

    def stop(self) -> int:
        """SIGTERM, and wait; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_TIMEOUT_S)


def free_port() -> int:
    """A port of this machine at which nobody listens now."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


def tls_options(leaf: Leaf, port: int) -> tuple[str, ...]:
    """The options of a ledger that is reached at this port as well."""
    return (
        *("--listen", f"127.0.0.1:{port}"),
        *("--tls-cert", leaf.certificate, "--tls-key", leaf.key),
    )


def command(socket_path: str, store: str) -> Sequence[str]:
    """The command line of a ledger."""
    return [sys.executable, "-m", "leasefs.service", "--socket", socket_path, "--store", store]


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("ledger", timeout=_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
