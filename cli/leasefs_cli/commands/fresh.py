"""`leasefs fresh`."""

from __future__ import annotations

import os
from typing import Any

import click

from leasefs.client.clock import BoottimeClock
from leasefs.client.understand import Roots, understand
from leasefs.core.fresh import check_key
from leasefs.core.globs import parse_glob
from leasefs_cli.child import run_child
from leasefs_cli.exit_codes import DONE
from leasefs_cli.freshness import (
    Check,
    Ground,
    Reason,
    differences,
    first_of,
    ground,
    reason,
    record,
    taken,
)
from leasefs_cli.printing import say_json, tell
from leasefs_cli.teaching import TeachingCommand, json_option, teaching_command

_COMMAND_LINE = "leasefs.command-line"


class _FreshCommand(TeachingCommand):
    """Takes what follows `--` for the command line: globs and arguments are both as many as one likes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND_LINE] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "-- CMD [ARGS]..."]


@teaching_command(
    "fresh",
    cls=_FreshCommand,
    own_codes=[
        ("any", "the command's own if it was run; 128+N if signal N ended it"),
        ("0", "it succeeded, or need not be run"),
        ("126", "the command cannot be executed"),
        ("127", "there is no such command"),
    ],
    examples=[
        (
            "leasefs fresh --key lint 'src/**' -- make lint",
            "run it only if something in src changed",
        ),
        (
            "leasefs fresh --key types src pyproject.toml -- mypy src",
            "also if its configuration changed",
        ),
        ("leasefs fresh --key test --force . -- pytest -q", "run it in any case"),
    ],
)
@click.option(
    "--key",
    required=True,
    metavar="NAME",
    help="What this check is called; its last success is kept by it.",
)
@click.option("--force", is_flag=True, help="Run it even if nothing changed.")
@json_option
@click.argument("globs", metavar="GLOB...", nargs=-1, required=True)
@click.pass_context
def command(
    ctx: click.Context, globs: tuple[str, ...], key: str, force: bool, as_json: bool
) -> int:
    """Run CMD only if something under the GLOBs changed since it last succeeded under this key.

    What counts is content: path, mode and bytes of each file that git does not ignore, whether tracked
    or not, however often it was written in between. The success is kept in the ledger, so it holds on
    every host and for every clone of the territory. CMD also runs if its command line, or the directory
    in the tree where it is run, is another one; environment and tools do not count.

    In doubt it runs: with the ledger away, with changes in a submodule, or if no file matches. A success
    is not recorded if the content changed while CMD ran.
    """
    command_line = ctx.meta[_COMMAND_LINE]
    if not command_line:
        raise click.UsageError("give the command after `--`", ctx)
    check_key(key)
    here = ground()
    roots = Roots(here.root, here.source)
    meanings = [understand(glob, roots, os.getcwd()).glob for glob in globs]
    check = Check(key, tuple(map(parse_glob, meanings)), command_line)
    outcome = _run_unless_fresh(here, check, force=force)
    if as_json:
        say_json({"key": key, "globs": meanings, **outcome})
    return int(outcome["exit_code"])


def _run_unless_fresh(here: Ground, check: Check, *, force: bool) -> dict[str, Any]:
    before = taken(here.root, check.globs)
    why = Reason("forced", "--force") if force else reason(here, check, before)
    if why.is_fresh:
        tell(f"{check.key} is fresh, not run: {why.words}")
        return _told(why, DONE, recorded=False)
    tell(f"{check.key} runs: {why.words}")
    clock = BoottimeClock()
    began_s = clock.now_s()
    code = run_child(check.command_line, lambda _pid: None)
    if code != DONE:
        return _told(why, code, recorded=False)
    took_s = clock.now_s() - began_s
    after = taken(here.root, check.globs)
    if before.doubt or after.doubt:
        problem = before.doubt or after.doubt
    elif before.digest != after.digest:
        changed = differences(before.files, after.files)
        problem = f"{first_of(changed)} while it ran"
    else:
        problem = record(here, check, before, took_s)
    if problem:
        tell(f"the success of {check.key} is not recorded: {problem}")
    return _told(why, code, recorded=not problem, problem=problem)


def _told(why: Reason, code: int, *, recorded: bool, problem: str = "") -> dict[str, Any]:
    return {
        "ran": not why.is_fresh,
        "reason": why.code,
        "message": why.words,
        "changed": why.changed,
        "exit_code": code,
        "recorded": recorded,
        "not_recorded": problem,
    }
