"""The shape of the route table: one line describes a route to the dispatcher and to OpenAPI alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from leasefs.service.context import Ledger
from leasefs.service.exchange import Answer, Call, EventStream, HttpProblem
from leasefs.service.requests import Body, Query

B = TypeVar("B", bound=Body)
Q = TypeVar("Q", bound=Query)
Handler = Callable[[Ledger, Call, B, Q], Awaitable[Answer | EventStream]]

KIB = 1024
SMALL_BODY_BYTES = 1024 * KIB
BATCH_BODY_BYTES = 8192 * KIB


class Auth(Enum):
    """Who may call: anybody who can connect; whoever is known, to read; who may have sessions; one by its secret; an operator.

    EITHER is a session if its secret is sent, and else an operator. `leasefs.service.auth` tells who is who.
    """

    ANYBODY = "anybody"
    PEER = "observer"
    AGENT = "agent"
    SESSION = "session"
    OPERATOR = "operator"
    EITHER = "session or operator"


@dataclass(frozen=True, slots=True)
class Route(Generic[B, Q]):
    """One operation. `answers` maps a status to the struct of its body (None: not JSON).

    One that `beats` keeps leases alive, and has a pace of its own (`leasefs.service.limits`).
    """

    method: str
    path: str
    handler: Handler[B, Q]
    summary: str
    answers: Mapping[int, type[Any] | None]
    auth: Auth = Auth.PEER
    body: type[B] | None = None
    query: type[Q] | None = None
    body_limit_bytes: int = SMALL_BODY_BYTES
    refusals: tuple[str, ...] = ()
    example: object = None
    example_answers: Mapping[int, object] = field(default_factory=dict)
    streams: bool = False
    beats: bool = False


class Router:
    """Finds the route of a request by its path's segments. Literal segments come before `{parameters}`."""

    def __init__(self, routes: tuple[Route[Any, Any], ...]) -> None:
        self._by_shape: dict[tuple[str, ...], dict[str, Route[Any, Any]]] = {}
        for route in routes:
            shape = tuple(_shape_of(part) for part in route.path.split("/"))
            self._by_shape.setdefault(shape, {})[route.method] = route

    def find(self, method: str, path: str) -> tuple[Route[Any, Any], dict[str, str]]:
        """The route and its path parameters.

        Raises:
            HttpProblem: 404, no such path; 405, not with this method.
        """
        parts = path.split("/")
        by_method = self._by_shape.get(tuple(parts)) or self._with_parameter(parts)
        if by_method is None:
            raise HttpProblem(
                404,
                "not-found",
                f"nothing at {path[:200]!r}; GET /openapi.json lists what there is",
            )
        route = by_method.get(method)
        if route is None:
            allowed = ", ".join(sorted(by_method))
            raise HttpProblem(
                405,
                "method-not-allowed",
                f"{method} is not possible here, only {allowed}",
                headers=[(b"allow", allowed.encode("ascii"))],
            )
        return route, _parameters(route.path, parts)

    def _with_parameter(self, parts: list[str]) -> dict[str, Route[Any, Any]] | None:
        # All parameters of this API stand in the third place: /v1/leases/{lease}/...
        if len(parts) < 4 or not parts[3]:
            return None
        return self._by_shape.get((*parts[:3], "{}", *parts[4:]))


def _shape_of(part: str) -> str:
    return "{}" if part.startswith("{") else part


def _parameters(template: str, parts: list[str]) -> dict[str, str]:
    if "{" not in template:
        return {}
    return {
        name[1:-1]: part
        for name, part in zip(template.split("/"), parts, strict=True)
        if name.startswith("{")
    }
