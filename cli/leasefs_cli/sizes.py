"""Sizes as people write them: `500M`, `20G`, or plain bytes."""

from __future__ import annotations

import re

import click

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class Size(click.ParamType[int]):
    """A click parameter: bytes."""

    name = "size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Bytes. A usage error names what is accepted."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"([0-9]{1,12})([KMGT]?)i?B?", str(value).strip(), re.IGNORECASE)
        if match is None:
            self.fail(f"{str(value)[:40]!r} is no size, like 500M or 20G", param, ctx)
        return int(match[1]) * _UNITS[match[2].upper()]


def in_words(size_bytes: int) -> str:
    """`12.3 MiB`, for a person."""
    size, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"
