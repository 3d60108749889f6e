"""What ends the process, and with which number and which line."""

from __future__ import annotations

from typing import Any

import pytest

from leasefs.core.errors import LedgerUnavailable
from leasefs.service import __main__ as program
from leasefs.store.errors import StoreFull, StoreLocked

ARGUMENTS = ["--socket", "/s", "--store", "/d"]


@pytest.mark.parametrize(
    ("error", "embedded", "code", "words"),
    [
        (StoreLocked("/d/l", 7), False, 1, "in use by process 7"),
        (StoreLocked("/d/l", 7), True, 0, ""),
        (StoreFull("/d/l"), True, 1, "no space left"),
        (LedgerUnavailable("the ledger cannot write: no space left"), True, 1, "cannot write"),
        (PermissionError(13, "Permission denied", "/s"), True, 1, "Permission denied: '/s'"),
    ],
)
def test_a_failure_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    embedded: bool,
    code: int,
    words: str,
) -> None:
    def fails(*_: Any) -> None:
        raise error

    monkeypatch.setattr(program, "serve", fails)
    monkeypatch.setattr(program, "log_as", lambda *_, **__: None)
    assert program.main([*ARGUMENTS, *(["--embedded"] if embedded else [])]) == code
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == (1 if words else 0)
