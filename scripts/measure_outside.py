"""How long until a mount shows what was changed beneath it: python scripts/measure_outside.py [CHANGES].

Idle, and while others read and write through the mount and beneath it. Needs root and /dev/fuse.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from leasefs.testing.mounted import mounted

if TYPE_CHECKING:
    from collections.abc import Callable

LOAD = """
import os, random, sys
root, dice = sys.argv[1], random.Random(int(sys.argv[2]))
while True:
    directory = f"{root}/{dice.randrange(20)}"
    for name in os.listdir(directory)[:50]:
        try:
            os.stat(f"{directory}/{name}")
            open(f"{directory}/{name}").close()
        except FileNotFoundError:
            pass
    path = f"{directory}/{sys.argv[2]}-{dice.randrange(50)}"
    open(path, "w").write("y" * 5000)
    if dice.random() < 0.3:
        os.unlink(path)
"""


def delay_ms(seen: Callable[[], bool]) -> float:
    """Milliseconds until it is seen."""
    before_s = time.perf_counter()
    while not _quiet(seen):
        pass
    return (time.perf_counter() - before_s) * 1e3


def _quiet(seen: Callable[[], bool]) -> bool:
    with contextlib.suppress(OSError):  # what is looked at may be about to vanish
        return seen()
    return False


def delays_ms(beneath: Path, mount: Path) -> list[float]:
    """One name made, its mode and size changed, and removed."""
    mount.exists()
    beneath.touch()
    delays = [delay_ms(mount.exists)]
    beneath.chmod(0o600)
    delays.append(delay_ms(lambda: mount.stat().st_mode & 0o777 == 0o600))
    beneath.write_text("abc")
    delays.append(delay_ms(lambda: mount.stat().st_size == len("abc")))
    beneath.unlink()
    delays.append(delay_ms(lambda: not mount.exists()))
    return delays


def measure(label: str, base: Path, changes: int) -> None:
    found: list[float] = []
    for at in range(changes // 4):
        found += delays_ms(base / f"source/d/n{at}", base / f"mount/d/n{at}")
    found.sort()
    print(
        f"{label}: median {statistics.median(found):.1f} ms, "
        f"99 of 100 within {found[len(found) * 99 // 100]:.1f} ms, worst of {len(found)} {found[-1]:.1f} ms"
    )


def main() -> None:
    changes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        base = Path(made)
        (base / "mount").mkdir()
        for at in range(2000):
            path = base / f"source/d/{at // 100}/{at}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")
        with mounted(str(base / "source"), str(base / "mount"), "--lease", "**"):
            measure("idle", base, changes)
            loads = [
                subprocess.Popen([sys.executable, "-c", LOAD, os.fspath(base / where), str(at)])
                for at, where in enumerate(("mount/d", "mount/d", "source/d"))
            ]
            measure("under load", base, changes)
            for load in loads:
                load.kill()
                load.wait()


if __name__ == "__main__":
    main()
