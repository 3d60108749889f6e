"""Where a run happens: one directory with the trees, the stores, the sockets and the recordings."""

from __future__ import annotations

import os
import re
import subprocess
from typing import NamedTuple

from chaos_runs.disks import Disk
from chaos_runs.shim import Shim

HOT = [f"hot/{number}" for number in range(3)]
MIDDLE = [f"mid/{number}" for number in range(5)]
LOGS = [f"log/{number}" for number in range(3)]
COUNTS = [f"count/{number}" for number in range(2)]
# A save that was cut off, or was refused at its end, leaves its draft, which is nobody's work.
DRAFT = re.compile(r"\.tmp\.\d+$|(^|/)sed\w{6}$")
_PROJECT = """territory = "chaos"

[release]
require = "committed"

[unleased]
wait_s = 4
idle_s = 0.5
ttl_s = 4
"""
_IDENTITY = {
    "GIT_AUTHOR_NAME": "c",
    "GIT_AUTHOR_EMAIL": "c@example.org",
    "GIT_COMMITTER_NAME": "c",
    "GIT_COMMITTER_EMAIL": "c@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}


class Kind(NamedTuple):
    """What sort of mount an agent has."""

    unleased: str
    keep_leases: bool
    own_tree: bool


KINDS = (
    Kind("deny", keep_leases=False, own_tree=False),
    Kind("claim+wait", keep_leases=False, own_tree=False),
    Kind("deny", keep_leases=True, own_tree=False),
    Kind("claim", keep_leases=False, own_tree=False),
    Kind("deny", keep_leases=False, own_tree=True),
    Kind("wait", keep_leases=True, own_tree=False),
)
SHARED = "shared"


class World:
    """The places of one round."""

    def __init__(self, root: str, agents: int) -> None:
        self.root = root
        self.names = [f"a{number}" for number in range(agents)]
        for name in ("m", "s", "r", "h", "c", "rec", "log", "shim", "img"):
            os.makedirs(self.at(name), mode=0o700)
        self.shim = Shim(self.at("shim"))
        os.makedirs(self.at("s/leasefs"), mode=0o700)
        self.journal_disk = Disk(self.at("s/leasefs/journals"), self.at("img/journal"), 16)
        self.store_disk = Disk(self.at("store"), self.at("img/store"), 96)
        self._make_trees()

    def at(self, name: str) -> str:
        """A path of this round."""
        return os.path.join(self.root, name)

    def kind(self, agent: str) -> Kind:
        """What sort of mount this agent has."""
        return KINDS[self.names.index(agent) % len(KINDS)]

    def role(self, agent: str) -> int:
        """Its place in the shim's page."""
        return 1 + self.names.index(agent)

    def tree_of(self, agent: str) -> str:
        """The name of the tree that it works in."""
        return agent if self.kind(agent).own_tree else SHARED

    def trees(self) -> list[str]:
        """All trees."""
        return sorted({self.tree_of(name) for name in self.names})

    def source(self, tree: str) -> str:
        """Where a tree really is."""
        return self.at("tree" if tree == SHARED else f"tree-{tree}")

    def mountpoint(self, agent: str) -> str:
        """Where an agent sees its tree."""
        return self.at(f"m/{agent}")

    def environment(self, role: int, **more: str) -> dict[str, str]:
        """Of every process of this round."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("LEASEFS_", "XDG_", "GIT_"))
        }
        ours = {
            "HOME": self.at("h"),
            "XDG_STATE_HOME": self.at("s"),
            "XDG_RUNTIME_DIR": self.at("r"),
            "XDG_CONFIG_HOME": self.at("h"),
            "XDG_CACHE_HOME": self.at("h"),
            "CHAOS_RUN": self.root,
        }
        return kept | _IDENTITY | ours | self.shim.environment(role) | more

    def makeshifts(self) -> list[str]:
        """What is not as it should be, and used all the same."""
        return [
            f"a loop device: {disk.why}; tmpfs took its place"
            for disk in (self.journal_disk, self.store_disk)
            if disk.kind == "tmpfs"
        ]

    def take_down(self) -> list[str]:
        """Unmount the small file systems; returns what stands against that."""
        return [said for disk in (self.journal_disk, self.store_disk) if (said := disk.unmount())]

    def git(self, tree: str, *arguments: str, fed: str = "", check: bool = True) -> bytes:
        """Run git in the tree beneath all mounts."""
        settings = ["-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false"]
        return subprocess.run(
            ["git", *settings, *arguments],
            cwd=self.source(tree),
            env={**os.environ, **_IDENTITY},
            input=fed.encode(),
            check=check,
            capture_output=True,
        ).stdout

    def _make_trees(self) -> None:
        source = self.source(SHARED)
        os.makedirs(source)
        own = [f"own/{name}/{number}" for name in self.names for number in range(3)]
        for path in [*HOT, *MIDDLE, *LOGS, *own]:
            self._write(os.path.join(source, path), f"# {path}\n")
        for path in COUNTS:
            self._write(os.path.join(source, path), f"{0:012d}\n")
        self._write(os.path.join(source, ".leasefs.toml"), _PROJECT)
        self.git(SHARED, "init", "-q", "-b", "main")
        self.git(SHARED, "add", "-A")
        self.git(SHARED, "commit", "-qm", "first")
        for tree in self.trees():
            if tree != SHARED:
                self.git(SHARED, "worktree", "add", "-q", "-b", tree, self.source(tree))
        for name in self.names:
            os.makedirs(self.mountpoint(name))

    @staticmethod
    def _write(path: str, text: str) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
