"""Bytes from outside into request structs; whatever does not fit is a 400 that says where."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from leasefs.core.errors import InvalidRequest
from leasefs.service import wire_json

T = TypeVar("T")
MAX_QUERY_FIELDS = 32

_readers: dict[type[Any], wire_json.Reader[Any]] = {}


def _reader(type_: type[T]) -> wire_json.Reader[T]:
    """One reader per type: making one costs a millisecond."""
    found = _readers.get(type_)
    if found is None:
        found = _readers[type_] = wire_json.Reader(type_)
    return found


def body_of(type_: type[T], raw: bytes) -> T:
    """The body as `type_`; an empty one is an empty object.

    Raises:
        InvalidRequest: not JSON, ill-typed, or with a field that nobody knows.
    """
    try:
        return _reader(type_).read(raw or b"{}")
    except wire_json.Unreadable as error:
        raise _misfit("body", error) from error


def query_of(type_: type[T], raw: bytes) -> T:
    """The query string as `type_`, its undecodable bytes as lone surrogates.

    Raises:
        InvalidRequest: ill-typed, a parameter that nobody knows, or one given twice.
    """
    try:
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            errors="surrogateescape",
            max_num_fields=MAX_QUERY_FIELDS,
        )
        fields = dict(pairs)
        if len(fields) != len(pairs):
            raise InvalidRequest("the query string names a parameter twice")
        return msgspec.convert(fields, type_, strict=False)
    except ValueError as error:  # msgspec's errors are ValueErrors too
        raise _misfit("query string", error) from error


def _misfit(what: str, error: ValueError) -> InvalidRequest:
    # A newer client may send what was added since; by this detail it can say who is to be upgraded.
    _, marked, field = str(error).partition("unknown field `")
    details = {"unknown_field": field.partition("`")[0]} if marked else {}
    return InvalidRequest(f"the {what} does not fit: {error}", **details)
