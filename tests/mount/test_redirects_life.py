"""Redirects at the end of their mount: by request, by force, by a fault (P12)."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.mount.launch import MountConfig, start_mount
from leasefs.mount.mountinfo import top_at
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.mount_trees import NOBODY, git, give
from leasefs.testing.mounted import as_user, mounted
from leasefs.testing.own_world import is_gone
from leasefs.testing.redirected import fill, is_redirected, redirects_below, until_redirected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.mounted import Mounted

pytestmark = [pytest.mark.mount, pytest.mark.root]

# Stands in a directory, says so, and writes to a file there for each line that it is told.
INSIDE = (
    "import sys\n"
    "print('ready', flush=True)\n"
    "for line in sys.stdin:\n"
    "    open('written', 'a').write(line)\n"
    "    print('done', flush=True)\n"
)


@pytest.fixture
def source(place: Path, request: pytest.FixtureRequest) -> Path:
    source: Path = place / request.node.name / "source"
    source.mkdir(parents=True)
    (source / ".gitignore").write_text("build/\n")
    fill(source / "build")
    git(source, "init", "-q")
    git(source, "add", ".")
    git(source, "commit", "-qm", "start")
    return source


@contextlib.contextmanager
def inside(directory: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", INSIDE],
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def write(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("x\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


def end(mount: Mounted) -> None:
    mount.process.send_signal(signal.SIGTERM)
    assert mount.process.wait(timeout=10) == 0
    assert top_at(mount.root) is None
    assert redirects_below(mount.root) == set()


def test_they_go_with_the_mount(source: Path) -> None:
    with mounted(str(source), str(source), "--redirects") as mount:
        until_redirected(mount, "build")
        until_redirected(mount, ".git")
        end(mount)


def test_who_is_inside_is_waited_for_and_then_left(source: Path) -> None:
    flags = ("--redirects", "--unmount-within", "0.5")
    with mounted(str(source), str(source), *flags) as mount:
        until_redirected(mount, "build")
        with inside(source / "build") as process:
            end(mount)
            write(process)
    assert (source / "build/written").read_text() == "x\n"


def test_who_leaves_in_time_is_waited_for(source: Path) -> None:
    with mounted(str(source), str(source), "--redirects", "--unmount-within", "60") as mount:
        until_redirected(mount, "build")
        with inside(source / "build") as process:
            mount.process.send_signal(signal.SIGTERM)
            with pytest.raises(subprocess.TimeoutExpired):
                mount.process.wait(timeout=0.5)
            assert top_at(mount.root) is not None
            process.kill()
        assert mount.process.wait(timeout=10) == 0


def test_unmounted_from_outside_with_all_that_is_on_it_it_ends_well(source: Path) -> None:
    with mounted(str(source), str(source), "--redirects") as mount:
        until_redirected(mount, "build")
        subprocess.run(["umount", "-R", source], check=True)
        assert mount.process.wait(timeout=10) == 0


def test_a_dead_mount_leads_nobody_into_a_redirect(source: Path) -> None:
    """P12. Only who stands inside already goes on, as on any file system that is out of sight."""
    with (
        mounted(str(source), str(source), "--redirects", ends_well=False) as mount,
        inside_build(mount) as process,
    ):
        mount.process.kill()
        mount.process.wait()
        eventually(lambda: closed(source / "build/7"), within_s=2, what="the end of the way in")
        assert closed(source / "build")
        assert closed(source / ".git/HEAD")
        write(process)


@contextlib.contextmanager
def inside_build(mount: Mounted) -> Iterator[subprocess.Popen[str]]:
    until_redirected(mount, "build")
    until_redirected(mount, ".git")
    with inside(Path(mount.root, "build")) as process:
        yield process


def closed(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ENOTCONN
    return False


@pytest.mark.usefixtures("fuse_for_all")
def test_an_ordinary_users_mount_does_without(source: Path) -> None:
    give(source, NOBODY)
    with mounted(str(source), str(source), "--redirects", user=NOBODY) as mount:
        subprocess.run([*as_user(NOBODY), "ls", source / "build"], check=True, capture_output=True)
        assert mount.report()["redirects"] == []
        assert redirects_below(mount.root) == set()


def used_until_redirected(agent: Agent, name: str) -> None:
    def used() -> bool:
        os.listdir(f"{agent.root}/{name}")
        return is_redirected(agent.root, name)

    eventually(used, what=f"the redirect of {name}")


@pytest.mark.usefixtures("world")
def test_the_mount_tells_of_its_redirects(source: Path) -> None:
    with agent_mount(str(source), str(source)) as agent:
        assert agent.about["redirects"] == []
        used_until_redirected(agent, "build")

        def told() -> bool:
            facts = json.loads((source / ".leasefs/mount.json").read_text())
            return "build" in facts["redirects"]

        eventually(told, what="the redirect in mount.json")


@pytest.mark.usefixtures("world")
def test_a_dead_mount_is_cleared_away_with_its_redirects(source: Path) -> None:
    code = "import sys; from leasefs_cli.main import main; sys.exit(main())"
    leasefs = [sys.executable, "-c", code, "unmount", str(source)]
    with agent_mount(str(source), str(source)) as agent:
        used_until_redirected(agent, "build")
        with inside(source / "build"):
            agent.kill()
            busy = subprocess.run(leasefs, capture_output=True, text=True, check=False)
            assert busy.returncode == 10
            assert f"{source}/build" in busy.stderr
        subprocess.run(leasefs, check=True, capture_output=True)
        assert redirects_below(agent.root) == set()
        with agent_mount(str(source), str(source)) as again:
            used_until_redirected(again, "build")


@pytest.mark.usefixtures("world")
def test_without_redirects_there_are_none(source: Path) -> None:
    config = MountConfig(str(source), str(source), "agent-07", "test", redirects=False)
    agent = Agent(start_mount(config))
    try:
        os.listdir(source / "build")
        os.stat(source / ".git/HEAD")
        assert (source / "build").stat().st_dev == source.stat().st_dev
        assert redirects_below(agent.root) == set()
    finally:
        agent.stop()
    assert is_gone(agent.pid)


def doctor(*flags: str) -> str:
    code = "import sys; from leasefs_cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "doctor", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.mark.usefixtures("world")
def test_doctor_finds_and_detaches_what_the_mount_does_not_know(source: Path) -> None:
    root = source.parent / "mount"
    root.mkdir()
    (source / "tree").mkdir()
    (source / "theirs").mkdir()
    with agent_mount(str(source), str(root)) as agent:
        used_until_redirected(agent, "build")
        for name, over in (("tree", "tree"), ("tree", "theirs")):
            subprocess.run(["mount", "--bind", source / name, root / over], check=True)
        said = doctor()
        assert f"warn    redirect {root}/tree" in said
        assert f"{root}/theirs" not in said  # somebody's own
        assert f"redirect {root}/build" not in said
        assert redirects_below(agent.root) == {"build", "tree", "theirs"}
        assert f"fixed   redirect {root}/tree" in doctor("--fix")
        assert redirects_below(agent.root) == {"build", "theirs"}
        subprocess.run(["umount", root / "theirs"], check=True)


@pytest.mark.usefixtures("world")
def test_doctor_says_what_a_dead_mount_still_carries(source: Path) -> None:
    with agent_mount(str(source), str(source), dies=True) as agent:
        used_until_redirected(agent, "build")
        agent.kill()
        said = doctor("--fix")
        assert f"warn    redirects {source}: left on the dead mount" in said
        assert f"{source}/build" in said
        assert closed(source / "build")


@pytest.mark.usefixtures("world")
def test_doctor_takes_a_dead_mount_away_with_what_it_carries(source: Path) -> None:
    root = source.parent / "mount"
    root.mkdir()
    with agent_mount(str(source), str(root)) as other:
        used_until_redirected(other, "build")
        second = source.parent / "second"
        second.mkdir()
        config = MountConfig(str(source), str(second), "agent-08", "test")
        dead = Agent(start_mount(config))
        used_until_redirected(dead, "build")
        dead.kill()
        assert redirects_below(str(second))
        assert f"fixed   mount {second}: unmounted, it was dead" in doctor("--fix")
        assert top_at(str(second)) is None
        assert not redirects_below(str(second))
        assert (source / "build").is_dir()
        assert redirects_below(other.root) == {"build"}
