"""The patterns of an ignore file, compiled for pathspec's RE2 backend, with a bounded cost.

Matching is linear (RE2), and what it is linear in is bounded here: the bytes of a pattern, and RE2 instructions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import re2  # type: ignore[import-untyped]
from pathspec import PathSpec
from pathspec.pattern import RegexPattern

from leasefs.vcs.errors import RulesRefused
from leasefs.vcs.ignore_file import Cost, Pattern
from leasefs.vcs.wildmatch import expression

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

PATTERN_LIMIT_BYTES = 4096
# An RE2 set has 8 MiB and needs about 100 bytes an instruction before it can run at all; this is a fifth of that.
SET_LIMIT_INSTRUCTIONS = 10_000
_PROBLEMS_SHOWN = 20


def compiled(
    patterns: Iterable[Pattern], shown: str
) -> tuple[tuple[PathSpec[RegexPattern], ...], Cost, tuple[str, ...]]:
    """The patterns as sets to ask, last lines first; what asking costs; and what was left out, in words.

    Raises:
        RulesRefused: a negated pattern cannot be taken. `shown` names the file.
    """
    taken: list[RegexPattern] = []
    star_instructions = 0
    problems = []
    for pattern in patterns:
        try:
            one = _compile(pattern)
        except RulesRefused as error:
            if pattern.negated:
                raise RulesRefused(
                    f"{shown}:{pattern.line}: {error}; nothing here is scratch"
                ) from error
            problems.append(f"{shown}:{pattern.line}: {error}; the pattern is left out")
            continue
        if one is not None:
            taken.append(one)
            star_instructions += _size(one) if b"*" in pattern.glob else 0
    specs = tuple(reversed([PathSpec(group, backend="re2") for group in _groups(taken)]))
    return specs, Cost(len(specs), star_instructions), tuple(problems[:_PROBLEMS_SHOWN])


def _compile(pattern: Pattern) -> RegexPattern | None:
    if len(pattern.glob) > PATTERN_LIMIT_BYTES:
        raise RulesRefused(f"pattern longer than {PATTERN_LIMIT_BYTES} bytes")
    text = expression(pattern.glob)
    if text is None:
        return None
    try:
        regex = re2.compile(text, _OPTIONS)
    except re2.error as error:
        raise RulesRefused(f"pattern not understood ({error})") from error
    if regex.programsize > SET_LIMIT_INSTRUCTIONS:
        raise RulesRefused("pattern too complex")
    # pathspec takes any compiled expression and hands its text to the backend; RE2's compiles fast and tells its size.
    return RegexPattern(cast("re.Pattern[str]", regex), include=not pattern.negated)


def _size(pattern: RegexPattern) -> int:
    return int(cast("Any", pattern.regex).programsize)  # RE2's, see _compile


def _groups(patterns: list[RegexPattern]) -> Iterator[list[RegexPattern]]:
    """Cut into runs that one RE2 set can hold."""
    group: list[RegexPattern] = []
    total = 0
    for pattern in patterns:
        size = _size(pattern)
        if group and total + size > SET_LIMIT_INSTRUCTIONS:
            yield group
            group, total = [], 0
        group.append(pattern)
        total += size
    if group:
        yield group


def _options() -> re2.Options:
    options = re2.Options()
    options.never_capture = True
    options.log_errors = False
    return options


_OPTIONS = _options()
