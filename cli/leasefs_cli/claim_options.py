"""The options that `claim` and `run` share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from leasefs.core.lease import MAX_TTL_S, MIN_TTL_S
from leasefs.core.settings import MAX_WAIT_S
from leasefs_cli.durations import FOREVER, Duration
from leasefs_cli.priorities import Priority
from leasefs_cli.setting_option import setting_option
from leasefs_cli.teaching import TeachingCommand

MAX_WITHIN_S = 3600.0
_F = TypeVar("_F", bound=Callable[..., Any])


DEFAULT_WITHIN = "30s"
_BARE = {"--wait": FOREVER, "--recall": DEFAULT_WITHIN}


class WaitingCommand(TeachingCommand):
    """A command whose `--wait` and `--recall` may stand alone or be followed by a duration.

    What follows is the duration if it begins like a number; otherwise it is the next argument, so
    that `leasefs claim --wait 'src/**'` means what it looks like.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give bare ones their value before click looks at the next argument."""
        return super().parse_args(ctx, self._settle_bare(ctx, args))

    def _settle_bare(self, ctx: click.Context, args: list[str]) -> list[str]:
        settled = list(args)
        for at in self._own_options(ctx, args):
            follows = args[at + 1] if at + 1 < len(args) else ""
            if args[at] in _BARE and not _looks_like_number(follows):
                settled[at] = f"{args[at]}={_BARE[args[at]]}"
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
                skip = argument in valued and (argument not in _BARE or _looks_like_number(follows))


def _looks_like_number(text: str) -> bool:
    return bool(re.match(r"[-+.]?[0-9]", text))


ttl_option = setting_option(
    "claim.ttl_s",
    "--ttl",
    "ttl_s",
    type=Duration(MIN_TTL_S, MAX_TTL_S),
    metavar="DURATION",
    help="How long the lease outlives its last use. Default 30m; 1s to 1d. A lease in use is renewed "
    "by itself, however long the work takes.",
)

wait_option = setting_option(
    "claim.wait_s",
    "--wait",
    "wait_s",
    type=Duration(0.0, MAX_WAIT_S),
    metavar="[DURATION]",
    help="Queue instead of being refused, for at most DURATION; without one, until granted. Default 0s: do not "
    "queue.",
)

shared_option = click.option(
    "--shared", is_flag=True, help="Many may hold it, nobody may write: the ground stays as it is."
)

literal_option = click.option(
    "--literal", is_flag=True, help="Take every GLOB for the plain name of a file or directory."
)

priority_option = setting_option(
    "claim.priority",
    "--priority",
    type=Priority(),
    metavar="CLASS|N",
    help="Place in the queue before arrival counts: human (100), urgent (20), normal (0), background (-20), or a "
    "number from -100 to 100. Default normal. `human` is for a person who waits at the keyboard: it implies --recall 0s and --wait.",
)

recall_option = click.option(
    "--recall",
    "recall_within_s",
    type=Duration(0.0, MAX_WITHIN_S),
    metavar="[WITHIN]",
    help="Have holders of lower priority yield within that long (default 30s; 0s stops their writes at once), and "
    "queue for it. They get the ground back when this lease ends.",
)

note_option = click.option(
    "--note", default="", metavar="TEXT", help="For others to read: what for?"
)

agent_option = click.option(
    "--agent",
    metavar="NAME",
    help="Who you are outside a mount. Default agent.name (LEASEFS_AGENT).",
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
            recall_option,
            note_option,
            agent_option,
        )
    ):
        function = option(function)
    return function
