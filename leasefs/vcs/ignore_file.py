"""One ignore file: its patterns, and what they say of a path.

Ignore files come from the repository, so they may be hostile: how many bytes and patterns are read is bounded here,
what matching costs in `ignore_patterns`. What is left out must never make more paths scratch: a pattern that
ignores may be dropped, but a `!pattern` that cannot be taken makes the whole file refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from leasefs.vcs.errors import RulesRefused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pathspec import PathSpec
    from pathspec.pattern import RegexPattern

FILE_LIMIT_BYTES = 1 << 20
PATTERN_LIMIT = 10_000
_UTF8_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of an ignore file as git reads it; `glob` is without the `!` of a negated one."""

    line: int
    glob: bytes
    negated: bool


@dataclass(frozen=True, slots=True)
class Cost:
    """What asking a set of rules once may cost: RE2 sets to search, and instructions of patterns with a `*`.

    Only a `*` lets one pattern stay alive over many bytes of a name; the others die at their first wrong byte.
    """

    sets: int = 0
    star_instructions: int = 0

    def __add__(self, other: Self) -> Cost:
        return Cost(self.sets + other.sets, self.star_instructions + other.star_instructions)

    def fits(self) -> bool:
        """Whether rules of this cost, all those that one path meets together, may be asked inline."""
        return self.sets <= 64 and self.star_instructions <= 50_000


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The rules of one ignore file. `base` is its directory with a final slash (b"" at the root)."""

    base: bytes
    specs: tuple[PathSpec[RegexPattern], ...]  # last lines first
    cost: Cost
    problems: tuple[str, ...]
    refused: bool = False

    def verdict(self, path: bytes, is_dir: bool) -> bool | None:
        """True: ignored; False: not ignored by a `!` rule; None: no rule here says anything. `path` lies below `base`.

        A refused file says "not ignored" to everything, since any rule that would say so may stand in it.
        """
        if self.refused:
            return False
        name = path[len(self.base) :].decode("latin-1") + ("\0" if is_dir else "")
        for spec in self.specs:
            verdict = spec.check_file(name).include
            if verdict is not None:
                return verdict
        return None


def refused_file(base: bytes, problem: str) -> IgnoreFile:
    """The rules that stand for a file of which nothing is believed."""
    return IgnoreFile(base, (), Cost(), (problem,), refused=True)


def parse(content: bytes) -> Iterator[Pattern]:
    """The patterns of an ignore file, split and trimmed as git does (dir.c, add_patterns_from_buffer)."""
    for number, line in enumerate(content.removeprefix(_UTF8_BOM).split(b"\n"), 1):
        if line.startswith(b"#"):
            continue
        text = line.removesuffix(b"\r").partition(b"\0")[0]
        text = _without_trailing_spaces(text)
        if glob := text.removeprefix(b"!"):
            yield Pattern(number, glob, negated=text.startswith(b"!"))


def compile_rules(base: bytes, content: bytes, shown: str) -> IgnoreFile:
    """Compile an ignore file; `shown` names it in problems.

    Raises:
        RulesRefused: too many bytes or patterns, or a negated pattern that cannot be taken.
    """
    if len(content) > FILE_LIMIT_BYTES:
        raise RulesRefused(
            f"{shown} is longer than {FILE_LIMIT_BYTES} bytes; nothing here is scratch"
        )
    patterns = list(parse(content))
    if len(patterns) > PATTERN_LIMIT:
        raise RulesRefused(
            f"{shown} has more than {PATTERN_LIMIT} patterns; nothing here is scratch"
        )
    if not patterns:
        return IgnoreFile(base, (), Cost(), ())
    # RE2 and pathspec take 3 MB; a mount of a tree without rules goes without.
    from leasefs.vcs.ignore_patterns import compiled

    specs, cost, problems = compiled(patterns, shown)
    return IgnoreFile(base, specs, cost, problems)


def _without_trailing_spaces(text: bytes) -> bytes:
    r"""Cut spaces (only spaces) at the end, but not one that a backslash quotes."""
    end = len(text.rstrip(b" "))
    if end == len(text):
        return text
    quoting = end - len(text[:end].rstrip(b"\\"))
    return text[: end + quoting % 2]
