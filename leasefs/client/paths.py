"""Where leasefs keeps what: sockets and the registry of mounts, the ledger's store and its log.

Everything here decides who is obeyed, so a directory that somebody else could write is refused.
"""

from __future__ import annotations

import contextlib
import os
import stat

from leasefs.client import config
from leasefs.client.address import MAX_SOCKET_PATH_BYTES, Address, parse_url
from leasefs.core.errors import Denied, InvalidRequest

_SOCKET_NAME = "ledger.sock"


def state_dir() -> str:
    """The directory of what outlives a boot: `$XDG_STATE_HOME/leasefs` (XDG base directories 0.8).

    Made with mode 0700 if missing.

    Raises:
        Denied: if it belongs to somebody else, is a symlink, or others may write to it.
    """
    return private_dir(os.path.join(_state_home(), "leasefs"))


def runtime_dir() -> str:
    """The directory of mounts and shell sessions that are alive now: `$XDG_RUNTIME_DIR/leasefs`.

    Without one of our own (no login session: cron, containers; or `su`, which leaves the former
    user's in place) it is `run` in the state directory. Raises as `state_dir`.
    """
    home = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(home) and _is_ours(home):
        return private_dir(os.path.join(home, "leasefs"))
    return private_dir(os.path.join(state_dir(), "run"))


def store_dir() -> str:
    """Where the embedded ledger keeps its log. Raises as `state_dir`."""
    return private_dir(os.path.join(state_dir(), "ledger"))


def start_lock() -> str:
    """The file whose flock(2) says who starts the embedded ledger. Raises as `state_dir`."""
    return os.path.join(_ledger_dir(), "start.lock")


def ledger_log() -> str:
    """The file that the embedded ledger's messages go to. Raises as `state_dir`."""
    return os.path.join(state_dir(), "ledger.log")


def mounts_dir() -> str:
    """The registry: one JSON file for each live mount of this user. Raises as `state_dir`."""
    return private_dir(os.path.join(runtime_dir(), "mounts"))


def sessions_dir() -> str:
    """The stored sessions of shells outside any mount. Raises as `state_dir`."""
    return private_dir(os.path.join(runtime_dir(), "sessions"))


def kept_dir() -> str:
    """What mounts are about to claim again. Raises as `state_dir`."""
    return private_dir(os.path.join(state_dir(), "kept"))


def ledger_socket() -> str:
    """The embedded ledger's socket. Raises as `state_dir`.

    It goes with the store, not with XDG_RUNTIME_DIR: a login, a cron job and `su` differ in that, and
    who looks in the wrong place finds no ledger and cannot start one, because the store has its owner.
    """
    return socket_path(_ledger_dir(), _SOCKET_NAME)


def socket_path(directory: str, name: str) -> str:
    """A path for the socket `name` of `directory`, short enough for unix(7).

    A long one goes to `/tmp/leasefs-UID/`, named after the directory that it stands for.
    Raises as `state_dir`.
    """
    path = os.path.join(directory, name)
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
        return path
    from hashlib import blake2s  # 3 ms that only unusual set-ups pay

    short = blake2s(os.fsencode(path), digest_size=8).hexdigest()
    directory = private_dir(f"/tmp/leasefs-{os.geteuid()}")  # noqa: S108 - owner and mode are checked
    return os.path.join(directory, f"{short}.sock")


def ledger_url() -> tuple[str, bool]:
    """The ledger's address, and whether it is the embedded one (started when needed).

    The setting `ledger.url` names another: `unix:/path` or `https://host:port`. Raises as `state_dir`, and
    BadConfiguration.
    """
    configured = config.text("ledger.url")
    if configured:
        try:
            parse_url(configured)
        except InvalidRequest as error:
            raise config.refused("ledger.url", error.message) from error
        return configured, False
    return Address(socket_path=ledger_socket()).url, True


def private_dir(path: str) -> str:
    """`path`, made with mode 0700 if missing (its parents too), refused unless it is ours alone.

    Raises:
        Denied: if it belongs to somebody else, is no directory or a symlink, or others may write to it.
    """
    try:
        _make(path)
        found = os.lstat(path)
    except OSError as error:
        raise _unfit(path, f"cannot be used: {error.strerror}") from error
    if stat.S_ISLNK(found.st_mode):
        raise _unfit(path, "is a symlink, not a directory")
    if not stat.S_ISDIR(found.st_mode):
        raise _unfit(path, "is not a directory")
    if found.st_uid != os.geteuid():
        raise _unfit(path, f"belongs to another user (uid {found.st_uid})")
    if found.st_mode & 0o022:
        raise _unfit(path, f"can be written by others (mode {stat.S_IMODE(found.st_mode):04o})")
    return path


def _make(path: str) -> None:
    """Make what is missing of `path`. `os.makedirs` would give the parents whatever the umask leaves."""
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        _make(parent)
    with contextlib.suppress(FileExistsError):  # whether it will do is looked at by the caller
        os.mkdir(path, 0o700)


def _ledger_dir() -> str:
    return private_dir(os.path.join(state_dir(), "run"))


def _is_ours(path: str) -> bool:
    try:
        return os.stat(path).st_uid == os.geteuid()
    except OSError:
        return False


def _unfit(path: str, problem: str) -> Denied:
    return Denied(
        f"{path} {problem}; leasefs needs a directory of its own there: remove it, or set XDG_RUNTIME_DIR "
        "and XDG_STATE_HOME",
        path=path,
    )


def _state_home() -> str:
    home = os.environ.get("XDG_STATE_HOME", "")
    # The specification says to ignore a relative path.
    return home if os.path.isabs(home) else os.path.join(os.path.expanduser("~"), ".local/state")
