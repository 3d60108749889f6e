"""The ledger that nobody had to set up: started by the first command that finds none.

Any number of commands may start at once; a lock lets one of them start a ledger while the others
wait for its socket, and the store's own lock makes sure of one owner however it was started.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import sys
from typing import IO, TYPE_CHECKING

from leasefs.client import config, paths
from leasefs.client.address import parse_url
from leasefs.client.blocking import Link
from leasefs.client.clock import BoottimeClock, pause
from leasefs.client.log_files import opened_log
from leasefs.client.pauses import Pauses
from leasefs.core.errors import LedgerUnavailable

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from leasefs.client.ids import Credentials

START_TIMEOUT_S = 30.0
# Each try of ours that finds the store taken costs the start of an interpreter.
_POLL = Pauses(0.02, 1.0)


def ensure_ledger() -> str:
    """The address of a ledger that accepts connections, starting the embedded one if needed.

    Where the setting `ledger.url` says one it is only that address; nothing is started or tried.

    Raises:
        LedgerUnavailable: if it cannot be started; the message has the last line of its log.
        Denied: if the socket or its directory belongs to another user.
    """
    url, embedded = paths.ledger_url()
    if embedded:
        _start_unless_running(url, config.seconds("ledger.idle_s"))
    return url


def ledger_link(credentials: Credentials | None = None, *, timeout_s: float = 10.0) -> Link:
    """A link to this user's ledger that starts the embedded one when nobody listens."""
    url, embedded = paths.ledger_url()
    idle_s = config.seconds("ledger.idle_s")
    revive = (lambda: _start_unless_running(url, idle_s)) if embedded else None
    return Link(url, credentials, timeout_s=timeout_s, revive=revive)


def _start_unless_running(url: str, idle_s: float) -> None:
    try:
        _started_unless_running(url, idle_s)
    except OSError as error:  # a full or read-only disk, or no process or descriptor to be had
        where = f"{error.filename}: " if error.filename else ""
        raise LedgerUnavailable(
            f"the embedded ledger cannot be started: {where}{error.strerror}; `leasefs doctor` says more"
        ) from error


def _started_unless_running(url: str, idle_s: float) -> None:
    clock = BoottimeClock()
    deadline_s = clock.now_s() + START_TIMEOUT_S
    link = Link(url)
    in_vain = 0
    while clock.now_s() < deadline_s:
        if link.reachable():
            return
        with _only_starter() as chosen:
            if chosen and not link.reachable():
                if _start(_command(url, idle_s), deadline_s, clock):
                    return
                in_vain += 1
        pause(_POLL.after_s(in_vain))
    raise LedgerUnavailable(
        f"the embedded ledger did not come up within {START_TIMEOUT_S:g} s: {_last_line_of_log()}"
    )


@contextlib.contextmanager
def _only_starter() -> Iterator[bool]:
    """True for one process at a time; the others had better wait for its socket."""
    with open(paths.start_lock(), "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            chosen = True
        except BlockingIOError:
            chosen = False
        yield chosen


def _start(command: list[str], deadline_s: float, clock: BoottimeClock) -> bool:
    """Start a ledger and wait for it. False if another one owns the store: its socket will come."""
    import subprocess  # 8 ms that only the command which starts a ledger pays

    with opened_log(paths.ledger_log()) as log:
        ready, ready_child = os.pipe()
        with open(ready, "rb") as ready_end:
            try:
                child = subprocess.Popen(
                    [*command, "--ready-fd", str(ready_child)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    start_new_session=True,
                    pass_fds=[ready_child],
                    umask=0o077,  # a mount that revives its ledger runs with none
                )
            finally:
                os.close(ready_child)
            return _wait_until_ready(child, ready_end, deadline_s - clock.now_s())


def _command(url: str, idle_s: float) -> list[str]:
    return [
        *(sys.executable, "-m", "leasefs.service", "--embedded"),
        *("--socket", parse_url(url).socket_path),
        *("--store", paths.store_dir()),
        *("--idle-s", f"{idle_s:g}"),
    ]


def _reap_whenever(child: subprocess.Popen[bytes]) -> None:
    """A mount that revives ledgers must not collect zombies.

    The thread takes no signal: those of the process are for whoever waits for them (`leasefs run`).
    """
    import signal
    import threading

    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    threading.Thread(target=child.wait, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait_until_ready(
    child: subprocess.Popen[bytes], ready_end: IO[bytes], timeout_s: float
) -> bool:
    _reap_whenever(child)
    readable, _, _ = select.select([ready_end], [], [], max(0.0, timeout_s))
    if readable and ready_end.read(1):
        return True
    if not readable:
        return False
    code = child.wait(timeout=5)
    if code == 0:
        return False
    raise LedgerUnavailable(
        f"the embedded ledger ended at once (code {code}): {_last_line_of_log()}", exit_code=code
    )


def _last_line_of_log() -> str:
    path = paths.ledger_log()
    try:
        with open(path, "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - 4096))
            lines = log.read().decode("utf-8", "replace").split("\n")
    except OSError as error:
        return f"no log at {path} ({error.strerror})"
    said = [line.strip() for line in lines if line.strip()]
    if not os.statvfs(path).f_bavail:
        return f"there is no room left on the file system of {path}"
    return f"{said[-1] if said else 'it said nothing'} (log: {path})"
