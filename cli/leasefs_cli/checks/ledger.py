"""Checks of what leasefs keeps: its directories, the ledger, its store."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from leasefs import __version__
from leasefs.client import api, paths
from leasefs.client.address import parse_url
from leasefs.client.blocking import Link
from leasefs.core.errors import LeasefsError, LedgerUnavailable
from leasefs.core.protocol import MAJOR, MINOR
from leasefs_cli.checks.disks import room
from leasefs_cli.checks.finding import FAIL, OK, WARN, Finding, Repair
from leasefs_cli.server_process import listener_pid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_HEALTH = api.Call("GET", "/healthz")


def ledger_findings() -> Iterator[Finding]:
    """All checks of this file."""
    yield directory("runtime directory", paths.runtime_dir)
    yield directory("state directory", paths.state_dir)
    yield directory("store directory", paths.store_dir)
    yield ledger()
    yield store()


def directory(name: str, find: Callable[[], str]) -> Finding:
    """Is it ours alone? What lies there decides who is obeyed."""
    try:
        path = find()
    except LeasefsError as error:
        return Finding(FAIL, name, error.message, "")
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o077:
        found = f"{path} is open to others (mode {mode:04o})"
        return Finding(FAIL, name, found, f"chmod 700 {path}", _closing(path))
    return room(name, path)


def _closing(path: str) -> Repair:
    def close() -> str:
        os.chmod(path, 0o700, follow_symlinks=True)
        return f"{path} is yours alone now"

    return Repair("close it to others (chmod 700)", close)


def ledger() -> Finding:
    """Does it answer, and is it of our version? None is started: not to run is normal when idle."""
    try:
        url, embedded = paths.ledger_url()
    except LeasefsError as error:
        return Finding(FAIL, "ledger", error.message, "")
    try:
        said = Link(url, timeout_s=5.0).send(api.status())
    except LedgerUnavailable as error:
        if embedded and nobody_listens(url):
            return Finding(OK, "ledger", "not running; the first command that needs it starts it")
        advice = (
            "start it, or take ledger.url out; `leasefs config show ledger.url` says who says it"
            if not embedded
            else f"see {paths.ledger_log()}"
        )
        return Finding(FAIL, "ledger", error.message, advice)
    except LeasefsError as error:
        return Finding(FAIL, "ledger", error.message, "")
    if not str(said["protocol"]).startswith(f"{MAJOR}."):
        return Finding(
            FAIL,
            "ledger",
            f"{url} speaks leasefs protocol {said['protocol']} (leasefs {said['version']}), this is "
            f"leasefs {__version__} with {MAJOR}.{MINOR}: they do not understand each other",
            "upgrade the older one; `leasefs ledger stop` ends that ledger whatever it speaks",
        )
    if said["version"] != __version__:
        return Finding(
            WARN,
            "ledger",
            f"{url} is leasefs {said['version']}, this is {__version__}",
            "`leasefs ledger stop`; the next command starts the new one",
        )
    return _health(url) or Finding(
        OK, "ledger", f"{url}, {said['leases']} leases, {said['live_sessions']} live sessions"
    )


def _health(url: str) -> Finding | None:
    """To answer is not enough: what it is asked to change has to get into its log."""
    try:
        Link(url, timeout_s=5.0).text(_HEALTH)
    except LeasefsError as error:
        advice = "see to its disk, on its machine (df, dmesg); `leasefs doctor` there says more"
        return Finding(FAIL, "ledger", f"{url} answers, but {error.message}", advice)
    return None


def nobody_listens(url: str) -> bool:
    """Whether it is a Unix socket without anybody behind it."""
    path = parse_url(url).socket_path
    return bool(path) and listener_pid(path) is None


def store() -> Finding:
    """Is the store's lock held by the ledger that listens, or by one that does not?"""
    try:
        url, embedded = paths.ledger_url()
        if not embedded:
            return Finding(OK, "store", "another ledger is configured; its store is its own affair")
        return _lock_of(paths.store_dir(), listens=not nobody_listens(url))
    except LeasefsError as error:
        return Finding(FAIL, "store", error.message, "")


def _lock_of(store_dir: str, *, listens: bool) -> Finding:
    locks = [
        os.path.join(store_dir, name) for name in os.listdir(store_dir) if name.endswith(".lock")
    ]
    owner = next((pid for path in locks if (pid := flock_owner(path)) is not None), None)
    if owner is not None and not listens:
        return Finding(
            FAIL,
            "store",
            f"{store_dir} is locked by process {owner}, which does not listen",
            f"wait for it to end, or end it: kill {owner}",
        )
    if owner is None and listens:
        return Finding(WARN, "store", f"a ledger listens, but nobody has locked {store_dir}", "")
    return Finding(OK, "store", store_dir)


def flock_owner(path: str) -> int | None:
    """The pid that holds flock(2) on the file, as /proc/locks tells; the lock is not touched."""
    found = os.stat(path)
    wanted = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    with open("/proc/locks", encoding="ascii") as locks:
        for line in locks:
            fields = line.split()
            if "FLOCK" in fields and wanted in fields and "->" not in fields:
                return int(fields[fields.index(wanted) - 1])
    return None
