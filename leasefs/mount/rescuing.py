"""Keeping the uncommitted work of a lease that ends against its holder's will (P9).

The snapshot is a commit in the tree's own repository, made in a worker thread from the tree beneath. Made again
of the same bytes it is the same one, so whatever fails on the way to the ledger is simply done again.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import trio

from leasefs.client import api
from leasefs.client.log_events import Event, note
from leasefs.client.paths import state_dir
from leasefs.core.errors import InvalidRequest, LeasefsError
from leasefs.core.intents import NAMES_KEPT
from leasefs.core.paths import text
from leasefs.vcs.errors import VcsError
from leasefs.vcs.gitdir import find_git
from leasefs.vcs.rescue_record import About

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from leasefs.client.transport import Transport
    from leasefs.mount.journal import Header
    from leasefs.vcs.gitdir import GitDir
    from leasefs.vcs.rescue import RescueMade
    from leasefs.vcs.worktree import WorkTree

log = logging.getLogger(__name__)

_TIMEOUT_S = 10.0
_RETRY_S = 5.0
# Ground opens when what lies there is kept, so a rescue waits no longer than this for what the ledger knows.
_ASK_WITHIN_S = 2.0
_WENT = "its ground went to "


def went_to(agent: str) -> str:
    """Why the new holder of some ground keeps what the old one left there, before writing over it."""
    return _WENT + agent


class Owner(NamedTuple):
    """Whose work is kept, and under which lease it was done."""

    lease: str
    token: int
    agent: str
    harness: str
    globs: tuple[str, ...] = ()


class _Untold(NamedTuple):
    """A rescue of which the ledger has still to hear."""

    call: api.Call
    id: str


class AsLeft(NamedTuple):
    """Of a rescue's paths, those that are in the tree as they were kept, with what was done to them; and the others."""

    in_tree: dict[bytes, str]
    changed: list[bytes]


class Rescuer:
    """Makes rescues of one tree and tells the ledger of them, as often as it takes."""

    def __init__(
        self,
        tree: WorkTree,
        header: Header,
        transport: Transport,
        wall_s: Callable[[], float],
    ) -> None:
        self._tree = tree
        self._header = header
        self._transport = transport
        self._wall_s = wall_s
        self._untold: deque[_Untold] = deque()
        self._some = trio.Event()
        self._one = trio.Lock()

    async def rescue(
        self, owner: Owner, paths: Sequence[bytes], reason: str, *, ends: bool = False
    ) -> RescueMade | None:
        """Keep these paths; None if that failed, which is logged: nobody could do anything about it here.

        With `ends` their intents are over: the holder leaves them in the rescue. What a new holder of the ground has
        kept already is not kept again: what lies there now may be the new holder's.
        """
        if not ends:
            paths = await self._not_kept(owner, paths)
        if not paths:
            return None
        header = self._header
        about = About(
            lease=owner.lease,
            token=owner.token,
            agent=owner.agent,
            harness=owner.harness,
            globs=owner.globs,
            reason=reason,
            wall_s=self._wall_s(),
            territory=header.territory,
            tree=header.tree,
            by=header.agent,
        )
        try:
            made = await trio.to_thread.run_sync(_snapshot, self._tree, header.root, paths, about)
        except (VcsError, LeasefsError, OSError) as error:
            words = f"the uncommitted work of {owner.lease} is NOT kept: {error}"
            note(log, Event.NOT_RESCUED, words, lease=owner.lease, paths=len(paths))
            return None
        words = f"{reason}: kept {len(made.paths)} paths of {owner.lease} in {made.ref}"
        note(
            log,
            Event.RESCUED,
            words,
            lease=owner.lease,
            rescue=made.id,
            ref=made.ref,
            paths=len(made.paths),
        )
        self._untold.append(_Untold(self._call(about, made, ends=ends), made.id))
        self._some.set()
        return made

    async def _not_kept(self, owner: Owner, paths: Sequence[bytes]) -> Sequence[bytes]:
        """Those that no new holder of the owner's ground has kept in this tree, as far as that can be told."""
        header = self._header
        lease = (header.tree, owner.lease, owner.token)
        try:
            call = api.rescues(header.territory)
            answer = await self._transport.send(call, timeout_s=_ASK_WITHIN_S)
            ids = [
                one["id"]
                for one in answer["rescues"]
                if (one["tree"], one["lease"], one["token"]) == lease
                and one["reason"].startswith(_WENT)
            ]
            kept = await trio.to_thread.run_sync(_kept_in, self._tree, header.root, ids)
        except (VcsError, LeasefsError, OSError) as error:
            log.info("what of %s is kept already cannot be told: %s", owner.lease, error)
            return paths
        return [path for path in paths if path not in kept]

    def _call(self, about: About, made: RescueMade, *, ends: bool) -> api.Call:
        names = [text(path) for path in made.paths]
        rescue = {
            "id": made.id,
            "territory": about.territory,
            "tree": about.tree,
            "lease": about.lease,
            "token": about.token,
            "agent": about.agent,
            "harness": about.harness,
            "globs": list(about.globs),
            "ref": made.ref,
            "commit": made.commit,
            "paths": len(names),
            "names": names[:NAMES_KEPT],
            "reason": about.reason,
            "wall_s": about.wall_s,
            "host": self._header.host,
            "root": self._header.root,
        }
        return api.report_rescue(rescue, contained=names if ends else [])

    async def as_left(self, rescue_id: str) -> AsLeft:
        """What of a rescue lies in the tree as it was kept, and still differs from HEAD. Raises VcsError, OSError."""
        return await trio.to_thread.run_sync(_as_left, self._tree, self._header.root, rescue_id)

    async def run(self) -> None:
        """Tell the ledger of each rescue, for ever."""
        while True:
            await self._some.wait()
            self._some = trio.Event()
            try:
                await self.flush()
            except LeasefsError as error:
                log.info("rescues not reported yet: %s", error.message)
                self._some.set()
                await trio.sleep(_RETRY_S)

    async def flush(self) -> None:
        """Tell of all that were made. Raises LeasefsError if the ledger does not answer."""
        async with self._one:
            while self._untold:
                untold = self._untold[0]
                try:
                    await self._transport.send(untold.call, timeout_s=_TIMEOUT_S)
                except InvalidRequest as error:
                    log.warning("the ledger does not take rescue %s: %s", untold.id, error.message)
                self._untold.popleft()


def _snapshot(tree: WorkTree, root: str, paths: Sequence[bytes], about: About) -> RescueMade:
    # Read when first needed: a mount is to be usable before.
    from leasefs.vcs.rescue import snapshot

    with _repository(tree, root) as repository:
        return snapshot(repository, tree.root_fd, paths, about, shown_at=tree.shown_at)


def _kept_in(tree: WorkTree, root: str, rescue_ids: Sequence[str]) -> set[bytes]:
    """Blocks: the paths of these rescues."""
    if not rescue_ids:
        return set()
    from leasefs.vcs.rescue import read

    with _repository(tree, root) as repository:
        return {entry.path for id_ in rescue_ids for entry in read(repository, id_).paths}


# What a rescue calls a change, and what an intent does. Git knows no directories, and what is gone was never there.
_KINDS = {
    "created": "create",
    "deleted": "delete",
    "mode": "mode",
    "modified": "modify",
    "retyped": "modify",
}


def _as_left(tree: WorkTree, root: str, rescue_id: str) -> AsLeft:
    """Blocks."""
    # Read when first needed: a mount is to be usable before.
    from leasefs.vcs.reconcile import standings
    from leasefs.vcs.rescue import compared

    with _repository(tree, root) as repository:
        same, other = compared(repository, rescue_id, tree.root_fd)
    kinds = {entry.path: _KINDS[entry.change] for entry in same if entry.change in _KINDS}
    found = standings(tree, list(kinds), {})
    in_tree = {p: kinds[p] for p, one in found.items() if one is None or one.dirty}
    return AsLeft(in_tree, [entry.path for entry in other if entry.change in _KINDS])


@contextmanager
def _repository(tree: WorkTree, root: str) -> Iterator[GitDir]:
    """The tree's own, or one of ours for a tree that has none."""
    gitdir = find_git(tree.root_fd, tree.around())
    if gitdir is not None:
        with gitdir:
            yield gitdir
        return
    from leasefs.vcs.rescue import bare_repository, place_outside

    with bare_repository(place_outside(state_dir(), root)) as bare:
        yield bare
