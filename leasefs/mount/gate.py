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
from functools import partial
from typing import TYPE_CHECKING, NoReturn, Protocol, Self, TypeVar

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
from leasefs.core.unleased_ground import saves_unleased, written_over
from leasefs.mount.errnos import Refusal
from leasefs.mount.intended import NoIntents, intended
from leasefs.mount.interrupted import unless_interrupted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from leasefs.mount.git_guard import Guard
    from leasefs.mount.handles import OpenFile
    from leasefs.mount.holdings import Holdings
    from leasefs.mount.intended import Intents
    from leasefs.mount.refusals import RefusalLog

# Each round fetches one thing that was missing; more than this means that it changes all the time.
_ROUNDS = 8
# No request waits longer for the ledger: a caller is let go by signals alone, and not all mean to.
_CONFIRM_WITHIN_S = 2.0

R = TypeVar("R")

# It is nobody's: no lease, no intent, no companion of anything.
_OBSERVED = Allowed(None)


class Wanting(Exception):
    """Something that a description needs is not known yet; `fetch` learns it, off the loop."""

    def __init__(self, fetch: Callable[[], Awaitable[None]]) -> None:
        super().__init__("not known yet")
        self.fetch = fetch


async def once_fetched(ask: Callable[[], R], *, otherwise: R, rounds: int) -> R:
    """What `ask` returns once all is read that it wants; `otherwise` if that is not so after some rounds."""
    for _ in range(rounds):
        try:
            return ask()
        except Wanting as wanting:
            await wanting.fetch()
    return otherwise


class Unsettled(Exception):
    """The policy refuses, as things are known here: perhaps the ledger knows better.

    `targets` are all the names of the operation; a change through a handle has none.
    """

    def __init__(self, refused: Refused, targets: Sequence[Target] = ()) -> None:
        super().__init__(refused.reason.value)
        self.refused = refused
        self.targets = targets


class Unobtained(Exception):
    """What the policy refuses was asked for, and not to be had."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.reason.value)
        self.refused = refused


class Obtaining(Protocol):
    """What one request does about its refusals."""

    async def obtain(self, unsettled: Unsettled) -> None:
        """Return once another attempt is worth it. Raises `Unobtained`."""
        ...

    def over(self, *, again: bool) -> None:
        """The request is about to be answered; `again` if its thread is told to look up the name once more."""
        ...


class Obtainer(Protocol):
    """Gets leases for changes that none covers, or waits for them (unleased policy)."""

    def begin(self, pid: int) -> Obtaining:
        """A request of this thread met a refusal."""
        ...

    def came_back(self, pid: int) -> None:
        """The thread that was told to look again has what it came for."""
        ...

    def stop(self) -> None:
        """The mount is going: nobody waits any more."""
        ...

    async def take_back(self, paths: Collection[bytes]) -> None:
        """Get leases again over what was changed here under some, and is not committed; of others' work nothing."""
        ...


class Observer(Protocol):
    """Lets changes pass that no lease covers, and reports them (unleased policy)."""

    def passes(self, refused: Refused, targets: Sequence[Target], pid: int) -> bool:
        """Whether this passes; noted then."""
        ...


class Gate:
    """Answers with the lease that allows a change, or raises `Refusal` and records it."""

    def __init__(
        self, holdings: Holdings, refusals: RefusalLog, intents: Intents | None = None
    ) -> None:
        self.holdings = holdings
        self.refusals = refusals
        # Knows what git commands are about to do; none where there is no git.
        self.guard: Guard | None = None
        # What is done about refusals, beside recording them.
        self.obtainer: Obtainer | None = None
        self.observer: Observer | None = None
        self.intents = NoIntents() if intents is None else intents

    def admit(self, op: Op, targets: Sequence[Target], pid: int = 0) -> Allowed:
        """The verdict about a change of these names that is made as soon as this returns.

        Every change of a name passes here. What a lease allows is an intent from now on (P8).

        Raises:
            Unsettled: the policy refuses; for `settle`.
            Wanting: what a git command is about to do, or what a path's work begins on, has to be found out first.
            OSError: the intent cannot be written ahead, so the change must not be made.
        """
        now_s = self.holdings.now_s()
        verdict = decide(op, targets, self.holdings.view, now_s)
        by_leases = verdict
        if self.guard is not None:
            verdict = self.guard.weigh(pid, op, targets, verdict, now_s)
        if isinstance(verdict, Refused):
            if not self.passes(verdict, targets, pid):
                raise Unsettled(verdict, targets)
            verdict = by_leases if isinstance(by_leases, Allowed) else _OBSERVED
        if self.obtainer is not None and verdict.lease is not None:
            self._look_beside(op, targets, verdict, pid)
        lease, intents = verdict.lease, self.intents
        if lease is not None:
            for target in targets:
                whole = target.whole_tree or target.aliases
                if whole or not intents.is_ahead(target.path, lease.token):
                    self._write_ahead(op, targets, pid)
                    break
        return verdict

    def passes(self, refused: Refused, targets: Sequence[Target], pid: int) -> bool:
        """Whether what is refused passes all the same, because the mount only observes."""
        return self.observer is not None and self.observer.passes(refused, targets, pid)

    def _look_beside(self, op: Op, targets: Sequence[Target], verdict: Allowed, pid: int) -> None:
        """Who claims by writing has read before: nothing that others wrote in between may be undone.

        Raises:
            Unsettled: a file that begins to be saved here has no lease yet.
            Refusal: it was changed.
        """
        now_s = self.holdings.now_s()
        if verdict.companion:
            path = saves_unleased(op, targets, self.holdings.view, now_s, pid)
            if path is not None:
                raise Unsettled(Refused(Reason.NOT_LEASED, op, path), targets)
        path = written_over(op, targets, pid)
        if path is not None:
            self.refuse(Refused(Reason.CHANGED, op, path), pid)

    def _write_ahead(self, op: Op, targets: Sequence[Target], pid: int) -> None:
        changes = intended(op, targets)
        for path, _, _ in changes:
            self.intents.require(path)
        for path, kind, other in changes:
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
        with Asking(self, pid) as asking:
            while asking.rounds < _ROUNDS:
                try:
                    return attempt()
                except Wanting as wanting:
                    asking.rounds += 1
                    missing = wanting.fetch
                except Unsettled as unsettled:
                    missing = asking.about(unsettled)
                try:
                    await unless_interrupted(pid, missing)
                except Unobtained as unobtained:
                    self.refuse(unobtained.refused, pid)
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
            if not self.passes(verdict, (), file.pid):
                raise Unsettled(verdict)
            return _OBSERVED
        return verdict

    async def confirm(self) -> None:
        """Ask the ledger about lapsed leases, within a bound."""
        with trio.move_on_after(_CONFIRM_WITHIN_S):
            await self.holdings.revalidate()

    def refuse(self, refused: Refused, pid: int) -> NoReturn:
        """Record a refusal and raise it."""
        refusal = Refusal(refused)
        self.refusals.add(refusal, pid)
        raise refusal

    def wrote(self, allowed: Allowed) -> None:
        """A change was made under this verdict."""
        if allowed.lease is not None:
            self.holdings.wrote(allowed.lease.token)


class Asking:
    """What was done already about the refusals of one request."""

    def __init__(self, gate: Gate, pid: int) -> None:
        self._gate = gate
        self._pid = pid
        self._confirmed = False
        self._obtaining: Obtaining | None = None
        self.rounds = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        if self._obtaining is not None:
            again = isinstance(error, OSError) and error.errno == errno.ESTALE
            self._obtaining.over(again=again)

    def about(self, unsettled: Unsettled) -> Callable[[], Awaitable[None]]:
        """What to wait for next. Raises Refusal if there is nothing."""
        if not self._confirmed and _may_still_be_ours(unsettled.refused):
            self._confirmed = True
            return self._gate.confirm
        if self._gate.obtainer is None:
            self._gate.refuse(unsettled.refused, self._pid)
        if self._obtaining is None:
            self._obtaining = self._gate.obtainer.begin(self._pid)
        return partial(self._obtaining.obtain, unsettled)


def _may_still_be_ours(refused: Refused) -> bool:
    return refused.reason is Reason.LAPSED or refused.lease is not None
