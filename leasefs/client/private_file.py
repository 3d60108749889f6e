"""Files that hold a secret: whoever else can read one is who it says, so such a file is not used."""

from __future__ import annotations

import os
import stat

from leasefs.core.errors import Denied

LONGEST_SECRET_BYTES = 64 << 10


def read_secret(path: str, what: str) -> bytes:
    """The content of a file that is ours alone; `what` it holds is said in errors. Symlinks are followed.

    Raises:
        Denied: it is not there, not a file, belongs to somebody else, or others could read or replace it.
    """
    try:
        # Not blocking: it could be a FIFO, which is refused below.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _unfit(path, what, f"cannot be read: {error.strerror}") from error
    try:
        _require_private(path, what, os.fstat(fd))
        with open(fd, "rb", closefd=False) as file:
            content = file.read(LONGEST_SECRET_BYTES + 1)
    finally:
        os.close(fd)
    if len(content) > LONGEST_SECRET_BYTES:
        raise _unfit(path, what, f"is longer than {LONGEST_SECRET_BYTES} bytes")
    return content


def require_private(path: str, what: str, *, group_of_root: bool = False) -> None:
    """As `read_secret`, without reading it. `group_of_root`: a file of root may be readable to its group."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise _unfit(path, what, f"cannot be read: {error.strerror}") from error
    _require_private(path, what, found, group_of_root=group_of_root)


def _require_private(
    path: str, what: str, found: os.stat_result, *, group_of_root: bool = False
) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _unfit(path, what, "is not a regular file")
    if found.st_uid not in {os.geteuid(), 0}:
        raise _unfit(path, what, f"belongs to another user (uid {found.st_uid})")
    closed = 0o077
    if found.st_uid == 0 and (group_of_root or _is_credential(path)):
        closed = 0o037
    if found.st_mode & closed:
        mode = stat.S_IMODE(found.st_mode)
        raise _unfit(
            path, what, f"is open to others (mode {mode:04o})", f"; chmod {mode & ~closed:o} {path}"
        )


def credentials_dir() -> str:
    """Where systemd puts the credentials of a service (LoadCredential=, systemd.exec(5)); "" elsewhere."""
    directory = os.environ.get("CREDENTIALS_DIRECTORY", "")
    return directory if os.path.isabs(directory) else ""


def _is_credential(path: str) -> bool:
    """Systemd lets a service's user in by an access control list, whose mask is shown as the group's mode."""
    directory = credentials_dir()
    return bool(directory) and os.path.dirname(os.path.abspath(path)) == directory.rstrip("/")


def _unfit(path: str, what: str, problem: str, cure: str = "") -> Denied:
    return Denied(f"{what} {path} {problem}{cure}", path=path)
