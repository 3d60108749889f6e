"""`leasefs doctor`: each check finds what is wrong and says what to do."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from leasefs.client import paths
from leasefs.client.process import process_identity
from leasefs_cli import asking_a_mount, system_services
from leasefs_cli.checks import disks, host, ledger, mounts, redirects, watching
from leasefs_cli.checks.finding import FAIL, OK, UNKNOWN, WARN


def test_a_missing_fuse_device(tmp_path: Path) -> None:
    found = host.fuse_device(str(tmp_path / "fuse"))
    assert (found.level, found.found) == (FAIL, "No such file or directory")
    assert "modprobe fuse" in found.advice
    (tmp_path / "fuse").touch()
    assert host.fuse_device(str(tmp_path / "fuse")).found == "is not a device"


def test_a_missing_or_powerless_mount_helper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host.mount_helper()[:3] == (FAIL, "fusermount3", "not found")
    helper = tmp_path / "fusermount3"
    helper.touch(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = host.mount_helper()
    assert found.level == FAIL
    assert f"chmod u+s {helper}" in found.advice
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert host.mount_helper().level == WARN


@pytest.mark.root
def test_a_setuid_mount_helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "fusermount3").touch()
    (tmp_path / "fusermount3").chmod(0o4755)
    assert host.mount_helper().level == OK


def test_a_missing_mount_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mtab"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = host.mount_table(str(table))
    assert found.level == FAIL
    assert f"ln -sf ../proc/self/mounts {table}" in found.advice
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert host.mount_table(str(table)).level == WARN
    table.touch()
    assert host.mount_table(str(table)).level == OK


@pytest.mark.parametrize(
    ("content", "level"),
    [("user_allow_other\n", OK), ("#user_allow_other\n", WARN), ("", WARN), (None, WARN)],
)
def test_allow_other_matters_to_ordinary_users_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, level: str
) -> None:
    conf = tmp_path / "fuse.conf"
    if content is not None:
        conf.write_text(content)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert host.allow_other(str(conf)).level == level
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert host.allow_other(str(conf)).level == OK


@pytest.mark.parametrize(
    ("says", "level"),
    [
        ("git version 2.39.5", OK),
        ("git version 2.17.1", WARN),
        ("git version 3.0.windows.1", OK),
        ("what?", WARN),
    ],
)
def test_git_and_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, level: str
) -> None:
    fake = tmp_path / "git"
    fake.write_text(f"#!/bin/sh\necho '{says}'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host.git().level == level
    fake.unlink()
    assert host.git().level == FAIL


def test_a_directory_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "LEAST_KIB", 1 << 60)
    found = ledger.directory("state", paths.state_dir)
    assert (found.level, found.advice) == (
        FAIL,
        f"make room: df {paths.state_dir()}; df -i {paths.state_dir()}",
    )
    assert "KiB left" in found.found


def test_a_directory_that_is_not_ours_alone(own_world: Path) -> None:
    state = Path(paths.state_dir())
    assert ledger.directory("state", paths.state_dir).level == OK
    state.chmod(0o755)
    found = ledger.directory("state", paths.state_dir)
    assert (found.level, found.advice) == (FAIL, f"chmod 700 {state}")
    state.chmod(0o777)
    assert ledger.directory("state", paths.state_dir).level == FAIL
    state.rmdir()
    state.symlink_to(own_world / "h")
    assert "symlink" in ledger.directory("state", paths.state_dir).found


def test_a_store_that_is_locked_by_a_ledger_which_does_not_listen(own_world: Path) -> None:
    lock = Path(paths.store_dir()) / "ledger.sqlite3.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert ledger.flock_owner(str(lock)) == os.getpid()
        found = ledger.store()
        assert found.level == FAIL
        assert f"kill {os.getpid()}" in found.advice
    assert ledger.flock_owner(str(lock)) is None
    assert ledger.store().level == OK


def test_no_ledger_is_normal_unless_one_is_configured(
    own_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ledger.ledger().level == OK
    monkeypatch.setenv("LEASEFS_LEDGER", f"unix:{own_world}/none.sock")
    assert ledger.ledger().level == FAIL
    monkeypatch.setenv("LEASEFS_LEDGER", "nonsense")
    assert "must be unix:/path/of/socket" in ledger.ledger().found


@pytest.mark.parametrize(
    ("failure", "level", "words"),
    [
        (None, OK, "answers"),
        (errno.ENOTCONN, FAIL, "dead"),
        (errno.EACCES, UNKNOWN, "of another user"),
        (errno.EIO, WARN, "Input/output error"),
    ],
)
def test_a_mount_is_asked(
    monkeypatch: pytest.MonkeyPatch, failure: int | None, level: str, words: str
) -> None:
    def statvfs(_path: str) -> Any:
        if failure is not None:
            raise OSError(failure, os.strerror(failure))
        return os.stat("/")

    monkeypatch.setattr(os, "statvfs", statvfs)
    found = mounts.one_mount("/somewhere", mounts.ask("/somewhere").errno)
    assert found.level == level
    assert words in found.found


@pytest.mark.parametrize(
    ("missing", "words"),
    [("0", None), ("7", "in 7 directories"), ("null", "nothing can be watched")],
)
def test_directories_that_nobody_watches(tmp_path: Path, missing: str, words: str | None) -> None:
    (tmp_path / ".leasefs").mkdir()
    (tmp_path / ".leasefs/mount.json").write_text(f'{{"unwatched_directories": {missing}}}')
    found = list(watching.unwatched(str(tmp_path)))
    assert [one.level for one in found] == ([] if words is None else [WARN])
    assert all(words is not None and words in one.found for one in found)


@pytest.mark.parametrize(("most", "level"), [(6, OK), (5, WARN)])
def test_room_for_another_mount_to_watch(tmp_path: Path, most: int, level: str) -> None:
    (tmp_path / "limit").write_text(f"{most}\n")
    ours = tmp_path / "12" / "fd"
    ours.mkdir(parents=True)
    for at, target in enumerate(("anon_inode:inotify", "anon_inode:inotify", "/dev/null")):
        (ours / str(at)).symlink_to(target)
    (tmp_path / "13" / "fd").mkdir(parents=True)
    (tmp_path / "13" / "fd" / "3").symlink_to("anon_inode:inotify")
    (tmp_path / "self").mkdir()
    found = host.watching(str(tmp_path / "limit"), str(tmp_path))
    assert found.found.startswith(f"3 of {most} ")
    assert found.level == level
    assert host.watching(str(tmp_path / "none"), str(tmp_path)).level == UNKNOWN


def test_this_machine_has_the_clock_and_the_library() -> None:
    assert host.boot_clock().level == OK
    assert host.bindings().level == OK


def test_a_zombie_is_not_a_live_daemon() -> None:
    """In a container whose first process reaps nobody, a killed daemon stays in /proc."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert Path(f"/proc/{pid}/stat").exists()
    assert process_identity(pid) == ""
    os.waitpid(pid, 0)
    assert process_identity(os.getpid()) != ""


def test_what_services_left_is_looked_for_where_their_unit_says() -> None:
    unit = Path(__file__).resolve().parents[2] / "systemd" / "leasefs-mount@.service"
    said = dict(
        word.split("=", 1)
        for line in unit.read_text().splitlines()
        if line.startswith("Environment=")
        for word in line.removeprefix("Environment=").split()
    )
    assert system_services.ENVIRONMENT.items() <= said.items()


def test_only_root_looks_as_services_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, here: Any
) -> None:
    monkeypatch.setitem(system_services.ENVIRONMENT, "XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert here("doctor", "--system").code == 9
    assert system_services.unseen_services() == ""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert system_services.unseen_services() == str(tmp_path)
    for name in system_services.ENVIRONMENT:
        monkeypatch.setenv(name, "")  # put back at the end
    system_services.look_as_services_do()
    assert paths.state_dir() == f"{tmp_path}/leasefs"
    assert system_services.unseen_services() == ""


def test_a_mount_that_stops_between_two_questions_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answered a moment ago, and its file is opened and never read to its end."""
    monkeypatch.setattr(asking_a_mount, "ANSWER_TIMEOUT_S", 0.05)
    (tmp_path / ".leasefs").mkdir()
    os.mkfifo(tmp_path / ".leasefs" / "mount.json")
    assert redirects.facts_of_mount(str(tmp_path)) == {}
    assert list(watching.unwatched(str(tmp_path))) == []
    os.close(os.open(tmp_path / ".leasefs" / "mount.json", os.O_RDWR))  # whoever waits goes on
