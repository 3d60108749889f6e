"""Who stands where something was refused: asked when somebody reads of the refusal, never before one (P10).

So a refusal costs no request, and what is read is how things are now: a freeze with its reason, whoever holds the path.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from leasefs.client import api
from leasefs.core.errors import LeasefsError
from leasefs.core.paths import shown, text
from leasefs.core.policy import Reason
from leasefs.mount.refusals import There

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from leasefs.client.lessee import Lessee
    from leasefs.client.transport import Transport
    from leasefs.mount.refusals import RefusalLog

log = logging.getLogger(__name__)

# Whoever reads is not made to wait longer, and does not read of more.
_WITHIN_S = 1.0
_PATHS = 20
_STAYS_TRUE_S = 2.0
# The others say by themselves what stands in the way.
_ASKED = frozenset(
    {
        Reason.NOT_LEASED,
        Reason.LOST,
        Reason.TREE_NOT_LEASED,
        Reason.ALIAS_NOT_LEASED,
        Reason.HELD,
        Reason.WAITED,
        Reason.GIT_COMMAND,
    }
)


class StandingThere:
    """What the ledger said of the paths of refusals, lately."""

    def __init__(self, lessee: Lessee, transport: Transport, refusals: RefusalLog) -> None:
        self._lessee = lessee
        self._transport = transport
        self._refusals = refusals
        self._said: dict[bytes, tuple[float, There]] = {}

    def at(self, path: bytes) -> There:
        """What is known of this path."""
        return self._said.get(path, (0.0, There()))[1]

    async def ask(self) -> None:
        """Ask about the newest refusals, as far as the ledger answers at once."""
        wanted = self._wanted()
        self._said = {path: one for path, one in self._said.items() if path in wanted}
        if not self._lessee.ledger_reachable:
            return
        now_s = self._lessee.now_s()
        with trio.move_on_after(_WITHIN_S):
            async with trio.open_nursery() as nursery:
                for path in wanted:
                    asked_s = self._said.get(path, (float("-inf"), There()))[0]
                    if now_s - asked_s > _STAYS_TRUE_S:
                        nursery.start_soon(self._ask, path, now_s)

    def _wanted(self) -> list[bytes]:
        asked = (one.path for one in self._refusals.newest_first() if one.reason in _ASKED)
        return list(dict.fromkeys(asked))[:_PATHS]

    async def _ask(self, path: bytes, now_s: float) -> None:
        try:
            call = api.who(self._lessee.identity.territory, text(path))
            answer = await self._transport.send(call, timeout_s=_WITHIN_S)
        except LeasefsError as error:
            log.info("who stands at %s cannot be told: %s", shown(path), error.message)
            return
        others = [one for one in answer["leases"] if one["session"] != self._lessee.session]
        self._said[path] = now_s, _there(path, others)


def _there(path: bytes, others: list[Mapping[str, Any]]) -> There:
    """`others` hold the path, or wait for it; only a freeze that waits has a say already."""
    found = [_words(one) for one in others if one["state"] != "waiting" or one["frozen_by"]]
    frozen = next((one for one in others if one["frozen_by"]), None)
    if frozen is None:
        return There("; ".join(found))
    step = (
        f"ask {frozen['frozen_by']}, or wait until it is lifted: leasefs claim {shown(path)} --wait"
    )
    return There("; ".join(found), step)


def _words(lease: Mapping[str, Any]) -> str:
    id_, by = lease["lease"], lease["frozen_by"]
    if by and lease["state"] == "waiting":
        return f"{id_} will freeze it for {by} when its holders have yielded: {lease['note']}"
    if by:
        return f"{id_} is frozen by {by}, nobody may write there: {lease['note']}"
    how = ", shared" if lease["mode"] == "shared" else ""
    if lease["state"] != "granted":
        how += f", {lease['state']}"
    return f"{lease['agent']} ({lease['harness']}) holds {' '.join(lease['globs'])} as {id_}{how}"
