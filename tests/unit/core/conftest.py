"""A ledger for the cases of tests/unit/core, and a short word for a refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core.errors import LeasefsError
from leasefs.testing.ledger_driver import LedgerDriver

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def ledger() -> LedgerDriver:
    """Agents a, b and c have sessions."""
    return LedgerDriver()


@pytest.fixture
def refused() -> Callable[[str], Any]:
    """A context that expects the error with the code it is given."""

    def expect(code: str) -> Any:
        return pytest.raises(LeasefsError, check=lambda error: getattr(error, "code", "") == code)

    return expect
