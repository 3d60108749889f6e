"""The command tree, and how it is run."""

from __future__ import annotations

import codecs
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from leasefs import __version__
from leasefs_cli.lazy_group import LazyGroup, Listed, Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs_cli.teaching import Example

COMPLETE_VARIABLE = "_LEASEFS_COMPLETE"


def _listed(summaries: dict[str, str]) -> dict[str, Listed]:
    return {
        name: Listed(f"leasefs_cli.commands.{name.replace('-', '_')}:command", summary)
        for name, summary in summaries.items()
    }


class Root(LazyGroup):
    """`leasefs` itself."""

    sections: Sequence[Section] = (
        Section(
            "Work under leases",
            _listed(
                {
                    "claim": "Lease globs, so that you and nobody else may write there.",
                    "release": "Give leases back, or withdraw waiting claims.",
                    "heartbeat": "Renew leases that leasefs cannot see you using.",
                    "run": "Claim, run a command, release.",
                    "rescue": "Find work that was kept when its lease ended, and put it back.",
                    "fresh": "Run a check only if something changed since it last succeeded.",
                }
            ),
        ),
        Section(
            "Share ground",
            _listed(
                {
                    "plan": "Divide what several tasks want into regions that never overlap.",
                    "delegate": "Give a part of a lease to another agent.",
                    "downgrade": "Share a lease that you hold alone.",
                    "recall": "Have a holder give a lease up by a deadline.",
                    "more-time": "Ask for more time before a recalled lease must be given up.",
                }
            ),
        ),
        Section(
            "Decide, as operator",
            _listed(
                {
                    "admission": "Limit how much work a territory takes on.",
                    "hold": "Let one lease be held for longer than that.",
                    "freeze": "Let nobody write somewhere, and say why.",
                    "unfreeze": "Lift a freeze.",
                    "freezes": "What is frozen, by whom, why.",
                    "agent": "Issue, rotate and revoke identities of agents and people.",
                }
            ),
        ),
        Section(
            "See",
            _listed(
                {
                    "status": "Who am I, what do I hold, what was refused.",
                    "leases": "All held leases.",
                    "queue": "All waiting claims, in the order of service.",
                    "intents": "What is uncommitted or has not landed, whose, since when.",
                    "who": "Who holds a path or waits for it.",
                    "why": "Would a write to this path pass? If not, why, and what to do.",
                    "log": "What happened, one line per event.",
                }
            ),
        ),
        Section(
            "Set up",
            _listed(
                {
                    "mount": "Mount a repository for one agent.",
                    "unmount": "Unmount it; its leases are free at once.",
                    "hooks": "Let git check commits against leases.",
                    "ledger": "Serve, look at or stop the ledger.",
                    "service": "Keep ledger and mounts running under systemd.",
                    "metrics": "Numbers of ledger and mounts, for Prometheus.",
                    "config": "What is configured, and where it is said.",
                    "doctor": "Check this machine and say what to repair.",
                    "completion": "Print the completion script of a shell.",
                }
            ),
        ),
    )
    examples: Sequence[Example] = (
        ("leasefs mount ~/repo --agent agent-07", "mount a repository in place"),
        (
            "id=$(leasefs claim 'packages/core/**' --wait 5m)",
            "lease a part of it, queueing if need be",
        ),
        ("leasefs why README.md", "a write failed: why?"),
        (
            "leasefs run --claim 'docs/**' -- make docs",
            "hold a lease for as long as a command runs",
        ),
    )


def _change_directory(
    ctx: click.Context, _param: click.Parameter, directories: tuple[str, ...]
) -> None:
    for directory in directories:
        try:
            os.chdir(directory)
        except OSError as error:
            raise click.BadParameter(
                f"cannot go to {directory!r}: {error.strerror}; name an existing directory", ctx
            ) from error


def _give_settings(_ctx: click.Context, _param: click.Parameter, settings: tuple[str, ...]) -> None:
    if settings:
        from leasefs.client import config

        for wish in settings:
            config.give(wish)


def _complete_settings(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    from leasefs_cli.setting_names import assignments

    return assignments(ctx, param, begun)


@click.group(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    subcommand_metavar="COMMAND [ARGS]...",
)
@click.version_option(__version__, message="leasefs %(version)s")
@click.option(
    "-C",
    "directories",
    metavar="DIR",
    multiple=True,
    expose_value=False,
    callback=_change_directory,
    help="Run as if started in DIR; several follow each other.",
)
@click.option(
    "-c",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    expose_value=False,
    callback=_give_settings,
    shell_complete=_complete_settings,
    help="A setting for this command alone, such as claim.ttl_s=10m; `leasefs config show --all` lists them.",
)
def root() -> None:
    """Leases on parts of a repository, enforced by the file system.

    Each agent works through a mount of the repository. A write passes only where that agent holds a
    lease; everywhere else it fails with "Permission denied", whatever tool makes it. A lease is kept by
    using it and lapses when idle.

    Inside a mount no option is needed: the mount knows its agent and its ledger. Elsewhere the ledger is
    that of the setting ledger.url (LEASEFS_LEDGER: unix:/path or https://host:port); without it, one is
    started for you.

    What you would say again with every command can be said once, in a file or a variable: `leasefs config`.
    agent.name (LEASEFS_AGENT) and agent.harness (LEASEFS_HARNESS) name you outside a mount. NO_COLOR is
    honoured. LEASEFS_DEBUG=1 shows the trace of an unexpected failure.
    """


def run(arguments: list[str]) -> int:
    """Parse and run; the exit code. Every failure is raised, none is printed here."""
    if COMPLETE_VARIABLE in os.environ:
        root.main(arguments, "leasefs", complete_var=COMPLETE_VARIABLE)
    _pass_names_through()
    code = _invoke(arguments)
    if sys.stdout is not None:
        sys.stdout.flush()
    return code


def _invoke(arguments: list[str]) -> int:
    """Like `click.Command.main`, except that it neither prints nor exits."""
    try:
        with root.make_context("leasefs", list(arguments)) as ctx:
            result: Any = root.invoke(ctx)
    except click.exceptions.Exit as done:
        return done.exit_code
    return result if isinstance(result, int) else 0


def _pass_names_through() -> None:
    """Let names that are not UTF-8 leave as the bytes they are, whatever the locale can write."""
    codecs.register_error("leasefs", _bytes_or_escape)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="leasefs")


def _bytes_or_escape(error: UnicodeError) -> tuple[str | bytes, int]:
    """Surrogates become the bytes they stand for; what the encoding lacks is escaped as Python does."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if "\udc80" <= character <= "\udcff":
        return bytes([ord(character) - 0xDC00]), error.start + 1
    return character.encode("ascii", "backslashreplace").decode("ascii"), error.start + 1
