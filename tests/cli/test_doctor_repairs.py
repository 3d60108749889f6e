"""`leasefs doctor`: each fault is made for real, found, repaired if asked, and nothing else is touched."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import api, paths
from leasefs.client.blocking import Link
from leasefs.client.embedded import ensure_ledger
from leasefs.client.shell_session import stored_sessions
from leasefs.mount.launch import MountConfig, start_mount
from leasefs.mount.mountinfo import top_at
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs_cli.server_process import listener_pid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INSTALLED = str(Path(sys.executable).parent / "leasefs")
GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]

Found = dict[str, dict[str, Any]]


@pytest.fixture
def doctor(installed: Any, tmp_path: Path) -> Callable[..., Found]:
    """Runs it in a place that is no repository; what it found, by check."""

    def run(*flags: str, cwd: Path = tmp_path) -> Found:
        ran = installed("doctor", "--json", *flags, cwd=cwd)
        said = json.loads(ran.out)
        assert ran.code == (0 if said["ok"] else 1), ran.err
        return {one["check"]: one for one in said["findings"]}

    return run


def levels(found: Found, beginning: str) -> list[str]:
    return [one["level"] for check, one in found.items() if check.startswith(beginning)]


def ledger_pid() -> int:
    pid = listener_pid(paths.ledger_socket())
    assert pid is not None
    return pid


def end_ledger(how: signal.Signals = signal.SIGTERM) -> None:
    pid = ledger_pid()
    os.kill(pid, how)
    eventually(lambda: not os.path.exists(f"/proc/{pid}"), what="the ledger's end")


@pytest.fixture
def ledger() -> Iterator[Link]:
    """This user's own, which does not outlive the test."""
    yield Link(ensure_ledger())
    if listener_pid(paths.ledger_socket()) is not None:
        end_ledger()


def repository(path: Path) -> Path:
    path.mkdir()
    subprocess.run([*GIT, "init", "-q", path], check=True)
    (path / "kept").write_text("as it was")
    subprocess.run([*GIT, "-C", path, "add", "-A"], check=True)
    subprocess.run([*GIT, "-C", path, "commit", "-q", "-m", "one"], check=True)
    return path


# -- mounts ------------------------------------------------------------------------------------


@pytest.fixture
def killed(tmp_path: Path, ledger: Link) -> Iterator[Agent]:
    """A mount that died with uncommitted work under a lease."""
    tree = repository(tmp_path / "tree")
    (tmp_path / "mount").mkdir()
    config = MountConfig(str(tree), str(tmp_path / "mount"), "ada", "test")
    agent = Agent(start_mount(config))
    try:
        agent.claim("**", ttl_s=3600)
        agent.write("kept", "changed")
        agent.kill()
        yield agent
    finally:
        there = top_at(agent.root)
        if there is not None and there.is_leasefs:
            subprocess.run(["umount", "-l", agent.root], check=True)


@pytest.mark.mount
@pytest.mark.slow
def test_all_that_a_dead_mount_left(
    doctor: Callable[..., Found], killed: Agent, ledger: Link, tmp_path: Path
) -> None:
    """The mount, its journal, its lease, its settings of git; its work is kept, another mount goes on."""
    tree, root = tmp_path / "tree", killed.root
    other = tmp_path / "other"
    other.mkdir()
    with agent_mount(str(repository(tmp_path / "theirs")), str(other), "bob") as bob:
        lease = bob.claim("**")
        found = doctor()
        assert found[f"mount {root}"]["level"] == "fail"
        assert found[f"mount {root}"]["repairable"]
        assert levels(found, "journals of") == ["warn"]
        assert levels(found, "holder ada") == ["warn"]
        assert found[f"git settings of {tree}"]["level"] == "warn"
        assert doctor()[f"mount {root}"]["level"] == "fail"  # a look changes nothing

        found = doctor("--fix")
        for check in (f"mount {root}", f"journals of {tree}"):
            assert (found[check]["level"], found[check]["repaired"]) == ("ok", True), check
        there = top_at(root)
        assert there is None or not there.is_leasefs
        assert (tree / "kept").read_text() == "changed"
        intents = ledger.send(api.intents())["intents"]
        assert [(one["path"], one["agent"]) for one in intents] == [("kept", "ada")]
        assert not any(one["agent"] == "ada" for one in ledger.send(api.leases())["leases"])
        config = (tree / ".git" / "config").read_text()
        assert "fsmonitor" not in config

        found = doctor()
        for beginning in ("mount " + root, "journals of", "holder ", "git settings of", "registry"):
            assert levels(found, beginning) == [], beginning
        assert levels(found, "rescues") == ["warn"]  # what was kept waits for somebody
        (rescue,) = ledger.send(api.rescues())["rescues"]
        subprocess.run([*GIT, "-C", tree, "update-ref", "-d", rescue["ref"]], check=True)
        assert doctor()[f"rescues in {tree}"]["level"] == "fail"
        assert bob.state_of(lease) == "granted"
        assert bob.may_write("theirs")


@pytest.mark.mount
@pytest.mark.slow
def test_a_dead_mount_in_place_is_not_opened_unasked(
    doctor: Callable[..., Found], ledger: Link, tmp_path: Path
) -> None:
    tree = repository(tmp_path / "tree")
    with agent_mount(str(tree), str(tree), "ada", dies=True) as agent:
        agent.kill()
        found = doctor("--fix")[f"mount {tree}"]
        assert (found["level"], found["repairable"], found["repaired"]) == ("fail", True, False)
        with pytest.raises(OSError, match="not connected"):
            (tree / "kept").read_text()


@pytest.mark.mount
@pytest.mark.slow
def test_a_lease_whose_holder_is_gone(
    doctor: Callable[..., Found], killed: Agent, ledger: Link
) -> None:
    """Only the session of the process that is gone ends; a shell's has no process, and is not touched."""
    subprocess.run(["umount", "-l", killed.root], check=True)
    held = subprocess.run(
        [INSTALLED, "claim", "docs/**", "--agent", "carl", "--ttl", "1h"],
        cwd=repository(Path(killed.root).parent / "elsewhere"),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    found = doctor("--fix")
    assert levels(found, "holder ada") in (["ok"], [])
    leases = ledger.send(api.leases())["leases"]
    assert [(one["lease"], one["agent"]) for one in leases] == [(held, "carl")]
    assert doctor()["holders"]["level"] == "ok"


@pytest.mark.mount
@pytest.mark.slow
def test_settings_of_git_that_a_mount_left(
    doctor: Callable[..., Found], ledger: Link, tmp_path: Path
) -> None:
    """Somebody's own settings stay, and those that a live mount needs as well."""
    tree, live = repository(tmp_path / "tree"), repository(tmp_path / "live")
    subprocess.run([*GIT, "-C", tree, "config", "core.editor", "mine"], check=True)
    (tmp_path / "mount").mkdir()
    (tmp_path / "living").mkdir()
    with (
        agent_mount(str(live), str(tmp_path / "living"), "bob"),
        agent_mount(str(tree), str(tmp_path / "mount"), "ada", dies=True) as agent,
    ):
        agent.kill()
        assert f"git settings of {live}" not in doctor(cwd=live)
        assert doctor(cwd=tree)[f"git settings of {tree}"]["level"] == "warn"
        (registry,) = Path(paths.mounts_dir()).glob(f"{agent.pid}.json")
        registry.unlink()  # so that nothing but the tree itself tells of it
        found = doctor("--fix", cwd=tree)
        assert found[f"git settings of {tree}"]["repaired"]
        assert "fsmonitor" not in (tree / ".git" / "config").read_text()
        assert "editor = mine" in (tree / ".git" / "config").read_text()
        assert "fsmonitor" in (live / ".git" / "config").read_text()


# -- what was left lying about -----------------------------------------------------------------


def bound(path: Path) -> Path:
    """A socket that nobody listens at."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    return path


@pytest.mark.slow
def test_sockets_without_a_listener(doctor: Callable[..., Found], ledger: Link) -> None:
    runtime = Path(paths.runtime_dir())
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    dead = bound(runtime / f"mount-{gone.pid}.sock")
    # As of a mount in a container: its process has another number here, but somebody listens.
    elsewhere = runtime / f"mount-{gone.pid}0.sock"
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(elsewhere))
    listening.listen()
    mine = bound(runtime / f"mount-{os.getpid()}.sock")
    no_socket = runtime / "mount-1.sock.old"
    no_socket.write_text("mine")
    assert levels(doctor(), "socket ") == ["warn"]
    found = doctor("--fix")
    assert found[f"socket {dead}"]["repaired"]
    assert not dead.exists()
    assert mine.exists()
    assert elsewhere.exists()
    listening.close()
    assert no_socket.exists()
    assert ledger.send(api.status())
    end_ledger(signal.SIGKILL)
    left = Path(paths.ledger_socket())
    assert doctor()[f"socket {left}"]["level"] == "warn"
    assert doctor("--fix")[f"socket {left}"]["repaired"]
    assert not left.exists()


@pytest.mark.slow
def test_a_stored_session_that_the_ledger_does_not_know(
    doctor: Callable[..., Found], installed: Any, ledger: Link, tmp_path: Path
) -> None:
    tree = repository(tmp_path / "tree")
    assert installed("claim", "a", "--agent", "ada", cwd=tree).code == 0
    end_ledger()
    assert levels(doctor(), "stored session of ada") == ["unknown"]
    shutil.rmtree(paths.store_dir())  # the log was lost: a new one knows nobody
    ensure_ledger()
    assert installed("claim", "b", "--agent", "bob", cwd=tree).code == 0
    assert levels(doctor(), "stored session of ada") == ["warn"]
    assert levels(doctor("--fix"), "stored session of ada") == ["ok"]
    assert [session.agent for session in stored_sessions()] == ["bob"]
    assert installed("claim", "a", "--agent", "ada", cwd=tree).code == 0


def test_directories_that_are_open_to_others(doctor: Callable[..., Found]) -> None:
    state = Path(paths.state_dir())
    state.chmod(0o755)
    assert doctor()["state directory"]["level"] == "fail"
    assert doctor("--fix")["state directory"]["repaired"]
    assert state.stat().st_mode & 0o777 == 0o700


# -- what nobody can repair for you ------------------------------------------------------------


@pytest.mark.slow
def test_a_log_that_is_damaged(doctor: Callable[..., Found], ledger: Link) -> None:
    """It is read beside its ledger and without it, and never changed."""
    for number in range(10, 40):
        begun = api.open_session(
            session=f"session-{number}",
            secret="x" * 40,
            agent=f"agent-{number}",
            harness="test",
            territory="t",
            kind="shell",
            host="here",
            pid=1,
            process="",
        )
        ledger.send(begun)
    assert doctor()["log"]["level"] == "ok"
    end_ledger(signal.SIGKILL)
    path = Path(paths.store_dir()) / "ledger.sqlite3"
    before = [Path(f"{path}{part}").read_bytes() for part in ("", "-wal")]
    assert doctor("--fix")["log"]["level"] == "ok"
    assert [Path(f"{path}{part}").read_bytes() for part in ("", "-wal")] == before
    ensure_ledger()
    end_ledger()
    damaged = path.read_bytes().replace(b'"agent-25"', b'"agent-99"')
    path.write_bytes(damaged)
    found = doctor("--fix")["log"]
    assert (found["level"], found["repairable"]) == ("fail", False)
    assert path.read_bytes() == damaged


_AHEAD = """
import sys, time
import leasefs.service.clock as clock
clock.SystemClock.wall_s = lambda self: time.clock_gettime(time.CLOCK_REALTIME) + 3600
from leasefs.service.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_wall_clock_that_was_set_back(doctor: Callable[..., Found]) -> None:
    """The ledger wrote its last event an hour ahead of now."""
    place = ["--socket", paths.ledger_socket(), "--store", paths.store_dir(), "--ready-fd", "1"]
    command = [sys.executable, "-c", _AHEAD, *place]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        found = doctor()["clock"]
        server.send_signal(signal.SIGTERM)
    assert found["level"] == "warn"
    assert "was set back" in found["found"]


@pytest.mark.root
@pytest.mark.slow
def test_a_disk_that_is_nearly_full(doctor: Callable[..., Found]) -> None:
    state = Path(paths.state_dir())
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m,mode=700", "none", state], check=True)
    try:
        assert doctor()["state directory"]["level"] == "ok"
        (state / "ballast").write_bytes(bytes(4 << 20))
        found = doctor()["state directory"]
        assert (found["level"], found["repairable"]) == ("fail", False)
        assert "KiB" in found["found"]
    finally:
        subprocess.run(["umount", "-l", state], check=True)


def test_a_configuration_with_an_error(
    doctor: Callable[..., Found], own_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = own_world / "c" / "leasefs"
    config.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own_world / "c"))
    file = config / "config.toml"
    file.write_text("[log]\nlevel = 'loud'\n")
    file.chmod(0o600)
    found = doctor()
    assert found[f"configuration {file}:2"]["level"] == "fail"
    assert file.read_text() == "[log]\nlevel = 'loud'\n"
