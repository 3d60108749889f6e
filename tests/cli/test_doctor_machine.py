"""`leasefs doctor` on a machine that lacks something: made so for real, in a mount namespace of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import paths
from leasefs.client.embedded import ensure_ledger
from leasefs.testing.mounted import as_user
from leasefs_cli.server_process import listener_pid

if TYPE_CHECKING:
    from collections.abc import Iterator

INSTALLED = str(Path(sys.executable).parent / "leasefs")
USER = 1234


@pytest.fixture
def home(own_world: Path) -> Iterator[Path]:
    """The world of an ordinary user."""
    for place, names, _ in os.walk(own_world):
        for name in names:
            os.chown(os.path.join(place, name), USER, USER)
    own_world.chmod(0o755)
    parents = [one for one in own_world.parents if one.stat().st_mode & 0o001 == 0]
    modes = {one: one.stat().st_mode for one in parents}
    for one in parents:
        one.chmod(modes[one] | 0o011)
    yield own_world
    for one, mode in modes.items():
        one.chmod(mode & 0o7777)


def found_after(home: Path, *commands: str) -> dict[str, dict[str, Any]]:
    """What doctor finds as an ordinary user where root ran these, in shell, with `$T` an empty directory."""
    script = (
        f"mount -t tmpfs none {home}/h && T={home}/h && " + " && ".join(commands) + ' && exec "$@"'
    )
    run = [
        "unshare",
        "-m",
        "sh",
        "-ec",
        script,
        "sh",
        *as_user(USER),
        INSTALLED,
        "doctor",
        "--json",
    ]
    done = subprocess.run(run, cwd="/", capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return {one["check"]: one for one in json.loads(done.stdout)["findings"]}


@pytest.mark.root
@pytest.mark.mount
@pytest.mark.slow
def test_fuse_that_an_ordinary_user_may_not_use(home: Path) -> None:
    helper = "mkdir $T/bin && cp $(command -v fusermount3) $T/bin/ && chmod 755 $T/bin/fusermount3"
    found = found_after(
        home,
        "cp -a /dev/fuse $T/fuse && chmod 600 $T/fuse && mount --bind $T/fuse /dev/fuse",
        "echo '#user_allow_other' > $T/fuse.conf && mount --bind $T/fuse.conf /etc/fuse.conf",
        helper,
        "mount --bind $T/bin/fusermount3 $(readlink -f $(command -v fusermount3))",
    )
    assert (found["/dev/fuse"]["level"], found["/dev/fuse"]["found"]) == (
        "fail",
        "may not be opened by you",
    )
    assert found["fusermount3"]["level"] == "fail"
    assert "not setuid root" in found["fusermount3"]["found"]
    assert found["/etc/fuse.conf"]["level"] == "warn"
    assert found["/etc/fuse.conf"]["found"] == "user_allow_other is not set"


@pytest.mark.root
@pytest.mark.mount
@pytest.mark.slow
def test_a_machine_that_lacks_nothing_of_it(home: Path) -> None:
    found = found_after(
        home, "echo user_allow_other > $T/fuse.conf && mount --bind $T/fuse.conf /etc/fuse.conf"
    )
    for check in ("/dev/fuse", "fusermount3", "/etc/fuse.conf", "pyfuse3", "CLOCK_BOOTTIME"):
        assert found[check]["level"] == "ok", found[check]


@pytest.mark.root
@pytest.mark.slow
def test_a_state_directory_that_takes_no_writes(home: Path) -> None:
    """As after an error of the disk, however much room is left."""
    state = f"{home}/s/leasefs"
    found = found_after(
        home,
        f"mkdir -p {state}/ledger {state}/run && chown -R {USER} {home}/s && chmod -R 700 {home}/s",
        f"mount --bind {state} {state} && mount -o remount,bind,ro {state}",
    )
    for check in ("state directory", "store directory"):
        assert found[check]["level"] == "fail"
        assert "read-only" in found[check]["found"]


@pytest.mark.slow
def test_a_ledger_that_hangs(installed: Any, tmp_path: Path) -> None:
    """It is named, and what only it could tell is left out: nobody waits for it once for each question."""
    ensure_ledger()
    pid = listener_pid(paths.ledger_socket())
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        said = json.loads(installed("doctor", "--json", cwd=tmp_path).out)
    finally:
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGTERM)
    found = {one["check"]: one for one in said["findings"]}
    assert found["ledger"]["level"] == "fail"
    assert not said["ok"]
    assert not {"holders", "rescues", "clock"} & set(found)
    assert found["log"]["level"] == "ok"


@pytest.mark.slow
def test_a_ledger_that_answers_and_can_change_nothing(installed: Any, tmp_path: Path) -> None:
    ensure_ledger()
    pid = listener_pid(paths.ledger_socket())
    assert pid is not None
    try:
        os.rename(paths.store_dir(), tmp_path / "moved")
        said = json.loads(installed("doctor", "--json", cwd=tmp_path).out)
    finally:
        os.kill(pid, signal.SIGTERM)
    found = {one["check"]: one for one in said["findings"]}
    assert found["ledger"]["level"] == "fail"
    assert "answers, but" in found["ledger"]["found"]
