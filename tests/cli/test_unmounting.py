"""Unmounting a mount whose daemon is killed, yet hangs in the kernel, or is in another registry than ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import paths
from leasefs.mount.mountinfo import top_at
from leasefs.testing.eventually import eventually
from leasefs.testing.hanging import killed_but_hanging

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.mount, pytest.mark.root]

DEADLINE_S = 20.0


@pytest.fixture
def place(installed: Any, tmp_path: Path) -> Iterator[Path]:
    """A repository, mounted in place."""
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", root], check=True)
    ran = installed("mount", str(root), "--agent", "ada")
    assert ran.code == 0, ran.err
    yield root
    if top_at(str(root)) is not None:
        ran = installed("unmount", str(root))
        assert ran.code == 0, ran.err
    assert installed("ledger", "stop").code in (0, 7)


def is_gone(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}")


def pid_of(place: Path) -> int:
    return int(json.loads((place / ".leasefs" / "mount.json").read_text())["pid"])


@contextmanager
def somebody_waits(place: Path) -> Iterator[None]:
    """For an answer of the mount; at the end that wait has to end as well."""
    with subprocess.Popen(["stat", place / "src" / "new"], stderr=subprocess.PIPE) as process:
        yield
        process.communicate(timeout=DEADLINE_S)


@pytest.mark.slow
def test_unmount_cuts_it_off(installed: Any, place: Path) -> None:
    with killed_but_hanging(pid_of(place)), somebody_waits(place):
        ran = installed("unmount", str(place))
        assert (ran.code, ran.out) == (0, f"unmounted {place}, which was dead\n")
        assert "connection was aborted" in ran.err


@pytest.mark.slow
def test_mount_cuts_it_off_and_then_refuses_it_as_dead(installed: Any, place: Path) -> None:
    with killed_but_hanging(pid_of(place)), somebody_waits(place):
        again = installed("mount", str(place), "--agent", "ada")
        assert again.code == 10
        assert "connection was aborted" in again.err
        assert f"leasefs unmount {place}" in again.err


def test_a_mount_of_another_registry_is_told_from_a_dead_one(
    installed: Any, place: Path, tmp_path: Path
) -> None:
    pid = pid_of(place)
    elsewhere = {}
    for variable in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        elsewhere[variable] = str(tmp_path / variable)
        (tmp_path / variable).mkdir(mode=0o700)
    ran = installed("unmount", str(place), env={**os.environ, **elsewhere})
    assert (ran.code, ran.out) == (0, f"unmounted {place}\n")
    eventually(lambda: is_gone(pid), what="the daemon's end")
    # It ended its session, so the name is free.
    assert installed("mount", str(place), "--agent", "ada").code == 0


def findings(installed: Any, place: Path) -> dict[str, str]:
    """What doctor finds of a mount: checks and their levels."""
    said = json.loads(installed("doctor", "--json").out)
    return {one["check"]: one["level"] for one in said["findings"] if str(place) in one["check"]}


def test_a_mount_whose_socket_went_with_a_login_session_is_told_and_ended_in_order(
    installed: Any, place: Path
) -> None:
    pid = pid_of(place)
    claimed = installed("claim", "src/**", cwd=place)
    assert claimed.code == 0, claimed.err
    assert findings(installed, place) == {f"mount {place}": "ok"}
    shutil.rmtree(paths.runtime_dir())
    refused = installed("claim", "docs/**", cwd=place)
    assert refused.code == 10
    assert f"process {pid}) lives" in refused.err
    assert f"leasefs unmount {place}" in refused.err
    found = findings(installed, place)
    assert found == {f"mount {place}": "ok", f"control socket {place}": "warn"}
    ran = installed("unmount", str(place))
    assert (ran.code, ran.out, ran.err) == (0, f"unmounted {place}\n", "")
    eventually(lambda: is_gone(pid))
    # Its session ended in order, so nothing is held for a process that is gone.
    assert json.loads(installed("leases", "--json").out)["leases"] == []
