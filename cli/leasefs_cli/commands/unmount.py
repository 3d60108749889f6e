"""`leasefs unmount`."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import click

from leasefs.client import api
from leasefs.client.blocking import Link
from leasefs.client.find import mounts_of, registered_mounts
from leasefs.client.process import process_identity
from leasefs.core.errors import LedgerUnavailable, NotMounted
from leasefs.mount.mountinfo import top_at
from leasefs_cli.asking_a_mount import ask, registered_daemon
from leasefs_cli.busy import users_of
from leasefs_cli.detaching import clear_away, cut_off, detach, forget_dead
from leasefs_cli.mount_link import control_url
from leasefs_cli.printing import say, say_json
from leasefs_cli.server_process import Watched
from leasefs_cli.teaching import json_option, teaching_command

if TYPE_CHECKING:
    from leasefs.client.find import MountFound
    from leasefs.mount.mountinfo import Mount
    from leasefs_cli.asking_a_mount import Said
    from leasefs_cli.busy import User

STOP_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 5.0
_NAMED_AT_MOST = 5


@teaching_command(
    "unmount",
    examples=[
        ("leasefs unmount ~/repo", "the mount there, dead or alive"),
        ("leasefs unmount --lazy ~/repo", "even though processes still use it"),
    ],
)
@click.argument("path")
@click.option(
    "--lazy",
    is_flag=True,
    help="Take it out of sight now; those who use it keep a dead view until they let go.",
)
@json_option
def command(path: str, lazy: bool, as_json: bool) -> None:
    """Unmount PATH: a mountpoint, or the source of the only mount of it.

    The agent's session ends, its leases are free at once. A mount in use is refused (10), naming the
    processes; a shell counts, so `cd` out of it first. A dead mount is cleared away as well: until then
    it stays closed, so that nobody writes past the leases. One whose daemon does not answer is cut off.
    """
    mountpoint = _mountpoint(path)
    mount = top_at(mountpoint)
    if mount is None or not mount.is_leasefs:
        forget_dead(mountpoint)
        raise _not_a_mount(path)
    daemon, silent = registered_daemon(mountpoint), False
    if daemon is None:
        said = ask(mountpoint)
        daemon, silent = _named(said, mountpoint), said.errno is None
    but = frozenset({os.getpid()} | ({daemon.pid} if daemon else set()))
    if not lazy:
        _refuse_busy(mountpoint, users_of(mount, but=but))
    if daemon is None:
        if silent:
            cut_off(mount, f"the daemon of {mountpoint} is gone, yet hangs in the kernel")
        clear_away(mount, lazy=lazy or silent)
    else:
        _stop(daemon, mount, lazy=lazy)
    if as_json:
        say_json({"unmounted": mountpoint, "was_alive": daemon is not None})
    else:
        say(f"unmounted {mountpoint}" + ("" if daemon else ", which was dead"))


def _mountpoint(path: str) -> str:
    # A dead or silent mount must not be touched, so the kernel's list is asked for the name first.
    parent, name = os.path.split(os.path.abspath(path))
    for candidate in (os.path.join(parent, name), os.path.join(os.path.realpath(parent), name)):
        mount = top_at(candidate)
        if mount is not None and mount.is_leasefs:
            return candidate
    of_source = [found.mountpoint for found in mounts_of(path)]
    if len(of_source) > 1:
        raise NotMounted(
            f"{path} is mounted at several places ({', '.join(of_source)}); name one of them",
            path=path,
        )
    if not of_source:
        raise _not_a_mount(path)
    return of_source[0]


def _not_a_mount(path: str) -> NotMounted:
    known = ", ".join(found.mountpoint for found, _ in registered_mounts()) or "none"
    return NotMounted(f"{path} is not a leasefs mount; your mounts: {known}", path=path)


def _named(said: Said, mountpoint: str) -> MountFound | None:
    """The daemon as the mount names it, None if that is dead: it may be in another registry than ours."""
    if said.errno in {errno.ENOTCONN, None}:
        return None
    facts = said.facts
    if facts is None or facts.process != process_identity(facts.pid):
        raise NotMounted(
            f"{mountpoint} is served by a daemon that cannot be told to stop from here; unmount it as the "
            "user, and in the container, that mounted it",
            path=mountpoint,
        )
    return facts


def _refuse_busy(mountpoint: str, users: list[User]) -> None:
    if not users:
        return
    named = ", ".join(
        f"{user.program}[{user.pid}] in {user.what}" for user in users[:_NAMED_AT_MOST]
    )
    more = f" and {len(users) - _NAMED_AT_MOST} more" if len(users) > _NAMED_AT_MOST else ""
    raise NotMounted(
        f"{mountpoint} is in use by {named}{more}; leave it (`cd` elsewhere) or end them, or unmount "
        "with --lazy",
        users=[user._asdict() for user in users],
    )


def _stop(daemon: MountFound, mount: Mount, *, lazy: bool) -> None:
    """Have the daemon unmount and end its session; wait for its end."""
    with Watched(daemon.pid) as process:
        try:
            Link(control_url(daemon), timeout_s=ANSWER_TIMEOUT_S, is_ledger=False).send(
                api.stop_mount(lazy=lazy)
            )
        except LedgerUnavailable as error:
            if "waited_s" in error.details or not _ends_by_signal(process):
                _without_daemon(daemon, mount)
            return
        ended = process.ends_within(STOP_TIMEOUT_S)
    there = top_at(daemon.mountpoint)
    if there is None or there.device != mount.device:
        return
    if not ended:
        raise NotMounted(
            f"{daemon.mountpoint} is still mounted {STOP_TIMEOUT_S:g} s after its daemon ({daemon.pid}) was "
            "told to stop; unmount with --lazy"
        )
    # It could not unmount and left a dead mount. What stops this process too is then told.
    detach(daemon.mountpoint, lazy=lazy)


def _ends_by_signal(process: Watched) -> bool:
    """Nobody listens at its socket, which may have gone with a login session; SIGTERM ends it in order as well."""
    try:
        process.terminate()
    except (ProcessLookupError, PermissionError):
        return False
    return process.ends_within(STOP_TIMEOUT_S)


def _without_daemon(daemon: MountFound, mount: Mount) -> None:
    cut_off(mount, f"its daemon (process {daemon.pid}) does not answer; end it: kill {daemon.pid}")
    detach(daemon.mountpoint, lazy=True)
