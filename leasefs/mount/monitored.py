"""What a monitor asks a mount on its control socket: `GET /metrics` and `GET /healthz`, as of a ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.errors import LeasefsError
from leasefs.mount.control_http import Answer, Request, Text

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.mount.health import Health

METRICS, HEALTH = "/metrics", "/healthz"
PATHS = frozenset({METRICS, HEALTH})


class Unhealthy(LeasefsError):
    """Why a mount cannot do what it is for."""

    code = "unavailable"


class Monitored:
    """Answers for one mount."""

    def __init__(self, metrics: Callable[[], Text], health: Health) -> None:
        self._metrics = metrics
        self._health = health

    async def answer(self, request: Request) -> Answer:
        """To a GET of one of `PATHS`."""
        if request.path == METRICS:
            return self._metrics()
        problem = await self._health.problem()
        if problem:
            return 503, _body(Unhealthy(problem))
        remark = self._health.remark()
        return Text(f"ok\n{remark}\n" if remark else "ok\n")


def _body(error: LeasefsError) -> dict[str, object]:
    return {"error": {"code": error.code, "message": error.message, "details": error.details}}
