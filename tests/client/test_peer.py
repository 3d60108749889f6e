"""Who may be handed a session's secret."""

from __future__ import annotations

import os
import pwd
from types import SimpleNamespace
from typing import TYPE_CHECKING

from leasefs.client.peer import LEDGER_ACCOUNT, may_be_ledger

if TYPE_CHECKING:
    import pytest


def test_root_oneself_and_the_ledgers_account_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_name(name: str) -> SimpleNamespace:
        assert name == LEDGER_ACCOUNT
        return SimpleNamespace(pw_uid=4242)

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(pwd, "getpwnam", of_name)
    assert [may_be_ledger(uid) for uid in (0, 1000, 4242, 1001)] == [True, True, True, False]


def test_without_such_an_account_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_name(name: str) -> SimpleNamespace:
        raise KeyError(name)

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(pwd, "getpwnam", of_name)
    assert [may_be_ledger(uid) for uid in (0, 1000, 4242)] == [True, True, False]
