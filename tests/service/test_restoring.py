"""How long a restored ledger grants nothing: as long as anybody may trust a lease of the one that it replaces (P3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasefs.core.commands import ClaimLease, Freeze, ReleaseLease, RevokeLease
from leasefs.service.entries import record_of
from leasefs.service.restoring import restore
from leasefs.store.errors import StoreLocked
from leasefs.store.sqlite import SqliteStore
from leasefs.store.sqlite_backup import back_up
from leasefs.testing.command_histories import SESSIONS, decisions, open_command

if TYPE_CHECKING:
    from pathlib import Path

    from leasefs.core.commands import AnyCommand

LONG = ClaimLease(SESSIONS[0], "long", ("a/**",), ttl_s=3000.0)
SHORTER = ClaimLease(SESSIONS[0], "shorter", ("a/**",), ttl_s=60.0)


def nothing(_done: int, _total: int) -> None:
    pass


def closed_for_s(tmp_path: Path, *commands: tuple[AnyCommand, float]) -> float:
    """Of a sound ledger in which these were carried out after the backup."""
    place = tmp_path / "store"
    place.mkdir(mode=0o700)
    store = SqliteStore(place / "ledger.sqlite3")
    for number, (before, decision) in enumerate(decisions([(open_command(0), 0.0), *commands])):
        for event in decision.events:
            record = record_of(event, before, decision.state, 0.0)
            store.append(event.seq - 1, [record.data])
        if number == 0:
            back_up(store.path, str(tmp_path / "copy.db"), nothing)
    with pytest.raises(StoreLocked):
        _restored(tmp_path)
    store.close()
    return _restored(tmp_path)


def _restored(tmp_path: Path) -> float:
    done = restore(
        str(tmp_path / "copy.db"),
        str(tmp_path / "store"),
        by="root",
        over=True,
        closed_for_s=None,
        told=nothing,
    )
    return done.closed_for_s


@pytest.mark.parametrize(
    ("commands", "expected_s"),
    [
        ([], 0.0),
        ([(LONG, 1.0)], 3000.0),
        ([(LONG, 1.0), (ReleaseLease(SESSIONS[0], "r", "L2"), 1.0)], 0.0),
        ([(LONG, 1.0), (SHORTER, 10.0)], 2990.0),
        ([(LONG, 1.0), (RevokeLease("op", "L2"), 10.0)], 3000.0),
        ([(Freeze("op", "f", "t", ("z/**",), "why"), 1.0)], 0.0),
    ],
    ids=["nothing", "held", "given back", "renewed for less", "revoked", "a freeze"],
)
def test_as_long_as_anybody_may_trust_a_lease_of_it(
    tmp_path: Path, commands: list[tuple[AnyCommand, float]], expected_s: float
) -> None:
    assert closed_for_s(tmp_path, *commands) == expected_s
