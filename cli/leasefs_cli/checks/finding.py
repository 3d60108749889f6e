"""What one check found, and what can be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

OK = "ok"
WARN = "warn"
FAIL = "fail"
UNKNOWN = "unknown"


class Repair(NamedTuple):
    """How to put it right. `what` is what is done, as a question asks for it: "remove the socket".

    `do` does it and says what was done; it raises LeasefsError, VcsError or OSError, and may be asked although it is
    right by then. One that is `weighty` changes what somebody may rely on: it is done only for a person who was asked.
    """

    what: str
    do: Callable[[], str]
    weighty: bool = False


class Finding(NamedTuple):
    """`level` is `ok`, `warn` (works, but), `fail`, or `unknown` (could not look); `advice` says what to do, empty if nothing."""

    level: str
    check: str
    found: str
    advice: str = ""
    repair: Repair | None = None
    repaired: bool = False

    def facts(self) -> dict[str, Any]:
        """For a program."""
        return {
            "level": self.level,
            "check": self.check,
            "found": self.found,
            "advice": self.advice,
            "repairable": self.repair is not None,
            "repaired": self.repaired,
        }
