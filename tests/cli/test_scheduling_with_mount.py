"""A person and a background loop, a planner and its worker: the installed command in real mounts of one tree."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.mount

INSTALLED = Path(sys.executable).parent / "leasefs"
DEADLINE_S = 20.0


@pytest.fixture
def mount(installed: Any, tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mount one small repository for an agent, beside the others; at the end nothing is left."""
    tree = tmp_path / "repo"
    for path in ("src/x.py", "src/t/y.py", "docs/a.md"):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text("as it was\n")
    subprocess.run(["git", "init", "-q", tree], check=True)
    git = ["git", "-C", str(tree), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
    with ExitStack() as undo:

        def make(agent: str) -> Path:
            place = tmp_path / agent
            place.mkdir()
            ran = installed("mount", str(tree), str(place), "--agent", agent)
            assert ran.code == 0, ran.err
            undo.callback(installed, "unmount", str(place))
            return place

        yield make
    assert installed("ledger", "stop").code in (0, 7)
    mountinfo = Path("/proc/self/mountinfo").read_text()
    assert f"{tmp_path}/" not in mountinfo


class Begun:
    """A command that runs on; what it says on stderr is kept in a file."""

    def __init__(self, arguments: tuple[str, ...], cwd: Path, told: Path) -> None:
        self._told = told
        with told.open("w") as stderr:
            self.process = subprocess.Popen(
                [INSTALLED, *arguments], stderr=stderr, cwd=cwd, start_new_session=True
            )

    def kill(self) -> None:
        """It and what it runs."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def line_with(self, words: str) -> str:
        """The first line on stderr that has these words."""

        def found() -> str:
            lines = self._told.read_text().splitlines()
            return next((line for line in lines if words in line), "")

        return eventually(found)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Begun]]:
    """Begin a command and go on; whatever still runs at the end is killed."""
    with ExitStack() as running:

        def begin(*arguments: str, cwd: Path) -> Begun:
            begun = Begun(arguments, cwd, tmp_path / "told")
            running.enter_context(begun.process)
            running.callback(begun.kill)
            return begun

        yield begin


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def can_write(path: Path) -> bool:
    try:
        with path.open("a") as file:
            file.write("more\n")
    except PermissionError:
        return False
    return True


LOOP = "echo $$ > ../pid; while [ ! -e ../stop ]; do echo x >> src/x.py; sleep 0.02; done"


def test_a_person_stops_a_loop_cold_and_it_goes_on_afterwards(
    mount: Any, start: Any, installed: Any, tmp_path: Path
) -> None:
    """P7: --priority human stops a background loop's writes, and gives the tree back afterwards."""
    loops, anns = mount("loop"), mount("ann")
    script = ("--", "sh", "-c", LOOP)
    loop = start(
        *("run", "--claim", "src", "--priority", "background", "--on-recall", "STOP", *script),
        cwd=loops,
    )
    eventually(lambda: (loops / "src" / "x.py").stat().st_size > 30)
    claimed = installed("claim", "src", "--priority", "human", "-q", cwd=anns)
    assert claimed.code == 0, claimed.err
    assert "ann claimed src/** as " in loop.line_with("is recalled by ann")
    loop.line_with("is given up: the command runs on, and what it writes there is refused until")
    (waiting,) = json.loads(installed("queue", "--json", cwd=anns).out)["waiters"]
    back = waiting["lease"]
    pid = int((tmp_path / "pid").read_text())
    eventually(lambda: state_of(pid) == "T")
    size = (anns / "src" / "x.py").stat().st_size
    assert can_write(anns / "src" / "x.py")
    assert not can_write(loops / "src" / "x.py")
    told = installed("status", cwd=loops).out
    assert "was recalled by ann" in told
    assert back in told
    assert f"{back} waits to bring back" in installed("queue", cwd=anns).out
    assert (anns / "src" / "x.py").stat().st_size == size + len("more\n")
    released = installed("release", claimed.out.strip(), "--keep", cwd=anns)
    assert released.code == 0, released.err
    loop.line_with(f"the ground is back, as {back}")
    eventually(lambda: (loops / "src" / "x.py").stat().st_size > size + len("more\n"))
    (tmp_path / "stop").touch()
    assert loop.process.wait(timeout=DEADLINE_S) == 0


def test_a_loop_that_was_stopped_for_a_claim_goes_on_when_that_is_withdrawn(
    mount: Any, start: Any, installed: Any, tmp_path: Path
) -> None:
    loops, anns = mount("loop"), mount("ann")
    script = "exec 3>> src/x.py; echo $$ > ../pid; while [ ! -e ../stop ]; do sleep 0.02; done"
    loop = start(
        *("run", "--claim", "src", "--on-recall", "STOP", "--", "sh", "-c", script), cwd=loops
    )
    eventually((tmp_path / "pid").exists)
    timed_out = installed(
        *("claim", "src", "--priority", "urgent", "--recall", "10m", "--wait", "1s"), cwd=anns
    )
    assert timed_out.code == 4
    loop.line_with("need not be given up any more")
    pid = int((tmp_path / "pid").read_text())
    eventually(lambda: state_of(pid) != "T")
    (tmp_path / "stop").touch()
    assert loop.process.wait(timeout=DEADLINE_S) == 0


def test_a_planner_gives_a_part_to_its_worker_and_has_it_back(mount: Any, installed: Any) -> None:
    plans, works = mount("planner"), mount("worker")
    id_ = installed("claim", "src", cwd=plans).out.strip()
    ran = installed("delegate", id_, "src/t", "--to", "worker", "--note", "sort", cwd=plans)
    assert ran.code == 0, ran.err
    part = ran.out.strip()
    eventually(lambda: can_write(works / "src" / "t" / "y.py"))
    assert not can_write(plans / "src" / "t" / "y.py")
    assert can_write(plans / "src" / "x.py")
    why = installed("why", "src/t/y.py", cwd=plans)
    assert (why.code, f"next: leasefs recall {part}" in why.out) == (3, True), why.out
    assert part in installed("status", cwd=plans).out
    assert installed("release", part, "--keep", cwd=works).code == 0
    eventually(lambda: can_write(plans / "src" / "t" / "y.py"))


def test_a_recalled_holder_asks_for_more_time(mount: Any, installed: Any) -> None:
    place = mount("ada")
    id_ = installed("claim", "src", cwd=place).out.strip()
    with (place / "src" / "x.py").open("a"):
        ran = installed("recall", id_, "--within", "10m", "--reason", "the release", cwd=place)
        assert ran.code == 0, ran.err
        eventually(lambda: "the release" in installed("status", cwd=place).out)
        more = installed("more-time", id_, "5m", "--json", cwd=place)
        assert more.code == 0, more.err
        assert json.loads(more.out)["recall"]["may_ask_for_s"] == 0.0
        again = installed("more-time", id_, "5m", cwd=place)
        assert (again.code, "more time already" in again.err) == (2, True), again.err


def test_sharing_stops_writes_until_it_is_undone(mount: Any, installed: Any) -> None:
    place = mount("ada")
    id_ = installed("claim", "src", cwd=place).out.strip()
    assert can_write(place / "src" / "x.py")
    assert installed("downgrade", id_, cwd=place).code == 0
    assert not can_write(place / "src" / "x.py")
    ran = installed("claim", "--upgrade", id_, "--wait", "20s", cwd=place)
    assert ran.code == 0, ran.err
    assert can_write(place / "src" / "x.py")
    leases = json.loads(installed("leases", "--json", cwd=place).out)["leases"]
    assert [(lease["lease"], lease["mode"]) for lease in leases] == [(ran.out.strip(), "exclusive")]


def test_a_freeze_quotes_its_reason_where_a_write_is_refused(mount: Any, installed: Any) -> None:
    place = mount("ada")
    ran = installed("freeze", "src/x.py", "--reason", "about to be split", cwd=place)
    assert ran.code == 0, ran.err
    assert not can_write(place / "src" / "x.py")
    why = installed("why", "src/x.py", cwd=place)
    assert (why.code, "about to be split" in why.out) == (3, True)
    assert installed("unfreeze", ran.out.strip(), cwd=place).code == 0
    assert installed("claim", "src/x.py", cwd=place).code == 0
    assert can_write(place / "src" / "x.py")
