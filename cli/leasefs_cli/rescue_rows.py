"""Rescues as rows for a person and as JSON. Those of the ledger and of the repository here are one list."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from leasefs.core.paths import shown, text
from leasefs.vcs.rescue import Kind
from leasefs_cli.printing import coloured, printable, say, say_columns, say_fields
from leasefs_cli.rescue_place import where

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasefs.client import api
    from leasefs.vcs.rescue import KeptPath, Rescue

_FIRST_NAMES = 50
_COLOURS = {"deleted": "red", "created": "green", "modified": "yellow", "retyped": "yellow"}


def merged(local: Iterable[Rescue], known: Iterable[api.Body] | None) -> list[api.Body]:
    """Each rescue once, newest first; `here`: it is in this repository, `in_ledger`: the ledger knows it."""
    rows = {
        (rescue["id"], rescue["commit"]): {**rescue, "here": False, "in_ledger": True}
        for rescue in known or ()
    }
    for rescue in local:
        key = rescue.id, rescue.commit
        row = rows.get(key, {"in_ledger": None if known is None else False})
        rows[key] = {**as_json(rescue), **row, "here": True}
    return sorted(rows.values(), key=lambda row: (-row["wall_s"], row["id"], not row["here"]))


def as_json(rescue: Rescue) -> api.Body:
    """The fields that the ledger has of a rescue, from the commit itself."""
    about = rescue.about
    return {
        "id": rescue.id,
        "territory": about.territory,
        "tree": about.tree,
        "lease": about.lease,
        "token": about.token,
        "agent": about.agent,
        "harness": about.harness,
        "globs": list(about.globs),
        "ref": rescue.ref,
        "commit": rescue.commit,
        "paths": len(rescue.paths),
        "names": [text(kept.path) for kept in rescue.paths[:_FIRST_NAMES]],
        "reason": about.reason,
        "wall_s": about.wall_s,
        "by": about.by,
        "problems": [{"path": text(p.path), "why": p.why} for p in rescue.problems],
    }


def paths_as_json(entries: Sequence[KeptPath]) -> list[dict[str, Any]]:
    """Every path of a rescue, for a program."""
    return [
        {
            "path": text(kept.path),
            "kind": kept.kind.value,
            "change": kept.change,
            "mode": f"{kept.permissions:04o}",
            "size": kept.size,
            "blob": kept.blob,
            "base": kept.base,
        }
        for kept in entries
    ]


def say_rescues(rows: Sequence[api.Body]) -> None:
    """One rescue per line."""
    if not rows:
        say("no rescues")
        return
    say_columns(
        ("RESCUE", "AGENT", "PATHS", "KEPT AT", "WHY", "WHERE", "FIRST PATHS"),
        [
            (
                row["id"],
                row["agent"] or "-",
                str(row["paths"]),
                _at(row["wall_s"]),
                row["reason"] or _trouble(row) or "-",
                "here" if row["here"] else where(row),
                " ".join(row["names"][:3]) + (" ..." if row["paths"] > 3 else ""),
            )
            for row in rows
        ],
        right=frozenset({2}),
        colours=["green" if row["here"] else "dim" for row in rows],
    )


def say_rescue(rescue: Rescue, entries: Sequence[KeptPath]) -> None:
    """One rescue: whose it is, then a line for each of `entries`, then what is not in it as it was."""
    about = rescue.about
    who = f"{about.agent} ({about.harness})" if about.harness else about.agent
    say_fields(
        [
            ("rescue", rescue.id),
            (
                "of",
                f"{who}, lease {about.lease} (token {about.token}) over {' '.join(about.globs)}",
            ),
            ("kept at", f"{_at(about.wall_s)}, because: {about.reason or 'not said'}"),
            ("made at HEAD", rescue.parent or "none: no commit yet, or no git"),
            ("commit", f"{rescue.commit}, {rescue.ref}"),
        ]
    )
    if entries:
        say("")
        say_columns(
            ("CHANGE", "MODE", "SIZE", "PATH"),
            [_row(kept) for kept in entries],
            right=frozenset({2}),
            colours=[_COLOURS.get(kept.change, "") for kept in entries],
        )
    for problem in rescue.problems:
        told = coloured("not kept as it was", "red", sys.stdout)
        say(f"{told}: {shown(problem.path) or 'in general'}: {printable(problem.why)}")


def _row(kept: KeptPath) -> tuple[str, str, str, str]:
    name = shown(kept.path) + "/" * (kept.kind is Kind.DIRECTORY)
    has_content = kept.kind in (Kind.FILE, Kind.SYMLINK)
    mode = f"{kept.permissions:04o}" if kept.kind is not Kind.ABSENT else "-"
    size = str(kept.size) if has_content else "-"
    return kept.change, "link" if kept.kind is Kind.SYMLINK else mode, size, name


def _at(wall_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(wall_s)) if wall_s else "-"


def _trouble(row: api.Body) -> str:
    return "; ".join(str(problem["why"]) for problem in row.get("problems", ()))
