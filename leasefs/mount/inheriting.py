"""What others left uncommitted in this very tree, kept before a new holder can write over it (P9).

Their mount may be asleep, or gone; it cannot keep anything now. So whoever is granted their ground does it.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import trio

from leasefs.client import api
from leasefs.core.globs import parse_glob
from leasefs.mount.journal import untold_of_others
from leasefs.mount.rescuing import Owner, went_to
from leasefs.vcs.errors import VcsError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasefs.client.transport import Transport
    from leasefs.mount.journal import Header, Note
    from leasefs.mount.rescuing import Rescuer
    from leasefs.vcs.worktree import WorkTree

log = logging.getLogger(__name__)

_TIMEOUT_S = 10.0


class Inheritance:
    """Keeps the uncommitted work of other agents in one tree."""

    def __init__(
        self,
        tree: WorkTree,
        header: Header,
        transport: Transport,
        rescuer: Rescuer,
        journals: str,
    ) -> None:
        """`journals` is the directory of the tree's journals."""
        self._journals = journals
        self._tree = tree
        self._header = header
        self._transport = transport
        self._rescuer = rescuer

    async def keep(self, texts: Iterable[str]) -> None:
        """Rescue what is uncommitted of others below these globs, lease by lease.

        Raises:
            LeasefsError: the ledger cannot be asked.
        """
        globs = [parse_glob(text) for text in texts]
        left: dict[Owner, set[bytes]] = {}
        for owner, path in [*await self._of_others(), *await self._untold()]:
            # Of a directory that moved, anything below may be meant.
            if path.endswith(b"/") or any(glob.matches(path) for glob in globs):
                left.setdefault(owner, set()).add(path)
        for owner, paths in sorted(left.items()):
            dirty = await trio.to_thread.run_sync(_dirty, self._tree, sorted(paths))
            await self._rescuer.rescue(owner, dirty, went_to(self._header.agent))

    async def _of_others(self) -> list[tuple[Owner, bytes]]:
        """What the ledger knows."""
        call = api.intents(
            territory=self._header.territory, tree=self._header.tree, state="dirty", unkept="1"
        )
        answer = await self._transport.send(call, timeout_s=_TIMEOUT_S)
        return [
            (_owner(one, one["agent"], one["harness"]), os.fsencode(one["path"]))
            for one in answer["intents"]
            if one["agent"] != self._header.agent
        ]

    async def _untold(self) -> list[tuple[Owner, bytes]]:
        """What it does not, because a mount fell asleep or died with the news."""
        header = self._header
        try:
            journals = await trio.to_thread.run_sync(
                untold_of_others, self._journals, header.session
            )
        except OSError as error:
            log.warning("what others left here, and told nobody, is not kept: %s", error)
            return []
        return [
            (_owner(note, left.header.agent, left.header.harness), os.fsencode(note["path"]))
            for left in journals
            for note in left.notes
            if left.header.agent != header.agent
        ]


def _owner(about: Note, agent: str, harness: str) -> Owner:
    return Owner(about["lease"], about["token"], agent, harness)


def _dirty(tree: WorkTree, paths: list[bytes]) -> list[bytes]:
    """Those that still differ from HEAD; all of them where git cannot say."""
    # Read when first needed: a mount is to be usable before.
    from leasefs.vcs.reconcile import dirty_below, standings

    files = [path for path in paths if not path.endswith(b"/")]
    whole = [path for path in paths if path.endswith(b"/")]
    try:
        found = standings(tree, files, {})
        below = list(dirty_below(tree, whole)) if whole else []
    except VcsError:
        return files
    return [path for path, one in found.items() if one is None or one.dirty] + below
