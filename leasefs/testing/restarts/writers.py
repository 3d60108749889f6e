"""Tools that write through real mounts all the time: whatever becomes of the ledger, no write under a held lease may be refused."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Self

from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Writer:
    """Writes below `ground` of an agent's mount, from entering to leaving the context."""

    def __init__(self, agent: Agent, ground: str) -> None:
        self.written = 0
        self.refused: list[str] = []
        self.longest_s = 0.0
        self._agent, self._ground = agent, ground
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=60)

    def _run(self) -> None:
        while not self._stop.is_set():
            began_s = time.monotonic()
            try:
                self._agent.write(f"{self._ground}/{self.written % 40}", str(self.written))
            except OSError as error:
                self.refused.append(f"{self._agent.root}: {error}")
            else:
                self.written += 1
            self.longest_s = max(self.longest_s, time.monotonic() - began_s)
            self._stop.wait(0.01)

    def goes_on(self) -> None:
        """Wait until some more was written. Fails if something was refused."""
        goal = self.written + 20
        eventually(lambda: self.written >= goal or self.refused, what="the next writes")
        assert not self.refused, self.refused[0]


@contextmanager
def writing(
    source: str, mountpoints: Sequence[str], ledger: str, ttl_s: float
) -> Iterator[list[Writer]]:
    """Mount `source` at each place, claim a directory of one's own in each, and write there."""
    with ExitStack() as running:
        writers = []
        for number, mountpoint in enumerate(mountpoints):
            agent = running.enter_context(
                agent_mount(source, mountpoint, f"mount-{number}", ledger=ledger)
            )
            agent.claim(f"mounted-{number}/**", ttl_s=ttl_s)
            writers.append(running.enter_context(Writer(agent, f"mounted-{number}")))
        yield writers
