"""A click group that imports a command only when it is called.

`leasefs claim` runs in shell loops: the price of the other commands' imports is not its to pay.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple

import click

from leasefs_cli.teaching import Example, write_examples, write_exit_codes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Listed(NamedTuple):
    """Where a command is defined (`module:attribute`), and its line in the group's help."""

    where: str
    summary: str


class Section(NamedTuple):
    """A heading of the group's help with the commands below it."""

    title: str
    commands: Mapping[str, Listed]


class LazyGroup(click.Group):
    """Commands by name, imported on use; an unknown name is answered with the nearest."""

    sections: Sequence[Section] = ()
    examples: Sequence[Example] = ()

    @property
    def listed(self) -> dict[str, Listed]:
        """All commands, in the order of the help page."""
        return {
            name: entry for section in self.sections for name, entry in section.commands.items()
        }

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """No arguments at all is a question for help."""
        return super().parse_args(ctx, args or ["--help"])

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names for help and completion."""
        return list(self.listed)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command; None if there is none of this name."""
        entry = self.listed.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.where.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.where} is not a command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which name is nearest."""
        known = self.listed
        if args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(_unknown(args[0], list(known)), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The sections, without importing a single command."""
        for section in self.sections:
            with formatter.section(section.title):
                formatter.write_dl(
                    [(name, entry.summary) for name, entry in section.commands.items()]
                )

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples and exit codes."""
        write_examples(formatter, self.examples)
        write_exit_codes(formatter)


def _unknown(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "`leasefs --help` lists them"
    return f"no command {name!r}: {hint}"
