"""fsstress: random operations on a tree, by one process and by several.

One process with one seed does the same operations in the same order on every file system that answers alike, so
what it prints, errnos included, and the tree that it leaves must be the same on both. Several processes race: there
it must end well, and the tree must look the same through the mount and beneath it.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from typing import TYPE_CHECKING

from suite_runs.outcome import OK, Outcomes
from suite_runs.xfstests import programs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suite_runs.places import Place

# What FUSE has no request for (docs/SEMANTICS.md), what only XFS or btrfs have, and what tells of the block device.
_LEFT_OUT = [
    "attr_remove", "attr_set", "bulkstat", "bulkstat1", "clonerange", "collapse", "copyrange", "deduperange",
    "dread", "dwrite", "exchangerange", "fallocate", "fiemap", "getattr", "insert", "punch", "read_dontcache",
    "resvsp", "rwhiteout", "setattr", "setxattr", "snapshot", "splice", "subvol_create", "subvol_delete",
    "unresvsp", "unshare", "write_dontcache", "zero",
]  # fmt: skip
_FLAGS = [part for name in _LEFT_OUT for part in ("-f", f"{name}=0")]
_SEEDS = range(1, 11)
# In fsstress's description of a file, [id parent mode-ish blocks size]: blocks depend on when they are allocated.
_BLOCKS = re.compile(r"\[(-?\d+ -?\d+ \d+ \d+) \d+ (\d+)\]")


def run(place: Place) -> Outcomes:
    """Run ten histories of one process, then three of four processes."""
    fsstress = programs(place.settings.work) + "/fsstress"
    found: Outcomes = {}
    for seed in _SEEDS:
        found |= _one_process(place, fsstress, seed)
    for seed in (101, 102, 103):
        directory = f"{place.path}/many{seed}"
        place.run(["mkdir", directory])
        status, said = place.run(
            [fsstress, "-d", directory, "-p", "4", "-n", "2000", "-s", str(seed), *_FLAGS]
        )
        found[f"four processes, seed {seed}"] = (
            OK if status == 0 else f"status {status}: {said[-300:]}"
        )
        same = list(_tree(_seen(place, directory))) == list(_tree(_below(place, directory)))
        found[f"four processes, seed {seed}: the tree beneath"] = OK if same else "another tree"
    return found


def _one_process(place: Place, fsstress: str, seed: int) -> Outcomes:
    directory = f"{place.path}/one{seed}"
    place.run(["mkdir", directory])
    status, said = place.run(
        [fsstress, "-v", "-V", "-d", directory, "-p", "1", "-n", "2000", "-s", str(seed), *_FLAGS]
    )
    # One outcome for each line printed and each entry left, so that the first difference is seen.
    found = {f"seed {seed}: exit status {status}": OK}
    for number, line in enumerate(said.splitlines()):
        told = _BLOCKS.sub(r"[\1 \2]", line.replace(place.path, "."))
        found[f"seed {seed}, line {number}: {told}"] = OK
    for entry in _tree(_seen(place, directory)):
        found[f"seed {seed} leaves {entry}"] = OK
    return found


def _below(place: Place, path: str) -> str:
    return path.replace(place.path, place.beneath, 1)


def _seen(place: Place, path: str) -> str:
    """Where we look at it: a mount that another user made lets nobody else in."""
    return path if place.settings.mount_user is None else _below(place, path)


def _tree(top: str) -> Iterator[str]:
    """Every entry below `top` with all that must be the same of it, sorted."""
    for directory, directories, files in os.walk(os.fsencode(top)):
        directories.sort()
        for name in sorted(directories + files):
            path = os.path.join(directory, name)
            found = os.lstat(path)
            size = found.st_size if stat.S_ISREG(found.st_mode) else 0
            what = f"{found.st_mode:o} {found.st_nlink} {found.st_uid} {found.st_gid} {size} {found.st_rdev}"
            yield f"{os.path.relpath(path, os.fsencode(top))!r} {what} {_content(path, found)}"


def _content(path: bytes, found: os.stat_result) -> str:
    if stat.S_ISLNK(found.st_mode):
        return repr(os.readlink(path))
    if not stat.S_ISREG(found.st_mode):
        return ""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]
