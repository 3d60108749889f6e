"""Who speaks which version of the wire protocol, and who is to be upgraded if two do not understand each other.

Every request and every answer of ours carries one header:

    Leasefs-Protocol: 1.0; side=ledger; leasefs=0.1.0

The first number is of what breaks: two sides whose first numbers differ refuse each other. The second is of what was
added: sides that differ in it work together, and only what the older one lacks is refused. Who sends no such header
(curl, a person's script) is taken to speak 1.0, which is what /v1/ means. docs/PROTOCOL.md has the rules.
"""

from __future__ import annotations

from typing import NamedTuple

from leasefs import __version__
from leasefs.core.errors import ProtocolMismatch

HEADER = "Leasefs-Protocol"
MAJOR, MINOR = 1, 0

ANY_VERSION = frozenset({"/healthz", "/metrics", "/openapi.json", "/v1/status", "/v1/mount/stop"})
"""What says who one is, and what ends a thing: served to every version, and never changed in form.

Otherwise nobody could find out what is too old, or stop it.
"""

CLIENT, MOUNT, LEDGER = "client", "mount", "ledger"
ASKING = (CLIENT, MOUNT)
ANSWERING = (LEDGER, MOUNT)

_MOST_DIGITS = 4
_HOW = {
    CLIENT: "",
    MOUNT: ", then unmount and mount again",
    LEDGER: ", then restart it (`leasefs ledger stop`, and the next command starts the new one)",
}


class Speaker(NamedTuple):
    """One side (`client`, `mount` or `ledger`), what it speaks, and its release of leasefs ("" if it did not say)."""

    side: str
    major: int
    minor: int
    leasefs: str = ""

    @property
    def protocol(self) -> str:
        """`MAJOR.MINOR`."""
        return f"{self.major}.{self.minor}"

    @property
    def header(self) -> str:
        """The header's value."""
        return f"{self.protocol}; side={self.side}; leasefs={self.leasefs}"

    def words(self) -> str:
        """Who it is and what it speaks."""
        release = f" (leasefs {self.leasefs})" if self.leasefs else ""
        return f"the {self.side} speaks leasefs protocol {self.protocol}{release}"


def ours(side: str) -> Speaker:
    """What this process speaks as `side`."""
    return Speaker(side, MAJOR, MINOR, __version__)


def heard(value: str | None, sides: tuple[str, ...]) -> Speaker | None:
    """Who sent this header: one of `sides`, the first if it does not say which. None if it cannot be read.

    Unknown parameters are passed over, so that some can be added.
    """
    if value is None:
        return Speaker(sides[0], 1, 0)
    spoken, *parameters = value.split(";")
    major, dot, minor = spoken.strip().partition(".")
    if not (dot and _is_number(major) and _is_number(minor)):
        return None
    said = dict(_pair(parameter) for parameter in parameters[:8])
    side = said.get("side", "")
    return Speaker(
        side if side in sides else sides[0],
        int(major),
        int(minor),
        _release(said.get("leasefs", "")),
    )


def require_understanding(us: Speaker, them: Speaker) -> None:
    """Raises ProtocolMismatch if the two do not speak the same major version."""
    if us.major != them.major:
        older, newer = sorted((us, them), key=lambda speaker: speaker.major)
        raise _mismatch(older, newer, "")


def lacking(us: Speaker, them: Speaker, what: str) -> ProtocolMismatch | None:
    """Why they do not know `what` we asked for: they are older, or there is no such reason (None)."""
    if (them.major, them.minor) >= (us.major, us.minor):
        return None
    return _mismatch(them, us, f" and does not know {what}")


def _mismatch(older: Speaker, newer: Speaker, lacks: str) -> ProtocolMismatch:
    to = f"leasefs {newer.leasefs}" if newer.leasefs else f"a leasefs of protocol {newer.protocol}"
    return ProtocolMismatch(
        f"{older.words()}{lacks}, {newer.words()}: upgrade the {older.side} to {to} or later"
        f"{_HOW[older.side]}",
        upgrade=older.side,
        to={"protocol": newer.protocol, "leasefs": newer.leasefs},
        sides={
            speaker.side: {"protocol": speaker.protocol, "leasefs": speaker.leasefs}
            for speaker in (older, newer)
        },
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


def _pair(parameter: str) -> tuple[str, str]:
    name, _, value = parameter.partition("=")
    return name.strip(), value.strip()


def _release(text: str) -> str:
    """A release as it may stand in a sentence; "" for what is none."""
    plain = text.isascii() and all(char.isalnum() or char in ".+-!_" for char in text)
    return text if plain and len(text) <= 40 else ""
