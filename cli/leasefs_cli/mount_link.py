"""The link to a mount's control socket: if that fails, it is the mount that is gone, not the ledger."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from leasefs.client.blocking import Link
from leasefs.client.process import process_identity
from leasefs.core.errors import LedgerUnavailable, NotMounted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.client import api
    from leasefs.client.find import MountFound
    from leasefs.client.sse import StreamEvent


class MountLink(Link):
    """A `Link` whose `send` and `stream` also raise NotMounted: the daemon is gone, or silent."""

    def __init__(self, found: MountFound, *, timeout_s: float = 10.0) -> None:
        super().__init__(control_url(found), timeout_s=timeout_s, is_ledger=False)
        self._found = found

    def hurried(self, timeout_s: float) -> Link:
        """See `Link.hurried`."""
        return MountLink(self._found, timeout_s=timeout_s)

    def send(self, call: api.Call) -> api.Body:
        """See `Link.send`."""
        with self._told_apart():
            return super().send(call)

    def stream(self, call: api.Call) -> Iterator[StreamEvent]:
        """See `Link.stream`."""
        with self._told_apart():
            yield from super().stream(call)

    @contextlib.contextmanager
    def _told_apart(self) -> Iterator[None]:
        try:
            yield
        except LedgerUnavailable as error:
            # What the mount passes on from its ledger names the ledger.
            if error.details.get("url") != self.address.url:
                raise
            place = self._found.mountpoint
            if "waited_s" in error.details:
                problem = f"has not answered for {error.details['waited_s']:g} s: is it stopped?"
            elif process_identity(self._found.pid) == self._found.process:
                # As where the runtime directory went with a login session.
                problem = f"lives, but not its socket {self._found.control}: `leasefs unmount {place}`, then mount again"
            else:
                problem = f"is gone: `leasefs unmount {place}`, then mount again"
            raise NotMounted(
                f"the daemon of the mount at {place} (process {self._found.pid}) {problem}",
                mountpoint=place,
                pid=self._found.pid,
            ) from error


def control_url(found: MountFound) -> str:
    """The address of the mount's control socket."""
    return found.control if ":" in found.control else f"unix:{found.control}"
