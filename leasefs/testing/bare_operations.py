"""The handlers over a plain directory, without a kernel in between."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.core.held import HeldView
from leasefs.mount.control_dir import ControlDir
from leasefs.mount.gate import Gate
from leasefs.mount.ground import TreeOnly
from leasefs.mount.operations import Operations
from leasefs.mount.refusals import RefusalLog
from leasefs.mount.serve import build_tree
from leasefs.testing.static_holdings import StaticHoldings, held

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class Caller:
    """Duck-typed RequestContext."""

    uid: int = os.getuid()
    gid: int = os.getgid()
    pid: int = os.getpid()
    umask: int = 0o022


@contextmanager
def bare_operations(source: Path) -> Iterator[tuple[Operations, StaticHoldings]]:
    """Fill `source` with `f`, `d/f` and `d/sub/f`; the handlers over it, and their holdings: a lease of `**`."""
    (source / "d/sub").mkdir(parents=True)
    for name in ("f", "d/f", "d/sub/f"):
        (source / name).write_text(name)
    holdings = StaticHoldings(HeldView([held(1, "**")]))
    root_fd = os.open(source, os.O_RDONLY | os.O_DIRECTORY)
    tree = build_tree(
        root_fd,
        Gate(holdings, RefusalLog(holdings.refused)),
        TreeOnly(),
        ControlDir({"agent": lambda: b"agent-07\n"}, 0, 0),
        for_others=False,
    )
    yield Operations(tree, xattrs=True), holdings
    tree.close()
    os.close(root_fd)
