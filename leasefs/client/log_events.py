"""The events that ledger and mounts put into the system's log, under names and numbers that never change.

A log line of any other kind is for whoever reads on; these are for whoever searches, counts or is woken up. The number
is journald's MESSAGE_ID (systemd.journal-fields(7)): made up once, at random, and never used again for anything else.
`docs/OPERATIONS.md` lists them; a test compares.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Event(Enum):
    """Name: level, MESSAGE_ID."""

    SERVING = logging.INFO, "018125d6f5c84d9fa2ab234558d1a7af"
    STOPPED = logging.INFO, "4a21eca329ff442a991a0c9773c8f5e6"
    GRANTED = logging.DEBUG, "c1cff08945784a80b42d7fee683d62dd"
    RELEASED = logging.DEBUG, "478ab9e425d7408cb9d365dab04c935b"
    SESSION_OPENED = logging.INFO, "1bbd5d06161742a09555805f2e76cdc9"
    SESSION_ENDED = logging.INFO, "d362bc0e8b35461ca143a343e3e4c28b"
    CLAIM_REFUSED = logging.INFO, "ca1bc26bd8aa48d9a9718545dc2fbe85"
    WRITE_REFUSED = logging.INFO, "cd68b7d0a4f74a6ab9b8f43a5c4b04a1"
    FOREIGN_WRITE = logging.WARNING, "1e4a4164ce8e4ccaba1418364acec2df"
    RECALLED = logging.INFO, "ce232ddd6ed546dd9c9a6be7bc444d17"
    REVOKED = logging.WARNING, "9c0b3cd558e947749e201be439769f14"
    LAPSED = logging.INFO, "fcfb184191154d5a82e04a777770034a"
    EXPIRED = logging.WARNING, "9c438b87738b40a2a7d1f804916a4823"
    RESCUED = logging.WARNING, "07ec2d023f9a4deea04544ebb434a9ab"
    NOT_RESCUED = logging.ERROR, "2ad4612f06104641981239818a0d0e51"
    OPERATED = logging.WARNING, "5da39c1da0e8420daecb793297209a69"
    LEDGER_LOST = logging.WARNING, "ac7db04e25c84b8ca4dc7763bd0eb315"
    LEDGER_BACK = logging.INFO, "9ffc4882a63d4dfea010ac38bf769b58"
    STORE_FAILED = logging.ERROR, "0f7842fe8f6346809d0749a1c8f7c2db"
    CLOCK_STEP = logging.WARNING, "be0bdf13428747b8b8cfe5edd650c6ac"
    LEASE_LOST = logging.INFO, "7a14ed411a204a4e9f3dce2ee07828e0"
    MOUNTED = logging.INFO, "3a013bc93cc4431fab55b1e187827417"
    MOUNTED_OVER_DEAD = logging.WARNING, "6b6828712efd40fbb5b1dedf71865298"
    UNMOUNTED = logging.INFO, "2b5a1756eded42799d543286ffd62256"
    MOUNT_SILENT = logging.ERROR, "8fbf90c4ef124bbdbefa3c0b5f6d6f12"
    MOUNT_FAULT = logging.CRITICAL, "69d5340753fb4f1c8fac6060b9649c7e"

    @property
    def level(self) -> int:
        """Of `logging`."""
        return self.value[0]

    @property
    def message_id(self) -> str:
        """128 bits in hexadecimal."""
        return self.value[1]

    @property
    def word(self) -> str:
        """The name as it is written: `write-refused`."""
        return self.name.lower().replace("_", "-")


def fields(event: Event, facts: Mapping[str, object]) -> dict[str, object]:
    """What `logging` takes as `extra`: the event and what is known of it, beside the sentence for people."""
    return {"event": event, "facts": dict(facts)}


def note(log: logging.Logger, event: Event, words: str, /, **facts: object) -> None:
    """Put an event into the log: a sentence for people, and the same facts for programs."""
    log.log(event.level, "%s", words, extra=fields(event, facts), stacklevel=2)
