"""apply and am: the paths that patches name. Mails are taken apart by git, into a directory of our own."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

from leasefs.vcs.errors import GitFailed
from leasefs.vcs.git_commands import tables
from leasefs.vcs.git_commands.effects import CannotTell, Effect, Nothing, Paths
from leasefs.vcs.git_commands.merge import aborted, state
from leasefs.vcs.git_commands.merging import private_directory
from leasefs.vcs.git_commands.pathspecs import read_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.vcs.git_commands.options import Parsed
    from leasefs.vcs.git_commands.view import Names, View

_STDIN = "save it to a file, and give git the file's name"
_THREE_WAY = "leave --3way out, or rebase in a worktree of your own"
_MAILS = 500
_PASSED = ("p", "directory", "include", "exclude")


def apply(view: View, arguments: tuple[bytes, ...]) -> Effect:
    """git-apply(1)."""
    parsed = tables.APPLY.parse(arguments)
    if _only_tells(parsed) or parsed.has("cached"):
        return Nothing()
    changed = _of_patches(view, parsed)
    if parsed.has("reject"):
        changed |= {path + b".rej" for path in changed}
    return Paths(changed)


def staged(view: View, arguments: tuple[bytes, ...]) -> Names | None:
    """What git-apply(1) puts into the index."""
    parsed = tables.APPLY.parse(arguments)
    if _only_tells(parsed) or not parsed.has("index", "cached"):
        return None
    return _of_patches(view, parsed)


def _only_tells(parsed: Parsed) -> bool:
    tells = parsed.has("stat", "numstat", "summary", "check", "build-fake-ancestor")
    return tells and not parsed.has("apply")


def _of_patches(view: View, parsed: Parsed) -> Names:
    if not parsed.arguments or b"-" in parsed.arguments:
        raise CannotTell("it reads a patch from its standard input", _STDIN)
    named = (_named(view, parsed, read_named(view.place, name)) for name in parsed.arguments)
    return frozenset[bytes]().union(*named)


def _named(view: View, parsed: Parsed, patch: bytes) -> Names:
    """Both names of each file of a patch: read backwards, a renamed one has its old name."""
    found: set[bytes] = set()
    for direction in ((), ("-R",)):
        command = ("apply", "--numstat", "-z", "--allow-empty", *_passed(parsed), *direction, "-")
        try:
            listed = view.ask(*command, stdin=patch)
        except GitFailed as error:
            view.left_s()
            raise CannotTell(f"git cannot read the patch: {error}", "mend the patch") from error
        found |= {
            entry.split(b"\t", 2)[2] for entry in listed.split(b"\0")[:-1] if entry.count(b"\t") > 1
        }
    return frozenset(found)


def _passed(parsed: Parsed) -> list[str]:
    return [
        f"-{key}{os.fsdecode(value)}" if len(key) == 1 else f"--{key}={os.fsdecode(value)}"
        for key in _PASSED
        for value in parsed.values(key)
    ]


def am(view: View, arguments: tuple[bytes, ...]) -> Effect:
    """git-am(1)."""
    parsed = tables.AM.parse(arguments)
    ending = parsed.last_of(
        "continue", "resolved", "skip", "abort", "quit", "show-current-patch", "retry"
    )
    if ending in {"quit", "show-current-patch"}:
        return Nothing()
    if ending == "abort":
        back = state(view, "rebase-apply/abort-safety").strip()
        started = view.treeish(state(view, "ORIG_HEAD").strip() or b"HEAD") if back else None
        moved = view.between(view.head(), started) if started else frozenset[bytes]()
        return Paths(aborted(view) | moved)
    if ending is not None or state(view, "rebase-apply/next"):
        given_up = aborted(view) if ending == "skip" else frozenset[bytes]()
        return Paths(given_up | left_to_apply(view))
    if not parsed.arguments or b"-" in parsed.arguments:
        raise CannotTell("it reads mails from its standard input", _STDIN)
    changed, made = frozenset[bytes](), frozenset[bytes]()
    for name in parsed.arguments:
        for patch in _patches(view, _mailbox(view, name)):
            changed |= _named(view, parsed, patch)
            made |= _made(view, parsed, patch)
    _check_three_way(view, parsed, changed - made)
    return Paths(changed)


def _mailbox(view: View, name: bytes) -> bytes:
    tree = view.place.tree
    path = tree.resolve(view.place.directory, name)
    below = tree.below(path)
    if os.path.isdir(path) if below is None else tree.kind(below) == stat.S_IFDIR:
        raise CannotTell("it reads a directory of mails", "name the files")
    return read_named(view.place, name)


def _patches(view: View, content: bytes) -> list[bytes]:
    """The patches of a mailbox, or of a file in another of git-am's formats."""
    with private_directory(view) as directory:
        try:
            count = int(view.ask("mailsplit", "-b", "--keep-cr", f"-o{directory}", stdin=content))
        except (GitFailed, ValueError):
            view.left_s()
            return [content]
        if count > _MAILS:
            raise CannotTell(f"it applies more than {_MAILS} mails", "apply fewer at a time")
        found = []
        for number in range(1, count + 1):
            with open(f"{directory}/{number:04}", "rb") as file:
                mail = file.read()
            patch = f"{directory}/patch"
            view.ask("mailinfo", f"{directory}/message", patch, stdin=mail)
            with open(patch, "rb") as file:
                found.append(file.read())
        return found


def _made(view: View, parsed: Parsed, patch: bytes) -> Names:
    """The files that a patch makes; one with an unusual name counts as changed."""
    command = (
        "-c",
        "core.quotePath=false",
        "apply",
        "--summary",
        "--allow-empty",
        *_passed(parsed),
        "-",
    )
    lines = view.ask(*command, stdin=patch).split(b"\n")
    return frozenset(line.split(b" ", 4)[4] for line in lines if line.startswith(b" create mode "))


def _check_three_way(view: View, parsed: Parsed, changed: Names) -> None:
    """With -3, what was renamed since is changed under its new name, which only the merge itself finds."""
    three_way = dict(parsed.options).get("3way")
    if three_way is None:
        three_way = view.flag(b"am.threeway")
    if three_way is not False and changed - view.tracked():
        raise CannotTell("with --3way it may find its files under other names", _THREE_WAY)


def left_to_apply(view: View) -> Names:
    """The paths of the patches that an interrupted am or rebase has still to apply, the current one included."""
    numbers = [state(view, f"rebase-apply/{name}").strip() for name in ("next", "last")]
    if not any(numbers):
        return frozenset()  # git refuses: nothing was interrupted
    if not all(re.fullmatch(rb"\d{1,6}", number) for number in numbers):
        raise CannotTell("the state of the interrupted command cannot be read", "git am --abort")
    first, last = map(int, numbers)
    if last - first > _MAILS:
        raise CannotTell(
            f"it applies more than {_MAILS} patches", "git am --abort, and apply fewer at a time"
        )
    parsed = tables.AM.parse(_kept_options(view))
    changed, made = frozenset[bytes](), frozenset[bytes]()
    for number in range(first, last + 1):
        for patch in _patches(view, state(view, f"rebase-apply/{number:04}")):
            changed |= _named(view, parsed, patch)
            made |= _made(view, parsed, patch)
    _check_three_way(view, parsed, changed - made)
    return changed


def _kept_options(view: View) -> Sequence[bytes]:
    """What am was started with: the options for apply as it quotes them, and whether --3way."""
    quoted = state(view, "rebase-apply/apply-opt").strip()
    options = re.findall(rb"'([^']*)'", quoted)
    if b"\\" in quoted:
        raise CannotTell("the options of the interrupted command cannot be read", "git am --abort")
    three_way = state(view, "rebase-apply/threeway").strip() == b"t"
    return [*options, b"--3way" if three_way else b"--no-3way"]
