"""What is left of a run for its judges: the log, the files, and every content that the repositories keep."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from chaos_runs.world import DRAFT
from leasefs.service.entries import recorded_of
from leasefs.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from chaos_runs.world import World
    from leasefs.core.events import Recorded

_PAGE = 1000


def copied(store: str, goal: str) -> str:
    """The store lies on a disk that goes with the run; the recording keeps it."""
    shutil.copytree(store, goal)
    return goal


def read_log(store: str) -> tuple[list[Recorded], list[str]]:
    """Every event, and what a check of the whole file finds wrong with it."""
    opened = SqliteStore(os.path.join(store, "ledger.sqlite3"))
    try:
        found: list[Recorded] = []
        while page := opened.read(found[-1].seq if found else 0, _PAGE):
            found += [recorded_of(entry) for entry in page]
        return found, [str(problem) for problem in opened.verify().problems]
    finally:
        opened.close()


def texts_of(world: World, tree: str) -> dict[str, bytes]:
    """The files of a tree as they lie beneath all mounts."""
    root = world.source(tree)
    found: dict[str, bytes] = {}
    for at, directories, files in os.walk(root):
        if ".git" in directories:
            directories.remove(".git")
        for name in files:
            full = os.path.join(at, name)
            if not DRAFT.search(full):
                with open(full, "rb") as file:
                    found[os.path.relpath(full, root)] = file.read()
    return found


def kept_in(world: World, tree: str) -> list[bytes]:
    """The contents in all commits and rescues of a tree's repository."""
    listed = world.git(tree, "rev-list", "--all", "--objects", "--no-object-names").split()
    names = "\n".join(name.decode() for name in listed)
    batch = world.git(tree, "cat-file", "--batch=%(objecttype) %(objectsize)", fed=names)
    return list(_blobs(batch))


def _blobs(batch: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(batch):
        head, _, _ = batch[at : at + 100].partition(b"\n")
        kind, size = head.split()
        begin = at + len(head) + 1
        if kind == b"blob":
            found.append(batch[begin : begin + int(size)])
        at = begin + int(size) + 1
    return found
