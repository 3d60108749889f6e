"""Leases over a restart of the mount: `leasefs mount --keep-leases`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.mount.mountinfo import top_at
from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.mount, pytest.mark.slow]


@pytest.fixture
def tree(installed: Any, tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", root], check=True)
    for agent in ("ada", "bob"):
        (tmp_path / agent).mkdir()
    yield root
    for agent in ("ada", "bob"):
        if top_at(str(tmp_path / agent)) is not None:
            ran = installed("unmount", str(tmp_path / agent))
            assert ran.code == 0, ran.err
    assert installed("ledger", "stop").code in (0, 7)


def mount(installed: Any, tree: Path, agent: str, *options: str) -> Path:
    place = tree.parent / agent
    ran = installed("mount", str(tree), str(place), "--agent", agent, "--over-dead", *options)
    assert ran.code == 0, ran.err
    return place


def end(place: Path, signal_: int) -> None:
    pid = int(json.loads((place / ".leasefs" / "mount.json").read_text())["pid"])
    os.kill(pid, signal_)
    eventually(lambda: not os.path.exists(f"/proc/{pid}"), what="the daemon's end")


def leases(installed: Any) -> dict[str, str]:
    """Globs by lease."""
    said = json.loads(installed("leases", "--all", "--json").out)
    return {row["lease"]: " ".join(row["globs"]) for row in said["leases"]}


def write(path: Path) -> bool:
    try:
        path.write_text("1\n")
    except PermissionError:
        return False
    return True


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_they_are_there_again(installed: Any, tree: Path, how: int) -> None:
    place = mount(installed, tree, "ada", "--keep-leases")
    assert installed("-C", str(place), "claim", "src/**").code == 0
    assert write(place / "src" / "one")
    before = leases(installed)
    assert list(before.values()) == ["src/**"]
    end(place, how)
    # Nobody else gets the ground meanwhile.
    assert leases(installed) == before
    other = mount(installed, tree, "bob")
    assert installed("-C", str(other), "claim", "src/**").code == 3
    assert not write(other / "src" / "one")
    mount(installed, tree, "ada", "--keep-leases")
    eventually(lambda: write(place / "src" / "two"), what="the lease, held again")
    after = leases(installed)
    assert list(after.values()) == ["src/**"]
    assert not set(after) & set(before)
    assert (place / "src" / "one").read_text() == "1\n"
    assert not write(place / "elsewhere")


def test_without_it_a_stop_gives_them_back(installed: Any, tree: Path) -> None:
    place = mount(installed, tree, "ada")
    assert installed("-C", str(place), "claim", "src/**").code == 0
    end(place, signal.SIGTERM)
    assert leases(installed) == {}
    mount(installed, tree, "ada", "--keep-leases")
    assert not write(place / "src" / "one")


def test_unmount_gives_them_back(installed: Any, tree: Path) -> None:
    place = mount(installed, tree, "ada", "--keep-leases")
    assert installed("-C", str(place), "claim", "src/**").code == 0
    assert installed("unmount", str(place)).code == 0
    assert leases(installed) == {}


def test_ends_that_come_before_they_were_claimed_again_lose_none(
    installed: Any, tree: Path
) -> None:
    place = mount(installed, tree, "ada", "--keep-leases")
    for glob in ("a/**", "b/**", "c/**"):
        assert installed("-C", str(place), "claim", glob).code == 0
    for _ in range(3):
        end(place, signal.SIGKILL)
        mount(installed, tree, "ada", "--keep-leases")
        end(place, signal.SIGTERM)
        assert sorted(leases(installed).values()) == ["a/**", "b/**", "c/**"]
        mount(installed, tree, "ada", "--keep-leases")
