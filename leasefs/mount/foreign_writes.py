"""Foreign writes of one mount, put together: judged, covered, reported, and told to whoever holds the ground (P8)."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from leasefs.mount.foreign import Foreign
from leasefs.mount.foreign_cover import Cover
from leasefs.mount.foreign_log import ForeignLog
from leasefs.mount.foreign_others import Others
from leasefs.mount.foreign_report import ForeignReport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from leasefs.client.lessee import Lessee
    from leasefs.client.transport import Transport
    from leasefs.mount.journal import Header
    from leasefs.mount.tree import Tree


log = logging.getLogger(__name__)


class ForeignWrites:
    """`judge` is for the tree that is built; `found` is what this mount is told as a holder."""

    def __init__(self, header: Header, journals: str, lessee: Lessee, transport: Transport) -> None:
        """`header` and `journals` are as in `foreign_others.Others`."""
        self.found = ForeignLog()
        self._lessee = lessee
        others = Others(header, journals, transport, lessee.now_s)
        self._report = ForeignReport(header.tree, transport, others, lessee, self.found, _wall_s)
        self.judge = Foreign(self._report.suspect, _wall_ns)
        lessee.heard_foreign = self._heard

    def tasks(self, tree: Tree, *, watched: bool) -> list[Callable[[], Awaitable[None]]]:
        """What is to run while the tree is served; nothing where nobody can watch (see `Outside`)."""
        if not watched:
            self.judge.unwatched = None
            log.warning(
                "foreign writes are not reported: inotify(7) does not tell of all on this file system"
            )
            return []
        cover = Cover(self.judge, tree, self._report.events_lost)
        return [cover.run, cover.tidy, partial(self._report.run, tree)]

    def facts(self) -> dict[str, Any]:
        """For `mount.json`: how many directories nobody watches, because there is no room; null if all."""
        return {"unwatched_directories": self.judge.unwatched}

    def _heard(self, fact: Mapping[str, Any]) -> None:
        self.found.heard(fact, {lease.lease_id for lease in self._lessee.view.leases})


def _wall_s() -> float:
    return time.clock_gettime(time.CLOCK_REALTIME)


def _wall_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_REALTIME)
