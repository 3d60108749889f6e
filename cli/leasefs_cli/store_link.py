"""A link to a ledger's file, of which nobody need be serving anything: a backup, or the store of a ledger that is stopped."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leasefs.client.address import Address
from leasefs.client.blocking import Link
from leasefs.core.errors import InvalidRequest, LedgerUnavailable
from leasefs_cli.place import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.client import api
    from leasefs.client.sse import StreamEvent


class StoreLink(Link):
    """A `Link` that answers what can be read, as the server would."""

    def __init__(self, place: str) -> None:
        """`place` is the file, or the directory that `ledger serve --store` names.

        Raises:
            LedgerUnavailable: there is no ledger, or it cannot be read.
        """
        from leasefs.service.entries import UnknownEvent
        from leasefs.service.offline import OfflineLedger
        from leasefs.store.errors import StoreError

        super().__init__(Address(socket_path=os.path.abspath(place)).url)
        try:
            self._ledger = OfflineLedger(place)
        except (StoreError, UnknownEvent, OSError) as error:
            raise LedgerUnavailable(f"cannot read {place}: {error}", store=place) from error

    def send(self, call: api.Call) -> api.Body:
        """See `Link.send`."""
        return self._ledger.answer(call)

    def stream(self, call: api.Call) -> Iterator[StreamEvent]:
        """Nothing will ever happen there."""
        raise InvalidRequest("nothing goes on in a file: leave --follow out, or ask the ledger")


def store_view(place: str, *, everywhere: bool) -> View:
    """What is looked at in a file: the territory here, or all if there is none."""
    from leasefs.client.understand import Roots
    from leasefs_cli.tree import find_tree

    tree = find_tree(None)
    roots = Roots(tree.root) if tree is not None else None
    territory = tree.territory if tree is not None and not everywhere else None
    return View(StoreLink(place), territory, roots, None)
