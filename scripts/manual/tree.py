"""All commands, each with the context that its help is written in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from leasefs_cli.lazy_group import LazyGroup
from leasefs_cli.root import root

if TYPE_CHECKING:
    from collections.abc import Iterator


class Listing(NamedTuple):
    """A command, its words from `leasefs` on, and its line in the list that it stands in."""

    words: tuple[str, ...]
    summary: str
    command: click.Command
    ctx: click.Context

    @property
    def name(self) -> str:
        """The name of its page."""
        return "-".join(self.words)


def commands() -> Iterator[Listing]:
    """`leasefs` itself, then every command below it."""
    ctx = click.Context(root, info_name="leasefs", **root.context_settings)
    yield Listing(("leasefs",), (root.help or "").partition("\n")[0], root, ctx)
    yield from _below(root, ctx, ("leasefs",))


def _below(group: LazyGroup, ctx: click.Context, words: tuple[str, ...]) -> Iterator[Listing]:
    for name, listed in group.listed.items():
        command = group.get_command(ctx, name)
        if command is None:
            raise LookupError(f"{name} is listed and not there")
        own = click.Context(command, info_name=name, parent=ctx, **command.context_settings)
        yield Listing((*words, name), listed.summary, command, own)
        if isinstance(command, LazyGroup):
            yield from _below(command, own, (*words, name))
