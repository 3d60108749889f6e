"""What is wrong is refused, by its own code, and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core.commands import (
    OpenSession,
)
from leasefs.core.lease import MAX_GLOBS

if TYPE_CHECKING:
    from leasefs.testing.ledger_driver import LedgerDriver


@pytest.mark.parametrize(
    ("globs", "more", "code"),
    [
        ((), {}, "invalid"),
        (("x",) * (MAX_GLOBS + 1), {}, "invalid"),
        (("",), {}, "bad-pattern"),
        (("../x",), {}, "bad-pattern"),
        (("/x",), {}, "bad-pattern"),
        (("a\0b",), {}, "bad-pattern"),
        (("!x",), {}, "bad-pattern"),
        (("x" * 10_000,), {}, "bad-pattern"),
        (("x",), {"ttl_s": 0}, "bad-ttl"),
        (("x",), {"ttl_s": -1}, "bad-ttl"),
        (("x",), {"ttl_s": 365 * 86400}, "bad-ttl"),
        (("x",), {"ttl_s": float("nan")}, "bad-ttl"),
        (("x",), {"priority": 1000}, "invalid"),
        (("x",), {"note": "n" * 5000}, "invalid"),
        (("x",), {"key": "k" * 200}, "invalid"),
    ],
)
def test_bad_claims_change_nothing(
    ledger: LedgerDriver, refused: Any, globs: tuple[str, ...], more: dict[str, Any], code: str
) -> None:
    before = ledger.state
    with refused(code):
        ledger.claim("a", *globs, **more)
    assert ledger.state is before


@pytest.mark.parametrize(
    "wrong",
    [
        {"agent": ""},
        {"agent": "a b"},
        {"agent": "a\nb"},
        {"harness": "x" * 65},
        {"territory": ""},
        {"secret_sha256": "short"},
        {"session": "../../x"},
        {"kind": "ghost"},
        {"pid": -1},
    ],
)
def test_bad_sessions_are_refused(
    ledger: LedgerDriver, refused: Any, wrong: dict[str, Any]
) -> None:
    good: dict[str, Any] = {
        "session": "session-new",
        "secret_sha256": "0" * 64,
        "agent": "new",
        "harness": "h",
        "territory": "t",
        "kind": "run",
        "host": "h",
        "pid": 1,
    }
    decision = ledger.run(OpenSession(**{**good, **wrong}))
    assert decision.error is not None
    assert decision.error.code == "invalid"
    assert not decision.events


def test_a_stolen_session_id_is_of_no_use(ledger: LedgerDriver) -> None:
    decision = ledger.run(OpenSession("session-a", "f" * 64, "a", "h", "t", "run", "h", 1))
    assert decision.error is not None
    assert decision.error.code == "denied"
