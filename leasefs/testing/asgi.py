"""Asks an ASGI application without a server or a socket."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leasefs.service.exchange import Connection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 -- whatever the server said
        """The body, which must be JSON."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a refusal."""
        return str(self.json["error"]["code"])


@dataclass(slots=True)
class AsgiClient:
    """A caller of `app`; `credentials` are `<session>:<secret>`, `token` is an identity's; over TCP there is no `uid`."""

    app: Callable[..., Awaitable[None]]
    credentials: str = ""
    uid: int | None = field(default_factory=os.geteuid)
    token: str = ""
    pid: int = 1

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
        stay: Callable[[], Awaitable[object]] | None = None,
    ) -> Reply:
        """One request, its body as JSON or `raw`, and the whole answer.

        The caller hangs up as soon as its request is read, or when `stay` returns.
        """
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        sent: list[dict[str, Any]] = []

        messages: list[dict[str, object]] = [
            {"type": "http.request", "body": data, "more_body": False}
        ]

        async def receive() -> dict[str, object]:
            if stay is not None and not messages:
                await stay()
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(self._scope(method, path, headers or {}), receive, send)
        start = sent[0]
        return Reply(
            start["status"],
            {name.decode(): value.decode() for name, value in start["headers"]},
            b"".join(message.get("body", b"") for message in sent[1:]),
        )

    def _scope(self, method: str, path: str, headers: dict[str, str]) -> dict[str, Any]:
        given = dict(headers)
        if self.credentials:
            given.setdefault("authorization", f"Leasefs {self.credentials}")
        elif self.token:
            given.setdefault("authorization", f"Bearer {self.token}")
        bare, _, query = path.partition("?")
        return {
            "type": "http",
            "method": method,
            "path": bare,
            "query_string": query.encode("ascii"),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
            "state": {"connection": self._connection()},
        }

    def _connection(self) -> Connection:
        if self.uid is None:
            return Connection(None, None, lambda: None, "192.0.2.7")
        return Connection(self.uid, self.pid, lambda: None)
