"""The ledger whose identities are meant: that of the mount here, else the one that any command speaks to.

Asked directly and never through a mount, whose daemon would be taken for who asks.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leasefs_cli.place import mount_near

if TYPE_CHECKING:
    from leasefs.client.blocking import Link


def ledger_here() -> Link:
    """A link to it."""
    found = mount_near()
    if found is not None and found.ledger:
        from leasefs.client.blocking import Link

        return Link(found.ledger)
    from leasefs.client.embedded import ledger_link

    return ledger_link()


def on_behalf() -> str:
    """Whom the history has in brackets behind who asks."""
    found = mount_near()
    return found.agent if found is not None else os.environ.get("LEASEFS_AGENT", "")
