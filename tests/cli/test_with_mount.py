"""The installed command, a real ledger and real mounts: what a person does all day."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.mount

INSTALLED = Path(sys.executable).parent / "leasefs"
DEADLINE_S = 20.0


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.02)


def mountpoints() -> set[str]:
    text = Path("/proc/self/mountinfo").read_text()
    return {line.split()[4] for line in text.splitlines() if " - fuse.leasefs " in line}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small repository."""
    root = tmp_path / "repo"
    for path in ("src/x.py", "docs/a.md", "app/[slug]/page.tsx", "README.md"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("as it was\n")
    (root / ".gitignore").write_text("build/\n")
    subprocess.run(["git", "init", "-q", root], check=True)
    return root


@pytest.fixture
def mount(installed: Any, tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mount a tree; at the end every mount is taken down in order and nothing is left."""
    with ExitStack() as undo:

        def make(source: Path, mountpoint: Path | None = None, agent: str = "ada") -> Path:
            place = mountpoint or source
            place.mkdir(exist_ok=True)
            ran = installed("mount", str(source), str(place), "--agent", agent)
            assert ran.code == 0, ran.err
            undo.callback(take_down, place)
            return place

        def take_down(place: Path) -> None:
            if str(place) in mountpoints():
                ran = installed("unmount", str(place))
                assert ran.code == 0, ran.err

        yield make
    assert installed("ledger", "stop").code in (0, 7)
    assert [place for place in mountpoints() if place.startswith(f"{tmp_path}/")] == []


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    with ExitStack() as running:

        def begin(*command: str | Path, **options: Any) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
            )
            running.enter_context(process)
            running.callback(process.kill)
            return process

        yield begin


def can_write(path: Path) -> bool:
    try:
        with path.open("a") as file:
            file.write("more\n")
    except PermissionError:
        return False
    return True


def commit(tree: Path) -> None:
    """All there is."""
    names = ["-c", "user.name=ada", "-c", "user.email=ada@localhost"]
    subprocess.run(["git", "add", "-A"], cwd=tree, check=True)
    subprocess.run(["git", *names, "commit", "-q", "-m", "more"], cwd=tree, check=True)


def test_the_main_job(installed: Any, mount: Any, tree: Path) -> None:
    place = mount(tree)
    assert not can_write(place / "src" / "x.py")

    claimed = installed("claim", "src/**", cwd=place)
    assert (claimed.code, claimed.err) == (0, "")
    assert can_write(place / "src" / "x.py")
    assert installed("why", "src/x.py", cwd=place).code == 0

    assert not can_write(place / "README.md")
    why = installed("why", "README.md", cwd=place)
    assert why.code == 3
    assert "README.md is closed to you: no lease of this mount covers the path" in why.out
    assert "next: leasefs claim README.md" in why.out
    assert "last refused: open for writing by pytest" in why.out or "last refused: " in why.out
    assert installed("why", "build/out.o", cwd=place).code == 0

    status = installed("status", cwd=place).out
    assert "agent:      ada (shell)" in status
    assert "README.md: " in status
    assert "1 dirty, the oldest for " in status
    assert "src/x.py" in installed("intents", "--mine", cwd=place).out
    refused = installed("release", claimed.out.strip(), cwd=place)
    assert (refused.code, "1 path not yet committed: 'src/x.py'" in refused.err) == (6, True)
    commit(place)
    assert installed("release", claimed.out.strip(), cwd=place).code == 0
    assert not can_write(place / "src" / "x.py")


@pytest.mark.parametrize("how", ["--keep", "--rescue", "--force"])
def test_what_is_uncommitted_goes_where_it_is_told_to(
    installed: Any, mount: Any, tree: Path, how: str
) -> None:
    """P9: and the log says so."""
    place = mount(tree)
    id_ = installed("claim", "src/**", cwd=place).out.strip()
    assert can_write(place / "src" / "x.py")
    assert installed("release", id_, how, "--note", "half done", cwd=place).code == 0
    assert (place / "src" / "x.py").read_text() == "as it was\nmore\n"
    listed = json.loads(installed("intents", "--json", cwd=place).out)["intents"]
    assert [one["held"] for one in listed] == [False] * (how != "--rescue")
    rescues = json.loads(installed("rescue", "list", "--json", cwd=place).out)["rescues"]
    assert [one["names"] for one in rescues] == [["src/x.py"]] * (how == "--rescue")
    (released,) = installed("log", "--type", "released", cwd=place).out.splitlines()
    words = {"--keep": "stays in the tree", "--rescue": "is in a rescue", "--force": "forced"}[how]
    assert words in released
    again = installed("claim", "src/**", cwd=place)
    assert "half done" in again.err
    if how == "--rescue":
        assert installed("rescue", "drop", id_, cwd=place).code == 0
        assert json.loads(installed("rescue", "list", "--json", cwd=place).out) == {"rescues": []}


def test_a_claim_from_a_subdirectory_or_by_absolute_path(
    installed: Any, mount: Any, tree: Path
) -> None:
    place = mount(tree)
    assert installed("claim", "x.py", cwd=place / "src").code == 0
    assert can_write(place / "src" / "x.py")
    assert installed("claim", str(place / "docs"), cwd="/").code == 0
    assert can_write(place / "docs" / "a.md")
    assert installed("-C", str(place / "app"), "claim", "[slug]/page.tsx").code == 0
    assert can_write(place / "app" / "[slug]" / "page.tsx")
    globs = json.loads(installed("leases", "--json", cwd=place).out)["leases"]
    assert [lease["globs"] for lease in globs] == [
        ["src/x.py"],
        ["docs/**"],
        ["app/\\[slug]/page.tsx"],
    ]


def test_two_agents_one_tree(
    installed: Any, mount: Any, start: Any, tree: Path, tmp_path: Path
) -> None:
    ada = mount(tree, tmp_path / "ada", "ada")
    bo = mount(tree, tmp_path / "bo", "bo")
    id_ = installed("claim", "src/**", cwd=ada).out.strip()
    refused = installed("claim", "src/x.py", cwd=bo)
    assert (refused.code, refused.out) == (3, "")
    assert "ada" in refused.err
    waiting = start(INSTALLED, "claim", "src/x.py", "--wait", "30s", "-q", cwd=bo)
    until(lambda: json.loads(installed("queue", "--json", cwd=bo).out)["waiters"] != [])
    assert "next: leasefs claim src/x.py --wait" not in installed("why", "src/x.py", cwd=bo).out
    assert "waits at position 1" in installed("why", "src/x.py", cwd=bo).out
    assert not can_write(bo / "src" / "x.py")
    commit(tree)
    assert installed("release", id_, cwd=ada).code == 0
    out, err = waiting.communicate(timeout=DEADLINE_S)
    assert (waiting.returncode, err) == (0, "")
    # The id is printed once the mount knows the lease: the very next write passes.
    assert can_write(bo / "src" / "x.py")
    assert installed("release", out.strip(), "--keep", cwd=bo).code == 0
    assert installed("release", out.strip(), cwd=bo).code == 5
    assert installed("release", "L99999", cwd=bo).code == 5


def test_a_lease_of_another_agent_is_not_ones_own(
    installed: Any, mount: Any, tree: Path, tmp_path: Path
) -> None:
    ada = mount(tree, tmp_path / "ada", "ada")
    bo = mount(tree, tmp_path / "bo", "bo")
    id_ = installed("claim", "src/**", cwd=ada).out.strip()
    ran = installed("release", id_, cwd=bo)
    assert ran.code == 5
    assert "held by ada, not by you" in ran.err
    assert installed("heartbeat", id_, cwd=bo).code == 5
    assert installed("release", "--force", id_, cwd=bo).code == 0
    until(lambda: not can_write(ada / "src" / "x.py"))


def test_run_keeps_its_lease_in_use(installed: Any, mount: Any, start: Any, tree: Path) -> None:
    place = mount(tree)
    script = "sleep 2.5; echo more >> src/x.py; touch .git/ready; read line"
    running = start(
        *(INSTALLED, "run", "--claim", "src/**", "--ttl", "1s", "--", "sh", "-c", script),
        cwd=place,
        stdin=subprocess.PIPE,
    )
    until((place / ".git" / "ready").exists)
    (lease,) = json.loads(installed("leases", "--json", cwd=place).out)["leases"]
    assert lease["state"] == "granted"
    assert [use.split()[1] for use in lease["kept_by"]] == ["sh"]
    _, err = running.communicate("go\n", timeout=DEADLINE_S)
    assert running.returncode == 0
    assert (place / "src" / "x.py").read_text() == "as it was\nmore\n"
    assert f"{lease['lease']} was not released" in err, "what it changed is not committed"
    commit(place)
    assert installed("release", "--all", cwd=place).code in (0, 5)
    assert installed("leases", cwd=place).out == "no leases\n"


def test_run_warns_when_its_lease_is_revoked(
    installed: Any, mount: Any, start: Any, tree: Path
) -> None:
    place = mount(tree)
    script = "touch .git/ready; read line; echo more >> src/x.py"
    running = start(
        *(INSTALLED, "run", "--claim", "src/**", "--", "sh", "-c", script),
        cwd=place,
        stdin=subprocess.PIPE,
    )
    until((place / ".git" / "ready").exists)
    (lease,) = json.loads(installed("leases", "--json", cwd=place).out)["leases"]
    assert installed("release", "--force", lease["lease"], cwd=place).code == 0
    line = running.stderr.readline()
    assert f"{lease['lease']} is lost: " in line
    _, err = running.communicate("go\n", timeout=DEADLINE_S)
    assert running.returncode != 0
    assert "Permission denied" in err
    assert (place / "src" / "x.py").read_text() == "as it was\n"


def test_heartbeat_and_who(installed: Any, mount: Any, tree: Path) -> None:
    place = mount(tree)
    id_ = installed("claim", "src/**", "--ttl", "5m", cwd=place).out.strip()
    ran = installed("heartbeat", id_, "--json", cwd=place)
    assert [one["lease"] for one in json.loads(ran.out)["renewed"]] == [id_]
    assert installed("heartbeat", "src", cwd=place).code == 0
    for about in ("src/x.py", "src", "src/*.py", "."):
        assert id_ in installed("who", about, cwd=place).out
    assert installed("who", "docs", cwd=place).out == "nobody holds docs/** or waits for it\n"
    assert id_ in installed("who", str(place / "src" / "x.py"), cwd="/").out


def test_a_busy_mount_is_named_and_goes_lazily(
    installed: Any, mount: Any, start: Any, tree: Path
) -> None:
    place = mount(tree)
    sleeper = start("sleep", "60", cwd=place / "src")
    ran = installed("unmount", str(place))
    assert (ran.code, ran.out) == (10, "")
    assert f"sleep[{sleeper.pid}] in {place}/src" in ran.err
    assert "--lazy" in ran.err
    assert str(place) in mountpoints()
    assert installed("unmount", "--lazy", str(place)).code == 0
    assert str(place) not in mountpoints()


def test_unmounting_ends_the_session(
    installed: Any, mount: Any, tree: Path, tmp_path: Path
) -> None:
    place = mount(tree, tmp_path / "ada")
    installed("claim", "src/**", cwd=place)
    ran = installed("unmount", str(tree))  # by its source
    assert (ran.code, ran.out) == (0, f"unmounted {place}\n")
    again = installed("unmount", str(place))
    assert again.code == 10
    assert "is not a leasefs mount; your mounts: none" in again.err
    mount(tree, tmp_path / "ada")
    assert installed("claim", "src/**", cwd=place).code == 0


def test_a_dead_mount_stays_closed_until_it_is_cleared(
    installed: Any, mount: Any, tree: Path
) -> None:
    place = mount(tree)
    pid = json.loads((place / ".leasefs" / "mount.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pid}").exists())
    with pytest.raises(OSError, match="not connected"):
        (place / "README.md").read_text()
    doctor = installed("doctor")
    assert doctor.code == 1
    assert f"fail    mount {place}: dead" in doctor.out
    assert f"leasefs unmount {place}" in doctor.out
    mounted = installed("mount", str(place), "--agent", "ada")
    assert mounted.code == 10
    assert "dead" in mounted.err
    assert "leasefs unmount" in mounted.err
    ran = installed("unmount", str(place))
    assert (ran.code, ran.out) == (0, f"unmounted {place}, which was dead\n")
    assert (place / "README.md").read_text() == "as it was\n"
    assert str(place) not in installed("doctor").out
    # The session died with its daemon, so the agent's name is free at once.
    mount(tree)


@pytest.mark.slow
def test_a_silent_daemon_does_not_hang_us(installed: Any, mount: Any, tree: Path) -> None:
    place = mount(tree)
    pid = json.loads((place / ".leasefs" / "mount.json").read_text())["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        doctor = installed("doctor")
        assert doctor.code == 1
        assert "has not answered for" in doctor.out
        again = installed("mount", str(tree), "--agent", "bob")
        assert again.code == 10
        assert "does not answer" in again.err
        ran = installed("unmount", str(place))
        assert ran.code == 0, ran.err
        assert f"process {pid}" in ran.err
        assert "connection was aborted" in ran.err
        assert str(place) not in mountpoints()
    finally:
        os.kill(pid, signal.SIGCONT)
    until(
        lambda: not Path(f"/proc/{pid}").exists()
    )  # it sees that its mount is gone, and ends in order
    mount(tree)


def test_a_shell_beneath_the_mount_is_told(installed: Any, mount: Any, tree: Path) -> None:
    ran = installed("mount", str(tree), "--agent", "ada", cwd=tree)
    assert ran.code == 0
    assert ran.out == f"mounted {tree} in place for ada (shell)\n"
    assert f"`cd {tree}`" in ran.err
    assert installed("unmount", str(tree)).code == 0


def test_foreground_ends_in_order(installed: Any, mount: Any, start: Any, tree: Path) -> None:
    running = start(INSTALLED, "mount", str(tree), "--agent", "ada", "--foreground")
    until(lambda: str(tree) in mountpoints())
    assert installed("claim", "src/**", cwd=tree).code == 0
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == 0
    assert out == f"mounted {tree} in place for ada (shell)\n"
    assert str(tree) not in mountpoints()


def test_the_ledger_of_a_mount_is_found_without_any_variable(
    installed: Any, mount: Any, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = mount(tree)
    monkeypatch.setenv("LEASEFS_LEDGER", "unix:/nowhere/else.sock")
    assert installed("claim", "src/**", cwd=place).code == 0
    assert "ledger:     unix:" in installed("status", cwd=place).out
    monkeypatch.delenv("LEASEFS_LEDGER")


HEAVY = {
    "msgspec",
    "trio",
    "asyncio",
    "http.client",
    "subprocess",
    "pyfuse3",
    "email",
    "ssl",
    "tomllib",
    "difflib",
}


def test_claim_imports_nothing_heavy(mount: Any, tree: Path) -> None:
    """Its start is most of what a claim costs a shell; scripts/bench_claim has the figures."""
    place = mount(tree)
    done = subprocess.run(
        [sys.executable, "-X", "importtime", INSTALLED, "claim", "src/**"],
        cwd=place,
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    imported = {line.split("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "leasefs.client.blocking" in imported
    assert imported & HEAVY == set()


@pytest.mark.parametrize("command", [["status"], ["claim", "src/**"], ["why", "src/x.py"], ["log"]])
def test_a_stopped_mount_is_told_at_once(
    installed: Any, mount: Any, tree: Path, command: list[str]
) -> None:
    """A request to it would wait until it goes on, and Ctrl-C could not end that."""
    place = mount(tree)
    pid = json.loads((place / ".leasefs" / "mount.json").read_text())["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        ran = installed(*command, cwd=place, timeout_s=10)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (ran.code, ran.out) == (10, "")
    assert f"(process {pid}) is stopped: kill -CONT {pid}" in ran.err
