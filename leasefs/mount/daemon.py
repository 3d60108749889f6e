"""One mount's process: the session, the file system and the control socket, up together and down.

An orderly end (SIGTERM, `leasefs unmount`) unmounts, ends the session and exits 0. A fault of any part
ends the process and leaves the mount dead and closed (P12); nothing can be written through it, so the
session is ended then as well.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

import leasefs
from leasefs.client import names, paths
from leasefs.client.address import Address, parse_url
from leasefs.client.clock import BoottimeClock
from leasefs.client.embedded import ensure_ledger
from leasefs.client.ids import new_credentials
from leasefs.client.lessee import Identity, Lessee
from leasefs.client.process import process_identity
from leasefs.client.supervisor import supervisor
from leasefs.client.trio_http import TrioLink
from leasefs.core.errors import InvalidRequest, LeasefsError, LedgerUnavailable, NotMounted
from leasefs.mount.control_files import control_files
from leasefs.mount.control_http import listen, serve_http
from leasefs.mount.control_server import ControlServer, refusal
from leasefs.mount.delegating import Delegating
from leasefs.mount.foreign_writes import ForeignWrites
from leasefs.mount.kept_leases import KeptLeases
from leasefs.mount.mountpoint import MountOptions, check
from leasefs.mount.over_dead import entered
from leasefs.mount.recall_hook import RecallHook
from leasefs.mount.recall_words import recall_facts, recall_line
from leasefs.mount.recalling import Recalling
from leasefs.mount.refusals import RefusalLog
from leasefs.mount.registry import control_socket, registered
from leasefs.mount.releasing import ReleaseGate
from leasefs.mount.serve import serve
from leasefs.mount.standing_there import StandingThere
from leasefs.mount.supervised import Supervised, status_line
from leasefs.mount.telling_git import git_told
from leasefs.mount.unleased_policy import settings_of
from leasefs.mount.unleased_treatment import Unleased
from leasefs.mount.work import Work, opened_tree
from leasefs.vcs.errors import VcsError
from leasefs.vcs.project_file import read_project_file
from leasefs.vcs.territory import territory_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasefs.mount.launch import MountConfig
    from leasefs.mount.unleased_policy import Settings
    from leasefs.vcs.project_file import ProjectFile

log = logging.getLogger(__name__)

_M_ARENA_MAX = -8

REVIVE_PAUSE_S = (2.0, 60.0)


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
        await _run(config, options, ready)


async def _run(
    config: MountConfig, options: MountOptions, ready: Callable[[dict[str, Any]], None]
) -> None:
    told = supervisor()
    tree = await trio.to_thread.run_sync(_look_at, options)
    settings = _unleased(config, tree.project)
    url, revive = await _find_ledger(config)
    credentials = new_credentials()
    link = TrioLink(url, credentials)
    identity = Identity(
        agent=config.agent,
        harness=config.harness,
        territory=tree.territory,
        kind="mount",
        host=names.host_name(),
        pid=os.getpid(),
        process=process_identity(os.getpid()),
    )
    lessee = Lessee(identity, credentials, link, BoottimeClock(), revive)
    about = _about(options, identity, credentials.session, url, control_socket(tree.owner_uid))
    kept = KeptLeases(lessee, link, wanted=config.keep_leases)
    try:
        await kept.look()
        await lessee.open(replace=config.replace)
    except LedgerUnavailable:
        if revive is None:
            raise
        # It went idle and stopped between being found and being asked.
        await revive()
        await kept.look()
        await lessee.open(replace=config.replace)
    try:
        refusals = RefusalLog(lessee.refused)
        with opened_tree(options.entry) as root_fd:
            work = Work(root_fd, options.mountpoint, lessee, link, tree.project)
            work.intents.unwritten = refusals.unwritten
            foreign = ForeignWrites(work.header, work.journals, lessee, link)
            about |= {"tree": work.header.tree, **foreign.facts()}
            releases = ReleaseGate(lessee, work, work.tree, tree.project)
            unleased = Unleased(settings, lessee, work, releases)
            about["unleased"] = unleased.facts()
            hook = RecallHook(config.on_recall, options.mountpoint)
            recalling = Recalling(lessee, work, releases, hook)
            refusals.explainers.append(recalling.explain)
            work.yielded = recalling.yielded
            delegating = Delegating(lessee, work, releases)
            standing = StandingThere(lessee, link, refusals)
            refusals.ask, refusals.there = standing.ask, standing.at
            control = ControlServer(
                lessee,
                link,
                refusals,
                about,
                tree.owner_uid,
                releases.release,
                releases.look,
                delegating,
                revive,
            )
            control.claimed = unleased.claimed_on_purpose
            control.take_back = unleased.take_back
            kept.gives_back = lambda: control.asked_to_stop
            async with git_told(options.entry, wanted=config.fsmonitor) as about["fsmonitor"]:
                await _serve_all(
                    options,
                    lessee,
                    control,
                    refusals,
                    about,
                    ready,
                    work,
                    foreign,
                    unleased,
                    recalling,
                    delegating,
                    Supervised(told, options.mountpoint, partial(status_line, lessee, work)),
                    kept,
                )
            await work.end()
    finally:
        with trio.CancelScope(shield=True):
            await kept.hand_on()
            await lessee.end(keep=kept.keeps)
        link.close()


async def _serve_all(
    options: MountOptions,
    lessee: Lessee,
    control: ControlServer,
    refusals: RefusalLog,
    about: dict[str, Any],
    ready: Callable[[dict[str, Any]], None],
    work: Work,
    foreign: ForeignWrites,
    unleased: Unleased,
    recalling: Recalling,
    delegating: Delegating,
    supervised: Supervised,
    kept: KeptLeases,
) -> None:
    listener = listen(parse_url(about["control"]).socket_path, control.tree_uid)
    with contextlib.ExitStack() as until_the_end:
        until_the_end.callback(_unlink, parse_url(about["control"]).socket_path)

        def mounted() -> None:
            until_the_end.enter_context(registered(about))
            ready(about)
            supervised.mounted()
            nursery.start_soon(kept.claim_again)

        def redirected(paths: list[str]) -> None:
            about["redirects"] = paths

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lessee.run)
            nursery.start_soon(control.run)
            nursery.start_soon(work.run)
            nursery.start_soon(unleased.run)
            nursery.start_soon(recalling.run)
            nursery.start_soon(supervised.run)
            nursery.start_soon(serve_http, listener, control.handle, refusal)
            contents = _contents(lessee, refusals, about, foreign, delegating)
            await serve(
                options,
                lessee,
                contents,
                mounted,
                refusals,
                redirected,
                work.intents,
                foreign,
                unleased.treat,
            )
            nursery.cancel_scope.cancel()


def _contents(
    lessee: Lessee,
    refusals: RefusalLog,
    about: dict[str, Any],
    foreign: ForeignWrites,
    delegating: Delegating,
) -> dict[str, Callable[[], bytes]]:
    """The files of `.leasefs/`."""
    return {
        "agent": lambda: f"{about['agent']}\n".encode(),
        "mount.json": lambda: _json_file(about | foreign.facts()),
        **control_files(lessee, refusals, lessee.kept_by),
        **foreign.found.files(),
        "delegations": lambda: delegating.lines().encode(),
        "delegations.json": lambda: _json_file(delegating.facts()),
        "recalls": lambda: _recalls(lessee).encode(),
        "recalls.json": lambda: _json_file(
            [recall_facts(one, lessee.now_s()) for one in lessee.recalls]
        ),
    }


def _recalls(lessee: Lessee) -> str:
    return "".join(f"{recall_line(one, lessee.now_s())}\n" for one in lessee.recalls)


def _json_file(facts: object) -> bytes:
    return json.dumps(facts, indent=1).encode() + b"\n"


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
        project = read_project_file(root_fd, source)
        return _Tree(territory_of(root_fd, source).id, os.fstat(root_fd).st_uid, project)
    except VcsError as error:
        raise InvalidRequest(f"{source}: which territory it is cannot be told: {error}") from error
    finally:
        os.close(root_fd)


async def _find_ledger(config: MountConfig) -> tuple[str, Callable[[], Awaitable[None]] | None]:
    """The ledger's address, and for the embedded one how to start it again should it be gone."""
    if config.ledger:
        return config.ledger, None
    url, embedded = paths.ledger_url()
    if not embedded:
        return url, None
    revival = Revival()
    await revival.revive()
    return url, revival.revive


class Revival:
    """Starts the embedded ledger, ever less often while it fails: each attempt costs a Python start."""

    def __init__(self) -> None:
        self._clock = BoottimeClock()
        self._not_before_s = float("-inf")
        self._pause_s = REVIVE_PAUSE_S[0]

    async def revive(self) -> None:
        """See that a ledger runs, unless the last attempt failed a moment ago.

        Raises:
            LedgerUnavailable: it could not be started.
        """
        if self._clock.now_s() < self._not_before_s:
            return
        try:
            await trio.to_thread.run_sync(ensure_ledger, abandon_on_cancel=True)
        except LedgerUnavailable:
            self._not_before_s = self._clock.now_s() + self._pause_s
            self._pause_s = min(REVIVE_PAUSE_S[1], 2 * self._pause_s)
            raise
        self._pause_s = REVIVE_PAUSE_S[0]


def _about(
    options: MountOptions, identity: Identity, session: str, url: str, control: str
) -> dict[str, Any]:
    """The facts of `mount.json`; `leasefs.client.find.MountFound` reads them."""
    return {
        "agent": identity.agent,
        "harness": identity.harness,
        "session": session,
        "territory": identity.territory,
        "ledger": url,
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
    # One arena of malloc(3) for all threads: another for each would hold memory that nobody uses.
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
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
            log.exception("the mount ends by a fault and stays closed")
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
