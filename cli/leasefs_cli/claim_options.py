"""The options that `claim` and `run` share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from leasefs.core.lease import DEFAULT_TTL_S, MAX_TTL_S, MIN_TTL_S
from leasefs_cli.durations import FOREVER, MAX_WAIT_S, Duration
from leasefs_cli.teaching import TeachingCommand

_F = TypeVar("_F", bound=Callable[..., Any])


class WaitingCommand(TeachingCommand):
    """A command whose `--wait` may stand alone or be followed by a duration.

    What follows is the duration if it begins like a number; otherwise it is the next argument, so
    that `leasefs claim --wait 'src/**'` means what it looks like.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give a bare `--wait` its value before click looks at the next argument."""
        return super().parse_args(ctx, self._settle_bare_wait(ctx, args))

    def _settle_bare_wait(self, ctx: click.Context, args: list[str]) -> list[str]:
        settled = list(args)
        for at in self._own_options(ctx, args):
            follows = args[at + 1] if at + 1 < len(args) else ""
            if args[at] == "--wait" and not _looks_like_number(follows):
                settled[at] = f"--wait={FOREVER}"
        return settled

    def _own_options(self, ctx: click.Context, args: list[str]) -> Iterator[int]:
        """Where our options stand: neither the values of others nor what belongs to a command to run."""
        valued = {
            name
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and not param.is_flag
            for name in param.opts
        }
        skip = False
        for at, argument in enumerate(args):
            if skip:
                skip = False
            elif argument == "--" or not (argument.startswith("-") or ctx.allow_interspersed_args):
                return
            elif argument.startswith("-"):
                yield at
                follows = args[at + 1] if at + 1 < len(args) else ""
                skip = argument in valued and (argument != "--wait" or _looks_like_number(follows))


def _looks_like_number(text: str) -> bool:
    return bool(re.match(r"[-+.]?[0-9]", text))


ttl_option = click.option(
    "--ttl",
    "ttl_s",
    type=Duration(MIN_TTL_S, MAX_TTL_S),
    default=DEFAULT_TTL_S,
    metavar="DURATION",
    help="How long the lease outlives its last use. Default 30m; 1s to 1d. A lease in use is renewed "
    "by itself, however long the work takes.",
)

wait_option = click.option(
    "--wait",
    "wait_s",
    type=Duration(1.0, MAX_WAIT_S),
    metavar="[DURATION]",
    help="Queue instead of being refused, for at most DURATION; without one, until granted.",
)

shared_option = click.option(
    "--shared", is_flag=True, help="Many may hold it, nobody may write: the ground stays as it is."
)

literal_option = click.option(
    "--literal", is_flag=True, help="Take every GLOB for the plain name of a file or directory."
)

priority_option = click.option(
    "--priority",
    type=click.IntRange(-100, 100),
    default=0,
    metavar="N",
    help="Place in the queue before arrival counts; higher is served first. Default 0.",
)

note_option = click.option(
    "--note", default="", metavar="TEXT", help="For others to read: what for?"
)

agent_option = click.option(
    "--agent",
    metavar="NAME",
    help="Who you are outside a mount. Default LEASEFS_AGENT, else USER@HOST.",
)


def claim_options(function: _F) -> _F:
    """All of the above, in the order of the help page."""
    for option in reversed(
        (
            ttl_option,
            wait_option,
            shared_option,
            literal_option,
            priority_option,
            note_option,
            agent_option,
        )
    ):
        function = option(function)
    return function
