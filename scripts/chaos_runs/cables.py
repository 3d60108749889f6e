"""What connects each mount with the ledger, and can be cut.

A cable is `up`; `cut`: connections break and none is accepted; `hole`: nothing passes until it is up again, then all
of it; or `deaf`: requests pass and their answers are lost.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Mapping

UP, CUT, HOLE, DEAF = "up", "cut", "hole", "deaf"
_BYTES = 65536


class Cables:
    """One Unix socket for each end, all leading to the ledger's."""

    def __init__(self, ends: Mapping[str, str], ledger_socket: str) -> None:
        """`ends` are socket paths by name."""
        self._ends = dict(ends)
        self._ledger_socket = ledger_socket
        self._states = dict.fromkeys(ends, UP)
        self._changed = {name: trio.Event() for name in ends}
        self._live: dict[str, set[_Connection]] = {name: set() for name in ends}
        self._ready = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._all = trio.CancelScope()
        self._thread = threading.Thread(target=trio.run, args=(self._run,), daemon=True)
        self._thread.start()
        self._ready.wait(10)

    def set(self, name: str, state: str) -> None:
        """Let a cable be so from now on."""
        trio.from_thread.run_sync(self._set, name, state, trio_token=self._token)

    def close(self) -> None:
        """Cut all for good."""
        trio.from_thread.run_sync(self._all.cancel, trio_token=self._token)
        self._thread.join(10)

    def _set(self, name: str, state: str) -> None:
        self._states[name] = state
        self._changed[name].set()
        self._changed[name] = trio.Event()
        for connection in list(self._live[name]):
            if state == CUT or (connection.lost_some and state == UP):
                connection.scope.cancel()

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._all:
            async with trio.open_nursery() as nursery:
                for name, path in self._ends.items():
                    listening = trio.socket.socket(trio.socket.AF_UNIX)
                    await listening.bind(path)
                    os.chmod(path, 0o600)
                    listening.listen(64)
                    nursery.start_soon(self._accept, nursery, name, listening)
                self._ready.set()
        for path in self._ends.values():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    async def _accept(
        self, nursery: trio.Nursery, name: str, listening: trio.socket.SocketType
    ) -> None:
        while True:
            near, _ = await listening.accept()
            if self._states[name] == CUT:
                near.close()
            else:
                nursery.start_soon(self._serve, name, trio.SocketStream(near))

    async def _serve(self, name: str, near: trio.SocketStream) -> None:
        connection = _Connection()
        self._live[name].add(connection)
        try:
            with connection.scope, contextlib.suppress(OSError, trio.BrokenResourceError):
                far = await trio.open_unix_socket(self._ledger_socket)
                async with far, near, trio.open_nursery() as nursery:
                    nursery.start_soon(self._pump, name, connection, near, far, False)
                    nursery.start_soon(self._pump, name, connection, far, near, True)
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self._live[name].discard(connection)
            near.socket.close()

    async def _pump(
        self,
        name: str,
        connection: _Connection,
        source: trio.SocketStream,
        goal: trio.SocketStream,
        is_answer: bool,
    ) -> None:
        while data := await source.receive_some(_BYTES):
            while self._states[name] == HOLE:
                await self._changed[name].wait()
            if is_answer and self._states[name] == DEAF:
                connection.lost_some = True
            elif not (is_answer and connection.lost_some):
                await goal.send_all(data)
        connection.scope.cancel()


class _Connection:
    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.lost_some = False
