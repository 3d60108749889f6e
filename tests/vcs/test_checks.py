from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.testing.eventually import eventually
from leasefs.vcs import checks
from leasefs.vcs.checks import CheckResult, run_checks
from leasefs.vcs.project_file import Check

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., CheckResult]:
    (tmp_path / "tree").mkdir()
    (tmp_path / "out").mkdir()

    def one(*arguments: str, timeout_s: float = 30, **options: Any) -> CheckResult:
        given: dict[str, Any] = {
            "cwd": str(tmp_path / "tree"),
            "paths": [],
            "lease": "L1",
            "output_directory": str(tmp_path / "out"),
        }
        check = Check(arguments, " ".join(arguments))
        (result,) = run_checks([check], timeout_s=timeout_s, **given | options)
        return result

    return one


def _output(result: CheckResult) -> bytes:
    return Path(result.output).read_bytes()


def test_a_check_that_passes_and_one_that_does_not(run: Callable[..., CheckResult]) -> None:
    passed = run("sh", "-c", "echo out; echo err >&2")
    assert passed.passed
    assert (passed.status, passed.problem) == (0, "")
    assert sorted(_output(passed).split()) == [b"err", b"out"]
    failed = run("sh", "-c", "exit 7")
    assert not failed.passed
    assert (failed.status, failed.problem, _output(failed)) == (7, "", b"")
    killed = run("sh", "-c", "kill -9 $$")
    assert (killed.passed, killed.status) == (False, -9)


def test_it_is_told_the_paths_and_the_lease(
    run: Callable[..., CheckResult], tmp_path: Path
) -> None:
    paths = [b"a b", b"new\nline", b"caf\xe9"]
    told = run("sh", "-c", 'cat "$LEASEFS_PATHS"; echo "$LEASEFS_LEASE $PWD"', paths=paths)
    here = os.fsencode(tmp_path / "tree")
    assert _output(told) == b"a b\0new\nline\0caf\xe9\0L1 " + here + b"\n"
    only = run("env", environment={"PATH": os.environ["PATH"]})
    names = {line.partition(b"=")[0] for line in _output(only).splitlines()}
    assert names == {b"PATH", b"LEASEFS_PATHS", b"LEASEFS_LEASE"}


def test_every_check_runs_and_has_its_own_output(tmp_path: Path) -> None:
    given = [Check(("sh", "-c", line), line) for line in ("echo 1; exit 1", "echo 2")]
    results = run_checks(
        given,
        cwd=str(tmp_path),
        paths=[],
        lease="L1",
        timeout_s=30,
        output_directory=str(tmp_path),
    )
    assert [result.passed for result in results] == [False, True]
    assert [_output(result) for result in results] == [b"1\n", b"2\n"]
    assert [result.check for result in results] == given


def test_what_cannot_be_started_has_failed(run: Callable[..., CheckResult]) -> None:
    result = run("/nowhere/at-all")
    assert not result.passed
    assert result.status is None
    assert result.problem == "/nowhere/at-all cannot be run: No such file or directory"
    assert _output(result) == b""


def test_the_end_of_a_long_output_is_kept(run: Callable[..., CheckResult]) -> None:
    script = "import os\nfor n in range(40): os.write(1, b'%02d' % n * 50_000)\nos.write(1, b'end')"
    result = run(sys.executable, "-c", script)
    assert result.passed
    assert result.output_cut
    whole = b"".join(b"%02d" % n * 50_000 for n in range(40)) + b"end"
    assert _output(result) == whole[-checks.OUTPUT_LIMIT_BYTES :]


def test_too_long_a_check_is_ended_with_all_it_started(
    run: Callable[..., CheckResult], tmp_path: Path
) -> None:
    script = f"trap '' TERM; sleep 1000 & echo $! > {tmp_path}/pid; echo before; wait; sleep 1000"
    result = run("sh", "-c", script, timeout_s=0.5)
    assert not result.passed
    assert "took longer than 0.5 s and was ended" in result.problem
    assert result.status == -signal.SIGKILL
    assert _output(result) == b"before\n"
    pid = int((tmp_path / "pid").read_text())
    eventually(lambda: not _runs(pid))


def test_a_check_may_clear_up_when_its_time_is_over(run: Callable[..., CheckResult]) -> None:
    result = run("sh", "-c", "trap 'echo cleared; exit 0' TERM; sleep 1000 & wait", timeout_s=0.5)
    assert not result.passed
    assert result.status == 0
    assert _output(result) == b"cleared\n"


def test_what_a_check_leaves_behind_is_ended_and_not_waited_for(
    run: Callable[..., CheckResult], tmp_path: Path
) -> None:
    result = run("sh", "-c", f"sleep 1000 & echo $! > {tmp_path}/pid; echo done")
    assert result.passed
    assert _output(result) == b"done\n"
    pid = int((tmp_path / "pid").read_text())
    eventually(lambda: not _runs(pid))


def test_a_descendant_out_of_reach_does_not_hold_the_release(
    run: Callable[..., CheckResult], tmp_path: Path
) -> None:
    script = f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 1000' & until [ -s {tmp_path}/pid ]; do :; done"
    result = run("sh", "-c", script)
    assert result.passed
    pid = int((tmp_path / "pid").read_text())
    os.kill(pid, signal.SIGKILL)


def test_a_check_that_closes_its_output_is_still_waited_for(
    run: Callable[..., CheckResult],
) -> None:
    script = "import os, time\nos.close(1)\nos.close(2)\ntime.sleep(0.3)\nos._exit(3)"
    assert run(sys.executable, "-c", script).status == 3


def test_an_interrupted_release_ends_its_check(
    run: Callable[..., CheckResult], tmp_path: Path
) -> None:
    def interrupt() -> None:
        eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        run("sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 1000")
    other.join()
    pid = int((tmp_path / "pid").read_text())
    assert not _runs(pid)


def test_a_link_that_waits_for_the_output_is_not_followed(
    run: Callable[..., CheckResult], tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("check-1.log", "paths"):
        (tmp_path / "out" / name).symlink_to(victim)
    assert _output(run("echo", "x")) == b"x\n"
    assert victim.read_text() == "precious"


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
