"""Giving parts of this mount's leases to others, and sharing whole ones: the mount's side of it (P1, P9).

As at a release, nothing goes out of hand with work on it that nobody would see: it is refused while that is
uncommitted, unless whoever asks says what is to become of it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from leasefs.core.errors import Dirty, InvalidRequest, LedgerUnavailable, UnknownLease
from leasefs.core.globs import parse_glob
from leasefs.core.intents import NAMES_KEPT
from leasefs.core.paths import text
from leasefs.mount.binding import LOST_TOKEN, use
from leasefs.mount.intent_report import Settlement, settled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.client import api
    from leasefs.client.delegations import Received
    from leasefs.client.lessee import Lessee
    from leasefs.core.carving import Carved
    from leasefs.core.globs import Glob
    from leasefs.core.held import HeldLease
    from leasefs.mount.releasing import ReleaseGate
    from leasefs.mount.tree import Tree
    from leasefs.mount.work import Work

log = logging.getLogger(__name__)

_WAYS = {"refuse": "refuse", "keep": "keep", "rescue": "rescued"}
_KNOWN = frozenset({"key", "globs", "to", "ttl_s", "note", "dirty"})


class Delegating:
    """Answers `delegate` and `downgrade` of the control socket, whose bodies are the ledger's."""

    def __init__(self, lessee: Lessee, work: Work, releases: ReleaseGate) -> None:
        self._lessee = lessee
        self._work = work
        self._releases = releases

    async def downgrade(self, lease_id: str, body: api.Body) -> api.Body:
        """Share a lease (LeaseAnswer). Raises as `Downgrades.downgrade`."""
        return await self._lessee.downgrades.downgrade(lease_id, _key(body))

    async def delegate(self, lease_id: str, body: api.Body) -> api.Body:
        """Give a part of a lease to another agent (LeaseAnswer of the part).

        Of `dirty`, `rescue` keeps what is uncommitted there in a rescue, and it is work of this agent no more; `keep`
        leaves it this agent's, and keeps a copy: who gets the part may write over it.

        Raises:
            Dirty: there is uncommitted work on that part. Nothing changed.
            LeasefsError: as `Delegations.delegate`.
        """
        wishes = _wishes(body)
        lease = next((one for one in self._lessee.view.leases if one.lease_id == lease_id), None)
        if lease is None:
            raise UnknownLease(lease_id)
        globs = [parse_glob(glob) for glob in wishes["globs"]]
        dirty = wishes["dirty"]
        await self._work.look()
        if not await self._releases.is_under_git():
            self._end_on(lease, globs)
        if dirty == "refuse":
            self._refuse_dirty(lease, globs)
        await self._flush()

        async def ready() -> None:
            if dirty == "refuse":
                # Whatever was changed meanwhile; nothing waits from the carving to here.
                self._refuse_dirty(lease, globs)
                return
            reason = f"{' '.join(wishes['globs'])} is delegated to {wishes['to']}"
            await self._work.keep_part(lease, globs, reason, ends=dirty == "rescue")
            await self._flush()

        asked = {**wishes, "dirty": _WAYS[dirty]}
        return await self._lessee.delegations.delegate(lease_id, _key(body), asked, ready)

    def _refuse_dirty(self, lease: HeldLease, globs: Sequence[Glob]) -> None:
        paths = sorted(map(text, self._work.intents.dirty_of(lease.token, globs)))
        if paths:
            raise Dirty(lease.lease_id, paths[:NAMES_KEPT], len(paths), wanted="committed")

    def _end_on(self, lease: HeldLease, globs: Sequence[Glob]) -> None:
        """Without git nothing is ever committed: intents end when their ground is given away."""
        intents = self._work.intents
        paths = intents.dirty_of(lease.token, globs)
        after, now_s = intents.last_note, intents.wall_s()
        for path in paths:
            intents.clean(path)
        self._work.report.settle([Settlement(after, now_s, settled(p, "clean")) for p in paths])

    async def _flush(self) -> None:
        try:
            await self._work.flush()
        except LedgerUnavailable as error:
            log.info("what was changed is told later: %s", error.message)

    def facts(self) -> list[dict[str, Any]]:
        """What this mount gave away, then what it was given, JSON-ready."""
        return [
            *(given_facts(one) for one in self._lessee.view.carved),
            *map(self._received_facts, self._lessee.delegations.received),
        ]

    def _received_facts(self, received: Received) -> dict[str, Any]:
        globs = self._globs_of(received.lease_id)
        return {
            "what": "received",
            "lease": received.lease_id,
            "parent": received.parent,
            "agent": received.agent or "",
            "globs": globs,
            "words": f"{received.lease_id} {' '.join(globs)} was {received.words()}",
        }

    def _globs_of(self, lease_id: str) -> list[str]:
        held = (one for one in self._lessee.view.leases if one.lease_id == lease_id)
        return [glob.text for lease in held for glob in lease.globs]

    def lines(self) -> str:
        """The same for people."""
        return "".join(f"{one['words']}\n" for one in self.facts())


def given_facts(carved: Carved) -> dict[str, Any]:
    """A part that is with another agent, JSON-ready; `lease` is empty while the ledger has not answered."""
    globs = [glob.text for glob in carved.globs]
    return {
        "what": "given",
        "lease": carved.child,
        "parent": carved.parent,
        "agent": carved.agent,
        "globs": globs,
        "words": f"{' '.join(globs)} is delegated: {carved.words()}",
    }


def cut_off(tree: Tree, carved: Carved) -> None:
    """Ground was given away for certain: what is open for writing there is never written again by that handle.

    Others may write in between, however soon the ground comes back.
    """
    for file in tree.handles.writers():
        if file.token > 0 and carved.matches(file.path):
            use(tree, file, LOST_TOKEN)


def _key(body: api.Body) -> str:
    key = body.get("key")
    if not isinstance(key, str) or not key:
        raise InvalidRequest("an idempotency `key` is needed")
    return key


def _wishes(body: api.Body) -> dict[str, Any]:
    """The body without its key. Raises InvalidRequest for what is not of its kind; the ledger looks at the rest."""
    globs, to, dirty = body.get("globs"), body.get("to"), body.get("dirty", "refuse")
    if not isinstance(globs, list) or not all(isinstance(glob, str) for glob in globs) or not globs:
        raise InvalidRequest("`globs` names the part, as a list of globs")
    if not isinstance(to, str) or not to:
        raise InvalidRequest("`to` names the agent that gets the part")
    if not isinstance(dirty, str) or dirty not in _WAYS:
        raise InvalidRequest(f"dirty is refuse, keep or rescue, not {dirty!r}")
    unknown = sorted(set(body) - _KNOWN)
    if unknown:
        raise InvalidRequest(f"a delegation has no {unknown[0]!r}")
    wishes = {name: value for name, value in body.items() if name != "key" and value is not None}
    return {**wishes, "dirty": dirty}
