"""A tree whose files belong to an ordinary user, behind a mount that leases a part of it to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leasefs.testing.intruder import AGENT_UID, Intruder
from leasefs.testing.mount_trees import give, snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from leasefs.testing.mounted import Mounted

MINE: dict[str, Any] = {"token": 1, "globs": ["mine/**", "one/f"]}
FILES = (*("mine/f", "mine/g", "mine/d/f", "theirs/f", "theirs/g", "theirs/d/f", "one/f", "one/g"),)


@dataclass(frozen=True)
class Scene:
    """The tree as root sees it beneath, a mount of it, and somebody who wants more than is leased to them."""

    source: Path
    root: Path
    mount: Mounted
    intruder: Intruder

    def hold(self, *leases: dict[str, Any]) -> None:
        """Replace the leases."""
        self.mount.hold(*leases)


def fill(tree: Path, uid: int = AGENT_UID) -> None:
    """Make the tree, all of it the user's, so that file modes refuse nothing."""
    for name in FILES:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("old\n")
    give(tree, uid)


def unleased(tree: Path) -> dict[str, Any]:
    """All that is to be said of what no lease covers."""
    return {**snapshot(tree / "theirs"), "one/g": (tree / "one/g").read_bytes()}
