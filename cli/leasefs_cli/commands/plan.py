"""`leasefs plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from leasefs_cli.claim_options import agent_option, ttl_option
from leasefs_cli.printing import say_json
from leasefs_cli.priorities import Priority
from leasefs_cli.setting_option import setting_option
from leasefs_cli.teaching import json_option, teaching_command

if TYPE_CHECKING:
    from leasefs.client.understand import Roots
    from leasefs.core.globs import Glob
    from leasefs.core.partition_types import Task

DEFAULT_COMMITS = 1000


@teaching_command(
    "plan",
    examples=[
        (
            "leasefs plan 'src/**' src/core docs package.json",
            "a task for each glob: who would meet whom, and how to divide it",
        ),
        ("leasefs plan --tasks tasks.csv", "a task in each row: its name, then its globs"),
        (
            "leasefs plan --tasks tasks.json --apart package.json --json",
            "with a hot file as a region of its own, for a program",
        ),
        (
            "leasefs plan --tasks tasks.json --claim --agent planner",
            "lease every region at once, then give each to its worker",
        ),
        (
            "leasefs delegate L12 'src/core/**' --to agent-31",
            "which is done by the lease's id, as `plan --claim` printed it",
        ),
    ],
)
@click.argument("globs", metavar="[GLOB]...", nargs=-1)
@click.option(
    "--tasks",
    "tasks_file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Read tasks from a .json or .csv file. JSON: a list of {name, globs}, or an object of globs by name. "
    "CSV: the name, then globs; several in a cell are set apart by blanks. They are relative to the tree's root.",
)
@click.option(
    "--apart",
    metavar="GLOB",
    multiple=True,
    help="Make a region of its own of this, as far as tasks want it; may be given again.",
)
@click.option(
    "--siblings",
    is_flag=True,
    help="Cut globs by naming what exists beside the cut, even where they can be cut exactly: fewer and plainer "
    "globs, but new names there belong to nobody.",
)
@click.option(
    "--commits",
    type=click.IntRange(0, 100_000),
    default=DEFAULT_COMMITS,
    metavar="N",
    help=f"How many commits to look at for what changes most. Default {DEFAULT_COMMITS}; 0 for none.",
)
@click.option(
    "--claim",
    is_flag=True,
    help="Claim a lease for each region: all of them in one step, or none.",
)
@ttl_option
@setting_option(
    "claim.priority",
    "--priority",
    type=Priority(),
    metavar="CLASS|N",
    help="Of the leases: claims of higher priority may recall them. human, urgent, normal, background, or "
    "a number from -100 to 100. Default normal.",
)
@agent_option
@json_option
def command(
    globs: tuple[str, ...],
    tasks_file: str | None,
    apart: tuple[str, ...],
    siblings: bool,
    commits: int,
    claim: bool,
    ttl_s: float,
    priority: int,
    agent: str | None,
    as_json: bool,
) -> None:
    """Divide what several tasks want into regions that never overlap.

    Each GLOB is a task, or each entry of a file. Overlap is decided glob against glob, so regions stay
    apart whatever files are created later, and every tracked file that a task wants lies in exactly one.

    Where two globs meet, the one that reaches less far keeps the common ground, and the other is cut: a
    directory stays as it is, and `**/*.md` has what is in no such directory. Whoever loses some is listed
    under THEN: they want it too, afterwards. There are no negated globs: what is left of `src/**` without
    `src/core/**` is spelt out (`src/*`, `src/[!c]*/**`, `src/c/**` ...). If that takes too many globs, what
    exists is named instead, and the plan says where new names then belong to nobody. If even that is too
    much, the globs stay together and their tasks have them in turns.

    Also told: each pair of tasks that meets, with a path that both want; what nobody wants; and the
    largest and most often changed files that should be a region of their own.

    With --claim the regions become leases of yours, and their ids stand in the first column; give them to
    workers with `leasefs delegate`. If somebody else holds or waits for any of that ground, nothing is
    claimed (3).
    """
    from leasefs_cli.place import ground_here
    from leasefs_cli.plan_rows import plan_json, say_plan
    from leasefs_cli.planning import Terms, claim_all, planned, roots_here

    ground = ground_here(agent, globs) if claim else None
    roots = ground.roots if ground else roots_here()
    tasks = _tasks(globs, tasks_file, roots)
    plan, looked_at = planned(
        roots.mountpoint, tasks, _globs(apart, roots), most_commits=commits, exact=not siblings
    )
    leases = claim_all(ground.enter(), plan, Terms(ttl_s, priority)) if ground else []
    if as_json:
        say_json(plan_json(plan, tasks, looked_at, leases))
    else:
        say_plan(plan, looked_at, leases)


def _tasks(globs: tuple[str, ...], tasks_file: str | None, roots: Roots) -> list[Task]:
    from leasefs_cli.plan_tasks import tasks_of_file, tasks_of_globs

    if tasks_file is not None:
        if globs:
            raise click.UsageError("give globs or --tasks, not both")
        return tasks_of_file(tasks_file, roots)
    if not globs:
        raise click.UsageError("give a glob for each task, or --tasks FILE")
    return tasks_of_globs(globs, roots)


def _globs(typed: tuple[str, ...], roots: Roots) -> list[Glob]:
    from leasefs_cli.plan_tasks import tasks_of_globs

    return [glob for task in tasks_of_globs(typed, roots) for glob in task.globs]
