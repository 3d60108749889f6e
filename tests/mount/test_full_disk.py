"""A journal that finds no room: the change is not made, and whoever wonders is told why (P8, P10)."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core.errors import NotMounted
from leasefs.testing.agents import agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.uncommitted import ledger_intents, new_repository

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.own_world import World

pytestmark = [pytest.mark.mount, pytest.mark.root]

LONG = "x" * 200


@pytest.fixture
def small_disk(world: World) -> Iterator[Path]:
    """Where the journals lie."""
    journals = Path(os.environ["XDG_STATE_HOME"], "leasefs/journals")
    for directory in (journals.parent, journals):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    options = ["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs"]
    subprocess.run(["mount", *options, journals], check=True)
    yield journals
    subprocess.run(["umount", journals], check=True)


def fill(path: Path) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    with suppress(OSError):
        while os.write(fd, bytes(4096)):
            pass
    os.close(fd)


def refusals(root: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path(root, ".leasefs/refusals.json").read_text())
    return found


def test_a_full_disk_under_the_journal(world: World, small_disk: Path) -> None:
    source, mountpoint = f"{world.root}/tree", f"{world.root}/mount"
    os.mkdir(mountpoint)
    new_repository(source)
    with agent_mount(source, mountpoint) as agent:
        agent.claim("**")
        filling = small_disk / "filling"
        fill(filling)
        names = [f"{number}-{LONG}" for number in range(1000)]
        made = list(takewhile(agent.may_write, names))
        refused = names[len(made)]
        with pytest.raises(OSError, match="No space left") as caught:
            agent.write(refused)
        assert caught.value.errno == errno.ENOSPC
        assert not os.path.exists(f"{source}/{refused}")
        (told, *_) = refusals(agent.root)
        assert (told["path"], told["code"], told["errno"]) == (refused, "UNWRITTEN", "ENOSPC")
        assert "leasefs doctor" in told["next"]
        filling.unlink()
        agent.write(refused)
        eventually(lambda: set(ledger_intents(agent.ledger)) == {*made, refused}, 20)


def test_a_mount_that_cannot_begin_its_journal_says_where_and_what_to_do(
    world: World, small_disk: Path
) -> None:
    source, mountpoint = f"{world.root}/tree", f"{world.root}/mount"
    os.mkdir(mountpoint)
    new_repository(source)
    with agent_mount(source, mountpoint):
        pass  # the journals of this tree have their directory now
    fill(small_disk / "filling")
    with pytest.raises(NotMounted) as caught, agent_mount(source, mountpoint):
        pass
    assert str(small_disk) in caught.value.message
    assert "No space left on device" in caught.value.message
    assert "free space" in caught.value.message
    (small_disk / "filling").unlink()
    with agent_mount(source, mountpoint) as agent:
        agent.claim("**")
        agent.write("new")
