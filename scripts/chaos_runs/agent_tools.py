"""What an agent has tools do: shells, sed, git, `leasefs run`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from typing import TYPE_CHECKING

from chaos_runs.mounts import LEASEFS
from leasefs.testing.chaos.acts import NO, OK, UNSURE

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from chaos_runs.agent_leases import Leases
    from leasefs.testing.chaos.acts import ActRecorder

_REFUSED = ("Permission denied", "Stale file handle", "No space left", "Directory nonexistent")
# What `leasefs run` ends with if it did not start its command (docs/EXIT_CODES.md).
_NOT_STARTED = frozenset({3, 4, 5, 7, 8, 9, 10, 11})
_LOCK_IS_OLD_S = 8.0


class Tools:
    """Runs tools in the mount."""

    def __init__(
        self,
        record: ActRecorder,
        dice: random.Random,
        place: str,
        tree: str,
        leases: Leases,
    ) -> None:
        self._record = record
        self._dice = dice
        self._place = place
        self._tree = tree
        self._leases = leases

    def shell_append(self, path: str) -> None:
        """`echo LINE >> PATH`."""
        line = self._line()
        self._written("shell", path, line, ["sh", "-c", f"echo {line} >> {path}"])

    def sed(self, path: str) -> None:
        """`sed -i '$ a LINE' PATH`, only on ground that is held: sed reads before it writes."""
        if self._leases.held_of([path]):
            line = self._line()
            self._written("save", path, line, ["sed", "-i", f"$ a {line}", path])

    def run(self, path: str) -> None:
        """`leasefs run --claim PATH -- ...`."""
        line = self._line()
        command = [LEASEFS, "run", "--claim", path, "--ttl", "3s", "--wait", "2s", "--"]
        self._written(
            "shell", path, line, [*command, "sh", "-c", f"echo {line} >> {path}"], _NOT_STARTED
        )

    def commit(self, paths: Sequence[str]) -> None:
        """`git commit` of these paths alone."""
        number = self._record.begin("commit", tree=self._tree, told=" ".join(paths))
        added = self._tool(["git", "add", "-A", "--", *paths])
        done = added and self._tool(["git", "commit", "-q", "-m", "work", "--", *paths])
        said = "" if done is None else done.stderr
        if "index.lock" in said:
            self._break_old_lock()
        ok = done is not None and done.returncode == 0
        self._record.end(number, OK if ok else UNSURE, told=said[-200:])

    def _written(
        self,
        what: str,
        path: str,
        line: str,
        command: Sequence[str],
        not_started: frozenset[int] = frozenset(),
    ) -> None:
        number = self._record.begin(what, tree=self._tree, path=path, line=line)
        done = self._tool(command)
        if done is None:
            self._record.end(number, UNSURE)
        elif done.returncode == 0:
            self._record.end(number, OK)
        else:
            refused = done.returncode in not_started or any(why in done.stderr for why in _REFUSED)
            told = f"exit {done.returncode}: {done.stderr[-160:]}"
            self._record.end(number, NO if refused else UNSURE, told=told)

    def _tool(self, command: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
        with contextlib.suppress(OSError):
            return subprocess.run(
                command,
                cwd=self._place,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        return None

    def _line(self) -> str:
        return f"L{os.getpid()}.{self._dice.randrange(10**12)}"

    def _break_old_lock(self) -> None:
        """A git that died with its mount leaves its lock behind; whoever finds it old removes it, as people do."""
        with contextlib.suppress(OSError):
            lock = os.path.join(self._place, ".git/index.lock")
            if time.time() - os.stat(lock).st_mtime > _LOCK_IS_OLD_S:
                os.unlink(lock)
