r"""JSON in and out, lone surrogates included.

Paths are bytes; in JSON they are text with each undecodable byte as a lone surrogate (`"\udce9"`, PEP
383). msgspec is fast and strict but takes no lone surrogates, so only a text that has some goes the
slow way through the standard library, under the same rules: no NaN, no infinity, no deep nesting.
"""

from __future__ import annotations

import json
import math
from typing import Generic, NoReturn, TypeVar

import msgspec

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


class Unreadable(ValueError):
    """Not JSON, or not of the wanted type; the message says where."""


def encode(value: object) -> bytes:
    """Compact JSON of a struct, a dict or a list of them."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode("ascii")


class Reader(Generic[T]):
    """Reads JSON into one type. Made once per type: msgspec prepares the decoding."""

    def __init__(self, type_: type[T]) -> None:
        self._type = type_
        self._decoder = msgspec.json.Decoder(type_)

    def read(self, raw: bytes) -> T:
        """The value.

        Raises:
            Unreadable: not JSON, or not of this type.
        """
        try:
            return self._decoder.decode(raw)
        except msgspec.ValidationError as error:
            if not _may_hold_surrogates(raw):
                raise Unreadable(str(error)) from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if not _may_hold_surrogates(raw):
                raise Unreadable(str(error)) from error
        return self._read_slowly(raw)

    def _read_slowly(self, raw: bytes) -> T:
        try:
            plain = json.loads(
                raw.decode("utf-8"), parse_float=_finite, parse_constant=_no_constant
            )
            return msgspec.convert(plain, self._type)
        except (ValueError, RecursionError) as error:
            raise Unreadable(str(error)) from error


def _may_hold_surrogates(raw: bytes) -> bool:
    return b"\\ud" in raw or b"\\uD" in raw


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"number out of range: {text[:40]}")
    return value


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")
