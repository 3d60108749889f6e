"""The machine's and the user's files of settings: where they are, whether they are to be believed, and what they say.

What such a file says is done with the rights of whoever reads it, so one that somebody else could have written is
refused. Links are followed: what counts is whose the file is in the end. Whoever can write the directory that it lies in
could put a link there, to a file of the reader's whose content came from elsewhere; so that is judged likewise.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from leasefs.core.setting import SYSTEM, USER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasefs.core.setting import Value
    from leasefs.core.settings_file import Parsed, Problem

SYSTEM_FILE = "/etc/leasefs/config.toml"
# Names another file in its place; "" for none. For trials, and for images that are put together elsewhere.
SYSTEM_VARIABLE = "LEASEFS_CONFIG_SYSTEM"
_LIMIT_BYTES = 1 << 16
_BY_OTHERS = 0o022


class ConfigFile(NamedTuple):
    """A file of settings; `path` "" if there is none to look at, `parsed` None if it is not there."""

    place: str
    path: str
    parsed: Parsed | None = None

    @property
    def said(self) -> Mapping[str, Value]:
        """What it says, by setting."""
        return self.parsed.said if self.parsed else {}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with it."""
        return self.parsed.problems if self.parsed else ()


def config_home() -> str:
    """`$XDG_CONFIG_HOME`, usually `~/.config` (XDG base directories 0.8, which says to ignore a relative path)."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return home if os.path.isabs(home) else os.path.join(os.path.expanduser("~"), ".config")


def system_path() -> str:
    """Where the machine's settings are, "" for nowhere."""
    return os.environ.get(SYSTEM_VARIABLE, SYSTEM_FILE)


def user_path() -> str:
    """Where this user's settings are, "" if the user has no home."""
    path = os.path.join(config_home(), "leasefs", "config.toml")
    return path if os.path.isabs(path) else ""


def read_config_file(place: str, path: str) -> ConfigFile:
    """What the file says. Never raises: what is wrong with it stands in `problems`."""
    if not path:
        return ConfigFile(place, path)
    if not os.path.isabs(path):
        return _refused(place, path, f"is no absolute path; {SYSTEM_VARIABLE} must be one")
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for ever.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return ConfigFile(place, path)
    except OSError as error:
        return _refused(place, path, f"cannot be read: {error.strerror}")
    try:
        problem = _unfit(os.fstat(fd), path)
        content = b"" if problem else _content(fd)
    except OSError as error:
        return _refused(place, path, f"cannot be read: {error.strerror}")
    finally:
        os.close(fd)
    if len(content) > _LIMIT_BYTES:
        problem = f"is longer than {_LIMIT_BYTES >> 10} KiB"
    if problem:
        return _refused(place, path, problem)
    from leasefs.core.settings_file import parse  # only who has such a file pays

    return ConfigFile(place, path, parse(content, place))


def _content(fd: int) -> bytes:
    """All of a regular file, but no more than tells that it is too long."""
    with open(fd, "rb", closefd=False) as file:
        return file.read(_LIMIT_BYTES + 1)


def _refused(place: str, path: str, problem: str) -> ConfigFile:
    from leasefs.core.settings_file import Parsed, Problem

    return ConfigFile(place, path, Parsed({}, (Problem("", 0, problem),)))


def _unfit(found: os.stat_result, path: str) -> str:
    """Why the file is not to be believed, or ""."""
    if not stat.S_ISREG(found.st_mode):
        return "is not a regular file"
    # Another file in place of the machine's is the choice of who set the variable, and may be theirs.
    own = 0 if path == SYSTEM_FILE else os.geteuid()
    if found.st_uid not in {0, own}:
        whose = f"you (uid {own})" if own else "root"
        return f"belongs to uid {found.st_uid}, not to {whose}, so it is not believed; chown {own} {path}"
    if found.st_mode & _BY_OTHERS:
        mode = stat.S_IMODE(found.st_mode)
        return (
            f"can be written by others (mode {mode:04o}), so it is not believed; chmod go-w {path}"
        )
    return _unfit_directory(path, own) or _unfit_directory(os.path.realpath(path), own)


def _unfit_directory(path: str, own: int) -> str:
    directory = os.path.dirname(path)
    found = os.stat(directory)
    if found.st_uid in {0, own} and not found.st_mode & _BY_OTHERS:
        return ""
    mode = stat.S_IMODE(found.st_mode)
    return (
        f"lies in {directory}, which others can write (uid {found.st_uid}, mode {mode:04o}), so it is not believed; "
        f"chown {own} {directory} && chmod go-w {directory}"
    )


def own_files() -> tuple[ConfigFile, ConfigFile]:
    """The machine's file and the user's, as they were when this process first looked.

    A process that lives on goes on as it began, whatever becomes of the files; `forget` has them read again.
    """
    return _as_first_read(SYSTEM, system_path()), _as_first_read(USER, user_path())


def _as_first_read(place: str, path: str) -> ConfigFile:
    known = _read.get((place, path))
    if known is None:
        known = _read[place, path] = read_config_file(place, path)
    return known


def forget() -> None:
    """Have the files read again when they are asked for next."""
    _read.clear()


def set_aside() -> None:
    """Take the files for absent from now on."""
    for file in own_files():
        _read[file.place, file.path] = file._replace(parsed=None)


_read: dict[tuple[str, str], ConfigFile] = {}
