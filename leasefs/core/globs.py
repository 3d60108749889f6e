r"""Globs: gitignore style path patterns, always anchored at the territory's root, exact to the byte.

=============  ===============================================================================
`*`            any bytes inside one component, also none; a whole component has at least one
`?`            one byte inside a component (as in git's wildmatch: `?` is half of an `é`)
`[a-z]`        one byte of a class, as in wildmatch: `[!x]`, `[^x]`, `[]x]`, `[[:alpha:]]`
`**/`          zero or more whole components
`a/**`, `a/`   everything below `a`, but not `a` itself; `**` alone is every path, also the root
`a**b`, `***`  `*`: only two stars as a whole component span components
`\*`           the character itself
=============  ===============================================================================

No wildcard matches a slash. A leading dot, a leading `#`, spaces at the end, braces and parentheses
are characters like others. What can match nothing is refused, so that nobody holds a lease that
protects nothing.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby, takewhile
from typing import TYPE_CHECKING

from leasefs.core import paths
from leasefs.core.automaton import STAR
from leasefs.core.bytesets import ANY, BadClass, read_class
from leasefs.core.component import EVERYTHING, Component, common_name, literal_component
from leasefs.core.errors import BadPath, BadPattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_WILD_BYTES = 1024
MAX_WILDCARDS = 32
# The longest canonical text: every character of a longest path escaped, then the wildcards.
_MAX_SPELLING_BYTES = 2 * paths.MAX_PATH_BYTES + 1 + MAX_WILD_BYTES

Parts = tuple[Component | None, ...]


@dataclass(frozen=True, slots=True)
class Glob:
    """One glob, read; made by `parse_glob`, `glob_of`, `literal_glob` and `literal_tree` only.

    `text` is canonical: it parses back to an equal glob, and globs are equal when their texts are.
    `parts` are its components; `STAR` among them takes any number of names, and `a/**` is `a`, `*`,
    `STAR`. `literal_prefix` are the leading components without a wildcard; `is_tree` says that the
    glob is everything below that.
    """

    text: str
    parts: Parts = field(repr=False, compare=False)
    literal_prefix: tuple[bytes, ...] = field(repr=False, compare=False)
    is_tree: bool = field(repr=False, compare=False)
    _prefix: bytes = field(repr=False, compare=False)
    _rest: Parts = field(repr=False, compare=False)

    @property
    def is_literal(self) -> bool:
        """Whether it has no wildcard, so that it matches exactly one path."""
        return not self._rest

    @property
    def prefix_is_whole(self) -> bool:
        """Whether `literal_prefix` is all of it: `is_literal`, as an index asks it."""
        return not self._rest

    @property
    def is_everything(self) -> bool:
        """Whether it is `**`."""
        return self.is_tree and not self._prefix

    @property
    def literal_path(self) -> paths.RelPath:
        """`literal_prefix` as a path; the only path that matches if `is_literal`."""
        return paths.RelPath(self._prefix)

    def matches(self, path: bytes) -> bool:
        """Whether `path` matches; a path that is not normalised never does.

        Costs length of glob times length of path at most.
        """
        if not self._rest:
            return path == self._prefix
        if not paths.is_normal(path):
            return False
        if self._prefix:
            if not (path.startswith(self._prefix) and path[len(self._prefix) :][:1] == b"/"):
                return False
            path = path[len(self._prefix) + 1 :]
            return self.is_tree or _match(self._rest, path.split(b"/"))
        return self.is_tree or (path != b"" and _match(self._rest, path.split(b"/")))

    def may_match_below(self, directory: bytes) -> bool:
        """Whether some path strictly below `directory` matches; exact."""
        positions = _closed(self.parts, {0})
        for name in paths.components(directory):
            positions = _closed(self.parts, _after(self.parts, positions, name))
        return any(at < len(self.parts) for at in positions)


_BELOW: Parts = (EVERYTHING, STAR)


def _match(parts: Parts, names: list[bytes]) -> bool:
    """Greedy: what stands between two `**` is placed at the first place that it fits."""
    part_at = name_at = 0
    after_star, tried_at = -1, 0
    while name_at < len(names):
        part = parts[part_at] if part_at < len(parts) else _NOTHING
        if part is STAR:
            part_at += 1
            after_star, tried_at = part_at, name_at
        elif part.matches(names[name_at]):
            part_at += 1
            name_at += 1
        elif after_star < 0:
            return False
        else:
            tried_at += 1
            part_at, name_at = after_star, tried_at
    return all(part is STAR for part in parts[part_at:])


# The one component that no name matches; never part of a glob.
_NOTHING = Component(())


@lru_cache(maxsize=4096)
def part_below(glob: Glob, directory: bytes, *, one_name: bool = False) -> tuple[Glob, ...]:
    """Globs that together match exactly what `glob` does below `directory`; with `one_name` only right in it."""
    positions = _closed(glob.parts, {0})
    names = paths.components(directory)
    for name in names:
        positions = _closed(glob.parts, _after(glob.parts, positions, name))
    rests = {glob.parts[at:] for at in positions if at < len(glob.parts)}
    if one_name:
        rests = {(part,) for rest in rests for part in _alone(rest)}
    above = [literal_component(name) for name in names]
    found: list[Glob] = []
    for rest in rests:
        whole = all(part is STAR for part in rest)
        with suppress(BadPattern):  # longer than a path can be
            found.append(_made(directory, [*above, *(_BELOW if whole else rest)]))
    return tuple(sorted(found, key=lambda one: one.text))


def _alone(rest: Parts) -> Iterator[Component]:
    """The components that match the one name of a path of one, as `rest` does."""
    if all(part is STAR for part in rest):
        yield EVERYTHING
        return
    fixed = [part for part in rest if part is not STAR]
    if len(fixed) == 1:
        yield from (part for part in fixed if part is not None)


def _closed(parts: Parts, positions: Iterable[int]) -> set[int]:
    closed = set(positions)
    return closed | {at + 1 for at in closed if at < len(parts) and parts[at] is STAR}


def _after(parts: Parts, positions: set[int], name: bytes) -> Iterator[int]:
    for at in positions:
        part = parts[at] if at < len(parts) else _NOTHING
        if part is STAR:
            yield at
        elif part.matches(name):
            yield at + 1


def parse_glob(pattern: str | bytes) -> Glob:
    """The glob that `pattern` spells; see the table at the top of this module.

    A trailing slash means everything below; `./a//b` is `a/b`.

    Raises:
        BadPattern: if it is empty or names only the root, is absolute, negated or too long, has a
            `..`, a NUL, a class that cannot be read or a lone backslash, or can match no path.
    """
    if isinstance(pattern, str):
        try:
            pattern = pattern.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            problem = "it has a surrogate that stands for no byte"
            raise BadPattern(ascii(pattern)[1:-1], error.start, problem) from error
    return _parse(pattern)


@lru_cache(maxsize=65536)
def globs_of(texts: tuple[str, ...]) -> tuple[Glob, ...]:
    """The globs of a claim, in its order. Raises BadPattern as `parse_glob`."""
    return tuple(parse_glob(text) for text in texts)


@lru_cache(maxsize=65536)
def _parse(source: bytes) -> Glob:
    _refuse_unfit(source)
    parts: list[Component | None] = []
    at = 0
    while at < len(source):
        start = at
        tokens, at = _read_component(source, at)
        spelling = source[start:at]
        at += len(source[at : at + 1])
        if spelling == b"**":
            parts.append(STAR)
        elif spelling not in {b"", b"."}:
            parts.append(_possible(source, start, Component(tuple(tokens))))
    if not parts:
        raise _bad(source, 0, "it names the territory's root; write ** for everything in it")
    if parts[-1] is STAR or source.endswith(b"/"):
        parts += _BELOW
    return _made(source, parts)


def _refuse_unfit(source: bytes) -> None:
    """Everything that can be said before reading components."""
    if not source:
        raise _bad(source, 0, "it is empty; write ** for everything")
    if len(source) > _MAX_SPELLING_BYTES:
        raise _bad(source, _MAX_SPELLING_BYTES, f"it is {len(source)} bytes long; {_LIMITS}")
    if b"\0" in source:
        raise _bad(source, source.index(b"\0"), "it contains a NUL byte")
    if source.startswith(b"/"):
        raise _bad(source, 0, "it is absolute; write it relative to the territory's root")
    if source.startswith(b"!"):
        problem = "it is negated, and a claim can only name what it wants"
        raise _bad(
            source, 0, f"{problem}; for a name that begins with `!` write `\\!` or use --literal"
        )


_LIMITS = (
    f"the limits are {paths.MAX_PATH_BYTES} bytes for a path, {MAX_WILD_BYTES} from the first wildcard "
    f"on, and {MAX_WILDCARDS} wildcards"
)


def _read_component(source: bytes, at: int) -> tuple[list[int | None], int]:
    """The tokens up to the next slash or the end, and the position of that."""
    tokens: list[int | None] = []
    while at < len(source) and source[at] != ord("/"):
        token, at = _read_token(source, at)
        tokens.append(token)
    return tokens, at


def _read_token(source: bytes, at: int) -> tuple[int | None, int]:
    character = source[at : at + 1]
    if character == b"*":
        return STAR, at + 1
    if character == b"?":
        return ANY, at + 1
    if character == b"[":
        try:
            return read_class(source, at)
        except BadClass as error:
            raise _bad(source, error.position, error.problem) from error
    if character == b"\\":
        at += 1
        if at == len(source):
            raise _bad(
                source, at - 1, "a backslash at the end escapes nothing; write `\\\\` for itself"
            )
        if source[at] == ord("/"):
            raise _bad(source, at - 1, "no name contains a slash, so it cannot be escaped")
    return 1 << source[at], at + 1


def _possible(source: bytes, start: int, component: Component) -> Component:
    if component.literal == b"..":
        raise _bad(source, start, "`..` is not allowed; name the path from the territory's root")
    if component.least_bytes > paths.MAX_NAME_BYTES:
        problem = f"this component only matches names longer than {paths.MAX_NAME_BYTES} bytes"
        raise _bad(source, start, problem)
    if common_name(EVERYTHING, component) is None or component.literal == b".":
        raise _bad(
            source, start, "this component can match no name, so the glob would match no path"
        )
    return component


def _bad(source: bytes, position: int, problem: str) -> BadPattern:
    return BadPattern(paths.shown(source), position, problem)


def _made(source: bytes, parts: Iterable[Component | None]) -> Glob:
    normal = _normal(parts)
    prefix = tuple(
        part.literal
        for part in takewhile(lambda part: part is not STAR and part.literal is not None, normal)
        if part is not None and part.literal is not None
    )
    rest = normal[len(prefix) :]
    _refuse_long(source, prefix, rest)
    text = _text([literal_component(name) for name in prefix], rest)
    return Glob(text, normal, prefix, rest == _BELOW, b"/".join(prefix), rest)


def _normal(parts: Iterable[Component | None]) -> Parts:
    """Within a run of `**` and `*` components only their number matters: `*` first, then one `**`."""
    normal: list[Component | None] = []
    for loose, group in groupby(parts, lambda part: part is STAR or part == EVERYTHING):
        run = list(group)
        if loose and STAR in run:
            run = [part for part in run if part is not STAR] + [STAR]
        normal += run
    return tuple(normal)


def _refuse_long(source: bytes, prefix: tuple[bytes, ...], rest: Parts) -> None:
    # A tree is measured by its directory, which can exist even where no name fits below it.
    names = [len(name) for name in prefix]
    if rest != _BELOW:
        names += [max(1, part.least_bytes) for part in rest if part is not STAR]
    least = sum(names) + len(names) - 1
    if least > paths.MAX_PATH_BYTES:
        problem = f"it only matches paths of {least} bytes or more; {_LIMITS}"
        raise _bad(source, paths.MAX_PATH_BYTES, problem)
    wildcards = sum(1 if part is STAR else part.wildcards for part in rest) - (rest[-1:] == (STAR,))
    if wildcards > MAX_WILDCARDS:
        raise _bad(source, 0, f"it has {wildcards} wildcards; {_LIMITS}")
    if rest and len(_text((), rest)) > MAX_WILD_BYTES:
        raise _bad(source, MAX_WILD_BYTES, f"it is too long; {_LIMITS}")


def _text(prefix: Iterable[Component], rest: Parts) -> str:
    written = [component.text() for component in prefix]
    written += [b"**" if part is STAR else part.text() for part in rest]
    if rest[-1:] == (STAR,):
        # `a/**` already says at least one component; the last `*` would say it again.
        del written[-2]
    source = b"/".join(written)
    return paths.text(b"\\" * source.startswith(b"!") + source)


def glob_of(parts: Parts) -> Glob:
    """The glob with these parts, of components that some name matches; a last `STAR` stands behind a `*`.

    Raises:
        BadPattern: if it is too long.
    """
    return _made(b"", parts)


def literal_glob(path: str | bytes) -> Glob:
    """The glob that matches exactly `path`, whatever characters its names have.

    Raises:
        BadPath: if `path` is not a path, or is the root, which no glob names alone.
    """
    return _literal(path, ())


def literal_tree(path: str | bytes) -> Glob:
    """The glob of everything below the directory `path`, not itself; `**` for the root.

    Raises:
        BadPath: if `path` is not a path.
    """
    return _literal(path, _BELOW)


def _literal(path: str | bytes, rest: Parts) -> Glob:
    normal = paths.parse_path(path)
    if not normal and not rest:
        raise BadPath("", "the root is no path that a glob can name alone; write ** for everything")
    names = [literal_component(name) for name in paths.components(normal)]
    return _made(normal, [*names, *rest])


def escape(path: str | bytes) -> str:
    """Glob text that means exactly `path`.

    Raises:
        BadPath: as `literal_glob`.
    """
    return literal_glob(path).text


def lies_on(path: bytes, globs: Iterable[Glob]) -> bool:
    """Whether one of `globs` matches `path`, or something below it if it is a directory's."""
    plain = path.rstrip(b"/")
    return any(
        glob.matches(plain) or ((plain != path or not path) and glob.may_match_below(plain))
        for glob in globs
    )
