"""The gate: nothing changes without passing it.

It asks `core.policy` and knows no rule of its own. An operation is a plain function: it looks at what it
touches, asks (`admit`), and makes the change. Where the answer has to be waited for, it ends there, and is
called again after the wait (`settle`). So nothing can come in between the last look and the change, and
the answer is about the tree as it is when the change is made.

A lease that has lapsed may still be ours (after SIGSTOP or suspend, P5): the ledger is asked once,
within the lessee's bound, before the refusal. Other requests go on meanwhile.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, TypeVar

import trio

from leasefs.core.policy import (
    Allowed,
    Op,
    Reason,
    Refused,
    Target,
    decide,
    decide_open_handle,
)
from leasefs.mount.errnos import Refusal
from leasefs.mount.intents import NoIntents, intended
from leasefs.mount.interrupted import unless_interrupted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from leasefs.mount.git_guard import Guard
    from leasefs.mount.handles import OpenFile
    from leasefs.mount.holdings import Holdings
    from leasefs.mount.intents import Intents
    from leasefs.mount.refusals import RefusalLog

# Each round fetches one thing that was missing; more than this means that it changes all the time.
_ROUNDS = 8
# No request waits longer for the ledger: a caller is let go by signals alone, and not all mean to.
_CONFIRM_WITHIN_S = 2.0

R = TypeVar("R")


class Wanting(Exception):
    """Something that a description needs is not known yet; `fetch` learns it, off the loop."""

    def __init__(self, fetch: Callable[[], Awaitable[None]]) -> None:
        super().__init__("not known yet")
        self.fetch = fetch


class Unsettled(Exception):
    """The policy refuses, as things are known here: perhaps the ledger knows better."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.reason.value)
        self.refused = refused


class Gate:
    """Answers with the lease that allows a change, or raises `Refusal` and records it."""

    def __init__(
        self, holdings: Holdings, refusals: RefusalLog, intents: Intents | None = None
    ) -> None:
        self.holdings = holdings
        self.refusals = refusals
        # Knows what git commands are about to do; none where there is no git.
        self.guard: Guard | None = None
        self.intents = NoIntents() if intents is None else intents

    def admit(self, op: Op, targets: Sequence[Target], pid: int = 0) -> Allowed:
        """The verdict about a change of these names that is made as soon as this returns.

        Every change of a name passes here. What a lease allows is an intent from now on (P8).

        Raises:
            Unsettled: the policy refuses; for `settle`.
            Wanting: what a git command is about to do has to be found out first.
            OSError: the intent cannot be written ahead, so the change must not be made.
        """
        now_s = self.holdings.now_s()
        verdict = decide(op, targets, self.holdings.view, now_s)
        if self.guard is not None:
            verdict = self.guard.weigh(pid, op, targets, verdict, now_s)
        if isinstance(verdict, Refused):
            raise Unsettled(verdict)
        lease, intents = verdict.lease, self.intents
        if lease is not None:
            for target in targets:
                whole = target.whole_tree or target.aliases
                if whole or not intents.is_ahead(target.path, lease.token):
                    self._write_ahead(op, targets, pid)
                    break
        return verdict

    def _write_ahead(self, op: Op, targets: Sequence[Target], pid: int) -> None:
        for path, kind, other in intended(op, targets):
            self.intend(path, kind, pid, other)

    def intend(self, path: bytes, kind: str, pid: int, other: bytes = b"") -> None:
        """Write ahead that the path changes, unless no lease of ours covers it. Raises OSError.

        No glob matches a name with a slash at its end; a directory moves under the lease over its own name.
        """
        lease = self.holdings.view.writable(path.removesuffix(b"/"), self.holdings.now_s())
        if lease is not None:
            self.intents.ahead(path, kind, lease, pid, other)

    async def settle(self, pid: int, attempt: Callable[[], R]) -> R:
        """Make an attempt at an operation again and again until nothing has to be waited for.

        Raises:
            Refusal: the policy refuses; it is in the refusal log then.
            OSError: whatever `attempt` met; EBUSY if its answer never settles; EINTR if a signal asked
                the caller to end meanwhile.
        """
        asked = False
        for _ in range(_ROUNDS):
            try:
                return attempt()
            except Wanting as wanting:
                missing = wanting.fetch
            except Unsettled as unsettled:
                if asked or not _may_still_be_ours(unsettled.refused):
                    self.refuse(unsettled.refused, pid)
                asked, missing = True, self._confirm
            await unless_interrupted(pid, missing)
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    async def require(self, op: Op, pid: int, describe: Callable[[], Sequence[Target]]) -> Allowed:
        """Wait for a verdict about what `describe` returns; nothing may be awaited before the change."""
        return await self.settle(pid, lambda: self.admit(op, describe(), pid))

    def may_write(self, file: OpenFile) -> bool:
        """The hot path: is the handle's own lease still trusted? False means: ask `require_write`."""
        if file.token <= 0 or file.aliased or file.unsure:
            return False
        view = self.holdings.view
        lease = view.whole.get(file.token)
        if lease is not None:
            return self.holdings.now_s() < lease.trusted_until_s
        if not view.carved:
            return False
        now_s = self.holdings.now_s()
        verdict = decide_open_handle(Op.WRITE, file.token, file.path, view, now_s)
        return isinstance(verdict, Allowed)

    async def require_write(self, op: Op, file: OpenFile) -> Allowed:
        """Wait for a verdict about a change through a handle that was opened under a lease."""
        return await self.settle(file.pid, lambda: self._admit_write(op, file))

    def _admit_write(self, op: Op, file: OpenFile) -> Allowed:
        verdict = decide_open_handle(
            op, file.token, file.path, self.holdings.view, self.holdings.now_s()
        )
        if isinstance(verdict, Refused):
            raise Unsettled(verdict)
        return verdict

    async def _confirm(self) -> None:
        with trio.move_on_after(_CONFIRM_WITHIN_S):
            await self.holdings.revalidate()

    def refuse(self, refused: Refused, pid: int) -> None:
        """Record a refusal and raise it."""
        refusal = Refusal(refused)
        self.refusals.add(refusal, pid)
        raise refusal

    def wrote(self, allowed: Allowed) -> None:
        """A change was made under this verdict."""
        if allowed.lease is not None:
            self.holdings.wrote(allowed.lease.token)


def _may_still_be_ours(refused: Refused) -> bool:
    return refused.reason is Reason.LAPSED or refused.lease is not None
