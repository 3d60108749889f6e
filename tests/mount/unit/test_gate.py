"""The gate: it asks again after every wait, asks the ledger once, and records each refusal."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from leasefs.core.held import HeldView
from leasefs.core.policy import Op, Reason, Target
from leasefs.mount.errnos import Refusal
from leasefs.mount.gate import Gate, Unsettled, Wanting
from leasefs.mount.handles import OpenFile
from leasefs.mount.inodes import Node
from leasefs.mount.intended import NoIntents
from leasefs.mount.refusals import KEPT, RefusalLog
from leasefs.testing.static_holdings import StaticHoldings, held

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.core.held import HeldLease


def gate_over(holdings: StaticHoldings) -> Gate:
    return Gate(holdings, RefusalLog(holdings.refused))


@pytest.mark.trio
async def test_a_lapsed_lease_is_confirmed_before_it_is_refused() -> None:
    holdings = StaticHoldings(HeldView([held(1, "f", trusted_until_s=0)]))
    holdings.confirm = HeldView([held(1, "f")])
    allowed = await gate_over(holdings).require(Op.OPEN, 1, lambda: [Target(b"f")])
    assert allowed.lease is not None
    assert holdings.asked == 1
    assert holdings.refusals == []


@pytest.mark.trio
async def test_the_ledger_is_asked_once_only() -> None:
    holdings = StaticHoldings(HeldView([held(1, "f", trusted_until_s=0)]))
    with pytest.raises(Refusal) as caught:
        await gate_over(holdings).require(Op.OPEN, 1, lambda: [Target(b"f")])
    assert caught.value.refused.reason is Reason.LAPSED
    assert holdings.asked == 1
    assert [record.reason for record in holdings.refusals] == [Reason.LAPSED]


@pytest.mark.trio
async def test_a_ledger_that_does_not_answer_is_not_waited_for(autojump_clock: object) -> None:
    """A request that stays unanswered hangs its caller, and with it suspend of the whole machine."""

    class Silent(StaticHoldings):
        async def revalidate(self) -> None:
            await trio.sleep_forever()

    holdings = Silent(HeldView([held(1, "f", trusted_until_s=0)]))
    before_s = trio.current_time()
    with pytest.raises(Refusal):
        await gate_over(holdings).require(Op.OPEN, 1, lambda: [Target(b"f")])
    assert trio.current_time() - before_s == 2


@pytest.mark.trio
async def test_nobody_asks_the_ledger_about_what_was_never_leased() -> None:
    holdings = StaticHoldings()
    with pytest.raises(Refusal):
        await gate_over(holdings).require(Op.OPEN, 1, lambda: [Target(b"f")])
    assert holdings.asked == 0


@pytest.mark.trio
async def test_what_is_missing_is_fetched_and_the_question_asked_anew() -> None:
    known: list[str] = []

    async def fetch() -> None:
        known.append("now")

    def describe() -> Sequence[Target]:
        if not known:
            raise Wanting(fetch)
        return [Target(b"f")]

    holdings = StaticHoldings(HeldView([held(1, "f")]))
    assert (await gate_over(holdings).require(Op.OPEN, 1, describe)).lease


@pytest.mark.trio
async def test_what_never_settles_is_busy_and_not_allowed() -> None:
    async def fetch() -> None:
        await trio.lowlevel.checkpoint()

    def describe() -> Sequence[Target]:
        raise Wanting(fetch)

    with pytest.raises(OSError) as caught:  # noqa: PT011 - the errno is what matters
        await gate_over(StaticHoldings()).require(Op.OPEN, 1, describe)
    assert caught.value.errno == errno.EBUSY


@pytest.mark.trio
async def test_the_answer_is_about_the_tree_after_the_wait() -> None:
    """The lease is lost while the gate waits: what was true before does not count."""
    holdings = StaticHoldings(HeldView([held(1, "f")]))
    waiting = trio.Event()
    fetched: list[bool] = []

    async def fetch() -> None:
        await waiting.wait()
        fetched.append(True)

    def describe() -> Sequence[Target]:
        if not fetched:
            raise Wanting(fetch)
        return [Target(b"f")]

    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(Refusal):
                await gate_over(holdings).require(Op.OPEN, 1, describe)

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        holdings.view = HeldView()
        waiting.set()


@pytest.mark.trio
async def test_one_waiting_question_holds_up_no_other() -> None:
    holdings = StaticHoldings(HeldView([held(1, "f")]))
    gate = gate_over(holdings)
    never = trio.Event()

    def describe() -> Sequence[Target]:
        raise Wanting(never.wait)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.require, Op.OPEN, 1, describe)
        await wait_all_tasks_blocked()
        assert (await gate.require(Op.OPEN, 2, lambda: [Target(b"f")])).lease
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("token", "aliased", "unsure", "may"),
    [
        (1, False, False, True),
        (1, True, False, False),
        (1, False, True, False),
        (0, False, False, False),
        (9, False, False, False),
        (-1, False, False, False),
    ],
)
def test_the_hot_path_says_yes_only_to_the_plain_case(
    token: int, aliased: bool, unsure: bool, may: bool
) -> None:
    holdings = StaticHoldings(HeldView([held(1, "f")]))
    file = OpenFile(-1, Node(2, 2, 0o100000), 1, b"f", token=token, aliased=aliased, unsure=unsure)
    assert gate_over(holdings).may_write(file) is may


def test_the_hot_path_follows_the_clock() -> None:
    holdings = StaticHoldings()
    holdings.view = HeldView([held(1, "f", trusted_until_s=holdings.now_s() + 60)])
    file = OpenFile(-1, Node(2, 2, 0o100000), 1, b"f", token=1)
    assert gate_over(holdings).may_write(file)
    holdings.ahead_s = 61
    assert not gate_over(holdings).may_write(file)


@pytest.mark.trio
async def test_the_log_keeps_the_last_refusals() -> None:
    holdings = StaticHoldings()
    log = RefusalLog(holdings.refused)
    gate = Gate(holdings, log)
    for at in range(KEPT + 5):
        targets = [Target(b"%d" % at)]
        with pytest.raises(Refusal):
            await gate.require(Op.OPEN, 1, targets.copy)
    kept = [record.path for record in log.newest_first()]
    assert kept == [b"%d" % at for at in range(KEPT + 4, 4, -1)]
    assert len(holdings.refusals) == KEPT + 5


class Noted(NoIntents):
    """Stands in for the log of intents."""

    def __init__(self) -> None:
        self.paths: list[tuple[bytes, str]] = []

    def is_ahead(self, path: bytes, token: int) -> bool:
        return False

    def ahead(self, path: bytes, kind: str, lease: HeldLease, pid: int, other: bytes = b"") -> None:
        self.paths.append((path, lease.lease_id))


@pytest.mark.parametrize("glob", ["**", "src/**", "src/{}", "src"])
def test_a_directory_that_moves_is_an_intent_under_whatever_glob(glob: str) -> None:
    """P8: all that is below it changes, and no glob matches its name with a slash at the end."""
    globs = [glob.format("old"), glob.format("new"), "src/old/**", "src/new/**"]
    holdings = StaticHoldings(HeldView([held(1, *globs)]))
    noted = Noted()
    gate = Gate(holdings, RefusalLog(holdings.refused), noted)
    targets = [Target(b"src/old", whole_tree=True), Target(b"src/new", whole_tree=True)]
    if glob == "src":
        with pytest.raises(Unsettled):
            gate.admit(Op.RENAME, targets)
        assert noted.paths == []
    else:
        gate.admit(Op.RENAME, targets)
        assert noted.paths == [(b"src/old/", "lease-1"), (b"src/new/", "lease-1")]
