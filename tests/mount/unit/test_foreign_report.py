"""From suspicions to a report: held back, put together, explained by others, kept while the ledger is away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from leasefs.core.errors import LedgerUnavailable
from leasefs.core.held import HeldView
from leasefs.core.policy import Place
from leasefs.mount.foreign_log import ForeignLog
from leasefs.mount.foreign_report import GATHERED_S, HELD_BACK_S, ForeignReport
from leasefs.testing.static_holdings import StaticHoldings, held

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasefs.client.api import Body, Call

pytestmark = pytest.mark.trio


class Bench:
    """A report whose ledger, other mounts and ground are here."""

    def __init__(self) -> None:
        self.reports: list[Body] = []
        self.away = False
        self.others: set[bytes] = set()
        self.journals: set[bytes] = set()
        self.asked = 0
        self.rank = 0
        self.comes_meanwhile = False
        self.found = ForeignLog()
        holdings = StaticHoldings(HeldView([held(1, "held/**")]))
        self.report = ForeignReport(
            "t-1",
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            holdings,
            self.found,
            trio.current_time,
        )

    # a transport

    async def send(self, call: Call, *, timeout_s: float) -> Body:
        if self.away:
            raise LedgerUnavailable("away")
        assert call.body is not None
        self.reports.append(call.body)
        return {}

    # others

    async def look(self) -> int:
        return self.rank

    async def written_down(self, suspected: Mapping[bytes, float]) -> set[bytes]:
        return self.journals & suspected.keys()

    async def theirs(self, suspected: Mapping[bytes, float], now_s: float) -> set[bytes]:
        self.asked += 1
        self.rank += self.comes_meanwhile
        self.comes_meanwhile = False
        if self.away:
            raise LedgerUnavailable("away")
        return self.others & suspected.keys()

    # a tree with its ground

    @property
    def ground(self) -> Bench:
        return self

    def place(self, path: bytes, *, is_dir: bool) -> Place:
        return Place.SCRATCH if path.endswith(b".o") else Place.TREE

    def told(self) -> list[tuple[str, str]]:
        return [(one["path"], one["what"]) for body in self.reports for one in body["changes"]]


@pytest.fixture
async def bench(nursery: trio.Nursery) -> Bench:
    bench = Bench()
    nursery.start_soon(bench.report.run, bench)  # type: ignore[arg-type]
    return bench


async def test_a_change_is_told_within_a_second(bench: Bench, autojump_clock: object) -> None:
    began_s = trio.current_time()
    bench.report.suspect(b"a", "created")
    assert HELD_BACK_S + GATHERED_S < 1.0
    await trio.sleep(HELD_BACK_S + GATHERED_S + 0.1)
    assert bench.told() == [("a", "created")]
    assert bench.reports[0]["changes"][0]["wall_s"] == began_s
    assert bench.reports[0]["events_lost"] is False
    await trio.sleep(60)
    assert len(bench.reports) == 1


@pytest.mark.parametrize(
    ("happens", "told"),
    [
        (["created", "modified"], ["created"]),
        (["created", "deleted"], []),
        (["created", "deleted", "created"], ["created"]),
        (["deleted", "created"], ["modified"]),
        (["modified", "mode"], ["modified"]),
        (["mode", "modified"], ["modified"]),
        (["modified", "deleted"], ["deleted"]),
    ],
)
async def test_what_happens_to_a_path_within_a_moment_is_one_change(
    bench: Bench, autojump_clock: object, happens: list[str], told: list[str]
) -> None:
    for what in happens:
        bench.report.suspect(b"a", what)
    await trio.sleep(2)
    assert bench.told() == [("a", what) for what in told]


async def test_scratch_and_what_others_explain_is_dropped(
    bench: Bench, autojump_clock: object
) -> None:
    bench.others = {b"theirs"}
    for path in (b"x.o", b"theirs", b"foreign"):
        bench.report.suspect(path, "modified")
    await trio.sleep(2)
    assert bench.told() == [("foreign", "modified")]


async def test_what_the_ledger_could_not_be_told_is_told_later(
    bench: Bench, autojump_clock: object
) -> None:
    bench.away = True
    bench.report.suspect(b"a", "created")
    bench.report.suspect(b"b", "deleted")
    bench.report.events_lost()
    await trio.sleep(30)
    bench.report.suspect(b"a", "modified")
    bench.report.suspect(b"b", "created")
    bench.away = False
    await trio.sleep(30)
    assert sorted(bench.told()) == [("a", "created"), ("b", "modified")]
    assert [body["events_lost"] for body in bench.reports].count(True) == 1


async def test_the_holder_is_told_at_once_and_once(bench: Bench, autojump_clock: object) -> None:
    bench.report.suspect(b"held/a", "modified")
    bench.report.suspect(b"b", "modified")
    await trio.sleep(2)
    (fact,) = bench.found.newest_first()
    assert (fact.path, fact.what, fact.lease) == (b"held/a", "modified", "lease-1")
    change = next(one for one in bench.reports[0]["changes"] if one["path"] == "held/a")
    heard = {"changes": [{**change, "holder": {"agent": "agent-07", "lease": "lease-1"}}]}
    bench.found.heard(heard, {"lease-1"})
    assert len(list(bench.found.newest_first())) == 1


async def test_what_journals_explain_needs_nobody_else(
    bench: Bench, autojump_clock: object
) -> None:
    bench.journals = {b"a", b"b"}
    bench.report.suspect(b"a", "modified")
    bench.report.suspect(b"b", "modified")
    await trio.sleep(2)
    assert (bench.asked, bench.told()) == (0, [])
    bench.report.suspect(b"b", "modified")
    bench.report.suspect(b"c", "modified")
    await trio.sleep(6)
    assert (bench.asked, bench.told()) == (1, [("c", "modified")])


async def test_what_comes_all_the_time_is_looked_at_now_and_then(
    bench: Bench, autojump_clock: object
) -> None:
    for at in range(200):
        bench.report.suspect(b"%d" % at, "modified")
        await trio.sleep(0.01)
    await trio.sleep(2)
    assert len(bench.told()) == 200
    assert bench.asked <= 12


async def test_a_path_that_is_written_all_the_time_is_told_now_and_then(
    bench: Bench, autojump_clock: object
) -> None:
    for _ in range(200):
        bench.report.suspect(b"log", "modified")
        await trio.sleep(0.1)
    assert 3 <= len(bench.reports) <= 6


async def test_a_mount_that_came_meanwhile_reports_before_this_one(
    bench: Bench, autojump_clock: object
) -> None:
    bench.comes_meanwhile = True
    bench.report.suspect(b"a", "modified")
    await trio.sleep(HELD_BACK_S + GATHERED_S + 0.4)
    assert (bench.asked, bench.told()) == (1, [])
    bench.others = {b"a"}
    await trio.sleep(2)
    assert (bench.asked, bench.told()) == (2, [])


async def test_mounts_that_see_the_same_report_one_after_the_other(
    bench: Bench, autojump_clock: object
) -> None:
    bench.rank = 2
    bench.report.suspect(b"a", "modified")
    await trio.sleep(HELD_BACK_S + GATHERED_S + 0.9)
    assert ("a", "modified") not in bench.told()
    await trio.sleep(0.2)
    assert ("a", "modified") in bench.told()


async def test_reports_fit_into_requests(bench: Bench, autojump_clock: object) -> None:
    for at in range(1_200):
        bench.report.suspect(b"%d" % at, "modified")
    await trio.sleep(5)
    assert [len(body["changes"]) for body in bench.reports] == [500, 500, 200]
