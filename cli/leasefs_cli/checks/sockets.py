"""Checks of sockets that outlived whoever listened at them.

They do no harm but to whoever looks for somebody behind them. Those of mounts are known by the process in their name,
which in a container has another number; so nobody may listen at them, either.
"""

from __future__ import annotations

import os
import re
import socket
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from leasefs.client import paths
from leasefs.client.process import process_identity
from leasefs.core.errors import LeasefsError
from leasefs.mount.registry import SHARED_DIR
from leasefs.store.errors import StoreLocked
from leasefs.store.lock import LedgerLock
from leasefs_cli.checks.finding import OK, UNKNOWN, WARN, Finding, Repair
from leasefs_cli.checks.ledger import nobody_listens

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_A_MOUNT = re.compile(r"mount-(\d{1,10})\.sock")


def socket_findings() -> Iterator[Finding]:
    """One finding for each socket that nobody listens at any more."""
    try:
        places = [paths.runtime_dir(), *([SHARED_DIR] if os.geteuid() == 0 else [])]
        url, embedded = paths.ledger_url()
    except LeasefsError as error:
        yield Finding(UNKNOWN, "sockets", f"cannot be looked at: {error.message}", "")
        return
    found = [one for place in places for one in _of_dead_mounts(place)]
    if embedded and nobody_listens(url):
        found += _of_a_dead_ledger(paths.ledger_socket())
    if not found:
        yield Finding(OK, "sockets", "none without a listener")
    yield from found


def _of_dead_mounts(place: str) -> Iterator[Finding]:
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(place)):
            match = _OF_A_MOUNT.fullmatch(name)
            path = os.path.join(place, name)
            if not (match and _is_our_socket(path)) or process_identity(int(match[1])):
                continue
            if _refuses(path):
                yield _orphan(path, f"of a mount whose daemon {match[1]} is gone", _removal(path))


def _of_a_dead_ledger(path: str) -> Iterator[Finding]:
    if _is_our_socket(path):
        yield _orphan(
            path, "of a ledger that is gone", Repair("remove it", lambda: _unlocked(path))
        )


def _orphan(path: str, whose: str, repair: Repair) -> Finding:
    advice = "leasefs doctor --fix removes it; whoever begins anew replaces it as well"
    return Finding(WARN, f"socket {path}", whose, advice, repair)


def _removal(path: str) -> Repair:
    def remove() -> str:
        with suppress(FileNotFoundError):
            os.unlink(path)
        return "removed"

    return Repair("remove it", remove)


def _unlocked(path: str) -> str:
    """Removed under the lock that whoever listens there holds, so it cannot be that of a ledger that just begins."""
    try:
        lock = LedgerLock(path)
    except StoreLocked:
        return "a ledger took it over meanwhile"
    try:
        with suppress(FileNotFoundError):
            os.unlink(path)
    finally:
        lock.release()
    return "removed"


def _refuses(path: str) -> bool:
    """Whether the kernel says that nobody listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _is_our_socket(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid()
