"""Commands whose `--help` teaches: what it does, examples, exit codes from the one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from leasefs_cli import exit_codes

Example = tuple[str, str]
"""A command line, and what it is for."""

_F = TypeVar("_F", bound=Callable[..., Any])


class TeachingCommand(click.Command):
    """A command with examples and a table of exit codes below its options."""

    examples: Sequence[Example] = ()
    own_codes: Sequence[tuple[str, str]] = ()

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples first: they are what most people look for."""
        write_examples(formatter, self.examples)
        write_exit_codes(formatter, self.own_codes)


def write_examples(formatter: click.HelpFormatter, examples: Sequence[Example]) -> None:
    """The examples, each with its purpose above it, never wrapped: they are to be copied."""
    if not examples:
        return
    with formatter.section("Examples"):
        for line, purpose in examples:
            formatter.write(f"  # {purpose}\n  {line}\n")


def write_exit_codes(
    formatter: click.HelpFormatter, own_codes: Sequence[tuple[str, str]] = ()
) -> None:
    """The table of `leasefs_cli.exit_codes`, after what is special to one command."""
    with formatter.section("Exit codes"):
        rows = [(str(number), meaning) for number, meaning in exit_codes.MEANINGS.items()]
        formatter.write_dl([*own_codes, *rows, ("128+N", exit_codes.SIGNAL_MEANING)])


def teaching_command(
    name: str,
    *,
    examples: Sequence[Example],
    own_codes: Sequence[tuple[str, str]] = (),
    cls: type[TeachingCommand] = TeachingCommand,
    context_settings: dict[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], TeachingCommand]:
    """Like `click.command`, for a `TeachingCommand`."""

    def decorate(function: Callable[..., Any]) -> TeachingCommand:
        made = click.command(name, cls=cls, context_settings=context_settings)(function)
        made.examples = examples
        made.own_codes = own_codes
        return made

    return decorate


def json_option(function: _F) -> _F:
    """`--json`: every command has it."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print JSON on stdout; failures too."
    )(function)


def everywhere_option(function: _F) -> _F:
    """`--all`: for what is listed by territory."""
    return click.option(
        "--all", "everywhere", is_flag=True, help="Of every territory, not only of the one here."
    )(function)
