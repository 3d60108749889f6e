"""The gate: nothing changes without passing it.

It asks `core.policy` and knows no rule of its own. A question is put as a function that describes what
the operation touches; it is called again after every wait, and nothing is awaited between the last
description and the change itself. So the answer is about the tree as it is when the change is made.

A lease that has lapsed may still be ours (after SIGSTOP or suspend, P5): the ledger is asked once,
within the lessee's bound, before the refusal. Other requests go on meanwhile.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import trio

from leasefs.core.policy import (
    Allowed,
    Op,
    Reason,
    Refused,
    Target,
    Verdict,
    decide,
    decide_open_handle,
)
from leasefs.mount.errnos import Refusal
from leasefs.mount.interrupted import unless_interrupted

if TYPE_CHECKING:
    from leasefs.mount.handles import OpenFile
    from leasefs.mount.holdings import Holdings
    from leasefs.mount.refusals import RefusalLog

# Each round fetches one thing that was missing; more than this means that it changes all the time.
_ROUNDS = 8
# No request waits longer for the ledger: a caller is let go by signals alone, and not all mean to.
_CONFIRM_WITHIN_S = 2.0


class Wanting(Exception):
    """Something that a description needs is not known yet; `fetch` learns it, off the loop."""

    def __init__(self, fetch: Callable[[], Awaitable[None]]) -> None:
        super().__init__("not known yet")
        self.fetch = fetch


Describe = Callable[[], Sequence[Target]]


class Gate:
    """Answers with the lease that allows a change, or raises `Refusal` and records it."""

    def __init__(self, holdings: Holdings, refusals: RefusalLog) -> None:
        self.holdings = holdings
        self.refusals = refusals

    async def require(self, op: Op, pid: int, describe: Describe) -> Allowed:
        """Wait for a verdict about what `describe` returns.

        Raises:
            Refusal: the policy refuses; it is in the refusal log then.
            OSError: whatever `describe` met; EBUSY if its answer never settles; EINTR if a signal asked
                the caller to end meanwhile.
        """

        def judge() -> Verdict:
            return decide(op, describe(), self.holdings.view, self.holdings.now_s())

        # Nearly always there is nothing to wait for.
        try:
            verdict = judge()
        except Wanting:
            pass
        else:
            if isinstance(verdict, Allowed):
                return verdict
        return await self._settle(pid, judge)

    def may_write(self, file: OpenFile) -> bool:
        """The hot path: is the handle's own lease still trusted? False means: ask `require_write`."""
        if file.token <= 0 or file.aliased or file.unsure:
            return False
        lease = self.holdings.view.by_token.get(file.token)
        return lease is not None and self.holdings.now_s() < lease.trusted_until_s

    async def require_write(self, op: Op, file: OpenFile) -> Allowed:
        """Wait for a verdict about a change through a handle that was opened under a lease."""

        def judge() -> Verdict:
            return decide_open_handle(
                op, file.token, file.path, self.holdings.view, self.holdings.now_s()
            )

        return await self._settle(file.pid, judge)

    async def _settle(self, pid: int, judge: Callable[[], Verdict]) -> Allowed:
        asked = False
        for _ in range(_ROUNDS):
            try:
                verdict = judge()
            except Wanting as wanting:
                await unless_interrupted(pid, wanting.fetch)
                continue
            if isinstance(verdict, Allowed):
                return verdict
            if asked or not _may_still_be_ours(verdict):
                self.refuse(verdict, pid)
            asked = True
            await unless_interrupted(pid, self._confirm)
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

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
