"""A territory's limits: as options read them, and as a person reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from leasefs_cli.durations import in_words
from leasefs_cli.printing import say_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

NONE = "none"


class Limit(click.ParamType[Any]):
    """A click parameter of another type, or `none` for no limit."""

    name = "limit"

    def __init__(self, inner: click.ParamType[Any]) -> None:
        self._inner = inner

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:  # noqa: ANN401 -- what the inner type makes of it
        """`NONE`, or what the inner type makes of it."""
        return NONE if value == NONE else self._inner.convert(value, param, ctx)


class Share(click.ParamType[float]):
    """A click parameter: a part of all files, as `20%` or `0.2`."""

    name = "share"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Above 0 and at most 1. A usage error names what is accepted."""
        text = str(value)
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = 0.0
        if not 0.0 < share <= 1.0:
            self.fail(
                f"{text[:40]!r} is no share: give a part of all files, above 0% and at most 100%, like 20%",
                param,
                ctx,
            )
        return share


def say_admission(answer: Mapping[str, Any]) -> None:
    """The limits and their use, named."""
    limits = answer["admission"]
    share, hold_s = limits["max_share"], limits["max_hold_s"]
    fields = [
        ("territory", answer["territory"]),
        ("exclusive leases", f"{_at_most(limits['max_exclusive'])}; {answer['exclusive']} now"),
        ("with unlanded work", f"{_at_most(limits['max_unlanded'])}; {answer['unlanded']} now"),
        ("leases of one agent", _at_most(limits["max_leases"])),
        ("files under a lease", _at_most(share if share is None else f"{share * 100:.4g}%")),
        ("held", _at_most(hold_s if hold_s is None else in_words(hold_s))),
        ("waiting claims", str(answer["waiting"])),
    ]
    if limits["by"]:
        reason = f": {limits['reason']}" if limits["reason"] else ""
        fields.append(("set by", f"{limits['by']}{reason}"))
    say_fields(fields)


def _at_most(limit: object) -> str:
    return "no limit" if limit is None else f"at most {limit}"
