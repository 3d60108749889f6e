"""fio: what every engine writes in every pattern is read back and verified."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from suite_runs.outcome import OK, SKIPPED, Outcomes

if TYPE_CHECKING:
    from suite_runs.places import Place

_BASE = [
    "--size=8m",
    "--verify=crc32c",
    "--verify_fatal=1",
    "--do_verify=1",
    "--minimal",
    "--group_reporting",
]
_ENGINES = {
    "sync": ["--ioengine=sync"],
    "vectors": ["--ioengine=pvsync2"],
    "mmap": ["--ioengine=mmap"],
    "libaio": ["--ioengine=libaio", "--iodepth=8"],
    "io_uring": ["--ioengine=io_uring", "--iodepth=8"],
    "posixaio": ["--ioengine=posixaio", "--iodepth=8"],
    "sync direct": ["--ioengine=sync", "--direct=1"],
    "libaio direct": ["--ioengine=libaio", "--iodepth=8", "--direct=1"],
    "io_uring direct": ["--ioengine=io_uring", "--iodepth=8", "--direct=1"],
}
_PATTERNS = {
    "random": ["--rw=randwrite", "--bs=4k"],
    "sequential": ["--rw=write", "--bs=64k"],
    "mixed sizes": ["--rw=randwrite", "--bsrange=512-64k", "--bs_unaligned=0"],
    "read and written": ["--rw=randrw", "--bs=4k", "--verify_backlog=64"],
    "with fsync": ["--rw=randwrite", "--bs=4k", "--fsync=32", "--size=2m"],
    "several jobs": ["--rw=randwrite", "--bs=4k", "--numjobs=3", "--size=2m"],
}


def run(place: Place) -> Outcomes:
    """Run every engine with every pattern."""
    if shutil.which("fio") is None:
        return {"fio is installed": SKIPPED}
    found: Outcomes = {}
    for engine, how in _ENGINES.items():
        for pattern, what in _PATTERNS.items():
            name = f"{engine}, {pattern}"
            if not re.search(place.settings.only, name):
                continue
            command = [
                "fio",
                "--name=job",
                f"--directory={place.path}",
                *_BASE,
                *how,
                *what,
                "--unlink=1",
            ]
            status, said = place.run(command, timeout_s=120)
            found[name] = OK if status == 0 else f"exit status {status}: {said[-300:]!r}"
    return found
