"""What the mount needs to know of the leases it writes under."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.core.carving import Carved
    from leasefs.core.held import HeldView
    from leasefs.core.policy import RefusalRecord


class Holdings(Protocol):
    """The lessee as the mount sees it. Only `revalidate` may wait; nothing here does I/O inline."""

    @property
    def view(self) -> HeldView:
        """What is held now; replaced as a whole when leases change."""
        ...

    def now_s(self) -> float:
        """Seconds, CLOCK_BOOTTIME: the clock on which trust ends (P3)."""
        ...

    def writer_opened(self, token: int, path: bytes, pid: int) -> int:
        """A handle is open for writing under this lease and keeps it alive (P4). Returns a use id."""
        ...

    def writer_closed(self, use_id: int) -> None:
        """That handle is closed."""
        ...

    def wrote(self, token: int) -> None:
        """A change was made under this lease just now."""
        ...

    async def revalidate(self) -> None:
        """Ask the ledger now; return when it answered, or after a bound of the lessee's own."""
        ...

    def refused(self, refusal: RefusalRecord) -> None:
        """An operation was refused; for the ledger's history (P11)."""
        ...

    def when_given(self, call: Callable[[Carved], None]) -> None:
        """Have `call` hear of each part that is given away for certain: what is open there is dead from then on."""
        ...
