"""Looking what became of the paths that changed: committed, landed, or as they were (P8).

Two things call for a look: the git directory changed, which may settle any path, or paths were touched, which
may be as HEAD has them again. Git is asked in a worker thread; what was touched meanwhile stays as it is known.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import trio

from leasefs.mount.intent_report import Settlement, settled
from leasefs.vcs.errors import VcsError
from leasefs.vcs.standing import Seen, Standing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from leasefs.mount.intent_report import IntentReport
    from leasefs.mount.intents import IntentLog, Look, Uncommitted
    from leasefs.mount.journal import Note
    from leasefs.vcs.differences import Difference
    from leasefs.vcs.worktree import WorkTree

log = logging.getLogger(__name__)

# Git writes several files for a commit, and one command follows another: they are looked at together, when git has done
# nothing for so long; at the latest after the other. A look takes the processors that git needs.
AFTER_GIT_S = 0.3
AFTER_GIT_AT_LAST_S = 1.5
# Whoever edits a file touches it again soon.
AFTER_TOUCH_S = 2.0
AFTER_FAILURE_S = 5.0
# Where one looks afterwards, what differs says what was done.
_KINDS = {"untracked": "create", "deleted": "delete", "mode": "mode"}


class _Answers(NamedTuple):
    """What git said; `below` the paths that differ below each directory that changed as a whole, and their kinds."""

    standings: dict[bytes, Standing | None]
    below: dict[bytes, dict[bytes, str]]


class Looking:
    """Looks when it is due, and on demand; one look at a time."""

    def __init__(
        self,
        intents: IntentLog,
        report: IntentReport,
        tree: WorkTree,
        upstream: str | None,
        wall_s: Callable[[], float],
    ) -> None:
        """`upstream` is the configured name of the territory's upstream, if any (`.leasefs.toml`)."""
        self._intents = intents
        self._report = report
        self._tree = tree
        self._upstream = upstream
        self._wall_s = wall_s
        self._one = trio.Lock()
        self._git_changed_s = self._touched_s = float("-inf")
        self._due, self._git_changed = trio.Event(), trio.Event()
        intents.touched = self._touch
        # Called in a worker thread with the directory of each repository inside the tree that a path is in: what is
        # committed there changes nothing in the tree's own git directory.
        self.watch_nested: Callable[[bytes], None] | None = None
        self._nested: set[bytes] = set()

    def git_changed(self) -> None:
        """The git directory changed: look at everything soon."""
        self._git_changed_s = trio.current_time()
        self._look_at_everything()

    def _look_at_everything(self) -> None:
        self._git_changed.set()
        self._due.set()

    def _touch(self) -> None:
        # Whoever waits for a pause is not woken by each of thousands.
        self._touched_s = trio.current_time()
        self._due.set()
        self._report.wake()

    async def run(self) -> None:
        """Look when it is due, for ever."""
        while True:
            await self._due.wait()
            await self._pause()
            await self._until_git_rests()
            try:
                await self._look_at_what_is_due()
            except VcsError as error:
                log.warning("what became of uncommitted paths cannot be told: %s", error)
                await trio.sleep(AFTER_FAILURE_S)

    async def _pause(self) -> None:
        """Wait until nothing was touched for a while, or git did something; at most two such whiles."""
        latest_s = trio.current_time() + 2 * AFTER_TOUCH_S
        while (until_s := min(self._touched_s + AFTER_TOUCH_S, latest_s)) > trio.current_time():
            with trio.move_on_at(until_s):
                await self._git_changed.wait()
                return

    async def _until_git_rests(self) -> None:
        # By no event: each change, of hundreds in a row, would wake us.
        latest_s = trio.current_time() + AFTER_GIT_AT_LAST_S
        while trio.current_time() < (until_s := min(self._git_changed_s + AFTER_GIT_S, latest_s)):  # noqa: ASYNC110
            await trio.sleep_until(until_s)

    async def _look_at_what_is_due(self) -> None:
        everything = self._git_changed.is_set()
        self._due, self._git_changed = trio.Event(), trio.Event()
        try:
            await self.look(touched_only=not everything)
        except VcsError:
            # Those that were to be looked at are in no later epoch: all has to be.
            self._look_at_everything()
            raise

    async def look(self, *, touched_only: bool = False) -> dict[bytes, Standing | None]:
        """Look now; returns where the paths stand of which nothing happened meanwhile.

        Raises:
            VcsError: git cannot be asked, or the tree not be looked at.
        """
        async with self._one:
            as_of_wall_s = self._wall_s()
            look = self._intents.begin_look(touched_only=touched_only)
            if not look.paths:
                return {}
            try:
                await trio.to_thread.run_sync(
                    self._find_nested, list(look.paths), abandon_on_cancel=True
                )
                # Rules change seldom, and their commit is a change of git.
                answers = await trio.to_thread.run_sync(
                    _ask,
                    self._tree,
                    look,
                    self._upstream,
                    not touched_only,
                    abandon_on_cancel=True,
                )
            except OSError as error:
                raise VcsError(f"the tree cannot be looked at: {error}") from error
            return self._take(look, answers, as_of_wall_s)

    def _find_nested(self, paths: list[bytes]) -> None:
        """Blocks. Before git is asked, so that what changes afterwards is noticed."""
        from leasefs.vcs.nested import nested_repositories

        if self.watch_nested is not None:
            found = nested_repositories(self._tree, map(_name, paths))
            for directory in sorted(found - self._nested):
                self.watch_nested(directory)
            self._nested |= found

    def _take(
        self, look: Look, answers: _Answers, as_of_wall_s: float
    ) -> dict[bytes, Standing | None]:
        found = {p: s for p, s in answers.standings.items() if self._intents.is_untouched(look, p)}
        told = [self._became(look.paths[path], path, one) for path, one in found.items() if one]
        # Of directories in each other the one that was moved under the newest lease was moved last.
        by_lease = sorted(answers.below, key=lambda above: look.paths[above].token, reverse=True)
        for directory in by_lease:
            if self._intents.is_untouched(look, directory):
                try:
                    self._intents.found_below(directory, answers.below[directory])
                except OSError as error:
                    log.warning("what changed below a directory cannot be journalled: %s", error)
                else:
                    told.append(settled(directory, "clean"))
        after = self._intents.last_note
        self._report.settle([Settlement(after, as_of_wall_s, note) for note in told if note])
        return found

    def _became(self, known: Uncommitted, path: bytes, now: Standing) -> Note | None:
        """Keep what the path is now; returns what the ledger is to be told, None if that is nothing new."""
        outcome = now.outcome
        if outcome == "dirty":
            if not known.commit:
                return None
            self._intents.committed(path, "", "")
        elif outcome == "committed" and now.upstream is not None:
            if (known.commit, known.blob) == (now.commit, now.blob):
                return None
            self._intents.committed(path, now.commit, now.blob)
        else:
            self._intents.clean(path)
        done = outcome == "committed" and now.upstream is None
        return settled(path, outcome, now.commit, now.blob, done=done, leases=known.leases)


def _ask(tree: WorkTree, look: Look, upstream: str | None, rules_too: bool) -> _Answers:
    """Blocks: asks git about all of it; with `rules_too` what became scratch counts as clean."""
    # Read when first needed: a mount is to be usable before.
    from leasefs.vcs.now_ignored import now_ignored
    from leasefs.vcs.reconcile import Difference, dirty_below, standings

    whole = [path for path in look.paths if path.endswith(b"/")]
    files = {path: _seen(one) for path, one in look.paths.items() if not path.endswith(b"/")}
    answers = standings(tree, [*files, *map(_name, whole)], files, upstream=upstream)
    if rules_too:
        new = [p for p in files if (one := answers[p]) and one.dirty is Difference.UNTRACKED]
        answers |= dict.fromkeys(now_ignored(tree, new), Standing())
    # Where there is no git nothing differs from anything; such intents end with their lease.
    under_git = [path for path in whole if answers.pop(_name(path)) is not None]
    if not under_git:
        return _Answers(answers, {})
    return _Answers(answers, _below(under_git, dirty_below(tree, under_git)))


def _name(directory: bytes) -> bytes:
    return directory.removesuffix(b"/")


def _below(
    directories: Sequence[bytes], differing: Mapping[bytes, Difference]
) -> dict[bytes, dict[bytes, str]]:
    return {
        above: {p: _KINDS.get(how, "modify") for p, how in differing.items() if p.startswith(above)}
        for above in directories
    }


def _seen(one: Uncommitted) -> Seen:
    return Seen(one.commit, one.blob) if one.commit else Seen(one.head)
