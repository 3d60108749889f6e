"""Priorities by name: how people and agents say how urgent a claim is."""

from __future__ import annotations

import click

from leasefs.core.roles import GREATEST_PRIORITY as GREATEST
from leasefs.core.roles import HUMAN
from leasefs.core.roles import LEAST_PRIORITY as LEAST
from leasefs.core.roles import PRIORITIES as CLASSES
from leasefs.core.roles import priority_name as name_of

__all__ = ["HUMAN", "Priority", "name_of"]


class Priority(click.ParamType[int]):
    """A click parameter: a class by name, or a number."""

    name = "priority"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """The number. A usage error names what is accepted."""
        text = str(value)
        if text in CLASSES:
            return CLASSES[text]
        try:
            number = int(text)
        except ValueError:
            number = GREATEST + 1
        if not LEAST <= number <= GREATEST:
            self.fail(
                f"{text[:40]!r} is no priority: give {', '.join(CLASSES)}, or a number from {LEAST} to {GREATEST}",
                param,
                ctx,
            )
        return number

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """The classes."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in CLASSES if name.startswith(incomplete)]
