"""Who acts as operator, and on which territory: of the mount here, else of the ledger and the repository here.

The ledger is asked by whoever decides, also inside a mount: to the ledger its daemon is the agent whose mount it is.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from leasefs.client.names import configured_agent
from leasefs.core.errors import InvalidRequest
from leasefs_cli.mount_link import MountLink
from leasefs_cli.own_claims import is_lease_id
from leasefs_cli.place import mount_near, view

if TYPE_CHECKING:
    from leasefs.client.blocking import Link
    from leasefs.client.find import MountFound
    from leasefs.client.understand import Roots


class Operator(NamedTuple):
    """The way to the ledger, and the name under which the history has what is done."""

    link: Link
    name: str


class Governed(NamedTuple):
    """A territory that an operator decides for, and where its tree is seen."""

    link: Link
    name: str
    territory: str
    roots: Roots


def operator_here() -> Operator:
    """For what names a lease: nothing need be known of where the shell stands."""
    found = mount_near()
    return Operator(_ledger_of(found), found.agent if found else configured_agent())


def holder_here() -> Link | None:
    """The way of whoever delegated something, through the mount here; None if there is no mount."""
    found = mount_near()
    return None if found is None else MountLink(found)


def _ledger_of(found: MountFound | None) -> Link:
    if found is not None and found.ledger:
        from leasefs.client.blocking import Link

        return Link(found.ledger)
    from leasefs.client.embedded import ledger_link

    return ledger_link()


def lease_id(name: str) -> str:
    """`name`, which must be an id: globs name leases of one's own, and these may be anybody's. Raises InvalidRequest."""
    if not is_lease_id(name):
        raise InvalidRequest(
            f"{name!r} is no lease's id, like L12; `leasefs leases`, `leasefs who PATH` and `leasefs freezes` tell it"
        )
    return name


def governed_here() -> Governed:
    """For what is about the territory here. Raises InvalidRequest if there is none."""
    seen = view()
    if seen.territory is None or seen.roots is None:
        raise InvalidRequest(
            f"{os.getcwd()} is in no repository and no mount, so there is no territory to decide for; go to one"
        )
    name = seen.mount.agent if seen.mount else configured_agent()
    link = _ledger_of(seen.mount) if seen.mount else seen.link
    return Governed(link, name, seen.territory, seen.roots)
