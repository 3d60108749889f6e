"""Until when certificates are good: so that they are renewed before everybody who comes by TCP is shut out.

Python's ssl tells it of no certificate of one's own, and of another's only while that is still good. So the one field is
read here, from X.509's DER (RFC 5280, 4.1); whether the rest is in order is OpenSSL's to say.
"""

from __future__ import annotations

import binascii
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SOON_S = 14 * 86400.0
_PEM = re.compile(
    rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.*?)-----END (?:X509 |TRUSTED )?CERTIFICATE-----",
    re.DOTALL,
)
_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18
_LONG, _MOST_LENGTH_BYTES = 0x80, 4


class _Element(NamedTuple):
    tag: int
    content: bytes


def file_good_until_s(path: str) -> float:
    """The earliest end among the certificates of this PEM file, in seconds since 1970.

    Raises:
        OSError: it cannot be read.
        ValueError: there is no certificate in it, or one that is none.
    """
    with open(path, "rb") as file:
        found = _PEM.findall(file.read())
    if not found:
        raise ValueError(f"{path} holds no certificate in PEM format")
    return min(good_until_s(binascii.a2b_base64(one)) for one in found)


def good_until_s(der: bytes) -> float:
    """Until when this certificate is good, in seconds since 1970. Raises ValueError: it is none."""
    try:
        certificate = next(_elements(der))
        to_be_signed = next(_elements(certificate.content))
        fields = [one for one in _elements(to_be_signed.content) if one.tag != _VERSION]
        # serialNumber, signature, issuer, validity
        _, end = _elements(fields[3].content)
        return _time_s(end)
    except (StopIteration, IndexError, UnicodeDecodeError) as error:
        raise ValueError("this is no certificate") from error


def _elements(content: bytes) -> Iterator[_Element]:
    at = 0
    while at < len(content):
        tag, length, at = content[at], content[at + 1], at + 2
        if length & _LONG:
            size = length & ~_LONG
            if not 0 < size <= _MOST_LENGTH_BYTES:
                raise ValueError("this is no certificate")
            length, at = int.from_bytes(content[at : at + size]), at + size
        if at + length > len(content):
            raise ValueError("this is no certificate")
        yield _Element(tag, content[at : at + length])
        at += length


def _time_s(element: _Element) -> float:
    text = element.content.decode("ascii")
    if element.tag == _UTC_TIME:
        # RFC 5280, 4.1.2.5.1; strptime has another idea of two digits.
        text = ("19" if text[:2] >= "50" else "20") + text
    elif element.tag != _GENERALIZED_TIME:
        raise ValueError("this is no certificate")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def soon_over(until_s: float, now_s: float) -> str:
    """`has expired on …` or `expires on …`, if it is over or will be within two weeks; else "". Both are wall-clock times."""
    if until_s - now_s > SOON_S:
        return ""
    on = datetime.fromtimestamp(until_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"has expired on {on}" if until_s <= now_s else f"expires on {on}"
