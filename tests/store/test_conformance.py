"""Both engines that ship, held to the port's rules."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from leasefs.store.memory import MemoryStore
from leasefs.store.sqlite import SqliteStore
from leasefs.testing.store_conformance import StoreConformance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from leasefs.store.port import Store
    from leasefs.store.waiting import Waiter


class TestMemory(StoreConformance):
    @pytest.fixture
    def make_store(self) -> Callable[[Waiter | None], Store]:
        return lambda waiter: MemoryStore(waiter=waiter)


class TestSqlite(StoreConformance):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Callable[[Waiter | None], Store]:
        numbers = count()
        return lambda waiter: SqliteStore(tmp_path / f"{next(numbers)}.db", waiter=waiter)


class TestSqliteBesideAnOwner(StoreConformance):
    """Not exclusive: the head is polled too, and must behave the same."""

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Callable[[Waiter | None], Store]:
        numbers = count()

        def make(waiter: Waiter | None) -> Store:
            path = tmp_path / f"{next(numbers)}.db"
            SqliteStore(path).close()
            return SqliteStore(path, exclusive=False, waiter=waiter)

        return make
