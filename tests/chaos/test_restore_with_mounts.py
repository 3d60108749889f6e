"""A ledger is brought back from a backup under live mounts: nobody writes twice, and no work is lost (P1, P3, P8, P9)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import api, api_scheduling
from leasefs.core.errors import ClaimConflict
from leasefs.service.restoring import Restored, restore
from leasefs.store.sqlite_backup import back_up
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.ledger_process import LedgerProcess
from leasefs.testing.own_world import World, own_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.mount, pytest.mark.chaos]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with own_world(str(tmp_path)) as world:
        repo = f"{world.root}/repo"
        os.makedirs(f"{repo}/src")
        os.makedirs(f"{repo}/docs")
        for name in ("src/a", "src/b", "docs/a"):
            with open(f"{repo}/{name}", "w") as file:
                file.write("before")
        identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
        subprocess.run(["git", "init", "-q", repo], check=True)
        subprocess.run(["git", "-C", repo, "add", "."], check=True)
        subprocess.run(["git", "-C", repo, *identity, "commit", "-qm", "x"], check=True)
        for name in ("one", "two"):
            os.mkdir(f"{world.root}/{name}")
        yield world


def nothing(_done: int, _total: int) -> None:
    pass


def brought_back(ledger: LedgerProcess, backup: str, *, kill: bool, **options: Any) -> Restored:
    """End the ledger and put the backup in its place."""
    if kill:
        ledger.kill()
    else:
        assert ledger.stop() == 0
    assert ledger.process.stderr is not None
    ledger.process.stderr.close()
    wishes: dict[str, Any] = {"by": "root", "over": True, "closed_for_s": None, **options}
    return restore(backup, ledger.store, told=nothing, **wishes)


def sessions_of(agent: Agent, name: str) -> list[api.Body]:
    return [one for one in agent.ledger.send(api.sessions())["sessions"] if one["agent"] == name]


def wait_until_lost(agent: Agent, lease: api.Body) -> None:
    eventually(
        lambda: lease["token"] not in [held["token"] for held in agent.held()],
        what="the end of a lease that the backup does not know",
    )


def test_what_was_granted_after_the_backup_is_lost_and_its_work_is_kept(world: World) -> None:
    """The mount hears it, stops writing, keeps what is uncommitted; tokens go on beyond all that were handed out."""
    repo, backup = f"{world.root}/repo", f"{world.root}/backup.db"
    ledger = LedgerProcess(world.root)
    url = f"unix:{ledger.socket_path}"
    with (
        agent_mount(repo, f"{world.root}/one", "ann", ledger=url) as ann,
        agent_mount(repo, f"{world.root}/two", "bo", ledger=url) as bo,
    ):
        known = ann.claim("docs/**", ttl_s=600)
        ann.write("docs/a", "known")
        back_up(f"{ledger.store}/ledger.sqlite3", backup, nothing)
        unknown = bo.claim("src/**", ttl_s=600)
        bo.write("src/a", "unknown to the backup")
        eventually(lambda: ann.ledger.send(api.intents())["total"] == 2, what="both intents")
        done = brought_back(ledger, backup, kill=False)
        assert done.closed_for_s == 600
        assert done.head_before >= unknown["token"]
        with LedgerProcess(world.root) as again:
            wait_until_lost(ann, known)
            wait_until_lost(bo, unknown)
            assert not ann.may_write("docs/a")
            assert not bo.may_write("src/a")
            with pytest.raises(ClaimConflict, match="brought back from a backup"):
                ann.claim("src/b")
            link = bo.ledger
            eventually(
                lambda: (
                    {one["lease"] for one in link.send(api.rescues())["rescues"]}
                    == {known["lease"], unknown["lease"]}
                ),
                what="a rescue of each",
            )
            with open(f"{repo}/src/a") as file:
                assert file.read() == "unknown to the backup"
            waits = bo.claim("src/**", wait=True)
            assert waits["state"] == "waiting"
            link.send(api_scheduling.reopen(by="test"))
            eventually(lambda: bo.may_write("src/a"), what="the grant after the opening")
            (held,) = bo.held()
            assert held["token"] > done.seq > max(known["token"], unknown["token"])
            assert again.process.poll() is None


# In a process of its own: whoever is forked from one that has the file open, as a ledger is here, would close its copy, and
# wait for the frozen mount to answer that.
HOLDER = """
import errno, os, sys
file = os.open(sys.argv[1], os.O_WRONLY)
os.write(file, b"ann's")
print("open", flush=True)
sys.stdin.readline()
try:
    os.write(file, b"late")
    print("written")
except OSError as error:
    print(errno.errorcode[error.errno])
"""


@contextlib.contextmanager
def holding(path: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has written to the file, keeps it open, and writes again when it is told to."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        yield process


@pytest.mark.parametrize("kill", [False, True])
def test_a_mount_that_sleeps_through_it_does_not_write_when_it_wakes(
    world: World, kill: bool
) -> None:
    """Frozen before the restore, it wakes when its ground is another's: its open file is fenced."""
    repo, backup = f"{world.root}/repo", f"{world.root}/backup.db"
    ledger = LedgerProcess(world.root)
    url = f"unix:{ledger.socket_path}"
    with (
        agent_mount(repo, f"{world.root}/one", "ann", ledger=url) as ann,
        agent_mount(repo, f"{world.root}/two", "bo", ledger=url) as bo,
    ):
        back_up(f"{ledger.store}/ledger.sqlite3", backup, nothing)
        ann.claim("src/**", ttl_s=2)
        with holding(f"{ann.root}/src/a") as late, contextlib.ExitStack() as served:
            with ann.frozen():
                done = brought_back(ledger, backup, kill=kill)
                assert done.closed_for_s == 2
                served.enter_context(LedgerProcess(world.root))
                eventually(lambda: sessions_of(bo, "bo"), what="another session of the mount")
                bo.claim("src/**", ttl_s=600, wait=True)
                eventually(lambda: bo.may_write("src/b"), what="the opening, by itself")
                bo.write("src/a", "bo's")
            said, _ = late.communicate(b"late\n", timeout=30)
            assert said in {b"ESTALE\n", b"EACCES\n"}
            with open(f"{repo}/src/a") as content:
                assert content.read() == "bo's"
