"""Directories that are large enough to be redirected, and whether they are: for tests and measurements."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from leasefs.mount.mountinfo import below
from leasefs.mount.redirecting import WORTH_FILES
from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from leasefs.testing.mounted import Mounted


def fill(directory: Path, files: int = WORTH_FILES + 50) -> None:
    """Make the directory, with so many files in it: `0`, `1`, ... that say where they are."""
    directory.mkdir(parents=True, exist_ok=True)
    for at in range(files):
        (directory / str(at)).write_text(f"{directory.name}/{at}")


def redirects_below(root: str) -> set[str]:
    """The paths of what is mounted below a mount."""
    return {
        os.path.relpath(os.fsdecode(mount.mountpoint), root) for mount in below(os.fsencode(root))
    }


def is_redirected(root: str, name: str) -> bool:
    """Whether something is mounted there; asks the kernel's list, not the mount."""
    return name in redirects_below(root)


def until_redirected(mount: Mounted, name: str) -> None:
    """Use the directory, as an agent would, until it is redirected and that is seen a second time.

    By then the kernel has forgotten what it knew of the name while the directory was filled.
    """
    seen: list[bool] = []

    def used() -> bool:
        with contextlib.suppress(FileNotFoundError):
            os.listdir(os.path.join(mount.root, name))
        seen.append(is_redirected(mount.root, name))
        return seen[-2:] == [True, True]

    eventually(used, what=f"the redirect of {name}")
