"""One mount's process: the session, the file system and the control socket, up together and down.

An orderly end (SIGTERM, `leasefs unmount`) unmounts, ends the session and exits 0. A fault of any part
ends the process and leaves the mount dead and closed (P12); nothing can be written through it, so the
session is ended then as well.
"""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

import leasefs
from leasefs.client.address import Address, parse_url
from leasefs.client.config import around
from leasefs.client.log_events import Event, fields, note
from leasefs.client.supervisor import supervisor
from leasefs.core.errors import InvalidRequest, LeasefsError, NotMounted
from leasefs.mount.agent_session import AgentSession, opened_session
from leasefs.mount.control_http import listen, serve_http
from leasefs.mount.control_server import refusal
from leasefs.mount.memory import use_one_arena
from leasefs.mount.mountpoint import MountOptions, check
from leasefs.mount.over_dead import entered
from leasefs.mount.own_paths import keep_out
from leasefs.mount.parts import Parts
from leasefs.mount.registry import control_socket, registered
from leasefs.mount.serve import Served, serve
from leasefs.mount.telling_git import telling_git
from leasefs.mount.unleased_policy import settings_of
from leasefs.mount.work import opened_tree
from leasefs.vcs.errors import VcsError
from leasefs.vcs.project_file import read_project_file
from leasefs.vcs.territory import territory_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasefs.mount.launch import MountConfig
    from leasefs.mount.unleased_policy import Settings
    from leasefs.vcs.project_file import ProjectFile

log = logging.getLogger(__name__)


class _Tree(NamedTuple):
    """What is known of the source before anything is mounted over it."""

    territory: str
    owner_uid: int
    project: ProjectFile


async def run_mount(config: MountConfig, ready: Callable[[dict[str, Any]], None]) -> None:
    """Mount, serve until told to stop, unmount. `ready` gets the facts of `mount.json`.

    Raises:
        LeasefsError: nothing was mounted, and why.
        BaseException: a fault; the mount is left behind dead.
    """
    with entered(_options(config)) as options:
        check(options)
        keep_out(options, config.ledger)
        await _run(config, options, ready)


async def _run(
    config: MountConfig, options: MountOptions, ready: Callable[[dict[str, Any]], None]
) -> None:
    told = supervisor()  # first: no child is to inherit the way there
    tree = await trio.to_thread.run_sync(_look_at, options)
    settings = _unleased(config, tree.project)
    session = await opened_session(config, tree.territory)
    try:
        about = _about(options, session, control_socket(tree.owner_uid))
        with opened_tree(options.entry) as root_fd:
            parts = Parts(
                root_fd, config, session, about, tree.project, settings, tree.owner_uid, told
            )
            async with telling_git(options.entry, wanted=config.fsmonitor) as telling:

                async def beforehand() -> None:
                    about["fsmonitor"] = await telling.begin()

                await _serve_all(options, session, parts, beforehand, ready)
            await parts.work.end()
    finally:
        await session.end()


async def _serve_all(
    options: MountOptions,
    session: AgentSession,
    parts: Parts,
    beforehand: Callable[[], Awaitable[None]],
    ready: Callable[[dict[str, Any]], None],
) -> None:
    about, control = parts.about, parts.control
    socket_path = parse_url(about["control"]).socket_path
    listener = listen(socket_path, control.tree_uid)
    with contextlib.ExitStack() as until_the_end:
        until_the_end.callback(_unlink, socket_path)

        def mounted() -> None:
            until_the_end.enter_context(registered(about))
            words = f"{about['source']} is mounted at {about['mountpoint']} for {about['agent']}"
            shown = {name: about[name] for name in ("source", "mountpoint", "session", "territory")}
            note(log, Event.MOUNTED, words, **shown)
            ready(about)
            parts.supervised.mounted()
            nursery.start_soon(session.kept.claim_again)

        async with trio.open_nursery() as nursery:
            for task in parts.tasks():
                nursery.start_soon(task)
            nursery.start_soon(serve_http, listener, control.handle, refusal)
            served = Served(
                session.lessee,
                parts.files(),
                mounted,
                parts.refusals,
                parts.redirected,
                parts.work.intents,
                parts.foreign,
                parts.unleased.treat,
                parts.serves,
                beforehand,
            )
            await serve(options, served)
            nursery.cancel_scope.cancel()


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _options(config: MountConfig) -> MountOptions:
    return MountOptions(
        source=os.path.realpath(config.source),
        mountpoint=os.path.realpath(config.mountpoint),
        agent=config.agent,
        allow_other=config.allow_other,
        redirects=config.redirects,
        cpu_latency=config.cpu_latency,
        over_dead=config.over_dead,
    )


def _unleased(config: MountConfig, project: ProjectFile) -> Settings:
    try:
        return settings_of(config.unleased, config.wait_s, project)
    except ValueError as error:
        raise InvalidRequest(f"what becomes of writes that no lease covers is {error}") from error


def _look_at(options: MountOptions) -> _Tree:
    """Raises InvalidRequest if the territory's id cannot be told."""
    source = options.source
    root_fd = os.open(options.entry, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        project = read_project_file(root_fd, source, around())
        return _Tree(territory_of(root_fd, source).id, os.fstat(root_fd).st_uid, project)
    except VcsError as error:
        raise InvalidRequest(f"{source}: which territory it is cannot be told: {error}") from error
    finally:
        os.close(root_fd)


def _about(options: MountOptions, session: AgentSession, control: str) -> dict[str, Any]:
    """The facts of `mount.json`; `leasefs.client.find.MountFound` reads them."""
    identity = session.lessee.identity
    return {
        "agent": identity.agent,
        "harness": identity.harness,
        "session": session.lessee.session,
        "territory": identity.territory,
        "ledger": session.url,
        "control": Address(socket_path=control).url,
        "source": options.source,
        "mountpoint": options.mountpoint,
        "pid": identity.pid,
        "process": identity.process,
        "version": leasefs.__version__,
        "redirects": [],
    }


def run(config: MountConfig, tell: Callable[[dict[str, Any]], None]) -> int:
    """Run one mount to its end and return the exit code.

    `tell` hears once how the start went: `{"ready": facts}` or `{"error": {code, message, details}}`.
    """
    use_one_arena()
    told = False

    def ready(about: dict[str, Any]) -> None:
        nonlocal told
        told = True
        tell({"ready": about})

    try:
        trio.run(run_mount, config, ready)
    except BaseException as error:  # the last stop: whatever it is, it is told and logged
        refused = _refusal_in(error)
        if refused is None or told:
            words = "the mount ends by a fault and stays closed"
            log.critical(words, exc_info=error, extra=fields(Event.MOUNT_FAULT, {}))
        if not told:
            tell({"error": refusal(refused or _fault(error))[1]["error"]})
        return 1
    return 0


def _refusal_in(error: BaseException) -> LeasefsError | None:
    """The one refusal inside a group of trio's, or None if there is something else."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error if isinstance(error, LeasefsError) else None


def _fault(error: BaseException) -> NotMounted:
    return NotMounted(f"the mount failed: {type(error).__name__}: {error}; its log says more")
