"""What the daemon itself reaches by path must not lie where it is about to mount: it would wait for its own answer.

A call of its own that goes through its mount is a request that nobody is left to serve, and it stays so for ever. Code
is read long after the start (imports inside functions, sources that a traceback quotes), and so are state and sockets.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from leasefs.client import config, paths
from leasefs.client.address import parse_url
from leasefs.client.tokens import token_file
from leasefs.core.errors import NotMounted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.mount.mountpoint import MountOptions


def keep_out(options: MountOptions, ledger: str) -> None:
    """See to it that nothing of ours, nor the ledger, is reached through the mount that is about to be made.

    `ledger` is its address, "" for the one that is configured.

    Raises:
        NotMounted: our code or our state lies inside. Nothing is changed then.
    """
    mountpoint = options.real_mountpoint
    if any(_is_inside(entry, mountpoint) for entry in [sys.executable, *os.get_exec_path()]):
        # Before Python 3.11.4, vfork(2) holds up all threads until the child runs its program, which is looked for there.
        subprocess._USE_VFORK = False  # type: ignore[misc]  # noqa: SLF001 - as its documentation says
    if not options.in_place:
        return  # a mountpoint of its own is empty
    _check_code(options.source, mountpoint)
    for what, path in _state(ledger):
        if _is_inside(path, mountpoint):
            raise NotMounted(
                f"{path}, {what}, lies inside {options.source}: mounted in place, leasefs would wait for itself there; "
                f"have it elsewhere, or mount on an empty directory outside: leasefs mount {options.source} MOUNTPOINT",
                path=path,
            )


def _check_code(source: str, mountpoint: str) -> None:
    inside = next(
        (place for place in sorted(_places_of_code()) if _is_inside(place, mountpoint)), None
    )
    if inside is not None:
        raise NotMounted(
            f"leasefs itself runs from inside {source} ({inside}): mounted in place, it would have to read its own code "
            "through itself; install it outside (pipx install leasefs, uv tool install leasefs), or mount on an empty "
            f"directory outside: leasefs mount {source} MOUNTPOINT",
            path=inside,
        )
    # What PYTHONPATH names for others, and nothing of ours comes from.
    sys.path[:] = [entry for entry in sys.path if not _is_inside(entry, mountpoint)]


def _places_of_code() -> set[str]:
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return {os.path.dirname(file) for file in files if isinstance(file, str)}


def _state(ledger: str) -> Iterator[tuple[str, str]]:
    yield "its state directory (XDG_STATE_HOME)", paths.state_dir()
    yield "its runtime directory (XDG_RUNTIME_DIR)", paths.runtime_dir()
    address = parse_url(ledger or paths.ledger_url()[0])
    named = (
        ("the ledger's socket (ledger.url)", address.socket_path),
        ("the file with the ledger's token (ledger.token_file)", token_file(address)),
        ("the ledger's authorities (ledger.ca_file)", config.path("ledger.ca_file")),
    )
    yield from ((what, path) for what, path in named if path)


def _is_inside(path: str, directory: str) -> bool:
    if not os.path.isabs(path):
        return False  # the daemon's own directory is the root
    real = os.path.realpath(path)
    return real == directory or real.startswith(directory.rstrip("/") + "/")
