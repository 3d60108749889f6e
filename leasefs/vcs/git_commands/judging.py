"""From a git process to what it would do."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from leasefs.vcs.errors import GitFailed
from leasefs.vcs.git_commands import (
    elsewhere,
    merge,
    patching,
    picking,
    removing,
    sparse,
    staging,
    stashing,
    switching,
)
from leasefs.vcs.git_commands.effects import CannotTell, Effect, Nothing, Paths
from leasefs.vcs.git_commands.line import Line, expand, parse_line
from leasefs.vcs.git_commands.place import find_place
from leasefs.vcs.git_commands.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from leasefs.vcs.git_commands.process import GitProcess
    from leasefs.vcs.gitdir import GitDir

#: seconds for all that git is asked about one command
TIMEOUT_S = 20.0

# Builtins that write no file of a working tree. Files that they are told to write (`--output`, `archive -o`) are new ones
# of their caller's, and stand under the rule for each path.
_HARMLESS = frozenset(
    b"add annotate archive blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap "
    b"check-ref-format checkout--worker cherry column commit commit-graph commit-tree config count-objects credential "
    b"credential-cache credential-cache--daemon credential-store describe diagnose diff diff-files diff-index "
    b"diff-pairs diff-tree env--helper fast-export fast-import fetch fetch-pack fmt-merge-msg for-each-ref "
    b"format-patch fsck fsck-objects fsmonitor--daemon gc get-tar-commit-id grep hash-object help index-pack init "
    b"init-db interpret-trailers last-modified log ls-files ls-remote ls-tree mailinfo mailsplit maintenance "
    b"merge-base merge-file merge-ours merge-tree mktag mktree multi-pack-index name-rev notes pack-objects "
    b"pack-redundant pack-refs patch-id pickaxe prune prune-packed push range-diff reflog refs remote remote-ext "
    b"remote-fd repack replace replay repo rev-list rev-parse send-pack shortlog show show-branch show-index show-ref "
    b"stage status stripspace symbolic-ref tag unpack-file unpack-objects update-index update-ref "
    b"update-server-info upload-archive upload-archive--writer upload-pack var verify-commit verify-pack verify-tag "
    b"version whatchanged write-tree".split()
)

# Those that have other git processes do it.
_DELEGATING = frozenset(b"difftool for-each-repo hook merge-index receive-pack".split())

_JUDGED: Mapping[bytes, Callable[[View, tuple[bytes, ...]], Effect]] = {
    b"am": patching.am,
    b"apply": patching.apply,
    b"bisect": elsewhere.bisect,
    b"bisect--helper": elsewhere.bisect,
    b"checkout": switching.checkout,
    b"checkout-index": switching.checkout_index,
    b"cherry-pick": picking.cherry_pick,
    b"clean": removing.clean,
    b"clone": elsewhere.clone,
    b"merge": merge.merge,
    b"mv": removing.move,
    b"pull": merge.pull,
    b"read-tree": switching.read_tree,
    b"rebase": picking.rebase,
    b"rerere": lambda view, words: Nothing() if words[:1] else Paths(view.unmerged()),
    b"reset": switching.reset,
    b"restore": switching.restore,
    b"revert": picking.revert,
    b"rm": removing.remove,
    b"sparse-checkout": sparse.sparse_checkout,
    b"stash": stashing.stash,
    b"submodule": elsewhere.submodule,
    b"submodule--helper": elsewhere.submodule,
    b"switch": switching.switch,
    b"worktree": elsewhere.worktree,
}

_NEVER_STAGES = (_HARMLESS | _JUDGED.keys()) - staging.CONCERNED

# Not builtins everywhere, but known: aliases cannot take their names, and their whole effect is judged at once.
_SCRIPTS = frozenset({b"filter-branch", b"bisect", b"submodule"})
_FILTER = "rewrite history in a clone or a worktree of your own"


def judge(
    process: GitProcess, repository: GitDir | None, root_fd: int, *, timeout_s: float = TIMEOUT_S
) -> Effect:
    """What the process would change in the tree that is open as `root_fd`, whose own repository is `repository`, if any.

    Never less than it does; more where it cannot be told exactly, as for what a conflict leaves undone. Nothing is
    changed by asking. Blocks for as long as git needs to answer, at most about `timeout_s` seconds.
    """
    return weigh(process, repository, root_fd, timeout_s, _effect, _HARMLESS)


def staged_by(
    process: GitProcess, repository: GitDir | None, root_fd: int, *, timeout_s: float = TIMEOUT_S
) -> Effect:
    """Which paths the process would put into the index or a commit: entries that come to differ from HEAD.

    `add` and its kind answer for what they stage, `commit` for all that it takes in, staged by whomever before.
    """
    return weigh(process, repository, root_fd, timeout_s, staging.staged, _NEVER_STAGES)


def weigh(
    process: GitProcess,
    repository: GitDir | None,
    root_fd: int,
    timeout_s: float,
    effect: Callable[[View, Line], Effect],
    quick: frozenset[bytes],
) -> Effect:
    """The command line read, its repository found and its aliases followed, then what `effect` says of it."""
    try:
        line = parse_line(process)
        if not line.name or line.name in quick:
            return Nothing()
        place = find_place(process, line, repository, root_fd)
        if place is None:
            return Nothing()
        with place:
            view = View(place, process, line, timeout_s)
            expanded = expand(line, partial(_alias, view), partial(_is_builtin, view))
            if expanded is None:
                return Nothing(delegates=True)
            return _in_tree(effect(view, expanded), place.offset)
    except CannotTell as error:
        return error.unknown
    except (GitFailed, OSError) as error:
        said = str(error).partition(" ended with status ")[2] or str(error)
        return CannotTell(f"git cannot say what it would change: {said}").unknown


def _effect(view: View, line: Line) -> Effect:
    if line.name == b"filter-branch":
        raise CannotTell("it rewrites every commit", _FILTER)
    if line.name in _HARMLESS or not line.name:
        return Nothing()
    handler = _JUDGED.get(line.name)
    if handler is None:
        if line.name not in _DELEGATING and _is_builtin(view, line.name):
            raise CannotTell(f"`git {os.fsdecode(line.name)}` is not known to leasefs")
        return Nothing(delegates=True)
    if not view.place.uses_its_index(view.process):
        raise CannotTell("it uses an index of its own", "run it without GIT_INDEX_FILE")
    effect = handler(view, line.arguments)
    return Paths(view.widened(effect.paths)) if isinstance(effect, Paths) else effect


def _in_tree(effect: Effect, offset: bytes) -> Effect:
    if not offset or not isinstance(effect, Paths):
        return effect
    return replace(effect, paths=frozenset(offset + path for path in effect.paths))


def _alias(view: View, name: bytes) -> bytes | None:
    key = b"alias." + name
    found = view.setting(key.lower())
    return found if found is not None else view.setting(key + b".command")


def _is_builtin(view: View, name: bytes) -> bool:
    """Whether it is git's own, so that no alias can take its name."""
    if name in _HARMLESS | _DELEGATING | _SCRIPTS or name in _JUDGED:
        return True
    return name in view.ask("--list-cmds=builtins").split(b"\n")
