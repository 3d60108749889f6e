"""The ledger as a process: started, stopped, killed, raced for, talked to badly."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.service.server import STORE_FILE
from leasefs.testing.ledger_process import LedgerProcess, command

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.fixture
def place(tmp_path: Path) -> Any:
    os.chmod(tmp_path, 0o700)
    return str(tmp_path)


def _claim(ledger: Any, credentials: str, glob: str, key: str, **fields: object) -> Any:
    return ledger.ask("POST", "/v1/leases", {"key": key, "globs": [glob], **fields}, credentials)


def test_sigterm_stops_it_in_order(place: str) -> None:
    with LedgerProcess(place) as ledger:
        ann = ledger.open_session("session-ann", "ann")
        assert _claim(ledger, ann, "src/**", "k").status == 201
        assert ledger.stop() == 0
        assert not os.path.exists(ledger.socket_path)
    with LedgerProcess(place) as again:
        leases = again.ask("GET", "/v1/leases").json["leases"]
        assert [lease["globs"] for lease in leases] == [["src/**"]]
        assert again.ask("DELETE", "/v1/leases/L3?key=r", None, ann).status == 200


def test_sigterm_finishes_what_was_asked_and_ends_streams_and_waiting(place: str) -> None:
    with LedgerProcess(place) as ledger:
        ann, bob = (
            ledger.open_session("session-ann", "ann"),
            ledger.open_session("session-bob", "bob"),
        )
        _claim(ledger, ann, "src/**", "k")
        waits = _claim(ledger, bob, "src/x", "k", wait=True).json["lease"]
        stream, poll, idle = ledger.raw(), ledger.raw(), ledger.raw()
        stream.sendall(b"GET /v1/events?follow=1&after=4 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"leasefs events" in _until(stream, b"\n\n\r\n")
        poll.sendall(f"GET /v1/leases/{waits}?wait_s=300 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert ledger.ask("GET", "/v1/status").status == 200  # the poll has been read by now
        assert ledger.stop() == 0
        assert _until_eof(stream).endswith(b"0\r\n\r\n")
        assert b'"waiting"' in _until_eof(poll)
        assert _until_eof(idle) == b""
        for connection in (stream, poll, idle):
            connection.close()


def test_after_kill_9_every_answered_grant_is_there(place: str) -> None:
    granted = {}
    ann = ""
    for round_ in range(5):
        with LedgerProcess(place) as ledger:
            ann = ann or ledger.open_session("session-ann", "ann")
            leases = ledger.ask("GET", "/v1/leases").json["leases"]
            assert {lease["lease"]: lease["token"] for lease in leases} == granted
            killer = threading.Timer(0.05 + 0.05 * round_, ledger.process.kill)
            killer.start()
            asked = None
            try:
                for number in range(100_000):
                    asked = f"r{round_}-{number}"
                    answer = _claim(ledger, ann, f"{asked}/**", asked).json
                    granted[answer["lease"]] = answer["token"]
                    asked = None
            except (OSError, EOFError, ValueError):
                pass
            except Exception as error:
                if type(error).__module__ != "http.client":
                    raise
            killer.join()
            ledger.process.wait(20)
        with LedgerProcess(place) as ledger:
            # The request that was cut off may have happened; asking it again with its key settles it (P6).
            answer = _claim(ledger, ann, f"{asked}/**", asked).json
            granted[answer["lease"]] = answer["token"]
            tokens = list(granted.values())
            assert len(set(tokens)) == len(tokens)


def test_time_down_counts_in_the_same_boot(place: str) -> None:
    """P3: the ledger's clock ran on while no ledger did."""
    with LedgerProcess(place) as ledger:
        ledger.open_session("session-ann", "ann")
        first = ledger.ask("GET", "/v1/events").json["events"][0]
        ledger.kill()
    with LedgerProcess(place) as ledger:
        events = ledger.ask("GET", "/v1/events?types=ledger-started").json["events"]
        assert len(events) == 2
        offsets = {round(item["at_s"] - item["event"]["boottime_s"], 3) for item in events}
        assert len(offsets) == 1
        assert events[1]["at_s"] > first["at_s"]
        assert events[0]["event"]["boot_id"] == events[1]["event"]["boot_id"]


def test_a_ledger_that_nobody_can_find_any_more_ends_in_order(place: str) -> None:
    """Whoever cleaned up the directory took its name; the store must not stay locked by it."""
    with LedgerProcess(place) as ledger:
        ann = ledger.open_session("session-ann", "ann")
        assert _claim(ledger, ann, "src/**", "k").status == 201
        os.unlink(ledger.socket_path)
        with open(ledger.socket_path, "wb") as other:
            other.write(b"somebody else's")
        assert ledger.process.wait(20) == 0
        with open(ledger.socket_path, "rb") as other:
            assert other.read() == b"somebody else's"
        os.unlink(ledger.socket_path)
    with LedgerProcess(place) as again:
        assert len(again.ask("GET", "/v1/leases").json["leases"]) == 1


def test_a_stale_socket_of_a_killed_ledger_is_no_obstacle(place: str) -> None:
    with LedgerProcess(place) as ledger:
        ledger.kill()
        assert os.path.exists(ledger.socket_path)
    with LedgerProcess(place) as ledger:
        assert ledger.ask("GET", "/v1/status").status == 200


def test_of_many_that_start_at_once_exactly_one_serves(place: str) -> None:
    socket_path, store = os.path.join(place, "ledger.sock"), os.path.join(place, "store")
    racers = []
    for _ in range(8):
        ready, child = os.pipe()
        arguments = [*command(socket_path, store), "--embedded", "--ready-fd", str(child)]
        racers.append(
            (subprocess.Popen(arguments, pass_fds=[child], stderr=subprocess.PIPE), ready)
        )
        os.close(child)
    try:
        said = [_pipe_to_eof(ready) for _, ready in racers]
        assert sorted(said) == [b""] * 7 + [b"ready\n"]
        for (process, _), word in zip(racers, said, strict=True):
            if not word:
                assert process.wait(20) == 0
                assert b"not needed: " in process.stderr.read()
        owner = next(process for (process, _), word in zip(racers, said, strict=True) if word)
        assert owner.poll() is None
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(socket_path)
    finally:
        for process, _ in racers:
            process.kill()
            process.wait()
            process.stderr.close()


def test_a_second_ledger_that_was_asked_for_says_who_has_the_store(place: str) -> None:
    with LedgerProcess(place) as ledger:
        with pytest.raises(RuntimeError, match=f"in use by process {ledger.process.pid}"):
            LedgerProcess(place)
        other = os.path.join(place, "other")
        with pytest.raises(RuntimeError, match=r"ledger\.sock: in use by process"):
            LedgerProcess(place, store=other)
        assert ledger.ask("GET", "/v1/status").status == 200


def test_an_idle_ledger_goes_away_and_leaves_nothing_in_the_way(place: str) -> None:
    with LedgerProcess(place, "--embedded", "--idle-s", "0.2") as ledger:
        with ledger.raw(), pytest.raises(subprocess.TimeoutExpired):  # a connection alone keeps it
            ledger.process.wait(1.0)
        assert ledger.process.wait(20) == 0
        assert not os.path.exists(ledger.socket_path)
    with LedgerProcess(place, "--embedded", "--idle-s", "0.2") as ledger:
        assert ledger.process.wait(20) == 0


def test_a_ledger_in_use_stays(place: str) -> None:
    with LedgerProcess(place, "--embedded", "--idle-s", "0.2") as ledger:
        ann = ledger.open_session("session-ann", "ann")
        with pytest.raises(subprocess.TimeoutExpired):
            ledger.process.wait(1.0)
        _claim(ledger, ann, "src/**", "k")
        assert ledger.ask("DELETE", "/v1/sessions/session-ann", None, ann).status == 200
        assert ledger.process.wait(20) == 0


def test_clients_that_race_with_the_idle_stop_get_an_answer_or_a_closed_connection(
    place: str,
) -> None:
    """Nobody hangs and nobody is answered by a ledger whose store is already given up."""
    for _ in range(5):
        with LedgerProcess(place, "--embedded", "--idle-s", "0.01") as ledger:
            outcomes = []
            while ledger.process.poll() is None:
                try:
                    outcomes.append(ledger.ask("GET", "/v1/status").status)
                except (OSError, ValueError):
                    outcomes.append(0)
                except Exception as error:
                    if type(error).__module__ != "http.client":
                        raise
                    outcomes.append(0)
                select.select([], [], [], 0.01)
            assert set(outcomes) <= {0, 200}
            assert ledger.process.returncode == 0


def test_bad_places_and_bad_logs_end_it_with_one_line(place: str) -> None:
    def failed(*arguments: str, embedded: Any = ()) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "leasefs.service", *arguments], capture_output=True, timeout=60
        )
        assert done.returncode == 1
        lines = done.stderr.decode().splitlines()
        assert len(lines) == 1, lines
        assert lines[0].startswith("leasefs ledger: ")
        return lines[0]

    os.mkdir(os.path.join(place, "open"))
    os.chmod(os.path.join(place, "open"), 0o755)
    good, store = os.path.join(place, "s"), os.path.join(place, "store")
    assert "chmod 700" in failed("--socket", f"{place}/open/s", "--store", store)
    assert "chmod 700" in failed("--socket", good, "--store", f"{place}/open")
    assert "107" in failed("--socket", f"{place}/{'x' * 120}", "--store", store)
    os.mkdir(f"{place}/bad", mode=0o700)
    with open(f"{place}/bad/{STORE_FILE}", "wb") as file:
        file.write(b"this is no ledger" * 100)
    assert "never resets" in failed("--socket", good, "--store", f"{place}/bad", "--embedded")


def test_usage_errors_are_2() -> None:
    for arguments in ([], ["--socket", "x"], ["--socket", "x", "--store", "y", "--idle-s", "0"]):
        done = subprocess.run(
            [sys.executable, "-m", "leasefs.service", *arguments], capture_output=True, timeout=60
        )
        assert done.returncode == 2


def test_a_ready_pipe_that_nobody_reads_does_not_stop_it(place: str) -> None:
    ready, child = os.pipe()
    os.close(ready)
    arguments = [*command(f"{place}/s", ":memory:"), "--ready-fd", str(child)]
    process = subprocess.Popen(arguments, pass_fds=[child], stderr=subprocess.PIPE)
    os.close(child)
    try:
        assert b"serving memory" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_user_that_got_hold_of_the_socket_is_denied(place: str) -> None:
    ask = (
        "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.sendall(b'GET /v1/status HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n');"
        "b=b''\nwhile d:=s.recv(9999): b+=d\nprint(b.decode())"
    )
    with LedgerProcess(place, store=":memory:") as ledger:
        as_nobody = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "/usr/bin/python3",
        ]
        refused = subprocess.run(
            [*as_nobody, "-c", ask, ledger.socket_path], capture_output=True, check=False
        )
        assert b"PermissionError" in refused.stderr
        directory = place
        while directory != "/":  # now undo what keeps others out, as a careless operator might
            os.chmod(directory, os.stat(directory).st_mode | 0o055)
            directory = os.path.dirname(directory)
        os.chmod(ledger.socket_path, 0o666)
        denied = subprocess.run(
            [*as_nobody, "-c", ask, ledger.socket_path], capture_output=True, check=True
        )
        assert denied.stdout.startswith(b"HTTP/1.1 403")
        assert b'"code":"denied"' in denied.stdout
        assert b"uid 65534" in denied.stdout


def _until(connection: Any, end: bytes) -> Any:
    data = b""
    while end not in data:
        more = connection.recv(65536)
        assert more, data
        data += more
    return data


def _until_eof(connection: Any) -> Any:
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(1 << 20):
            data += more
    return data


def _pipe_to_eof(fd: int) -> Any:
    with open(fd, "rb") as pipe:
        return pipe.read()


def test_a_ledger_whose_messages_nobody_reads_serves_on_and_stops(tmp_path: Path) -> None:
    """A pipe that is full must not hold up the loop that answers everybody."""
    tmp_path.chmod(0o700)
    with LedgerProcess(str(tmp_path), store=":memory:") as ledger:
        assert ledger.process.stderr is not None
        fcntl.fcntl(ledger.process.stderr.fileno(), fcntl.F_SETPIPE_SZ, 4096)
        for number in range(45):
            ledger.open_session(f"S{number:024x}", f"{number}".rjust(60, "a"))
        assert ledger.ask("GET", "/v1/leases").status == 200
        assert ledger.stop() == 0
