"""Whose name an agent bears that was given none: a ledger that knows who asks says it."""

from __future__ import annotations

from leasefs.client import api_agents, paths
from leasefs.client.blocking import Link
from leasefs.client.names import agent_name, configured_agent
from leasefs.core.errors import LeasefsError

# A ledger of before identities.
_UNKNOWN_THERE = "not-found"


def identity_name() -> str:
    """The identity that the configured ledger takes this client for; "" if for none, or if that is this user's own.

    Raises:
        LedgerUnavailable: it does not answer.
        Denied: it does not know who asks; says what to do.
    """
    url, embedded = paths.ledger_url()
    if embedded:
        return ""
    try:
        return str(Link(url).send(api_agents.whoami())["identity"])
    except LeasefsError as error:
        if error.details.get("code") == _UNKNOWN_THERE:
            return ""
        raise


def named_or_own(given: str | None = None) -> str:
    """`given`, else what is configured, else the name of this client's identity, else user@host. Raises as `identity_name`."""
    return given or configured_agent() or identity_name() or agent_name()
