"""One ledger process from its start to its end.

    lock the store ▸ lock the socket ▸ recover ▸ LedgerStarted ▸ listen ▸ ready ▸ ... ▸ unlink ▸ finish ▸ snapshot

A socket that a supervisor passed on is its own: it is neither locked nor unlinked, and who connects while no ledger
serves it waits in its queue for the next one.

The locks are held to the very end, so two servers never stand over one log or one socket. A stop (SIGTERM,
idleness, or the loss of the socket's name) first removes that name: who connects later finds none and starts the
next server, which waits for these locks; who is connected already gets the answers to what it asked.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from leasefs import __version__
from leasefs.client.log_events import Event, note
from leasefs.client.supervisor import Supervisor
from leasefs.core.commands import StartLedger
from leasefs.core.exposition import gauge
from leasefs.service import retention
from leasefs.service.app import LedgerApp
from leasefs.service.clock import ClockMark, LedgerClock, SystemClock, boot_identity, clock_after
from leasefs.service.context import Ledger
from leasefs.service.event_log import EventLog
from leasefs.service.idle import IdleWatch, in_use
from leasefs.service.limits import Limiter, Limits
from leasefs.service.listener import Listener
from leasefs.service.metrics_store import store_families
from leasefs.service.places import listening_socket, private_directory
from leasefs.service.pulse import Pulse
from leasefs.service.recovery import recover
from leasefs.service.snapshots import Snapshots
from leasefs.service.socket_name import SocketName
from leasefs.service.stream import StreamHub
from leasefs.service.tcp import url_of
from leasefs.service.tcp_options import TcpOptions
from leasefs.service.timers import Timers
from leasefs.service.watched import Watched
from leasefs.service.writer import LedgerWriter
from leasefs.store.lock import LedgerLock
from leasefs.store.memory import MemoryStore
from leasefs.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from leasefs.service.retention import Retention
    from leasefs.service.snapshot import Saved
    from leasefs.service.tls import Tls
    from leasefs.store.port import Store

STORE_FILE = "ledger.sqlite3"
IN_MEMORY = ":memory:"
FINISH_WITHIN_S = 10.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """How to serve. `idle_s` None: until told to stop. `passed` listens at `socket_path` already.

    `tcp` is how other hosts reach it, if they do; `limits` is what one client may take. `keep` says how much of the
    log; what goes is archived in the directory `archive`, if one is named.
    """

    socket_path: str
    store: str
    idle_s: float | None = None
    passed: socket.socket | None = None
    supervisor: Supervisor = field(default_factory=Supervisor)
    tcp: TcpOptions = field(default_factory=TcpOptions)
    limits: Limits = field(default_factory=Limits)
    keep: Retention = field(default_factory=retention.configured)
    archive: str = field(default_factory=retention.configured_archive)


def serve(options: Options, ready: Callable[[Sequence[str]], None]) -> None:
    """Serve until SIGTERM, SIGINT or idleness; `ready` is called with all addresses once requests are taken.

    Raises:
        StoreLocked: another process owns the store or the socket.
        StoreError, UnknownEvent: the log cannot be used.
        UnsafePlace, OSError: the socket or a directory cannot be used.
    """
    _raise_descriptor_limit()
    tls = options.tcp.tls()
    with ExitStack() as held:
        store = _open_store(options.store, held)
        if options.passed is None:
            private_directory(os.path.dirname(os.path.abspath(options.socket_path)))
            held.callback(LedgerLock(options.socket_path).release)
        saved = recover(store)
        clock, mark = _start_clock(saved)
        listening = held.enter_context(options.passed or listening_socket(options.socket_path))
        sockets = Sockets(listening, options.tcp.sockets(held), tls)
        server = LedgerServer(options, store, saved, clock, mark, sockets, ready)
        _calm_garbage_collector()
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(server.run())


def _new_loop() -> asyncio.AbstractEventLoop:
    import uvloop

    return uvloop.new_event_loop()


def _open_store(place: str, held: ExitStack) -> Store:
    store: Store
    if place == IN_MEMORY:
        store = MemoryStore()
    else:
        private_directory(place)
        store = SqliteStore(os.path.join(place, STORE_FILE))
    held.callback(store.close)
    return store


def _start_clock(saved: Saved) -> tuple[LedgerClock, ClockMark]:
    boot = boot_identity()
    last_at_s = saved.state.at_s if saved.state.seq else None
    clock = clock_after(SystemClock(), boot, last_at_s, saved.clock)
    return clock, ClockMark(boot, clock.now_s() - clock.boottime_s())


def _calm_garbage_collector() -> None:
    """Look for cycles seldom, and never in what was recovered.

    The state is a tree without cycles, of which each decision makes some new nodes. With the interpreter's
    usual thresholds half of the time under load went into walking it again and again (measured: 2,400
    claim+release pairs a second against 5,100).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _raise_descriptor_limit() -> None:
    """Every mount keeps a stream open; the usual soft limit of 1,024 is for select(2)."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Sockets(NamedTuple):
    """Where a ledger listens: at a Unix socket, and by TCP behind TLS."""

    unix: socket.socket
    tcp: Sequence[socket.socket] = ()
    tls: Tls | None = None


class LedgerServer:
    """The parts of a running server, wired together."""

    def __init__(
        self,
        options: Options,
        store: Store,
        saved: Saved,
        clock: LedgerClock,
        mark: ClockMark,
        sockets: Sockets,
        ready: Callable[[Sequence[str]], None],
    ) -> None:
        self._options = options
        self._store = store
        self._clock = clock
        self._mark = mark
        self._sockets = sockets
        self._name = SocketName(options.socket_path)
        self._ready = ready
        self._writer = LedgerWriter(store, clock, saved.state)
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Serve until told to stop. Raises what ended a background task, if that was it."""
        loop = asyncio.get_running_loop()
        for signal_ in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signal_, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._read_again)
        background = [asyncio.create_task(self._writer.run(), name="writer")]
        try:
            await self._announce()
            await self._serve(background)
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            self._writer.close()

    def _read_again(self) -> None:
        if self._sockets.tls is None:
            _log.info("SIGHUP: nothing is served by TCP, so there is no certificate to read again")
        else:
            self._sockets.tls.reload(self._clock.wall_s())

    async def _announce(self) -> None:
        command = StartLedger(
            server=f"{socket.gethostname()}:{os.getpid()} leasefs {__version__}",
            boot_id=self._mark.boot,
            boottime_s=self._clock.boottime_s(),
        )
        await self._writer.submit(command)

    async def _serve(self, background: list[asyncio.Task[None]]) -> None:
        hub = StreamHub(self._store, self._writer)
        snapshots = Snapshots(self._store, self._writer, self._mark)
        ledger = Ledger(
            self._writer,
            hub,
            self._clock.now_s(),
            _shown(self._options.store),
            os.geteuid(),
            _directory(self._options.store),
            limiter=Limiter(self._options.limits),
        )
        unix, tcp, tls = self._sockets
        ledger.compactor.archive, ledger.compactor.before = self._options.archive, snapshots.save
        listener = Listener(LedgerApp(ledger), unix, ledger.limiter, tcp, tls)
        pulse = Pulse()
        self._measure(ledger, listener, snapshots, pulse)
        background += [
            asyncio.create_task(pulse.run(), name="pulse"),
            asyncio.create_task(Timers(self._writer).run(), name="timers"),
            asyncio.create_task(snapshots.run(), name="snapshots"),
            asyncio.create_task(
                ledger.compactor.run(self._options.keep, self._clock.wall_s), name="retention"
            ),
        ]
        if tls is not None:
            background.append(
                asyncio.create_task(tls.watch(self._clock.wall_s), name="certificate")
            )
        await listener.start()
        watched = Watched(self._options.supervisor, self._writer, lambda: listener.connections)
        background.append(asyncio.create_task(watched.run(), name="supervisor"))
        urls = [f"unix:{self._options.socket_path}", *map(url_of, tcp)]
        words = f"serving {ledger.store} at {', '.join(urls)} from event {hub.head} on"
        note(_log, Event.SERVING, words, seq=hub.head, version=__version__)
        self._ready(urls)
        await self._until_stop(background, listener)
        self._options.supervisor.stopping()
        if self._options.passed is None:
            self._name.remove()
        hub.close()
        await listener.stop(FINISH_WITHIN_S)
        await ledger.compactor.close()
        await snapshots.save()
        note(_log, Event.STOPPED, f"stopped at event {hub.head}", seq=hub.head)

    def _measure(
        self, ledger: Ledger, listener: Listener, snapshots: Snapshots, pulse: Pulse
    ) -> None:
        """Have the monitor see what the parts know, and the system's log what an operator wants to meet."""
        meters = ledger.meters
        self._writer.listen(EventLog().heard)
        meters.add(listener.families)
        meters.add(snapshots.families)
        meters.add(pulse.families)
        if ledger.directory:
            meters.add(partial(store_families, os.path.join(ledger.directory, STORE_FILE)))
        first = "Number of the log's first event: those before it were compacted away."
        meters.add(lambda: [gauge("leasefs_first_event", first, ledger.hub.base + 1)])

    async def _until_stop(self, background: list[asyncio.Task[None]], listener: Listener) -> None:
        """Return when it is time to stop; a background task that ends by itself is a fault of ours."""
        reasons: list[Coroutine[Any, Any, object]] = [self._stop.wait(), self._nameless()]
        if self._options.idle_s is not None:
            reasons.append(self._idle(listener, self._options.idle_s))
        waits = [asyncio.create_task(reason) for reason in reasons]
        try:
            done, _ = await asyncio.wait({*waits, *background}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        for task in done:
            task.result()

    async def _nameless(self) -> None:
        await self._name.lost()
        _log.warning("%s is gone: nobody can find this ledger", self._options.socket_path)
        if self._options.passed is not None:
            # Only who made it can make it again; those who are connected are served on.
            _log.error("restart the socket unit that listens at %s", self._options.socket_path)
            await self._stop.wait()

    def _idle(self, listener: Listener, idle_s: float) -> Coroutine[Any, Any, None]:
        def needed() -> bool:
            return listener.connections > 0 or in_use(self._writer.durable, self._writer.now_s())

        return IdleWatch(self._clock, idle_s, needed).wait()


def _directory(store: str) -> str:
    return "" if store == IN_MEMORY else store


def _shown(store: str) -> str:
    return "memory" if store == IN_MEMORY else f"sqlite:{os.path.join(store, STORE_FILE)}"
