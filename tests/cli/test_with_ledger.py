"""The installed command against a real ledger that the first command starts; no mount."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

from leasefs.testing.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INSTALLED = Path(sys.executable).parent / "leasefs"
DEADLINE_S = 20.0


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.02)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Begin a command and go on; whatever still runs at the end is killed."""
    with ExitStack() as running:

        def begin(*arguments: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [INSTALLED, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            running.enter_context(process)
            running.callback(process.kill)
            return process

        yield begin


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, out, err


def line_of(stream: IO[str]) -> str:
    """The next line. Nothing was read ahead: each of our streams is written a line at a time."""
    assert select.select([stream], [], [], DEADLINE_S)[0], "no line came"
    return stream.readline()


def waiters(installed: Any) -> list[dict[str, Any]]:
    found = json.loads(installed("queue", "--json").out)["waiters"]
    assert isinstance(found, list)
    return found


def test_claim_conflict_handover_release(start: Any, installed: Any, repo: Path) -> None:
    first = installed("claim", "src/**", "--agent", "ada")
    assert (first.code, first.err) == (0, "")
    id_ = first.out.strip()
    assert first.out == f"{id_}\n"

    refused = installed("claim", "src/x.py", "--agent", "bo")
    assert (refused.code, refused.out) == (3, "")
    assert "held by ada" in refused.err.splitlines()[-1]
    assert "Queue with --wait" in refused.err.splitlines()[-1]

    waiting = start("claim", "src/x.py", "--agent", "bo", "--wait", "-q")
    until(lambda: len(waiters(installed)) == 1)
    assert installed("release", id_, "--agent", "bo").code == 5
    released_at = time.monotonic()
    assert installed("release", id_, "--agent", "ada").code == 0
    code, out, err = ended(waiting)
    assert (code, err) == (0, "")
    assert out.startswith("L")
    assert time.monotonic() - released_at < 5.0
    assert installed("release", "--all", "--agent", "bo").code == 0
    assert installed("leases").out == "no leases\n"


def test_a_wait_that_times_out_leaves_nothing_behind(installed: Any, repo: Path) -> None:
    installed("claim", "src/**", "--agent", "ada")
    ran = installed("claim", "src/**", "--agent", "bo", "--wait", "1s")
    assert (ran.code, ran.out) == (4, "")
    told, failed = ran.err.splitlines()
    assert "waits: position 1, behind ada" in told
    assert "the claim was withdrawn" in failed
    assert waiters(installed) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_waiting_withdraws(
    start: Any, installed: Any, repo: Path, number: signal.Signals
) -> None:
    installed("claim", "src/**", "--agent", "ada")
    waiting = start("claim", "src/**", "--agent", "bo", "--wait", "-q")
    until(lambda: len(waiters(installed)) == 1)
    waiting.send_signal(number)
    code, out, err = ended(waiting)
    assert (code, out, err) == (128 + number, "", "")
    assert waiters(installed) == []


def test_a_waiter_whose_claim_is_revoked_is_told(start: Any, installed: Any, repo: Path) -> None:
    installed("claim", "src/**", "--agent", "ada")
    waiting = start("claim", "src/**", "--agent", "bo", "--wait", "-q")
    until(lambda: len(waiters(installed)) == 1)
    assert installed("release", "--force", waiters(installed)[0]["lease"]).code == 0
    code, out, err = ended(waiting)
    assert (code, out) == (5, "")
    assert err.startswith("leasefs: ")


def test_a_circle_of_waiters_is_refused(start: Any, installed: Any, repo: Path) -> None:
    installed("claim", "a/**", "--agent", "ada")
    installed("claim", "b/**", "--agent", "bo")
    waiting = start("claim", "b/**", "--agent", "ada", "--wait", "-q")
    until(lambda: len(waiters(installed)) == 1)
    ran = installed("claim", "a/**", "--agent", "bo", "--wait")
    assert (ran.code, ran.out) == (8, "")
    assert "waiting would never end" in ran.err
    waiting.send_signal(signal.SIGINT)
    assert ended(waiting)[0] == 130


def test_run_holds_releases_and_passes_the_code_on(installed: Any, repo: Path) -> None:
    script = 'leasefs leases | grep -q "L[0-9].*src" && exit 7'
    path = f"{INSTALLED.parent}:{os.environ['PATH']}"
    ran = installed(
        *("run", "--agent", "ada", "--claim", "src", "--", "sh", "-c", script),
        env={**os.environ, "PATH": path},
    )
    assert (ran.code, ran.out) == (7, "")
    left = json.loads(installed("status", "--json").out)
    assert (left["leases"], left["sessions"]) == ([], [])


def test_run_over_what_is_held_leaves_it_held(installed: Any, repo: Path) -> None:
    id_ = installed("claim", "src/**", "--agent", "ada").out.strip()
    assert installed("run", "--agent", "ada", "--claim", "src/**", "--", "true").code == 0
    leases = json.loads(installed("leases", "--json").out)["leases"]
    assert [lease["lease"] for lease in leases] == [id_]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["false"], 1),
        (["no-such-program"], 127),
        (["/etc/passwd"], 126),
        (["sh", "-c", "kill -9 $$"], 137),
    ],
)
def test_run_has_the_shells_codes(
    installed: Any, repo: Path, command: list[str], code: int
) -> None:
    ran = installed("run", "--agent", "ada", "--claim", "src/**", "--", *command)
    assert ran.code == code
    assert installed("leases").out == "no leases\n"


def test_run_does_not_start_the_command_without_its_lease(installed: Any, repo: Path) -> None:
    installed("claim", "src/**", "--agent", "ada")
    ran = installed("run", "--agent", "bo", "--claim", "src/**", "--", "touch", "made")
    assert ran.code == 3
    assert not (repo / "made").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_run_passes_signals_on(
    start: Any, installed: Any, repo: Path, number: signal.Signals
) -> None:
    name = number.name.removeprefix("SIG")
    script = f"trap 'exit 40' {name}; touch ready; while :; do sleep 0.05; done"
    running = start("run", "--agent", "ada", "--claim", "src/**", "--", "sh", "-c", script)
    until((repo / "ready").exists)
    running.send_signal(number)
    assert ended(running) == (40, "", "")
    assert installed("leases").out == "no leases\n"


def test_run_in_a_terminal_gets_one_interrupt(installed: Any, repo: Path) -> None:
    """The terminal signals the whole group: the command must not get it from us as well."""
    script = "trap 'echo got >> count' INT; touch ready; while [ ! -e stop ]; do sleep 0.05; done"
    running = subprocess.Popen(
        [
            "script",
            "-qec",
            f"{INSTALLED} run --agent ada --claim 'src/**' -- sh -c \"{script}\"",
            "/dev/null",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    until((repo / "ready").exists)
    assert running.stdin is not None
    running.stdin.write(b"\x03")
    running.stdin.flush()
    until((repo / "count").exists)
    (repo / "stop").touch()
    running.communicate(timeout=DEADLINE_S)
    assert (repo / "count").read_text() == "got\n"


def test_run_keeps_a_short_lease_beyond_its_ttl(installed: Any, repo: Path) -> None:
    ran = installed(
        *("run", "--agent", "ada", "--claim", "src/**", "--ttl", "1s", "--"),
        *("sh", "-c", "sleep 2.5"),
    )
    assert (ran.code, ran.err) == (0, "")
    lapses = installed("log", "--type", "lapsed", "--json").out
    assert lapses == ""
    assert "leasefs run" in installed("log", "--type", "renewed").out


def test_run_says_when_its_lease_is_lost_and_runs_on(
    start: Any, installed: Any, repo: Path
) -> None:
    script = "touch ready; while [ ! -e stop ]; do sleep 0.05; done; exit 9"
    running = start(
        *("run", "--agent", "ada", "--claim", "src/**", "--ttl", "2s", "--", "sh", "-c", script)
    )
    until((repo / "ready").exists)
    id_ = json.loads(installed("leases", "--json").out)["leases"][0]["lease"]
    assert installed("release", "--force", id_).code == 0
    line = line_of(running.stderr)
    assert f"{id_} is lost" in line
    assert "revoked" in line
    (repo / "stop").touch()
    assert ended(running)[0] == 9


def test_heartbeat_renews_a_shells_lease(installed: Any, repo: Path) -> None:
    id_ = installed("claim", "src/**", "--agent", "ada", "--ttl", "5m").out.strip()
    ran = installed("heartbeat", id_, "--agent", "ada")
    assert (ran.code, ran.out.split()) == (0, ["LEASE", "GOOD", "FOR", id_, "5m"])
    assert installed("heartbeat", "L999", "--agent", "ada").code == 5


def test_the_secret_is_never_shown(installed: Any, repo: Path, own_world: Path) -> None:
    ran = installed("claim", "src/**", "--agent", "ada", "--json")
    (stored,) = (own_world / "r" / "leasefs" / "sessions").glob("*.json")
    secret = json.loads(stored.read_text())["secret"]
    assert stored.stat().st_mode & 0o777 == 0o600
    shown = ran.out + ran.err
    for command in (["status", "--json"], ["log", "--json"], ["leases", "--json"]):
        shown += installed(*command).out
    assert secret not in shown


def test_the_agents_name_is_free_again_when_nothing_is_held(installed: Any, repo: Path) -> None:
    id_ = installed("claim", "src/**", "--agent", "ada").out.strip()
    assert installed("release", id_).code == 0
    sessions = json.loads(installed("status", "--json").out)["sessions"]
    assert sessions == []


def test_a_claim_that_got_nothing_leaves_the_agents_name_free(installed: Any, repo: Path) -> None:
    installed("claim", "src/**", "--agent", "ada")
    for refused in (
        ["claim", "src/x", "--agent", "bo"],
        ["claim", "src/x", "--agent", "bo", "--wait", "1s", "-q"],
        ["claim", "new", "--agent", "bo", "--note", "n" * 5000],
        ["run", "--claim", "src/x", "--agent", "bo", "--", "true"],
        ["run", "--agent", "bo", "--", "true"],
    ):
        assert installed(*refused).code in (2, 3, 4)
        sessions = json.loads(installed("status", "--json").out)["sessions"]
        assert [session["agent"] for session in sessions] == ["ada"], refused


def test_commands_of_one_agent_at_once_lose_nothing(start: Any, installed: Any, repo: Path) -> None:
    """Each ends the session if it is the last; none ends it while another is about to claim."""
    installed("claim", "kept/**", "--agent", "cy")
    for _ in range(8):
        running = [
            start("run", "--agent", "ada", "--claim", f"d{number}/**", "--", "sleep", "0.1")
            for number in range(6)
        ]
        assert [ended(process) for process in running] == [(0, "", "")] * 6
    leases = json.loads(installed("leases", "--json").out)["leases"]
    assert [lease["agent"] for lease in leases] == ["cy"]


def test_log_follows_and_survives_a_restart_of_the_ledger(
    start: Any, installed: Any, repo: Path
) -> None:
    before = json.loads(installed("claim", "a/**", "--agent", "ada", "--json").out)["token"]
    following = start("log", "--follow", "--after", str(before), "--type", "granted", "--json")
    installed("claim", "b/**", "--agent", "ada")
    first = json.loads(line_of(following.stdout))
    assert first["event"]["claim"]["globs"] == ["b/**"]
    assert installed("ledger", "stop").code == 0
    id_ = installed("claim", "c/**", "--agent", "ada").out.strip()
    second = json.loads(line_of(following.stdout))
    assert second["event"]["claim"]["id"] == id_
    following.send_signal(signal.SIGINT)
    assert ended(following) == (130, "", "")


def test_log_tells_a_pipe_at_once(start: Any, installed: Any, repo: Path) -> None:
    before = json.loads(installed("claim", "a/**", "--agent", "ada", "--json").out)["token"]
    following = start("log", "--follow", "--after", str(before), "--type", "granted")
    id_ = installed("claim", "b/**", "--agent", "ada").out.strip()
    assert id_ in line_of(following.stdout)
    following.send_signal(signal.SIGTERM)
    assert ended(following) == (143, "", "")


def test_ledger_verbs(start: Any, installed: Any, repo: Path, own_world: Path) -> None:
    assert installed("ledger", "status").code == 7
    assert installed("ledger", "stop").code == 7
    serving = start("ledger", "serve")
    assert serving.stderr is not None
    until(lambda: installed("ledger", "status").code == 0)
    second = installed("ledger", "serve")
    assert (second.code, "in use by process" in second.err.splitlines()[-1]) == (3, True)
    said = json.loads(installed("ledger", "status", "--json").out)
    assert said["url"] == f"unix:{own_world}/s/leasefs/run/ledger.sock"
    stopped = installed("ledger", "stop")
    assert (stopped.code, stopped.out) == (0, f"stopped the ledger, pid {serving.pid}\n")
    assert ended(serving)[0] == 0


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--listen", "127.0.0.1:0"], 2, "over TCP a ledger speaks TLS only"),
        (["--tls-cert", "c.pem"], 2, "a certificate is for TCP only"),
        (["--listen", ":0", "--tls-cert", "c.pem", "--tls-key", "k.pem"], 2, "cannot be read"),
        (["--listen", "8470", "--tls-cert", "c", "--tls-key", "c"], 2, "write HOST:PORT"),
        (["--listen", "192.0.2.1:1", "--tls-cert", "c", "--tls-key", "c"], 7, "cannot listen at"),
    ],
)
def test_what_a_ledger_cannot_be_served_by(
    installed: Any, repo: Path, options: list[str], code: int, words: str
) -> None:
    """2 where trying again mends nothing: a service ends then, and is not started for ever."""
    leaf = Authority(str(repo)).leaf()
    shutil.copy(leaf.certificate, repo / "c")
    with open(leaf.key, "rb") as key, open(repo / "c", "ab") as both:
        shutil.copyfileobj(key, both)
    os.chmod(repo / "c", 0o600)
    refused = installed("ledger", "serve", *options)
    assert (refused.code, words in refused.err) == (code, True), refused.err


def test_doctor_sees_a_ledger_of_another_user(installed: Any, repo: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("LEASEFS_LEDGER", "unix:/nowhere/ledger.sock")
    ran = installed("doctor", "--json")
    findings = {one["check"]: one for one in json.loads(ran.out)["findings"]}
    assert ran.code == 1
    assert findings["ledger"]["level"] == "fail"
    assert findings["ledger"]["advice"].startswith("start it, or take ledger.url out; ")
