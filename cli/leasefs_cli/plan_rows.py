"""A plan for a person and for a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasefs.core.partition_types import Spelling
from leasefs.core.paths import shortened, text
from leasefs_cli.printing import printable, say, say_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.client import api
    from leasefs.core.partition_types import Conflict, Notable, Plan, Region, Task

ROWS_SHOWN = 20
_THEN_SHOWN = 3
_WIDEST_NAME = 48
_WIDEST_GLOBS = 100
_LARGE_BYTES = 1024

_SPELLED = {
    Spelling.ASKED: "",
    Spelling.EXACT: "cut",
    Spelling.SIBLINGS: "cut, existing names",
    Spelling.WHOLE: "whole, in turns",
}


def plan_json(
    plan: Plan, tasks: Sequence[Task], commits: int, leases: Sequence[api.Body]
) -> dict[str, Any]:
    """All of it. `leases` are those of the regions, or none."""
    regions = [_region_json(region) for region in plan.regions]
    for region, lease in zip(regions, leases, strict=False):
        region["lease"] = lease["lease"]
    found: dict[str, Any] = {
        "files": plan.files,
        "commits": commits,
        "tasks": [
            {"name": task.name, "globs": [glob.text for glob in task.globs]} for task in tasks
        ],
        "regions": regions,
        "conflicts": [_conflict_json(conflict) for conflict in plan.conflicts],
        "unclaimed": [
            {"path": text(row.path), "files": row.files, "size_bytes": row.size_bytes}
            for row in plan.unclaimed
        ],
        "largest": [_notable_json(one) for one in plan.largest],
        "hottest": [_notable_json(one) for one in plan.hottest],
        "open": [text(place) for place in plan.open],
        "idle": list(plan.idle),
    }
    if leases:
        found["leases"] = list(leases)
    return found


def _region_json(region: Region) -> dict[str, Any]:
    return {
        "id": region.id,
        "task": region.task,
        "then": list(region.then),
        "globs": [glob.text for glob in region.globs],
        "files": region.files,
        "size_bytes": region.size_bytes,
        "commits": region.commits,
        "spelling": region.spelling.value,
    }


def _conflict_json(conflict: Conflict) -> dict[str, Any]:
    return {
        "tasks": list(conflict.tasks),
        "globs": list(conflict.globs),
        "files": conflict.files,
        "witness": text(conflict.witness),
        "exists": conflict.files > 0,
        "regions": list(conflict.regions),
    }


def _notable_json(one: Notable) -> dict[str, Any]:
    return {
        "path": text(one.file.path),
        "size_bytes": one.file.size_bytes,
        "commits": one.file.commits,
        "region": one.region or None,
        "tasks": list(one.tasks),
        "apart": one.apart,
    }


def say_plan(plan: Plan, commits: int, leases: Sequence[api.Body]) -> None:
    """The regions as a table, then what is to be known of them."""
    _say_regions(plan, leases)
    _say_conflicts(plan)
    _say_apart(plan, commits)
    _say_left(plan)


def _say_regions(plan: Plan, leases: Sequence[api.Body]) -> None:
    ids = [lease["lease"] for lease in leases] or [region.id for region in plan.regions]
    rows = [
        (
            id_,
            shortened(region.task, _WIDEST_NAME),
            shortened(_some(region.then, _THEN_SHOWN), _WIDEST_NAME) or "-",
            str(region.files),
            size(region.size_bytes),
            str(region.commits),
            _globs(region),
        )
        for id_, region in zip(ids, plan.regions, strict=True)
    ]
    titles = ("LEASE" if leases else "REGION", "TASK", "THEN", "FILES", "SIZE", "COMMITS", "GLOBS")
    say_columns(titles, rows, right=frozenset({3, 4, 5}))


def _globs(region: Region) -> str:
    how = _SPELLED[region.spelling]
    count = f"{len(region.globs)} globs, {how}: " if how else ""
    return shortened(count + " ".join(glob.text for glob in region.globs), _WIDEST_GLOBS)


def _say_conflicts(plan: Plan) -> None:
    say("")
    if not plan.conflicts:
        say("no conflicts: no two tasks want a common path, now or later")
        return
    keeper = {region.id: region.task for region in plan.regions}
    shared = sum(conflict.files > 0 for conflict in plan.conflicts)
    say(f"{len(plan.conflicts)} conflicts between tasks, {shared} of them over files that exist:")
    # What exists first, and most of it first.
    listed = sorted(plan.conflicts, key=lambda one: -one.files)
    for conflict in listed[:ROWS_SHOWN]:
        say("  " + printable(_conflict_words(conflict, keeper)))
    _say_more(len(listed))


def _conflict_words(conflict: Conflict, keeper: dict[str, str]) -> str:
    one, other = conflict.tasks
    mine, yours = conflict.globs
    globs = mine if mine == yours else f"{mine} and {yours}"
    where = text(conflict.witness)
    if conflict.files:
        count = f"{conflict.files} files" if conflict.files > 1 else "a file"
        what = f"{one} and {other} both want {count}, as {where} ({globs})"
    else:
        what = (
            f"{one} and {other} could both come to want {where}, which does not exist yet ({globs})"
        )
    first = sorted({keeper[id_] for id_ in conflict.regions})
    return f"{what}: {', '.join(first)} first" if first else what


def _say_apart(plan: Plan, commits: int) -> None:
    apart = {one.file.path: one for one in (*plan.hottest, *plan.largest) if one.apart}
    if not apart:
        return
    say("")
    say("worth a region of their own (--apart):")
    for one in apart.values():
        changed = f", changed in {one.file.commits} of {commits} commits" if commits else ""
        wanted = f"wanted by {_some(one.tasks)}, in {one.region}"
        say(
            "  "
            + printable(f"{text(one.file.path)}: {size(one.file.size_bytes)}{changed}; {wanted}")
        )


def _say_left(plan: Plan) -> None:
    if plan.idle:
        say("")
        say(printable(f"others come first in all that these want: {_some(plan.idle)}"))
    if plan.open:
        places = [f"{text(place)}/" if place else "the root" for place in plan.open]
        say("")
        say(printable(f"new names directly in these may be in no region: {_some(places)}"))
    if plan.unclaimed:
        files = sum(row.files for row in plan.unclaimed)
        say("")
        say(f"unclaimed: {files} of {plan.files} files")
        for row in plan.unclaimed[:ROWS_SHOWN]:
            count = f", {row.files} files" if row.path.endswith(b"/") else ""
            say("  " + printable(f"{text(row.path)}{count}, {size(row.size_bytes)}"))
        _say_more(len(plan.unclaimed))


def _say_more(count: int) -> None:
    if count > ROWS_SHOWN:
        say(f"  and {count - ROWS_SHOWN} more; --json has all")


def _some(names: Sequence[str], most: int = ROWS_SHOWN) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def size(size_bytes: int) -> str:
    """A size for a person: `812`, `4.1K`, `120K`, `3.0M`."""
    if size_bytes < _LARGE_BYTES:
        return str(size_bytes)
    value = float(size_bytes)
    for unit in "KMGT":
        value /= _LARGE_BYTES
        if value < _LARGE_BYTES or unit == "T":
            break
    return f"{value:.1f}{unit}" if value < 10 else f"{value:.0f}{unit}"
