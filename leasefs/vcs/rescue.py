"""Rescues: uncommitted work kept as commits below `refs/leasefs/rescue/`, and put back (P9).

This is the whole of it for callers; everything here blocks, so a loop calls it in a worker thread.
"""

from __future__ import annotations

from leasefs.vcs.rescue_record import About, KeptPath, Kind, Problem, Rescue
from leasefs.vcs.rescue_restore import Restored, compared, restore
from leasefs.vcs.rescue_snapshot import RescueMade, snapshot
from leasefs.vcs.rescue_store import (
    bare_repository,
    content,
    drop,
    place_outside,
    read,
    rescues,
)

__all__ = [
    "About",
    "KeptPath",
    "Kind",
    "Problem",
    "Rescue",
    "RescueMade",
    "Restored",
    "bare_repository",
    "compared",
    "content",
    "drop",
    "place_outside",
    "read",
    "rescues",
    "restore",
    "snapshot",
]
