"""The ledger's verbs about identities, as in `leasefs.client.api`. A token itself is never sent by them, only its hash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.client.api import Body, Call, quoted

if TYPE_CHECKING:
    from leasefs.client.ids import IssuedToken


def add_agent(
    name: str,
    token: IssuedToken,
    *,
    role: str = "agent",
    user: str = "",
    priority: int | None = None,
    by: str = "",
) -> Call:
    """As operator, issue an identity whose token this is (AgentAnswer).

    `role` is observer, agent or operator; `user` a user of the ledger's machine, whom it belongs to; `priority` the
    highest it may claim with, None what its role usually has.
    """
    body: Body = {"agent": name, **_hashed(token), "role": role, "by": by}
    if user:
        body["user"] = user
    if priority is not None:
        body["priority"] = priority
    return Call("POST", "/v1/agents", body)


def change_agent(
    name: str,
    *,
    role: str | None = None,
    user: str | None = None,
    priority: int | None = None,
    by: str = "",
) -> Call:
    """As operator, change what it may do, or whose it is; "" as `user` is nobody, None leaves it (AgentAnswer)."""
    wanted: Body = {"role": role, "user": user, "priority": priority}
    body: Body = {field: value for field, value in wanted.items() if value is not None}
    return Call("PATCH", f"/v1/agents/{quoted(name)}", {**body, "by": by})


def rotate_agent(name: str, token: IssuedToken, *, grace_s: float = 0.0, by: str = "") -> Call:
    """As operator, give it another token; those before are good for `grace_s` more seconds (AgentAnswer)."""
    body: Body = {**_hashed(token), "grace_s": grace_s, "by": by}
    return Call("POST", _of(name, "rotate"), body)


def revoke_agent(name: str, *, by: str = "") -> Call:
    """As operator, end it, and all that its sessions hold (AgentAnswer)."""
    return Call("POST", _of(name, "revoke"), {"by": by})


def agents() -> Call:
    """All identities, revoked ones too: `{"agents": [AgentAnswer]}`."""
    return Call("GET", "/v1/agents")


def whoami() -> Call:
    """Whom the ledger takes the caller for (WhoAmI)."""
    return Call("GET", "/v1/whoami")


def _hashed(token: IssuedToken) -> Body:
    from leasefs.core.tokens import hashed

    return {"token_id": token.id, "token_sha256": hashed(token.text)}


def _of(name: str, verb: str) -> str:
    return f"/v1/agents/{quoted(name)}/{verb}"
