"""A place for new objects from which all of a repository's own can be read.

Git's way for this, an alternate, is resolved to its real path, which an in-place mount covers. So each packed and loose
object is linked to by the descriptor of the git directory.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from leasefs.vcs.beneath import read_file
from leasefs.vcs.git_commands.effects import CannotTell

if TYPE_CHECKING:
    from leasefs.vcs.gitdir import GitDir

_LOOSE = 100_000  # `git gc` packs them long before
_LIMIT_BYTES = 1 << 20
_FAN_OUT = re.compile(r"[0-9a-f]{2}")


def borrow_objects(gitdir: GitDir, directory: str) -> None:
    """Make `directory` an object directory that has what the repository has.

    Raises:
        CannotTell: there are too many loose objects.
        OSError: they cannot be listed, or the links cannot be made.
    """
    there = f"{gitdir.common_path}/objects"
    os.makedirs(f"{directory}/info")
    os.symlink(f"{there}/pack", f"{directory}/pack")
    _borrow_alternates(gitdir, directory)
    count = 0
    objects_fd = os.open(
        b"objects", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=gitdir.common_fd
    )
    try:
        for fan_out in filter(_FAN_OUT.fullmatch, os.listdir(objects_fd)):
            os.mkdir(f"{directory}/{fan_out}")
            for name in _names(objects_fd, fan_out):
                count += 1
                os.symlink(f"{there}/{fan_out}/{name}", f"{directory}/{fan_out}/{name}")
            if count > _LOOSE:
                raise CannotTell(f"the repository has more than {_LOOSE} loose objects", "git gc")
    finally:
        os.close(objects_fd)


def _names(objects_fd: int, fan_out: str) -> list[str]:
    fd = os.open(
        fan_out, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=objects_fd
    )
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def _borrow_alternates(gitdir: GitDir, directory: str) -> None:
    """The repository's own alternates: a relative one counts from its object directory."""
    try:
        content = read_file(gitdir.common_fd, b"objects/info/alternates", _LIMIT_BYTES)
    except FileNotFoundError:
        return
    base = os.path.join(gitdir.common_real_path(), b"objects")
    lines = [line for line in content.split(b"\n") if line and not line.startswith(b"#")]
    with open(f"{directory}/info/alternates", "wb") as file:
        file.writelines(os.path.normpath(os.path.join(base, line)) + b"\n" for line in lines)
