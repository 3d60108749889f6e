"""Every kind of fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos_runs.nemeses.clocks import OtherTimeNamespace, Suspend, WallClock
from chaos_runs.nemeses.cutting import LedgerAway, OneCable
from chaos_runs.nemeses.filling import FullDisk
from chaos_runs.nemeses.freezing import Freeze
from chaos_runs.nemeses.killing import AgentKill, ServerEnd
from chaos_runs.nemeses.operating import FrozenGround, Recall, Revoke
from chaos_runs.nemeses.syncing import SyncError

if TYPE_CHECKING:
    from chaos_runs.nemeses.nemesis import Nemesis


def all_nemeses() -> list[Nemesis]:
    """One of each kind."""
    return [
        ServerEnd("mount kill", weight=5.0),
        ServerEnd("mount stop", weight=1.0),
        ServerEnd("ledger kill", weight=4.0),
        ServerEnd("ledger stop", weight=1.0),
        AgentKill("agent kill", weight=2.0),
        Freeze("mount freeze", weight=6.0),
        Freeze("ledger freeze", weight=3.0),
        OneCable("cable cut", weight=3.0),
        OneCable("cable hole", weight=2.0),
        OneCable("cable deaf", weight=3.0),
        LedgerAway("ledger away", weight=1.0),
        FullDisk("journal full", weight=2.0),
        FullDisk("store full", weight=2.0),
        SyncError("store sync error", weight=2.0),
        SyncError("mount sync error", weight=1.0),
        WallClock("wall clock step", weight=2.0),
        Suspend("suspend", weight=1.5),
        OtherTimeNamespace("other clock", weight=0.7),
        Recall("(recall)", weight=1.5),
        Revoke("(revoke)", weight=1.5),
        FrozenGround("(freeze)", weight=0.5),
    ]
