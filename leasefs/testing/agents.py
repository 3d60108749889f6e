"""Agents with real mounts over one real tree, for tests: their daemons, their leases, their end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

from leasefs.client import api
from leasefs.client.blocking import Link
from leasefs.client.ids import new_key
from leasefs.mount.launch import MountConfig, start_mount
from leasefs.mount.mountinfo import top_at
from leasefs.testing.eventually import eventually
from leasefs.testing.own_world import is_gone

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Agent:
    """One agent behind its own mount."""

    def __init__(self, about: dict[str, Any]) -> None:
        self.about = about
        self.root: str = about["mountpoint"]
        self.pid: int = about["pid"]
        self.control = Link(about["control"], is_ledger=False)
        self.ledger = Link(about["ledger"])

    def claim(self, *globs: str, ttl_s: float = 60.0, wait: bool = False) -> api.Body:
        """The LeaseAnswer of a claim through the mount."""
        return self.control.send(api.claim(globs, key=new_key(), ttl_s=ttl_s, wait=wait))

    def release(self, lease: api.Body) -> api.Body:
        """Give a lease back through the mount."""
        return self.control.send(api.release(lease["lease"], key=new_key()))

    def held(self) -> list[api.Body]:
        """What the mount itself believes."""
        leases: list[api.Body] = self.control.send(api.mount())["leases"]
        return leases

    def state_of(self, lease: api.Body) -> str:
        """What the ledger says of a lease: granted, lapsed, waiting, ended, ..."""
        return str(self.ledger.send(api.lease(lease["lease"]))["state"])

    def write(self, name: str, text: str = "x") -> None:
        """Write a file through the mount. Raises OSError as any tool would see it."""
        with open(os.path.join(self.root, name), "w", encoding="utf-8") as file:
            file.write(text)

    def may_write(self, name: str) -> bool:
        """Whether a write passes now."""
        try:
            self.write(name)
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """SIGKILL the daemon and wait for its end; the mount stays behind, dead."""
        os.kill(self.pid, signal.SIGKILL)
        # A zombie may still have threads that hold the connection; `start_mount` reaps it after them.
        eventually(lambda: not os.path.exists(f"/proc/{self.pid}"), what="the daemon's end")

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """SIGSTOP; SIGCONT at the end."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """SIGTERM, and wait until daemon and mount are gone."""
        os.kill(self.pid, signal.SIGTERM)
        eventually(lambda: is_gone(self.pid), what="the daemon's end")


@contextlib.contextmanager
def agent_mount(
    source: str,
    mountpoint: str,
    name: str = "agent-07",
    *,
    ledger: str = "",
    replace: bool = False,
    dies: bool = False,
    unleased: str = "",
    wait_s: float | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Agent]:
    """Mount `source` for an agent; at the end nothing may be left, unless the test lets it die."""
    config = MountConfig(
        source,
        mountpoint,
        name,
        "test",
        ledger=ledger,
        replace=replace,
        unleased=unleased,
        wait_s=wait_s,
        settings=settings or {},
    )
    agent = Agent(start_mount(config))
    try:
        yield agent
    finally:
        if not is_gone(agent.pid):
            agent.stop()
        there = top_at(agent.root)
        left = there is not None and there.is_leasefs
        if left:
            subprocess.run(["umount", "-l", agent.root], check=True)
        assert left == dies, f"{agent.root}: left mounted: {left}"
