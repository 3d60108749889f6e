"""The text of our hooks, and putting it into somebody's shell script so that it comes out again without a trace.

A hook that is a shell script gets our lines below its first one: it keeps its name, its place and its `$0`, by which
hook managers tell hooks apart and find what lies beside them. Anything else is kept in `before-leasefs/` under its own
name, and a script of ours runs it with the same arguments and the same input; its exit status counts.
"""

from __future__ import annotations

import re

NAMES = ("pre-commit", "commit-msg", "pre-push")
KEPT_IN = "before-leasefs"
_FIRST_LINE = b"#!/bin/sh\n"
_BEGIN, _END = b"# >>> leasefs hooks >>>", b"# <<< leasefs hooks <<<"
_BLOCK = re.compile(
    rb"^%b.*?^%b\n" % (re.escape(_BEGIN), re.escape(_END)), re.MULTILINE | re.DOTALL
)
_SHELL = re.compile(
    rb"#! *(?:\S*/env +(?:-S +)?)?(?:\S*/)?(?:sh|bash|dash|ksh|mksh|ash|busybox sh|zsh)(?: +-\S+)* *\n"
)

# The standard input is left to the hook that was there before: pre-push reads it. Without leasefs the commit passes:
# a clone may be used where nobody installed it, and what got past is found when the ref changes.
_LINES = """\
{begin} {name}; `leasefs hooks uninstall` takes these lines away
if command -v leasefs >/dev/null 2>&1; then
	leasefs hooks run {name} "$@" </dev/null || exit $?
else
	echo 'leasefs: not on PATH, so {name} looked at no lease' >&2
fi
{end}
"""
_THEN_KEPT = """\
if [ -x "${{0%/*}}/{kept}/{name}" ]; then
	exec "${{0%/*}}/{kept}/{name}" "$@"
fi
"""


def lines(name: str) -> bytes:
    """What runs `leasefs hooks run NAME`, between two lines that are how we know it again."""
    begin, end = _BEGIN.decode(), _END.decode()
    return _LINES.format(begin=begin, end=end, name=name).encode()


def own_script(name: str, *, then_kept: bool = False) -> bytes:
    """A whole hook; with `then_kept` it goes on with the one in `before-leasefs/`."""
    rest = _THEN_KEPT.format(kept=KEPT_IN, name=name) if then_kept else ""
    return _FIRST_LINE + lines(name) + rest.encode()


def is_own(script: bytes, name: str) -> bool:
    """Whether nothing but what `own_script` wrote, in whatever version, is in it."""
    rest = without_lines(script)
    kept = own_script(name, then_kept=True).removeprefix(own_script(name))
    return has_lines(script) and rest in (_FIRST_LINE, _FIRST_LINE + kept)


def takes_lines(script: bytes) -> bool:
    """Whether our lines can stand in it: a shell script, as far as its first line says."""
    return _SHELL.match(script) is not None and b"\0" not in script


def with_lines(script: bytes, name: str) -> bytes:
    """The script with our lines below its first one, in place of older ones."""
    first, newline, rest = without_lines(script).partition(b"\n")
    return first + newline + lines(name) + rest


def has_lines(script: bytes) -> bool:
    """Whether lines of ours are in it, of whatever version."""
    return _BLOCK.search(script) is not None


def without_lines(script: bytes) -> bytes:
    """The script without our lines."""
    return _BLOCK.sub(b"", script)
