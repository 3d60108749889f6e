"""Taking over what dead mounts of a tree left behind, without mounting it: for `leasefs doctor --fix` (P8, P9)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import trio

from leasefs.client import names
from leasefs.client.clock import BoottimeClock
from leasefs.client.config import around
from leasefs.client.embedded import ensure_ledger
from leasefs.client.ids import new_credentials
from leasefs.client.lessee import Identity, Lessee
from leasefs.client.paths import private_dir, state_dir
from leasefs.client.process import process_identity
from leasefs.client.trees import tree_id
from leasefs.client.trio_http import TrioLink
from leasefs.core.errors import NotMounted
from leasefs.mount.journal import dead_journals
from leasefs.mount.work import Work, opened_tree
from leasefs.vcs.project_file import read_project_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.mount.journal import Header


class LeftBehind(NamedTuple):
    """A dead mount's journal: whose it was, and how many notes the ledger has not answered."""

    header: Header
    unanswered: int


def left_behind() -> Iterator[LeftBehind]:
    """The journals of all dead mounts of this user that changed anything. Raises Denied as `client.paths.state_dir`."""
    base = private_dir(os.path.join(state_dir(), "journals"))
    for tree in sorted(os.listdir(base)):
        for journal in dead_journals(os.path.join(base, tree)):
            left = journal.left()
            if left is not None and left.tokens:
                yield LeftBehind(left.header, len(left.notes))


def catch_up(header: Header) -> None:
    """Tell the ledger what the dead mounts of this tree could not, and keep what they left uncommitted. Blocks.

    Raises:
        NotMounted: the tree is not there, is covered by a dead mount, or is another one than it was.
        LeasefsError: the ledger cannot be asked.
    """
    trio.run(_catch_up, header)


async def _catch_up(header: Header) -> None:
    try:
        with opened_tree(header.root) as root_fd:
            if tree_id(root_fd) != header.tree:
                raise NotMounted(f"{header.root} is another tree than the dead mount had")
            await _take_over(root_fd, header)
    except OSError as error:
        raise NotMounted(
            f"{header.root} cannot be reached: {error.strerror}; clear a dead mount with "
            f"leasefs unmount {header.root}"
        ) from error


async def _take_over(root_fd: int, header: Header) -> None:
    url = await trio.to_thread.run_sync(ensure_ledger)
    credentials = new_credentials()
    link = TrioLink(url, credentials)
    identity = Identity(
        agent=names.fit_name(f"doctor-{os.getpid()}"),
        harness="doctor",
        territory=header.territory,
        kind="run",
        host=names.host_name(),
        pid=os.getpid(),
        process=process_identity(os.getpid()),
    )
    lessee = Lessee(identity, credentials, link, BoottimeClock())
    await lessee.open()
    try:
        project = read_project_file(root_fd, header.root, around())
        work = Work(root_fd, header.root, lessee, link, project)
        await work.recover()
        await work.end()
    finally:
        with trio.CancelScope(shield=True):
            await lessee.end()
        link.close()
