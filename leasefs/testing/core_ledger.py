"""A ledger in the same process: the real rules of `leasefs.core.ledger` behind a client's `Transport`.

Tests decide how long a request travels, how long its answer does, whether it arrives at all, and when
the ledger is away. Nothing is stored; `restart` keeps the state as a real one does.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import msgspec
import trio

from leasefs.client.sse import StreamEvent
from leasefs.core import commands as cmd
from leasefs.core.errors import LeasefsError, LedgerUnavailable
from leasefs.core.ledger import State, decide
from leasefs.core.renewal import lease_due_at_s
from leasefs.core.views import lease_answer, leases

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from leasefs.client.api import Body, Call
    from leasefs.core.clock import Clock
    from leasefs.core.events import Recorded


_COMMANDS: dict[str, type[cmd.AnyCommand]] = {
    "leases": cmd.ClaimLease,
    "refusals": cmd.ReportRefusals,
    "intents": cmd.ReportIntents,
    "intents/settled": cmd.SettleIntents,
    "foreign-writes": cmd.ReportForeignWrites,
    "rescues": cmd.ReportRescue,
}

_VERBS: dict[str, type[cmd.AnyCommand]] = {
    "delegate": cmd.DelegateLease,
    "downgrade": cmd.DowngradeLease,
    "more-time": cmd.AskForTime,
}


class CoreLedger:
    """State, history and faults. `now_s` of its clock is the ledger's time.

    `lose_answers` so many answers get lost, and `lose_requests` so many requests, of calls whose path ends with `lose_to`.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.state = State()
        self.history: list[Recorded] = []
        self.away = False
        self.streams_away = False
        self.request_takes_s = 0.0
        self.answer_takes_s = 0.0
        self.lose_answers = 0
        self.lose_requests = 0
        self.lose_to = ""
        self.calls: list[Call] = []
        self.changed = trio.Event()
        self.cut = trio.Event()

    def do(self, command: cmd.AnyCommand) -> Body:
        """Decide and apply. Raises what the ledger refuses."""
        decision = decide(self.state, command, self.clock.now_s())
        self.state = decision.state
        self.history += decision.events
        self.changed.set()
        self.changed = trio.Event()
        if decision.error is not None:
            raise decision.error
        answer: Body = msgspec.to_builtins(decision.answer)
        return answer

    def tick(self) -> None:
        """Act on every deadline that has passed."""
        now_s = self.clock.now_s()
        due = [id_ for id_ in self.state.leases if (lease_due_at_s(self.state, id_) or 0) <= now_s]
        self.do(cmd.Tick(tuple(due), tuple(self.state.sessions)))

    def restart(self) -> None:
        """A new server takes over the same log; streams break."""
        self.do(cmd.StartLedger("test", "boot"))
        self.cut_streams()

    def wipe(self) -> None:
        """A new server with an empty log takes the place of this one."""
        self.state, self.history = State(), []
        self.cut_streams()

    def cut_streams(self) -> None:
        """Break every open stream."""
        self.cut.set()
        self.cut = trio.Event()

    def calls_to(self, end_of_path: str) -> list[Call]:
        """The calls whose path ends like that, in order."""
        return [call for call in self.calls if call.path.partition("?")[0].endswith(end_of_path)]

    def answer(self, call: Call, session: str, secret: str) -> Body:
        """Carry out one call now."""
        verb = (call.method, call.path.partition("?")[0].rstrip("/").removeprefix("/v1/"))
        body = dict(call.body or {})
        match verb:
            case ("GET", path):
                return self._read(path)
            case ("POST", "sessions"):
                hashed = hashlib.sha256(body.pop("secret").encode()).hexdigest()
                command: cmd.AnyCommand = cmd.OpenSession(secret_sha256=hashed, **body)
            case ("DELETE", path) if path.startswith("sessions/"):
                command = cmd.EndSession(session)
            case ("POST", path) if path.endswith("/heartbeat"):
                command = msgspec.convert({"session": session, **body}, cmd.Heartbeat)
            case ("POST", "batch"):
                return {"answers": [self._one_of_many(one, session) for one in body["requests"]]}
            case ("POST", path) if path in _COMMANDS:
                command = msgspec.convert({"session": session, **body}, _COMMANDS[path])
            case ("POST", path) if path.startswith("leases/"):
                command = _of_a_lease(session, path, body)
            case ("DELETE", path) if path.startswith("leases/"):
                command = _release(session, path[7:], call)
            case _:
                raise AssertionError(f"no such call: {call}")
        return self.do(command)

    def _read(self, path: str) -> Body:
        now_s = self.clock.now_s()
        if path == "status":
            return {"seq": self.state.seq}
        if path == "leases":
            return {"leases": msgspec.to_builtins(leases(self.state, None, now_s))}
        answer: Body = msgspec.to_builtins(
            lease_answer(self.state, path.removeprefix("leases/"), now_s)
        )
        return answer

    def _one_of_many(self, request: Body, session: str) -> Body:
        wish = {name: value for name, value in request.items() if name != "op"}
        try:
            answer = self.do(msgspec.convert({"session": session, **wish}, cmd.ClaimLease))
        except LeasefsError as error:
            about = {"code": error.code, "message": error.message, "details": error.details}
            return {"status": 409, "body": {"error": about}}
        return {"status": 201, "body": answer}


def _of_a_lease(session: str, path: str, body: Body) -> cmd.AnyCommand:
    _, lease, verb = path.split("/")
    fields = {"on_dirty" if name == "dirty" else name: value for name, value in body.items()}
    return msgspec.convert({"session": session, "lease": lease, **fields}, _VERBS[verb])


def _release(session: str, lease: str, call: Call) -> cmd.ReleaseLease:
    fields = dict(parse_qsl(call.path.partition("?")[2], errors="surrogateescape"))
    wishes = {"on_dirty" if name == "dirty" else name: value for name, value in fields.items()}
    return msgspec.convert(
        {"session": session, "lease": lease, **wishes}, cmd.ReleaseLease, strict=False
    )


class CoreLink:
    """One session's transport to a `CoreLedger`."""

    def __init__(self, ledger: CoreLedger, session: str, secret: str) -> None:
        self.ledger = ledger
        self.session = session
        self.secret = secret

    async def send(self, call: Call, *, timeout_s: float) -> Body:
        """See `Transport.send`."""
        with trio.move_on_after(timeout_s + call.patience_s):
            return await self._exchange(call)
        raise LedgerUnavailable("no answer in time")

    async def _exchange(self, call: Call) -> Body:
        ledger = self.ledger
        takes_s = ledger.answer_takes_s
        await trio.sleep(ledger.request_takes_s)
        if ledger.away:
            raise LedgerUnavailable("nobody listens")
        is_lost = call.path.partition("?")[0].endswith(ledger.lose_to)
        if ledger.lose_requests and is_lost:
            ledger.lose_requests -= 1
            await trio.sleep_forever()
        ledger.calls.append(call)
        answer: Body | LeasefsError
        try:
            answer = ledger.answer(call, self.session, self.secret)
            with trio.move_on_after(call.patience_s):
                while answer.get("state") == "waiting" and call.method == "GET":
                    await ledger.changed.wait()
                    answer = ledger.answer(call, self.session, self.secret)
        except LeasefsError as error:
            answer = error
        if ledger.lose_answers and is_lost:
            ledger.lose_answers -= 1
            await trio.sleep_forever()
        await trio.sleep(takes_s)
        if isinstance(answer, LeasefsError):
            raise answer
        return answer

    @contextlib.asynccontextmanager
    async def stream(
        self, call: Call, *, silence_s: float
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """See `Transport.stream`."""
        if self.ledger.away or self.ledger.streams_away:
            raise LedgerUnavailable("nobody listens")
        yield self._events(int(call.path.partition("after=")[2].partition("&")[0]))

    async def _events(self, after: int) -> AsyncIterator[StreamEvent]:
        cut = self.ledger.cut
        while not cut.is_set():
            changed = self.ledger.changed
            for recorded in self.ledger.history[after:]:
                after = recorded.seq
                if self._is_ours(recorded):
                    event = msgspec.to_builtins(recorded.event)
                    told = {"at_s": recorded.at_s, "event": event}
                    yield StreamEvent(recorded.seq, event["type"], told)
            async with trio.open_nursery() as nursery:
                for either in (cut, changed):
                    nursery.start_soon(_wait, either, nursery.cancel_scope)

    def _is_ours(self, recorded: Recorded) -> bool:
        """As the service does it: by the session that the event, or its claim, belongs to."""
        event = msgspec.to_builtins(recorded.event)
        if self.session in (event.get("asked_by"), event.get("returns_to")):
            return True
        if "claim" in event and isinstance(event["claim"], dict):
            return self.session in {event["claim"]["session"], *event.get("ahead", ())}
        about = event.get("lease") or event.get("claim")
        if about:
            return any(
                past["claim"]["session"] == self.session and past["claim"]["id"] == about
                for past in (msgspec.to_builtins(one.event) for one in self.ledger.history)
                if isinstance(past.get("claim"), dict)
            )
        return bool(event.get("session") == self.session)


async def _wait(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
