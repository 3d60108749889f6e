"""What this session delegated, and what was delegated to it (P1, P7).

Its view is carved before the ledger is asked, and stays so until the ledger is known to have refused, or ended, the
delegation. An answer that was lost is asked for again with the same key; after each end that is heard of, and after
each break, the ledger is asked what is still delegated.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from leasefs.client import api, api_scheduling
from leasefs.client.settling import Settling
from leasefs.core.carving import Carved
from leasefs.core.errors import LeasefsError, LedgerUnavailable, UnknownLease
from leasefs.core.globs import globs_of, parse_glob

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from leasefs.client.trust import Trust

log = logging.getLogger(__name__)


async def _at_once() -> None:
    """Nothing to wait for."""


@dataclass(eq=False)
class _Asked:
    """A delegation whose outcome is not known. `again` says that it may have been decided already."""

    call: api.Call
    carved: Carved
    in_flight: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class Received:
    """A lease that was delegated to us: out of which one, whose that is (None while not known), and its note."""

    lease_id: str
    parent: str
    agent: str | None
    note: str

    def words(self) -> str:
        """Who gave it, and with what words."""
        by = f" by {self.agent}" if self.agent else ""
        note = f": {self.note}" if self.note else ""
        return f"delegated to you{by}, out of {self.parent}{note}"


class Delegations:
    """Carves and heals the view of one session. Everything but the coroutines is called on the trio thread."""

    def __init__(
        self,
        session: str,
        territory: str,
        trust: Trust,
        send: Callable[[api.Call], Awaitable[api.Body]],
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called whenever something was learnt of a delegation."""
        self._session = session
        self._territory = territory
        self._trust = trust
        self._send = send
        self._changed = changed
        # Awaited with the globs of ground that comes back before anything is written on it.
        self.before: Callable[[list[str]], Awaitable[None]] | None = None
        # Hears of ground that is given away for certain: what is open there is never to be written again.
        self.given: Callable[[Carved], None] = lambda _: None
        self._asked: dict[str, _Asked] = {}
        self._in_doubt: set[str] = set()
        self._received: dict[str, Received] = {}
        self._settling = Settling(self._learn, "what is delegated")

    # -- what is asked --------------------------------------------------------------------------

    async def delegate(
        self,
        lease_id: str,
        key: str,
        wishes: Mapping[str, Any],
        ready: Callable[[], Awaitable[None]] = _at_once,
    ) -> api.Body:
        """Give a part of a lease away; nothing is written there from this moment (LeaseAnswer of the part).

        `wishes` are what `api_scheduling.delegate` takes besides. `ready` is awaited before the ledger is asked; if it
        raises, all is as before.

        Raises:
            UnknownLease: the lease is not held here.
            BadPattern: a glob cannot be read.
            LedgerUnavailable: the ledger is away; the part stays closed until it has said what it decided.
            LeasefsError: what the ledger refused; then all is as before.
        """
        asked = self._asked.get(key)
        if asked is None:
            if self._trust.lease(lease_id) is None:
                raise UnknownLease(lease_id)
            globs = tuple(dict.fromkeys(map(parse_glob, wishes["globs"])))
            call = api_scheduling.delegate(lease_id, key=key, **wishes)
            asked = self._asked[key] = _Asked(
                call, Carved(lease_id, globs, str(wishes["to"]), key=key)
            )
            self._trust.carve(asked.carved)
            await self._prepared(key, asked, ready)
        try:
            return await self._ask(key, asked)
        except LedgerUnavailable as error:
            raise LedgerUnavailable(
                f"nothing is written on that part of {lease_id} any more, but whether it is delegated is not known: "
                f"{error.message}; it is asked again until it is",
                **error.details,
            ) from error
        finally:
            self._settling.wake()

    async def _prepared(
        self, key: str, asked: _Asked, ready: Callable[[], Awaitable[None]]
    ) -> None:
        asked.in_flight = True  # nobody else is to ask for it now
        try:
            await ready()
        except BaseException:
            self._refused(key, asked, again=False)
            raise
        finally:
            asked.in_flight = False

    async def _ask(self, key: str, asked: _Asked) -> api.Body:
        """Raises LedgerUnavailable, with which nothing is settled, or what the ledger refused."""
        asked.in_flight, again, asked.again = True, asked.again, True
        try:
            answer = await self._send(asked.call)
        except LedgerUnavailable:
            raise
        except LeasefsError:
            self._refused(key, asked, again=again)
            raise
        finally:
            asked.in_flight = False
        self._settled(key, answer["lease"])
        if answer["state"] == "ended":
            self._doubt(asked.carved.parent)
        return answer

    def _refused(self, key: str, asked: _Asked, *, again: bool) -> None:
        if self._asked.pop(key, None) is None:
            return  # the news of its grant came first
        if again:
            # Perhaps it was granted, and too many requests came in between for the key to be remembered.
            self._doubt(asked.carved.parent)
        else:
            self._trust.uncarve([asked.carved])
            self._changed()

    def _settled(self, key: str, child: str) -> None:
        asked = self._asked.pop(key, None)
        if asked is None:
            return
        carved = replace(asked.carved, child=child)
        self._trust.recarve(asked.carved, carved)
        self.given(carved)
        self._changed()

    # -- what is heard --------------------------------------------------------------------------

    def heard_granted(self, fact: Mapping[str, Any]) -> bool:
        """Of a `Granted` event; returns whether the lease is another's, and so none that we hold."""
        claim = fact["claim"]
        if claim["session"] != self._session:
            self._settled(fact["key"], claim["id"])
            return True
        if fact.get("asked_by"):
            id_ = claim["id"]
            self._received[id_] = Received(id_, claim["parent"], None, claim["note"])
            log.info("%s was delegated to us: %s", id_, " ".join(claim["globs"]))
            self._settling.wake()
        return False

    def heard_back(self, lease_id: str) -> None:
        """A part has ended; what was carved out of that in turn is ours to mind now."""
        for carved in self._trust.view.carved:
            if carved.child == lease_id:
                self._trust.recarve(carved, replace(carved, child=""))
            self._doubt(carved.parent)

    def connected(self) -> None:
        """The ledger is there, perhaps again, and perhaps with less of its history."""
        for carved in self._trust.view.carved:
            self._doubt(carved.parent)
        self._settling.wake()

    def _doubt(self, parent: str) -> None:
        self._in_doubt.add(parent)
        self._settling.wake()

    @property
    def received(self) -> list[Received]:
        """What was delegated to us and is held."""
        held = {lease.lease_id for lease in self._trust.view.leases}
        return [one for id_, one in self._received.items() if id_ in held]

    # -- settling -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Learn from the ledger what is not known, for ever."""
        await self._settling.run()

    async def _learn(self) -> None:
        for key, asked in list(self._asked.items()):
            if self._trust.lease(asked.carved.parent) is None:
                self._asked.pop(key, None)  # whatever was given of it stands on its own
            elif not asked.in_flight and key in self._asked:
                await self._ask_again(key, asked)
        for parent in sorted(self._in_doubt):
            self._in_doubt.discard(parent)
            try:
                await self._look(parent)
            except BaseException:
                self._in_doubt.add(parent)
                raise
        for id_, one in list(self._received.items()):
            if self._trust.why_ended(id_) is not None:
                del self._received[id_]
            elif one.agent is None:
                answer = await self._send(api.lease(one.parent))
                self._received[id_] = replace(one, agent=answer["agent"])
                self._changed()

    async def _ask_again(self, key: str, asked: _Asked) -> None:
        try:
            await self._ask(key, asked)
        except LedgerUnavailable:
            raise
        except LeasefsError as error:
            log.info("%s is not delegated: %s", asked.carved.parent, error.message)

    async def _look(self, parent: str) -> None:
        """Ask which parts of the lease are with others, and take the rest back."""
        asked = [one.carved for one in self._asked.values()]
        known = [
            one for one in self._trust.view.carved if one.parent == parent and one not in asked
        ]
        if not known:
            return
        answer = await self._send(api.lease(parent))
        left = set(answer["delegated"])
        over = [one for one in known if not left.issuperset(_texts([one]))]
        kept = [one for one in known if one not in over]
        if left.difference(_texts(self._trust.view.carved)) or not all(one.child for one in kept):
            over += await self._learn_holders(parent, kept)
        if over:
            if self.before is not None:
                await self.before(_texts(over))
            self._trust.uncarve(over)
            log.info("back in %s: %s", parent, " ".join(_texts(over)))
        self._changed()

    async def _learn_holders(self, parent: str, kept: list[Carved]) -> list[Carved]:
        """Learn of all parts of a lease who has them; returns those of `kept` that nobody has any more.

        Others may have delegated on, and what they gave is carved out of our lease since they gave theirs back.
        """
        answer = await self._send(api.leases(self._territory))
        parts = {
            lease["lease"]: Carved(
                parent, globs_of(tuple(lease["globs"])), lease["agent"], lease["lease"]
            )
            for lease in answer["leases"]
            if lease["parent"] == parent
        }
        named = {one.child for one in self._trust.view.carved}
        for part in parts.values():
            if part.child not in named:
                self._trust.carve(part)
                self.given(part)
        ground = {part.globs for part in parts.values()}
        unnamed = [one for one in kept if not one.child]
        self._trust.uncarve([one for one in unnamed if one.globs in ground])
        return [one for one in unnamed if one.globs not in ground]


def _texts(carved: Iterable[Carved]) -> list[str]:
    return [glob.text for one in carved for glob in one.globs]
