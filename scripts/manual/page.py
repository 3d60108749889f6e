"""One page of the manual (man(7), section 1) from one command."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

from leasefs import __version__
from leasefs_cli import exit_codes
from leasefs_cli.lazy_group import LazyGroup
from leasefs_cli.teaching import TeachingCommand
from manual.roff import as_it_stands, bold, entry, italic, plain, prose
from manual.tables import ENVIRONMENT, FILES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from manual.tree import Listing

_UNFILLED = "\b"  # click's mark of a paragraph whose lines stay as they are
_OPTION = re.compile(r"--?[A-Za-z][\w-]*")


def page(shown: Listing, everything: Sequence[Listing]) -> str:
    """The page's source."""
    body = [
        *_name(shown),
        *_synopsis(shown),
        *_description(shown),
        *_commands(shown),
        *_options(shown),
        *_examples(shown),
        *_exit_status(shown),
    ]
    lines = [
        r".\" Made by scripts/man from the command's own help; edit that.",
        f'.TH {plain(shown.name.upper())} 1 "" "leasefs {__version__}" "leasefs manual"',
        ".nh",
        ".ad l",
        *body,
        *_environment(shown, "\n".join(body)),
        *_files(shown, "\n".join(body)),
        *_see_also(shown, everything),
    ]
    return "\n".join(lines) + "\n"


def _name(shown: Listing) -> list[str]:
    summary = shown.summary.rstrip(".")
    return [".SH NAME", rf"{plain(shown.name)} \- {plain(summary[:1].lower() + summary[1:])}"]


def _synopsis(shown: Listing) -> list[str]:
    pieces = shown.command.collect_usage_pieces(shown.ctx)
    usage = " ".join(italic(piece) for piece in pieces)
    return [".SH SYNOPSIS", f"{bold(' '.join(shown.words))} {usage}"]


def _description(shown: Listing) -> list[str]:
    lines = [".SH DESCRIPTION"]
    paragraphs = inspect.cleandoc(shown.command.help or "").split("\n\n")
    for number, paragraph in enumerate(paragraphs):
        if number:
            lines.append(".PP")
        if paragraph.startswith(_UNFILLED):
            lines += as_it_stands(paragraph.splitlines()[1:])
        else:
            lines += prose(paragraph)
    return lines


def _commands(shown: Listing) -> list[str]:
    if not isinstance(shown.command, LazyGroup):
        return []
    lines = [".SH COMMANDS"]
    for section in shown.command.sections:
        if len(shown.command.sections) > 1:
            lines.append(f'.SS "{plain(section.title)}"')
        for name, listed in section.commands.items():
            lines += entry(_reference(f"{shown.name}-{name}"), listed.summary)
    return lines


def _options(shown: Listing) -> list[str]:
    lines = [".SH OPTIONS"]
    for parameter in shown.command.get_params(shown.ctx):
        record = parameter.get_help_record(shown.ctx)
        # Arguments without a help text of their own are told of above.
        if record is not None and (record[1] or parameter.param_type_name == "option"):
            lines += entry(_option_tag(record[0]), record[1])
    return lines


def _option_tag(usage: str) -> str:
    """`-n, --note TEXT`: options bold, what is to be given italic."""
    tag, end = "", 0
    for found in _OPTION.finditer(usage):
        tag += _between(usage[end : found.start()]) + bold(found[0])
        end = found.end()
    return tag + _between(usage[end:])


def _between(text: str) -> str:
    bare = text.strip()
    if not bare or bare in {",", "/"}:
        return plain(text)
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    comma = "," if bare.endswith(",") else ""
    return f"{before}{italic(bare.removesuffix(','))}{comma}{after}"


def _examples(shown: Listing) -> list[str]:
    command = shown.command
    examples = command.examples if isinstance(command, LazyGroup | TeachingCommand) else ()
    lines = [".SH EXAMPLES"] if examples else []
    for number, (line, purpose) in enumerate(examples):
        sentence = purpose[:1].upper() + purpose[1:] + ("" if purpose.endswith("?") else ":")
        lines += [*([".PP"] if number else []), *prose(sentence), *as_it_stands([line])]
    return lines


def _exit_status(shown: Listing) -> list[str]:
    own = shown.command.own_codes if isinstance(shown.command, TeachingCommand) else ()
    table = [(str(number), meaning) for number, meaning in exit_codes.MEANINGS.items()]
    lines = [".SH EXIT STATUS"]
    for number, meaning in (*own, *table, ("128+N", exit_codes.SIGNAL_MEANING)):
        lines += entry(bold(number), meaning)
    return lines


def _environment(shown: Listing, body: str) -> list[str]:
    told = [row for row in ENVIRONMENT if _is_root(shown) or plain(row[0]) in body]
    lines = [".SH ENVIRONMENT"]
    for name, meaning in told:
        lines += entry(bold(name), meaning)
    return lines if _is_root(shown) else [*lines, *_rest("the variables", after=bool(told))]


def _files(shown: Listing, body: str) -> list[str]:
    told = [row for row in FILES if _is_root(shown) or plain(row[0]) in body]
    lines = [".SH FILES"]
    for name, meaning in told:
        lines += entry(italic(name), meaning)
    return lines if _is_root(shown) else [*lines, *_rest("the files", after=bool(told))]


def _rest(what: str, *, after: bool) -> list[str]:
    line = f"{_reference('leasefs')} lists {what} that concern all commands."
    return [".PP", line] if after else [line]


def _see_also(shown: Listing, everything: Sequence[Listing]) -> list[str]:
    """What is above, beside and below it."""
    names = [
        other.name
        for other in everything
        if other.words != shown.words
        and (
            other.words == shown.words[:-1]
            or other.words[:-1] == shown.words
            or (
                other.words[:-1] == shown.words[:-1]
                and (len(shown.words) > 2 or _beside(shown, other))
            )
        )
    ]
    return [".SH SEE ALSO", ",\n".join(_reference(name) for name in [*names, *_outside(shown)])]


def _beside(shown: Listing, other: Listing) -> bool:
    """Whether both stand under one heading of the group's help."""
    group = shown.ctx.parent.command if shown.ctx.parent is not None else None
    if not isinstance(group, LazyGroup):
        return False
    return any({shown.words[-1], other.words[-1]} <= set(one.commands) for one in group.sections)


def _outside(shown: Listing) -> tuple[str, ...]:
    return ("git", "fusermount3") if _is_root(shown) else ()


def _is_root(shown: Listing) -> bool:
    return len(shown.words) == 1


def _reference(name: str) -> str:
    return f"{bold(name)}(1)"
