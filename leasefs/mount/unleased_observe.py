"""The unleased policy `observe`: what no lease covers passes, and is told; for whoever wants to see before they enforce.

Each such change is in the refusal log and in the ledger's history, marked as observed, once in a while for each path
and process; and is reported as a foreign write, so that whoever holds the ground hears of it. No intent is kept of it:
an intent names a lease, and there is none.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from leasefs.core.policy import Place, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from leasefs.core.policy import Refused, Target

AGAIN_AFTER_S = 60.0
REMEMBERED = 4096

# What is no matter of leases is refused as ever.
_NEVER = frozenset({Reason.CONTROL, Reason.BORDER})


class Observing:
    """Lets pass what the gate refuses."""

    def __init__(
        self,
        note: Callable[[Refused, int], None],
        changed: Callable[[Iterable[bytes]], None],
        now_s: Callable[[], float],
    ) -> None:
        """`note` hears of each refusal, with who met it; `changed` of the paths that change unleased."""
        self._note = note
        self._changed = changed
        self._now_s = now_s
        self._noted: OrderedDict[tuple[bytes, Reason, int], float] = OrderedDict()

    def passes(self, refused: Refused, targets: Sequence[Target], pid: int) -> bool:
        """See `leasefs.mount.gate.Observer`."""
        if refused.reason in _NEVER:
            return False
        if refused.reason not in {Reason.GIT_COMMAND, Reason.GIT_UNKNOWN}:
            in_tree = [one.path for one in targets if one.place is Place.TREE and one.path]
            self._changed(in_tree or [refused.path])
        about, now_s = (refused.path, refused.reason, pid), self._now_s()
        if now_s - self._noted.get(about, float("-inf")) >= AGAIN_AFTER_S:
            self._noted[about] = now_s
            self._noted.move_to_end(about)
            if len(self._noted) > REMEMBERED:
                self._noted.popitem(last=False)
            self._note(refused, pid)
        return True
