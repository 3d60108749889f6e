"""What a mount refused reaches the ledger's history, in batches that fit."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import trio

from leasefs.client import api
from leasefs.core.policy import Op, Reason, RefusalRecord
from leasefs.testing.mock_time import on_mock_clock

if TYPE_CHECKING:
    from conftest import OpenLessee

    from leasefs.testing.core_ledger import CoreLedger


def refusal(number: int, path: bytes = b"") -> RefusalRecord:
    return RefusalRecord(
        Op.WRITE,
        path or b"caf\xe9%d" % number,
        Reason.NOT_LEASED,
        errno.EACCES,
        7,
        "vim",
        1.7e9,
        None,
    )


@on_mock_clock
async def test_refusals_are_reported_at_most_once_a_second(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        for number in range(3):
            lessee.refused(refusal(number))
            await trio.sleep(0.2)
        await trio.sleep(2)
        reports = [call.body["refusals"] for call in ledger.calls_to("/refusals") if call.body]
        assert [len(report) for report in reports] == [1, 2]
        assert reports[0][0] == {
            "path": "caf\udce90",
            "op": "write",
            "reason": Reason.NOT_LEASED.value,
            "errno": "EACCES",
            "pid": 7,
            "program": "vim",
            "wall_s": 1.7e9,
        }


@on_mock_clock
async def test_too_many_refusals_are_dropped_and_counted(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        ledger.away = True
        for number in range(1500):
            lessee.refused(refusal(number))
        await trio.sleep(3)
        ledger.away = False
        await trio.sleep(20)
        told = [
            one
            for call in ledger.calls_to("/refusals")
            if call.body
            for one in call.body["refusals"]
        ]
        assert told[0]["reason"] == "500 earlier refusals were dropped while the ledger was away"
        assert len(told) == 1001
        assert told[-1]["path"] == "caf\udce91499"


@on_mock_clock
async def test_refusals_of_long_paths_fit_into_their_requests(
    ledger: CoreLedger, lessee_of: OpenLessee
) -> None:
    async with lessee_of() as lessee:
        for number in range(400):
            lessee.refused(refusal(number, b"\xff" * 4096))
        await trio.sleep(60)
        calls = ledger.calls_to("/refusals")
        assert sum(len(call.body["refusals"]) for call in calls if call.body) == 400
        assert max(len(api.encode(call)) for call in calls) < 1 << 20
