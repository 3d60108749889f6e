"""Where a token that was just made goes: into a file of its own, or to stdout, once, and nowhere that others can read."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING

from leasefs.client.ids import IssuedToken, new_token
from leasefs.core.errors import InvalidRequest
from leasefs_cli.printing import say_at_once, say_json, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leasefs.client import api

_STDOUT = 1
_OTHERS = 0o077


def issue(make: Callable[[IssuedToken], api.Body], path: str | None, *, as_json: bool) -> api.Body:
    """Make a token, have `make` tell the ledger its hash, and hand it out. What went wrong leaves no file behind.

    Raises:
        InvalidRequest: the file exists, cannot be made, or stdout is a file that others can read.
        LeasefsError: what the ledger refuses.
    """
    token = new_token()
    if path is None:
        _close_stdout_to_others()
        answer = make(token)
        if as_json:
            say_json({**answer, "token": token.text})
        else:
            say_at_once(token.text)
        return answer
    with _in_new_file(path, token):
        answer = make(token)
    if as_json:
        say_json({**answer, "token_file": os.path.abspath(path)})
    return answer


@contextlib.contextmanager
def _in_new_file(path: str, token: IssuedToken) -> Iterator[None]:
    """The token in a file that nobody had before and nobody else may read; gone again if what follows fails."""
    try:
        handle = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
    except OSError as error:
        hint = "name one that does not" if isinstance(error, FileExistsError) else "name another"
        raise InvalidRequest(
            f"the token file {path} cannot be made: {error.strerror}; {hint}", path=path
        ) from error
    try:
        _write(handle, token.text + "\n", path)
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise


def _write(handle: int, text: str, path: str) -> None:
    try:
        with open(handle, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InvalidRequest(
            f"the token file {path} cannot be written: {error.strerror}", path=path
        ) from error


def _close_stdout_to_others() -> None:
    """A shell makes the file of `> FILE` with the modes that the umask leaves; nobody else may read a token there."""
    try:
        found = os.fstat(_STDOUT)
    except OSError:
        return  # there is none: that is said when it is written to
    if not stat.S_ISREG(found.st_mode) or not found.st_mode & _OTHERS:
        return
    mode = stat.S_IMODE(found.st_mode) & ~_OTHERS
    try:
        os.fchmod(_STDOUT, mode)
    except OSError as error:
        raise InvalidRequest(
            f"others can read the file that the token would go to, and it cannot be closed to them: {error.strerror}; "
            "give --token-file, or another file"
        ) from error
    tell(f"others could read the file that the token goes to: it has mode {mode:04o} now")
