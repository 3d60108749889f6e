"""Which lease an open file is written under: found when it is opened, and again when it, or its ground, moves (P2)."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from leasefs.core.policy import Allowed, Op, decide
from leasefs.mount.gate import Wanting

if TYPE_CHECKING:
    from leasefs.mount.handles import OpenFile
    from leasefs.mount.shapes import Stat
    from leasefs.mount.tree import Tree

# A handle that no lease can save: its file left the ground that it was opened on.
LOST_TOKEN = -1


def rebind(tree: Tree, file: OpenFile) -> None:
    """A rename moved an open file: find the lease that it is written under from now on.

    A handle opened under the lease of the old name must not outlive that of the new one. Where
    the answer needs something that is not known yet, the next write finds it.
    """
    file.unsure = True
    with suppress(Wanting, OSError):
        targets = tree.content_target(file.node, tree.stat(file.node))
        holdings = tree.gate.holdings
        verdict = decide(Op.OPEN, targets, holdings.view, holdings.now_s())
        if isinstance(verdict, Allowed):
            path = targets[0].path if targets else file.path
            bind(tree, file, verdict, os.fstat(file.fd), path)
        else:
            use(tree, file, LOST_TOKEN)


def bind(tree: Tree, file: OpenFile, allowed: Allowed, found: Stat, path: bytes) -> None:
    """Write an open file under this verdict, which is about `path`, from now on."""
    file.path = path
    file.aliased = found.st_nlink > 1
    file.unsure = False
    token = allowed.lease.token if allowed.lease else 0
    file.text = "" if token else _text(file)
    use(tree, file, token)


def use(tree: Tree, file: OpenFile, token: int) -> None:
    """Bind an open file to the lease with this token, and keep that lease alive by it (P4)."""
    if token == file.token and bool(file.use_id) == (token > 0):
        return
    if file.use_id:
        tree.gate.holdings.writer_closed(file.use_id)
        file.use_id = 0
    file.token = token
    file.noted = 0
    if token > 0:
        file.use_id = tree.gate.holdings.writer_opened(token, file.path, file.pid)


def _text(file: OpenFile) -> str:
    return os.readlink(f"/proc/self/fd/{file.fd}")
