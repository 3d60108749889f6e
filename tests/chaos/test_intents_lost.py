"""P9: whoever loses a lease, by sleep or by revocation, finds its work kept; who takes over is told of it."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from leasefs.client import api
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.kept import rescue_ids, restored
from leasefs.testing.own_world import World, own_world
from leasefs.testing.random_writer import state_of
from leasefs.testing.uncommitted import agree, git, new_repository

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mount, pytest.mark.chaos]

TTL_S = 2.0
NAMES = ["src/a", "src/b", "src/gone", "src/deep/c", "src/ä", "beside"]


class Two(NamedTuple):
    """Two agents; `first` worked in `tree`, `second` in `other_tree`, which may be the same."""

    first: Agent
    second: Agent
    tree: str
    other_tree: str


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with own_world(str(tmp_path)) as world:
        yield world


@pytest.fixture(params=["shared tree", "own clone"])
def two(world: World, request: pytest.FixtureRequest) -> Iterator[Two]:
    origin, shared = f"{world.root}/origin", request.param == "shared tree"
    new_repository(origin)
    for name in NAMES:
        os.makedirs(os.path.dirname(f"{origin}/{name}"), exist_ok=True)
        Path(origin, name).write_text(f"{name} as it was\n")
    git(origin, "add", "-A")
    git(origin, "commit", "-qm", "first")
    trees = ["tree", "tree"] if shared else ["tree", "other-tree"]
    with ExitStack() as mounts:
        both = []
        for name, tree in zip(("agent-07", "agent-08"), trees, strict=True):
            source = f"{world.root}/{tree}"
            if not os.path.exists(source):
                git(world.root, "clone", "-q", origin, source)
                git(source, "config", "user.name", "t")
                git(source, "config", "user.email", "t@example.org")
            os.mkdir(f"{world.root}/{name}")
            both.append(mounts.enter_context(agent_mount(source, f"{world.root}/{name}", name)))
        yield Two(both[0], both[1], *(f"{world.root}/{tree}" for tree in trees))


def work(root: str) -> None:
    """Leave work of every kind uncommitted."""
    Path(root, "src/a").write_text("hours of work\n")
    os.chmod(f"{root}/src/b", 0o755)
    os.unlink(f"{root}/src/gone")
    Path(root, "src/new").write_bytes(random.Random(1).randbytes(200_000))
    Path(root, "src/empty").touch()
    os.symlink("a", f"{root}/src/link")
    os.rename(f"{root}/src/deep", f"{root}/src/elsewhere")
    Path(os.fsdecode(os.fsencode(root) + b"/src/caf\xe9\n")).write_text("odd\n")


def destroy(root: str) -> None:
    """What a new holder may do at once."""
    for name in ("src/a", "src/new", "src/b", "src/empty"):
        Path(root, name).write_text("the other's\n")
    os.unlink(f"{root}/src/link")
    os.rename(f"{root}/src/elsewhere", f"{root}/src/mine")


_TOOL = """
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY)
print("open", flush=True)
sys.stdin.read(1)
try:
    os.write(fd, b"late")
except OSError as error:
    sys.exit(error.errno)
"""


@contextmanager
def asleep(two: Two, *, reported: bool) -> Iterator[subprocess.Popen[bytes]]:
    """The first agent works, with a file open, and then it and its mount sleep; in the end they go on."""
    first = two.first
    command = [sys.executable, "-c", _TOOL, f"{first.root}/src/a"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tool:
        assert tool.stdout is not None
        tool.stdout.readline()
        try:
            work(first.root)
            if reported:
                agree(first.ledger, two.tree)
            tool.send_signal(signal.SIGSTOP)
            with first.frozen():
                yield tool
        finally:
            tool.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("reported", [True, False], ids=["reported", "not-reported"])
@pytest.mark.parametrize("waits", [True, False], ids=["waits", "claims"])
def test_who_sleeps_past_its_lease_finds_its_work_kept(
    two: Two, tmp_path: Path, *, reported: bool, waits: bool
) -> None:
    first, second = two.first, two.second
    shared = two.tree == two.other_tree
    lease = first.claim("src/**", ttl_s=TTL_S)
    with asleep(two, reported=reported) as tool:
        worked = state_of(two.tree)
        granted = takes_over(second, lease, waits=waits)
        if shared:
            assert rescue_ids(two.tree, lease["lease"]), "kept before anything can be written"
            destroy(second.root)
        else:
            second.write("src/a", "the other's\n")
        if reported or shared:
            assert inherits(second, granted)
    assert_fenced(first, tool)
    kept = eventually(lambda: rescue_ids(two.tree, lease["lease"]), what="the rescue")
    assert restored(two.tree, kept[0], f"{tmp_path}/again") == worked
    eventually(lambda: lease["lease"] in rescued_leases(first), what="the ledger's knowledge")
    assert lease["lease"] in {one["lease"] for one in inherits(second, granted)["rescues"]}
    assert_told(first, kept[0])


def takes_over(second: Agent, lease: api.Body, *, waits: bool) -> api.Body:
    """The second agent's lease over the same ground, once the first one's is over."""
    if waits:
        waiting = second.claim("src/**", wait=True)
        granted = second.control.send(api.lease(waiting["lease"], wait_s=60))
    else:
        eventually(lambda: second.state_of(lease) == "lapsed", what="the lapse")
        granted = second.claim("src/**")
    assert granted["state"] == "granted"
    return granted


def inherits(agent: Agent, lease: api.Body) -> api.Body:
    """What the ledger says that a holder finds on its ground."""
    found: api.Body = agent.control.send(api.lease(lease["lease"]))["inherits"]
    return found


def rescued_leases(agent: Agent) -> set[str]:
    return {one["lease"] for one in agent.ledger.send(api.rescues())["rescues"]}


def assert_fenced(first: Agent, tool: subprocess.Popen[bytes]) -> None:
    """Its open handle is stale, and it writes nothing any more (P5)."""
    assert tool.returncode == errno.ESTALE
    assert not first.may_write("src/a")
    assert first.held() == []


def assert_told(first: Agent, rescue_id: str) -> None:
    """Whoever looks from the old holder's mount reads where the work is (P9, P10)."""
    main = "import sys; from leasefs_cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", main, "why", f"{first.root}/src/a"]
    eventually(
        lambda: (
            rescue_id in subprocess.run(command, capture_output=True, text=True, check=False).stdout
        ),
        what="the way to the work",
    )


class Hammer(threading.Thread):
    """A tool that writes one file again and again; `written` is what was acknowledged last."""

    def __init__(self, root: str) -> None:
        super().__init__()
        self.written = ""
        self.refused: OSError | None = None
        self._path = f"{root}/src/a"

    def run(self) -> None:
        number = 0
        fd = os.open(self._path, os.O_WRONLY)
        try:
            while True:
                number += 1
                os.pwrite(fd, f"{number:09}".encode(), 0)
                self.written = f"{number:09}"
        except OSError as error:
            self.refused = error
        finally:
            os.close(fd)


def test_work_under_a_revoked_lease_is_kept_before_its_ground_opens(
    two: Two, tmp_path: Path
) -> None:
    """Up to the last write that was acknowledged, while a waiter stands in the queue."""
    first, second = two.first, two.second
    lease = first.claim("src/**", ttl_s=60)
    with open(f"{first.root}/src/b") as open_file:
        work(first.root)
        hammer = Hammer(first.root)
        hammer.start()
        waiting = second.claim("src/**", wait=True)
        second.ledger.send(api.revoke(lease["lease"], by="an operator"))
        granted = second.control.send(api.lease(waiting["lease"], wait_s=60))
        kept = rescue_ids(two.tree, lease["lease"])
        assert granted["state"] == "granted"
        hammer.join(20)
        assert kept, "kept before anybody else can write there"
        assert open_file.read()
    assert hammer.refused is not None
    assert hammer.refused.errno in (errno.ESTALE, errno.EACCES)
    assert Path(two.tree, "src/a").read_text().startswith(hammer.written)
    assert restored(two.tree, kept[0], f"{tmp_path}/again") == state_of(two.tree)
    eventually(
        lambda: lease["lease"] in {one["lease"] for one in inherits(second, granted)["rescues"]},
        what="the ledger's knowledge",
    )
    assert_told(first, kept[0])
    second.write("src/a", "the other's\n")
