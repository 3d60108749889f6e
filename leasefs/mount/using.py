"""Keeping a lease in use through the control socket, for as long as somebody listens to what becomes of it (P4).

A lease that is recalled and comes back is used again then, under the id and token that it came back with.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import trio

from leasefs.client.process import program_name
from leasefs.client.recalls import Recall, Stage
from leasefs.client.sse import StreamEvent
from leasefs.core.errors import InvalidRequest, UnknownLease
from leasefs.mount.control_http import Streaming

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from leasefs.client.lessee import Lessee
    from leasefs.mount.control_http import Request

_AWAY = frozenset({Stage.STOPPED, Stage.GIVEN_UP, Stage.WAITING, Stage.BACK})
_LOOK_EVERY_S = 1.0


class _User:
    """Who uses a lease, and what they were told of it."""

    def __init__(self, lease_id: str, pid: int, program: str) -> None:
        self.lease_id = lease_id
        self.pid = pid
        self.program = program
        self.said = ""
        self.recalled: tuple[object, ...] = ()


class Using:
    """Serves `POST /v1/mount/uses`: a stream of events, which is a use for as long as it is open.

    Its events are `using` and `lapsed`, `recalled` and `recall-ended`, `yielded` and `back`; `lost` is the last.
    """

    def __init__(self, lessee: Lessee) -> None:
        self._lessee = lessee

    def stream(self, request: Request) -> Streaming:
        """Begin. Raises InvalidRequest, UnknownLease."""
        body = request.body or {}
        lease_id, pid = body.get("lease"), body.get("pid", request.peer.pid)
        if not isinstance(lease_id, str) or not isinstance(pid, int):
            raise InvalidRequest("a use names a `lease`, and perhaps a `pid` and a `program`")
        if all(lease.lease_id != lease_id for lease in self._lessee.view.leases):
            raise UnknownLease(lease_id)
        program = str(body.get("program") or program_name(pid))
        return Streaming(self._used(_User(lease_id, pid, program)))

    async def _used(self, user: _User) -> AsyncGenerator[StreamEvent, None]:
        lessee = self._lessee
        while True:
            token, use_id = lessee.use(user.lease_id, user.pid, user.program)
            try:
                async with contextlib.aclosing(self._while_held(user, token)) as events:
                    async for event in events:
                        yield event
            finally:
                lessee.stop_using(use_id)
            recall = lessee.recalls.of(user.lease_id)
            if recall is None or recall.stage not in _AWAY:
                break
            data: dict[str, Any] = {"lease": user.lease_id, "claim": recall.again or None}
            yield StreamEvent(0, "yielded", {**data, "reason": recall.words()})
            if not await self._is_back(recall):
                break
            user.lease_id, user.said, user.recalled = recall.again, "", ()
            yield StreamEvent(0, "back", {"lease": user.lease_id})
        reason = lessee.why_ended(user.lease_id) or "it ended"
        yield StreamEvent(0, "lost", {"lease": user.lease_id, "token": token, "reason": reason})

    async def _while_held(self, user: _User, token: int) -> AsyncGenerator[StreamEvent, None]:
        lessee = self._lessee
        while (lease := lessee.view.by_token.get(token)) is not None:
            left_s = lease.trusted_until_s - lessee.now_s()
            state = "using" if left_s > 0 else "lapsed"
            if state != user.said:
                user.said = state
                yield StreamEvent(0, state, {"lease": user.lease_id, "token": token})
            recall = lessee.recalls.of(user.lease_id)
            if recall is None and user.recalled:
                user.recalled = ()
                yield StreamEvent(0, "recall-ended", {"lease": user.lease_id})
            if recall is not None and _asked(recall) != user.recalled:
                user.recalled = _asked(recall)
                yield StreamEvent(0, "recalled", _recalled(recall, lessee.now_s()))
            with trio.move_on_after(left_s if left_s > 0 else _LOOK_EVERY_S):
                await lessee.changed()

    async def _is_back(self, recall: Recall) -> bool:
        lessee = self._lessee
        while True:
            if any(lease.lease_id == recall.again for lease in lessee.view.leases):
                return True
            gone = recall.again and lessee.why_ended(recall.again) is not None
            if gone or recall.stage not in _AWAY:
                return False
            await lessee.changed()


def _asked(recall: Recall) -> tuple[object, ...]:
    return recall.by, recall.reason, recall.cold, recall.may_ask_for_s


def _recalled(recall: Recall, now_s: float) -> dict[str, Any]:
    """As `core.answers.RecallAnswer` has it."""
    answer = {
        "by": recall.by,
        "reason": recall.reason,
        "yields_in_s": max(0.0, recall.until_s - now_s),
        "may_ask_for_s": recall.may_ask_for_s,
        "cold": recall.cold,
    }
    return {"lease": recall.lease_id, "recall": answer}
