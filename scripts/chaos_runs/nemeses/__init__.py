"""Every kind of fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos_runs.nemeses.clocks import OtherTimeNamespace, Suspend, WallClock
from chaos_runs.nemeses.cutting import LedgerAway, OneCable
from chaos_runs.nemeses.filling import FullDisk
from chaos_runs.nemeses.freezing import Freeze
from chaos_runs.nemeses.killing import AgentKill, LedgerEnd, MountEnd
from chaos_runs.nemeses.operating import FrozenGround, Recall, Revoke
from chaos_runs.nemeses.syncing import SyncError

if TYPE_CHECKING:
    from chaos_runs.storm import Nemesis


def all_nemeses() -> list[Nemesis]:
    """One of each kind."""
    return [
        MountEnd("mount kill", by_kill=True, weight=5.0),
        MountEnd("mount stop", by_kill=False, weight=1.0),
        LedgerEnd("ledger kill", by_kill=True, weight=4.0),
        LedgerEnd("ledger stop", by_kill=False, weight=1.0),
        AgentKill(),
        Freeze("mount freeze", weight=6.0),
        Freeze("ledger freeze", weight=3.0),
        OneCable("cable cut", weight=3.0),
        OneCable("cable hole", weight=2.0),
        OneCable("cable deaf", weight=3.0),
        LedgerAway(),
        FullDisk("journal full", weight=2.0),
        FullDisk("store full", weight=2.0),
        SyncError("store sync error", weight=2.0),
        SyncError("mount sync error", weight=1.0),
        WallClock(),
        Suspend(),
        OtherTimeNamespace(),
        Recall(),
        Revoke(),
        FrozenGround(),
    ]
