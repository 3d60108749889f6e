"""What a mount's control socket serves: method and path of each request, and what is said about all others."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from leasefs.core.errors import LeasefsError

if TYPE_CHECKING:
    from collections.abc import Iterable

PASSED_ON: tuple[tuple[str, str], ...] = (
    *(
        ("GET", f"/v1/{name}")
        for name in ("leases", "queue", "who", "sessions", "status", "events")
    ),
    *(("GET", f"/v1/{name}") for name in ("intents", "rescues", "admission", "freezes", "history")),
    ("GET", "/v1/history/{seq}"),
    ("POST", "/v1/leases"),
    ("POST", "/v1/regions"),
    ("GET", "/v1/leases/{lease}"),
    ("DELETE", "/v1/leases/{lease}"),
    *(("POST", f"/v1/leases/{{lease}}/{verb}") for verb in ("downgrade", "delegate", "more-time")),
    *(("POST", f"/v1/leases/{{lease}}/{verb}") for verb in ("revoke", "recall", "hold")),
    ("DELETE", "/v1/rescues/{rescue}"),
    ("PUT", "/v1/admission"),
    ("POST", "/v1/freezes"),
    ("DELETE", "/v1/freezes/{lease}"),
    ("POST", "/v1/reopen"),
    ("POST", "/v1/compactions"),
)
"""Method and path, as the ledger has them."""

OWN: tuple[tuple[str, str], ...] = (
    *((method, path) for path in ("/healthz", "/metrics") for method in ("GET", "HEAD")),
    ("GET", "/openapi.json"),
    ("GET", "/v1/mount"),
    *(
        ("POST", f"/v1/mount/{verb}")
        for verb in ("stop", "heartbeat", "look", "leave", "take-back")
    ),
    ("POST", "/v1/mount/uses"),
)
"""What only a mount has."""


class NotFound(LeasefsError):
    """There is nothing at this path."""

    code = "not-found"


class WrongMethod(LeasefsError):
    """The path is known, but not with this method."""

    code = "wrong-method"


def require_served(method: str, path: str) -> None:
    """Raises NotFound, or WrongMethod with the methods that there are in `allow`."""
    allowed = _by_shape.get(_shape(path.split("/")))
    if allowed is None:
        raise NotFound(f"{path} is not served by a mount; ask the ledger itself")
    if method not in allowed:
        raise WrongMethod(f"{path} is not for {method}", allow=allowed)


def _shape(parts: list[str]) -> tuple[str, ...]:
    # As in the ledger's own table, what a path names stands in the third place.
    if len(parts) >= 4 and parts[3] and tuple(parts) not in _by_shape:
        return (*parts[:3], "{}", *parts[4:])
    return tuple(parts)


def _table(routes: Iterable[tuple[str, str]]) -> dict[tuple[str, ...], list[str]]:
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for method, path in routes:
        found[tuple("{}" if part.startswith("{") else part for part in path.split("/"))].append(
            method
        )
    return {shape: sorted(methods) for shape, methods in found.items()}


_by_shape = _table((*OWN, *PASSED_ON))
