"""The page that `shim.c` reads, and the shim itself, compiled when a run begins."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess

ROLES = 64
LEDGER = 0
_NUMBER = struct.Struct("=q")
_NS = 1_000_000_000


class Shim:
    """Faults that are made in the processes themselves. `missing` says why there are none."""

    def __init__(self, directory: str) -> None:
        self._page_path = os.path.join(directory, "page")
        self._library = os.path.join(directory, "shim.so")
        self.missing = _compiled(self._library)
        with open(self._page_path, "wb") as file:
            file.write(bytes(_NUMBER.size * (1 + 2 * ROLES)))
        with open(self._page_path, "r+b") as file:
            self._page = mmap.mmap(file.fileno(), 0)

    def environment(self, role: int) -> dict[str, str]:
        """What a process of this role gets."""
        if self.missing:
            return {}
        return {
            "LD_PRELOAD": self._library,
            "CHAOS_PAGE": self._page_path,
            "CHAOS_ROLE": str(role),
        }

    def suspend(self, seconds: float) -> None:
        """Let CLOCK_BOOTTIME be so much later, for everybody and for good."""
        self._set(0, self._get(0) + round(seconds * _NS))

    def set_wall(self, role: int, ahead_s: float) -> None:
        """Let the wall clock of a role be off by so much."""
        self._set(1 + 2 * role, round(ahead_s * _NS))

    def set_sync_error(self, role: int, code: int) -> None:
        """Let fsync(2) and fdatasync(2) of a role fail with this errno; 0: no more."""
        self._set(2 + 2 * role, code)

    def _get(self, place: int) -> int:
        return int(_NUMBER.unpack_from(self._page, place * _NUMBER.size)[0])

    def _set(self, place: int, value: int) -> None:
        _NUMBER.pack_into(self._page, place * _NUMBER.size, value)


def _compiled(library: str) -> str:
    """Empty, or why there is no shim."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return "no C compiler"
    source = os.path.join(os.path.dirname(__file__), "shim.c")
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"the shim does not compile: {done.stderr.strip()}"
