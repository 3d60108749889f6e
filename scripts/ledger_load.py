"""Load on a ledger for `bench_ledger`: clients that claim and release, each with its own connection.

Raw sockets on purpose: a client library would be measured instead of the ledger.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import secrets
import socket
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from leasefs.core import tokens

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized
    from multiprocessing.synchronize import Barrier

SECRET = secrets.token_hex(32)
CLAIMS_IN_BATCH = 50
PLACES = 10


class Way(NamedTuple):
    """How a ledger is reached: by its Unix socket, and for the load by TLS if there is a port."""

    socket_path: str
    port: int = 0
    ca_file: str = ""


class Wire:
    """One keep-alive connection."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._socket = _connected(way)
        self._authorization = self._session = ""
        self._rest = b""

    def open_session(self, agent: str) -> None:
        """Open a session and use it from now on."""
        if self._way.port:
            self._authorization = f"Authorization: Bearer {_issued(self._way, agent)}\r\n"
        self._session = session = f"bench-{agent}-{os.getpid()}"
        body = {
            "session": session,
            "secret": SECRET,
            "agent": agent,
            "harness": "bench",
            "territory": "bench",
            "kind": "shell",
        }
        self.ask("POST", "/v1/sessions", body)
        self._authorization = f"Authorization: Leasefs {session}:{SECRET}\r\n"

    def end_session(self) -> None:
        """End it, and with it all that it holds."""
        self.ask("DELETE", f"/v1/sessions/{self._session}")

    def ask(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 -- any JSON
        """Send one request and read its answer."""
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: l\r\n{self._authorization}Content-Length: {len(data)}\r\n\r\n"
        self._socket.sendall(head.encode() + data)
        return self._answer()

    def _answer(self) -> Any:  # noqa: ANN401 -- any JSON
        data = self._rest
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        at = data.index(b"content-length: ") + len(b"content-length: ")
        length = int(data[at : data.index(b"\r\n", at)])
        while len(data) < end + 4 + length:
            data += self._more()
        self._rest = data[end + 4 + length :]
        if data[9:10] != b"2":
            raise RuntimeError(data.decode())
        return json.loads(data[end + 4 : end + 4 + length])

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _more(self) -> bytes:
        data = self._socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the ledger closed the connection")
        return data


def _connected(way: Way) -> socket.socket:
    if not way.port:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(way.socket_path)
        return connection
    bare = socket.create_connection(("127.0.0.1", way.port))
    bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    context = ssl.create_default_context(cafile=way.ca_file)
    return context.wrap_socket(bare, server_hostname="127.0.0.1")


def _issued(way: Way, agent: str) -> str:
    """A new identity's token, by the Unix socket."""
    token = tokens.spelled(secrets.token_hex(6), secrets.token_hex(32))
    operator = Wire(way._replace(port=0))
    body = {"agent": agent, "token_id": tokens.id_of(token), "token_sha256": tokens.hashed(token)}
    operator.ask("POST", "/v1/agents", body)
    operator.close()
    return token


def single_pairs(wire: Wire, agent: str, until_s: float) -> int:
    """Claim and release, one request each; the pairs done."""
    pairs = 0
    while time.monotonic() < until_s:
        claim = {"key": f"c{pairs}", "globs": [f"src/{agent}/p{pairs % PLACES}/**"]}
        lease = wire.ask("POST", "/v1/leases", claim)["lease"]
        wire.ask("DELETE", f"/v1/leases/{lease}?key=r{pairs}")
        pairs += 1
    return pairs


def batched_pairs(wire: Wire, agent: str, until_s: float) -> int:
    """The same in batches: each releases what the one before claimed, and claims anew."""
    pairs = number = 0
    held: list[str] = []
    while time.monotonic() < until_s:
        releases = [{"op": "release", "lease": id_, "key": f"r{id_}"} for id_ in held]
        claims = [
            {
                "op": "claim",
                "key": f"c{number}-{place}",
                "globs": [f"src/{agent}/p{place}/**"],
            }
            for place in range(CLAIMS_IN_BATCH)
        ]
        answers = wire.ask("POST", "/v1/batch", {"requests": releases + claims})["answers"]
        if any(answer["status"] >= 300 for answer in answers):
            raise RuntimeError(str(answers)[:1000])
        pairs += len(held)
        held = [answer["body"]["lease"] for answer in answers[len(releases) :]]
        number += 1
    return pairs


@dataclass(frozen=True, slots=True)
class Load:
    """How many clients, for how long, in which way."""

    clients: int
    seconds: float
    batched: bool


def pairs_per_second(way: Way, load: Load) -> float:
    """Run the clients, each in a process of its own."""
    context = multiprocessing.get_context("fork")
    start = context.Barrier(load.clients)
    counts = [context.Value("q", 0) for _ in range(load.clients)]
    processes = [
        context.Process(target=_client, args=(way, f"a{number}", load, start, counts[number]))
        for number in range(load.clients)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit("a client failed; what it said stands above")
    return float(sum(count.value for count in counts) / load.seconds)


def _client(way: Way, agent: str, load: Load, start: Barrier, count: Synchronized[int]) -> None:
    wire = Wire(way)
    agent = f"{agent}-{'b' if load.batched else 's'}{load.clients}"
    wire.open_session(agent)
    start.wait(timeout=60)
    work = batched_pairs if load.batched else single_pairs
    count.value = work(wire, agent, time.monotonic() + load.seconds)
    wire.end_session()
