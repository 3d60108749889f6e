"""Server-sent events out of bytes (HTML standard, 9.2), for both transports."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from leasefs.core.errors import LedgerUnavailable

MAX_EVENT_BYTES = 4 << 20
KEEP_ALIVE = "keep-alive"


class StreamEvent(NamedTuple):
    """One event of a stream; `seq` is its sequence number, 0 if it has none.

    One of type KEEP_ALIVE has no data and says only how far the stream has come.
    """

    seq: int
    type: str
    data: dict[str, Any]


class EventReader:
    """Collects bytes and gives back the events that are whole."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """The events that `chunk` completes; mere comments give none.

        Raises:
            LedgerUnavailable: if an event never ends or is not JSON.
        """
        *blocks, self._rest = (self._rest + chunk).replace(b"\r\n", b"\n").split(b"\n\n")
        if len(self._rest) > MAX_EVENT_BYTES:
            raise LedgerUnavailable("the event stream sent an event without end")
        return [event for block in blocks if (event := _event(block)) is not None]


def _event(block: bytes) -> StreamEvent | None:
    fields: dict[bytes, list[bytes]] = {}
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        if name:
            fields.setdefault(name, []).append(value.removeprefix(b" "))
    try:
        seq = int(fields.get(b"id", [b"0"])[-1])
        if b"data" not in fields:
            return StreamEvent(seq, KEEP_ALIVE, {}) if seq else None
        data = json.loads(b"\n".join(fields[b"data"]))
    except ValueError as error:
        raise LedgerUnavailable(f"the event stream sent what cannot be read: {error}") from error
    type_ = fields.get(b"event", [b"message"])[-1].decode("utf-8", "replace")
    return StreamEvent(seq, type_, data if isinstance(data, dict) else {"value": data})
