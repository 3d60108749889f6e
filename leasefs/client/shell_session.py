"""Sessions of a shell outside any mount, kept in a file between one command and the next.

A claim made there fences nobody's writes by itself; it takes part in the queue and keeps others out.
The files hold the secrets, mode 0600, and nothing ever prints them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from typing import TYPE_CHECKING, NamedTuple

from leasefs.client import api, names, paths
from leasefs.client.ids import Credentials, new_credentials
from leasefs.client.whole_file import write_whole
from leasefs.core.errors import Denied, LedgerUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.client.blocking import Link


class ShellSession(NamedTuple):
    """A stored session and the ledger that knows it."""

    credentials: Credentials
    agent: str
    territory: str
    ledger: str


def shell_session(
    link: Link, *, agent: str, harness: str, territory: str, replace: bool = False
) -> ShellSession:
    """The stored session of `agent` in `territory` with this ledger, opened first if there is none.

    `link` is given its credentials. Raises what opening a session raises, AgentBusy above all; and LedgerUnavailable
    where nothing can be stored.
    """
    path = _path(agent, territory, link.address.url)
    with _storing(path):
        return _stored_or_opened(link, path, agent, harness, territory, replace=replace)


@contextlib.contextmanager
def _storing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # a full or read-only disk
        raise LedgerUnavailable(
            f"a session cannot be stored: {error.filename or path}: {error.strerror}; `leasefs doctor` says more"
        ) from error


def _stored_or_opened(
    link: Link, path: str, agent: str, harness: str, territory: str, *, replace: bool
) -> ShellSession:
    _use(path)
    with _alone(path):
        stored = _load(path)
        if stored is not None and not replace and _is_alive(link, stored):
            return stored
        session = ShellSession(new_credentials(), agent, territory, link.address.url)
        # Stored before it is opened: a session whose secret is lost would block the agent's name.
        _store(path, session)
        try:
            link.send(_opening(session, harness, replace=replace))
        except Denied:
            os.unlink(path)
            raise
    link.credentials = session.credentials
    return session


@contextlib.contextmanager
def _alone(path: str) -> Iterator[None]:
    """Two commands that begin at once share one session instead of fighting over the name."""
    with open(f"{path}.lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def alone_with(session: ShellSession) -> Iterator[bool]:
    """Whether no other command uses the session; if so, one that would begin to waits until the end.

    Raises:
        LedgerUnavailable: where nothing can be stored that is not known.
    """
    path = _path(session.agent, session.territory, session.ledger)
    with _storing(path):
        use = _used[path] if path in _used else _opened(path)
    try:
        fcntl.flock(use, fcntl.LOCK_EX | fcntl.LOCK_NB)
        alone = True
    except BlockingIOError:
        alone = False
    try:
        yield alone
    finally:
        if path in _used:
            fcntl.flock(use, fcntl.LOCK_SH)
        else:
            os.close(use)


# Descriptors of the sessions that this process uses, locked for sharing; it keeps them to its end.
_used: dict[str, int] = {}


def _use(path: str) -> None:
    if path not in _used:
        _used[path] = _opened(path)
        fcntl.flock(_used[path], fcntl.LOCK_SH)


def _opened(path: str) -> int:
    return os.open(f"{path}.use", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def stored_sessions() -> list[ShellSession]:
    """All stored sessions of this user, with whatever ledger."""
    directory = paths.sessions_dir()
    found = (
        _load(os.path.join(directory, name))
        for name in sorted(os.listdir(directory))
        if name.endswith(".json")
    )
    return [session for session in found if session is not None]


def forget(session: ShellSession) -> bool:
    """Forget a session that its ledger does not know. False if another one has taken its place meanwhile."""
    path = _path(session.agent, session.territory, session.ledger)
    with _alone(path):
        stored = _load(path)
        if stored is None or stored.credentials != session.credentials:
            return False
        os.unlink(path)
        return True


def end_shell_session(link: Link, session: ShellSession) -> None:
    """End it at the ledger, all its leases with it, and forget it. Raises what the ledger refuses."""
    link.credentials = session.credentials
    try:
        link.send(api.end_session(session.credentials.session))
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_path(session.agent, session.territory, session.ledger))


def _is_alive(link: Link, session: ShellSession) -> bool:
    link.credentials = session.credentials
    try:
        link.send(api.heartbeat(session.credentials.session))
    except Denied:
        return False  # ended, or unknown to a ledger that was set up anew
    return True


def _opening(session: ShellSession, harness: str, *, replace: bool) -> api.Call:
    return api.open_session(
        session=session.credentials.session,
        secret=session.credentials.secret,
        agent=session.agent,
        harness=harness,
        territory=session.territory,
        kind="shell",
        host=names.host_name(),
        pid=os.getppid(),
        # No process stands behind it: the shell of `$(leasefs claim ...)` is gone at once.
        process="",
        replace=replace,
    )


def _path(agent: str, territory: str, ledger: str) -> str:
    from hashlib import blake2s

    name = "\0".join((agent, territory, ledger)).encode("utf-8", "surrogateescape")
    return os.path.join(paths.sessions_dir(), blake2s(name, digest_size=12).hexdigest() + ".json")


def _store(path: str, session: ShellSession) -> None:
    fields = {
        "session": session.credentials.session,
        "secret": session.credentials.secret,
        "agent": session.agent,
        "territory": session.territory,
        "ledger": session.ledger,
    }
    write_whole(path, fields)


def _load(path: str) -> ShellSession | None:
    try:
        with open(path, encoding="ascii") as file:
            said = json.load(file)
        fields = [said[name] for name in ("session", "secret", "agent", "territory", "ledger")]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not there, or not one of ours: as good as no session
    if not all(isinstance(field, str) for field in fields):
        return None
    session, secret, agent, territory, ledger = fields
    return ShellSession(Credentials(session, secret), agent, territory, ledger)
