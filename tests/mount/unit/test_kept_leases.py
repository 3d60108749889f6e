"""Which leases of a former session are claimed again, and what becomes of those that could not be yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio
import trio.testing

from leasefs.core.errors import ClaimConflict, Denied, LedgerUnavailable
from leasefs.mount.kept_leases import KeptLeases
from leasefs.mount.unleased_claims import NOTE

if TYPE_CHECKING:
    from leasefs.client import api
    from leasefs.client.lessee import Lessee
    from leasefs.client.transport import Transport

pytestmark = pytest.mark.trio


def lease(glob: str, **fields: Any) -> dict[str, Any]:
    usual = {"lease": f"L-{glob}", "agent": "ada", "state": "granted", "mode": "exclusive"}
    return {**usual, "globs": [glob], "ttl_s": 60.0, "priority": 0, "note": "", **fields}


class Ledger:
    """Answers for both the lessee and the transport; `asked` are the claims that came by each."""

    def __init__(self, *held: dict[str, Any]) -> None:
        self.held = held
        self.identity = SimpleNamespace(agent="ada", territory="t")
        self.adopted: list[dict[str, Any]] = []
        self.sent: list[dict[str, Any]] = []
        self.tried: list[str] = []
        self.fault: Exception | None = None
        self.answers = trio.Event()
        self.answers.set()

    async def send(self, call: api.Call, *, timeout_s: float) -> dict[str, Any]:
        if self.fault is not None:
            raise self.fault
        if call.method == "GET":
            return {"leases": list(self.held)}
        self.sent.append(cast("dict[str, Any]", call.body))
        return {"lease": "new"}

    async def claim(self, call: api.Call) -> dict[str, Any]:
        self.tried.append(cast("dict[str, Any]", call.body)["key"])
        await self.answers.wait()
        if self.fault is not None:
            raise self.fault
        self.adopted.append(cast("dict[str, Any]", call.body))
        return {"lease": "new"}


def kept(ledger: Ledger, *, wanted: bool = True) -> KeptLeases:
    return KeptLeases(cast("Lessee", ledger), cast("Transport", ledger), wanted=wanted)


def globs(bodies: list[dict[str, Any]]) -> list[str]:
    return [glob for body in bodies for glob in body["globs"]]


async def test_as_they_were_and_no_others() -> None:
    ledger = Ledger(
        lease("a", mode="shared", ttl_s=7.0, priority=2, note="why"),
        lease("others", agent="bob"),
        lease("lapsed", state="lapsed"),
        lease("part", parent="L9"),
        lease("by-a-write", note=NOTE),
        lease("z"),
    )
    keeping = kept(ledger)
    await keeping.look()
    await keeping.claim_again()
    assert globs(ledger.adopted) == ["a", "z"]
    first = ledger.adopted[0]
    assert (first["mode"], first["ttl_s"], first["priority"], first["note"], first["wait"]) == (
        "shared",
        7.0,
        2,
        "why",
        False,
    )
    await keeping.hand_on()
    assert ledger.sent == []


async def test_what_somebody_else_has_by_now_is_left() -> None:
    ledger = Ledger(lease("a"), lease("b"))
    keeping = kept(ledger)
    await keeping.look()
    ledger.fault = ClaimConflict("bob holds it")
    await keeping.claim_again()
    ledger.fault = None
    await keeping.hand_on()
    assert ledger.adopted == ledger.sent == []


async def test_a_ledger_that_is_away_is_asked_again_with_the_same_key(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ledger = Ledger(lease("a"))
    keeping = kept(ledger)
    await keeping.look()
    ledger.fault = LedgerUnavailable("away")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeping.claim_again)
        await trio.sleep(10)
        ledger.fault = None
    assert globs(ledger.adopted) == ["a"]
    assert len(ledger.tried) > 1
    assert len(set(ledger.tried)) == 1


async def test_an_end_amid_it_hands_on_the_rest_under_the_same_keys() -> None:
    ledger = Ledger(lease("a"), lease("b"))
    keeping = kept(ledger)
    await keeping.look()
    ledger.answers = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeping.claim_again)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    await keeping.hand_on()
    assert globs(ledger.sent) == ["a", "b"]
    # The first may have been granted already: asked again, it is the same claim.
    assert ledger.tried == [ledger.sent[0]["key"]]


async def test_asked_to_give_back_it_hands_on_nothing() -> None:
    ledger = Ledger(lease("a"))
    keeping = kept(ledger)
    await keeping.look()
    keeping.gives_back = lambda: True
    assert not keeping.keeps
    await keeping.hand_on()
    assert ledger.sent == []


async def test_unwanted_it_asks_nobody() -> None:
    ledger = Ledger(lease("a"))
    ledger.fault = LedgerUnavailable("away")
    keeping = kept(ledger, wanted=False)
    await keeping.look()
    await keeping.claim_again()
    assert not keeping.keeps


async def test_no_session_begins_before_it_is_known_what_was_held() -> None:
    ledger = Ledger(lease("a"))
    ledger.fault = LedgerUnavailable("away")
    with pytest.raises(LedgerUnavailable):
        await kept(ledger).look()
    ledger.fault = Denied("no")
    await kept(ledger).look()
