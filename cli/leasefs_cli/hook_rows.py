"""The hooks of a repository as rows for a person and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from leasefs_cli.printing import say_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.vcs.hooks import HooksPlace, HookState

_COLOURS = {"installed": "green", "changed": "yellow", "missing": "red"}


def say_hooks(states: Sequence[HookState]) -> None:
    """One hook per line."""
    say_columns(
        ("HOOK", "STATE", "WHERE", "NOTE"),
        [(state.name, state.state, state.path, state.detail or "-") for state in states],
        colours=[_COLOURS[state.state] for state in states],
    )


def as_json_rows(place: HooksPlace, states: Sequence[HookState]) -> dict[str, object]:
    """The same for a program."""
    return {**asdict(place), "hooks": [asdict(state) for state in states]}
