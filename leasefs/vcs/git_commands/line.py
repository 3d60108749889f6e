"""A command line as git's main program takes it apart: global options, the command's name, aliases (git.c, alias.c)."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from leasefs.vcs.git_commands.effects import CannotTell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasefs.vcs.git_commands.process import GitProcess

_ALIASES = 20
_FLAGS = {
    b"-p",
    b"--paginate",
    b"-P",
    b"--no-pager",
    b"--no-lazy-fetch",
    b"--no-optional-locks",
    b"--no-advice",
}
_VARIABLES = {
    b"--no-replace-objects": "GIT_NO_REPLACE_OBJECTS",
    b"--literal-pathspecs": "GIT_LITERAL_PATHSPECS",
    b"--glob-pathspecs": "GIT_GLOB_PATHSPECS",
    b"--noglob-pathspecs": "GIT_NOGLOB_PATHSPECS",
    b"--icase-pathspecs": "GIT_ICASE_PATHSPECS",
}
# They may stand with `=` or before their value.
_VALUED = (b"--git-dir", b"--work-tree", b"--namespace", b"--super-prefix", b"--attr-source")
_TELLS = (b"--help", b"-h", b"--version", b"-v", b"--html-path", b"--man-path", b"--info-path")
# What a variable of the environment gives to these cannot make git write another path.
_HARMLESS = (
    b"http.",
    b"credential.",
    b"user.",
    b"url.",
    b"gpg.",
    b"commit.",
    b"author.",
    b"committer.",
)


@dataclass(frozen=True, slots=True)
class Line:
    """`name` is b"" if git only tells something about itself. `chdirs` are the values of `-C`, in order."""

    name: bytes
    arguments: tuple[bytes, ...]
    chdirs: tuple[bytes, ...] = ()
    settings: tuple[bytes, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    git_dir: bytes | None = None
    work_tree: bytes | None = None
    bare: bool = False


def parse_line(process: GitProcess) -> Line:
    """Take the process's words.

    Raises:
        CannotTell: there are none, or a global option is unknown.
    """
    if not process.argv:
        raise CannotTell("its command line cannot be read", "give git shorter arguments")
    name = os.path.basename(process.argv[0])
    start = Line(
        b"",
        (),
        git_dir=process.environ.get(b"GIT_DIR"),
        work_tree=process.environ.get(b"GIT_WORK_TREE"),
        variables=_inherited(process),
    )
    if name.startswith(b"git-"):
        return replace(start, name=name[4:], arguments=process.argv[1:])
    return _globals(start, process.argv[1:])


def expand(
    line: Line, alias_of: Callable[[bytes], bytes | None], is_builtin: Callable[[bytes], bool]
) -> Line | None:
    """Put aliases in (git-config(1), `alias.*`); None for one that is a command for the shell.

    Raises:
        CannotTell: they lead round in a circle, or one cannot be read.
    """
    seen: set[bytes] = set()
    while line.name and not is_builtin(line.name):
        alias = alias_of(line.name)
        if alias is None:
            return line
        if line.name in seen or len(seen) == _ALIASES:
            raise CannotTell(f"the alias {os.fsdecode(line.name)!r} leads to itself")
        seen.add(line.name)
        if alias.startswith(b"!"):
            return None
        line = _globals(replace(line, name=b"", arguments=()), (*_split(alias), *line.arguments))
    return line


def _inherited(process: GitProcess) -> dict[str, str]:
    return {
        name: os.fsdecode(process.environ[name.encode()])
        for name in (*_VARIABLES.values(), "GIT_REPLACE_REF_BASE")
        if name.encode() in process.environ
    }


def _globals(line: Line, words: Sequence[bytes]) -> Line:
    left = list(reversed(words))
    while left:
        word = left.pop()
        if not word.startswith(b"-"):
            return replace(line, name=word, arguments=tuple(reversed(left)))
        if word.split(b"=")[0] in _TELLS or word.startswith((b"--list-cmds", b"--exec-path")):
            if word.startswith(b"--exec-path="):
                continue
            return line
        line = _take(line, word, left)
    return line


def _take(line: Line, word: bytes, left: list[bytes]) -> Line:
    if word in _FLAGS:
        return line
    if word in _VARIABLES:
        return replace(line, variables=line.variables | {_VARIABLES[word]: "1"})
    if word == b"--bare":
        return replace(line, bare=True)
    if word == b"-C":
        return replace(line, chdirs=(*line.chdirs, _value(left, word)))
    if word == b"-c":
        return replace(line, settings=(*line.settings, _value(left, word)))
    name, given, value = word.partition(b"=")
    if name == b"--config-env":
        return _check_config_env(line, value if given else _value(left, word))
    if name not in _VALUED:
        raise CannotTell(f"{os.fsdecode(word)} is an option of git that leasefs does not know")
    value = value if given else _value(left, word)
    if name == b"--git-dir":
        return replace(line, git_dir=value)
    return replace(line, work_tree=value) if name == b"--work-tree" else line


def _check_config_env(line: Line, pair: bytes) -> Line:
    if not pair.lower().startswith(_HARMLESS):
        raise CannotTell(
            "--config-env takes a setting from a variable", "give it with -c NAME=VALUE"
        )
    return line


def _value(left: list[bytes], word: bytes) -> bytes:
    if not left:
        raise CannotTell(f"{os.fsdecode(word)} lacks its value, so git would refuse the command")
    return left.pop()


def _split(text: bytes) -> list[bytes]:
    """As split_cmdline() does: blanks separate; quotes and a backslash take the meaning of what they hold."""
    words: list[bytearray] = []
    quote, open_word, at = 0, False, 0
    while at < len(text):
        byte = text[at]
        if not quote and byte in b" \t\n\v\f\r":
            open_word = False
        else:
            if not open_word:
                words.append(bytearray())
                open_word = True
            if byte == quote:
                quote = 0
            elif not quote and byte in b"'\"":
                quote = byte
            else:
                if byte == ord("\\") and quote != ord("'"):
                    at += 1
                words[-1] += text[at : at + 1]
        at += 1
    if quote:
        raise CannotTell("an alias has a quote without its end, so git would refuse it")
    return [bytes(word) for word in words]
