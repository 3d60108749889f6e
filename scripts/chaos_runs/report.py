"""What a round has come to, for reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter

    from chaos_runs.round import Outcome

_SHOWN = 5


def report(outcome: Outcome) -> None:
    """Print it."""
    print(
        f"seed {outcome.seed}: {outcome.faults.total()} faults, {outcome.acts.total()} operations, "
        f"{outcome.events} events, {len(outcome.found)} violations"
    )
    print(f"  faults: {_listed(outcome.faults)}")
    print(f"  operations: {_listed(outcome.acts)}")
    for why in outcome.left_out:
        print(f"  LEFT OUT: {why}")
    for violation in outcome.found[:_SHOWN]:
        print(f"  VIOLATION: {violation.kind}")
        for line in violation.evidence:
            print(f"    {line}")
    if len(outcome.found) > _SHOWN:
        print(f"  and {len(outcome.found) - _SHOWN} more")
    if outcome.found:
        print(
            f"  the recording is kept in {outcome.recording}, all of these in violations.txt there"
        )
        with open(f"{outcome.recording}/violations.txt", "w", encoding="utf-8") as file:
            for violation in outcome.found:
                file.write("\n  ".join((violation.kind, *violation.evidence)) + "\n")


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
