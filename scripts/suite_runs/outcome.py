"""What a suite said of each of its tests, and where two runs of it differ."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OK = "ok"
SKIPPED = "skipped"

# Where a suite expects POSIX to be broken on Linux, breaking it alike is what counts.
TODO_OK = "ok, not expected"
TODO_FAILED = "not ok, as expected"

_PROPER = frozenset({OK, TODO_OK, TODO_FAILED})

# Test name → one of the above, or what went wrong.
Outcomes = dict[str, str]

_TAP_LINE = re.compile(r"^(not )?ok (\d+)?(.*)$")


def tap(text: str, script: str) -> Outcomes:
    """The outcomes in TAP output, each named `script number`, or by its description if it has no number.

    A script that planned more tests than it ran has one more outcome, so that its end is not lost.
    """
    found: Outcomes = {}
    planned = None
    for line in text.splitlines():
        if re.match(r"^1\.\.\d+", line):
            planned = int(line[3:].split()[0])
        match = _TAP_LINE.match(line)
        if match is None:
            continue
        failed, number, rest = match.groups()
        name = f"{script} {number}" if number else f"{script} {rest.strip().split(' - ')[0]}"
        if re.search(r"#\s*skip", rest, re.IGNORECASE):
            found[name] = SKIPPED
        elif re.search(r"#\s*todo", rest, re.IGNORECASE):
            found[name] = TODO_FAILED if failed else TODO_OK
        else:
            found[name] = f"not ok{rest}" if failed else OK
    if planned is not None and planned > len(found):
        found[f"{script} is complete"] = f"{len(found)} of {planned} tests ran: {text[-300:]!r}"
    return found


def differences(plain: Mapping[str, str], mounted: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What passes on the plain directory and not through the mount, with what the mount's run said."""
    for test, said in plain.items():
        there = mounted.get(test, "was not run")
        if said in _PROPER and there != said:
            yield test, there
    for test, said in mounted.items():
        # A test that only the mount's run has is one more way to say that something went wrong there.
        if test not in plain and said not in {SKIPPED, *_PROPER}:
            yield test, said


def summary(outcomes: Mapping[str, str]) -> str:
    """How many passed, failed and were skipped."""
    said = list(outcomes.values())
    passed, skipped = sum(word in _PROPER for word in said), said.count(SKIPPED)
    return f"{passed} passed, {len(said) - passed - skipped} failed, {skipped} skipped"
