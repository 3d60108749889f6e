"""GET /healthz: a ledger that cannot write is not healthy, however alive it is."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client.disk_probe import PROBE
from leasefs.service.health import Health
from leasefs.store.errors import StoreUnavailable
from leasefs.store.memory import MemoryStore
from leasefs.store.sqlite import SqliteStore
from leasefs.testing.asgi import AsgiClient

if TYPE_CHECKING:
    from pathlib import Path


def test_a_ledger_that_works_says_ok(serving: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with serving() as ledger:
            reply = await ledger.client.ask("GET", "/healthz")
            assert (reply.status, reply.body) == (200, b"ok\n")
            assert await Health(ledger.writer, str(tmp_path)).problem() == ""
            assert os.listdir(tmp_path) == []

    asyncio.run(main())


def test_one_whose_store_fails_says_why(serving: Any) -> None:
    class BrokenStore(MemoryStore):
        def append(self, after_seq: int, data: Any) -> int:
            raise StoreUnavailable("/store", "an I/O error", "replace the disk")

    async def main() -> None:
        async with serving(BrokenStore()) as ledger:
            reply = await ledger.client.ask("GET", "/healthz")
            assert (reply.status, reply.code) == (503, "unavailable")
            assert "an I/O error" in reply.json["error"]["message"]
            stranger = await AsgiClient(ledger.app, uid=None).ask("GET", "/healthz")
            assert stranger.status == 503
            assert stranger.json["error"]["message"] == "the log cannot be appended to"

    asyncio.run(main())


def test_one_whose_log_was_taken_away_says_so(serving: Any, tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore(tmp_path / "ledger.sqlite3")
        async with serving(store) as ledger:
            assert await Health(ledger.writer, str(tmp_path)).problem() == ""
            os.rename(store.path, tmp_path / "elsewhere")
            assert "was moved, removed" in await Health(ledger.writer, str(tmp_path)).problem()
            os.rename(tmp_path / "elsewhere", store.path)
            assert await Health(ledger.writer, str(tmp_path)).problem() == ""
        store.close()

    asyncio.run(main())


def test_an_append_that_never_comes_back_is_noticed(serving: Any) -> None:
    class HangingStore(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.go_on = threading.Event()

        def append(self, after_seq: int, data: Any) -> int:
            self.go_on.wait()
            return super().append(after_seq, data)

    async def main() -> None:
        store = HangingStore()
        async with serving(store) as ledger:
            try:
                problem = await Health(ledger.writer, within_s=0.05).problem()
                assert "nothing was appended" in problem
            finally:
                store.go_on.set()

    asyncio.run(main())


@pytest.mark.parametrize("how", ["missing", "file"])
def test_a_directory_that_takes_nothing_is_noticed(serving: Any, tmp_path: Path, how: str) -> None:
    if how == "file":
        (tmp_path / "d").touch()

    async def main() -> None:
        async with serving() as ledger:
            problem = await Health(ledger.writer, str(tmp_path / "d")).problem()
            assert f"{tmp_path}/d takes no writes" in problem

    asyncio.run(main())


def test_a_disk_that_hangs_keeps_one_thread(
    serving: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, entered = threading.Event(), []

    def hanging(_directory: str) -> str:
        entered.append(1)
        go_on.wait()
        return ""

    monkeypatch.setattr("leasefs.service.health.why_no_writes", hanging)
    monkeypatch.setattr("leasefs.service.health.GOOD_FOR_S", 0.0)

    async def main() -> None:
        async with serving() as ledger:
            health = Health(ledger.writer, str(tmp_path), within_s=0.05)
            try:
                for _ in range(3):
                    assert "has not answered" in await health.problem()
                assert entered == [1]
            finally:
                go_on.set()
            assert await health.problem() == ""

    asyncio.run(main())


def test_whoever_asks_all_the_time_costs_one_write(
    serving: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasefs.service.health.GOOD_FOR_S", 600.0)

    async def main() -> None:
        async with serving() as ledger:
            health = Health(ledger.writer, str(tmp_path))
            assert await health.problem() == ""
            (tmp_path / f"{PROBE}-{os.getpid()}").mkdir()  # it would be noticed if anybody looked
            assert await asyncio.gather(*(health.problem() for _ in range(20))) == [""] * 20

    asyncio.run(main())
