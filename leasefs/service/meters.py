"""All that one ledger tells a monitor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs import __version__
from leasefs.client.process_metrics import process_families
from leasefs.core import protocol
from leasefs.core.exposition import GAUGE, Family, Sample, exposition
from leasefs.service.metrics_events import EventMetrics
from leasefs.service.metrics_requests import RequestMetrics
from leasefs.service.metrics_state import state_families

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from leasefs.service.writer import LedgerWriter


class Meters:
    """`events` and `requests` are told of what happens; parts of the server `add` what they know themselves."""

    def __init__(self) -> None:
        self.events = EventMetrics()
        self.requests = RequestMetrics()
        self._more: list[Callable[[], Iterable[Family]]] = []

    def add(self, more: Callable[[], Iterable[Family]]) -> None:
        """Show these, too. Called on the loop's thread at each question, so it must be quick."""
        self._more.append(more)

    def text(self, writer: LedgerWriter) -> str:
        """Everything, as Prometheus reads it."""
        return exposition(self._families(writer))

    def _families(self, writer: LedgerWriter) -> Iterator[Family]:
        yield _about()
        yield from state_families(writer.durable, writer.now_s())
        yield from self.events.families()
        yield from writer.appends.families()
        yield from self.requests.families()
        for more in self._more:
            yield from more()
        yield from process_families()


def _about() -> Family:
    spoken = protocol.ours(protocol.LEDGER).protocol
    labels = (("version", __version__), ("protocol", spoken))
    return Family("leasefs_ledger_info", GAUGE, "What serves; always 1.", (Sample(1, labels),))
