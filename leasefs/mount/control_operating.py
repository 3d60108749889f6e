"""What operators ask of the ledger through a mount: passed on, for those who could ask it themselves.

The ledger takes the daemon for who asks, so nobody may borrow its power. A recall is different: whoever may use the
mount's leases may take back what was delegated out of them, and the ledger checks that by the mount's session.
"""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, Any

from leasefs.client import api
from leasefs.core.errors import Denied

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasefs.mount.control_http import Request

_OF_A_LEASE = frozenset({"revoke", "recall", "hold"})


def is_operating(method: str, parts: list[str]) -> bool:
    """Whether this is a request of an operator: to end, recall or hold a lease, to limit, to freeze."""
    match parts:
        case ["leases", _, verb]:
            return method == "POST" and verb in _OF_A_LEASE
        case ["admission"]:
            return method == "PUT"
        case ["reopen"] | ["compactions"]:
            return method == "POST"
        case ["freezes"]:
            return method == "POST"
        case ["freezes", _]:
            return method == "DELETE"
    return False


async def operate(request: Request, forward: Callable[[api.Call], Awaitable[api.Body]]) -> api.Body:
    """Pass it on, and say what the ledger answers.

    To the ledger the mount may be an agent's identity, and no operator; what it has delegated it may have back as holder.
    """
    call = passed_on(request)
    try:
        return await forward(call)
    except Denied:
        if call.needs_session or not request.path.endswith("/recall"):
            raise
    return await forward(_as_holder(request))


def passed_on(request: Request) -> api.Call:
    """The request as the daemon may make it. Raises Denied."""
    own = request.peer.uid in {0, os.geteuid()}
    body: dict[str, Any] = dict(request.body or {})
    if not own and request.path.endswith("/recall"):
        return _as_holder(request)
    if not own:
        raise Denied(
            "only the mount's own user may act as operator through it; ask the ledger yourself, as an operator that it knows "
            "(`leasefs agent whoami`)"
        )
    if request.method == "DELETE":
        by = request.query.get("by") or _user_name(request.peer.uid)
        key = request.query.get("key")
        return api.Call("DELETE", request.path + api.query(by=by, key=key))
    if request.path.endswith("/compactions"):
        return api.Call(request.method, request.target, body)
    # Anything but words is for the ledger to refuse.
    if body.get("by", "") == "":
        body["by"] = _user_name(request.peer.uid)
    return api.Call(request.method, request.target, body)


def _as_holder(request: Request) -> api.Call:
    body = {name: value for name, value in (request.body or {}).items() if name != "by"}
    return api.Call("POST", request.path, body, needs_session=True)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
