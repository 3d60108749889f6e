"""The ledger that the first command starts, and what shells do with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.client import api, embedded, paths
from leasefs.client.blocking import Link
from leasefs.client.embedded import ensure_ledger, ledger_link
from leasefs.client.ids import new_key
from leasefs.client.shell_session import end_shell_session, shell_session, stored_sessions
from leasefs.client.waiting import wait_for_grant
from leasefs.core.errors import (
    AgentBusy,
    ClaimConflict,
    Denied,
    LeaseLost,
    LedgerUnavailable,
    WaitTimedOut,
)
from leasefs.testing.eventually import eventually
from leasefs.testing.own_world import World, own_world

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ASK = "from leasefs.client.embedded import ensure_ledger; print(ensure_ledger())"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with own_world(str(tmp_path)) as world:
        yield world


def starts(link: Link) -> int:
    return len(link.send(api.events(types=["ledger-started"]))["events"])


def test_the_first_who_asks_starts_it_and_the_second_finds_it(world: World) -> None:
    assert world.ledger_pid() is None
    url = ensure_ledger()
    assert url == f"unix:{world.root}/state/leasefs/run/ledger.sock"
    pid = world.ledger_pid()
    assert ensure_ledger() == url
    assert world.ledger_pid() == pid
    assert starts(Link(url)) == 1


def test_the_ledger_is_on_its_own(world: World) -> None:
    ensure_ledger()
    pid = world.ledger_pid()
    assert pid is not None
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.getsid(pid) == pid
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    assert os.readlink(f"/proc/{pid}/fd/2") == paths.ledger_log()


@pytest.mark.slow
def test_thirty_that_start_at_once_get_one_ledger(world: World) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", ASK], stdout=subprocess.PIPE, text=True)
        for _ in range(30)
    ]
    said = {process.communicate(timeout=100)[0].strip() for process in processes}
    assert said == {f"unix:{paths.ledger_socket()}"}
    assert [process.returncode for process in processes] == [0] * 30
    assert starts(Link(said.pop())) == 1


def test_a_killed_ledger_is_started_again_by_the_next_request(world: World) -> None:
    link = ledger_link()
    link.send(api.status())
    world.kill_ledger()
    assert link.send(api.status())["seq"] == 2


def test_a_configured_ledger_is_not_started(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEFS_LEDGER", f"unix:{world.root}/nobody.sock")
    assert ensure_ledger() == f"unix:{world.root}/nobody.sock"
    with pytest.raises(LedgerUnavailable, match="no ledger listens there"):
        ledger_link().send(api.status())
    assert not Path(world.root, "nobody.sock").exists()


def test_why_it_cannot_start_reaches_the_caller(world: World) -> None:
    Path(paths.store_dir(), "ledger.sqlite3").write_bytes(b"this is no database" * 1000)
    with pytest.raises(LedgerUnavailable, match=r"ended at once \(code 1\): .*ledger\.sqlite3"):
        ensure_ledger()


@pytest.mark.parametrize("place", [paths.start_lock, paths.ledger_log])
def test_a_file_of_its_own_that_cannot_be_written_is_named(
    world: World, place: Callable[[], str]
) -> None:
    """As on a disk that is full or read-only."""
    os.mkdir(place())
    before = os.listdir("/proc/self/fd")
    with pytest.raises(LedgerUnavailable, match="cannot be started") as refused:
        ensure_ledger()
    assert place() in refused.value.message
    # A mount asks for it again and again.
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_disk_without_room_for_the_last_words_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(paths.ledger_log(), "w") as log:
        log.write("what an earlier one said\n")
    full = [0] * 10
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(full))
    assert embedded._last_line_of_log().startswith("there is no room left")


def test_a_frozen_starter_does_not_block_the_others_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasefs.client.embedded.START_TIMEOUT_S", 0.3)
    with open(paths.start_lock(), "ab") as lock:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LedgerUnavailable, match="did not come up"):
            ensure_ledger()


def test_a_place_for_sockets_that_others_could_write_is_refused(world: World) -> None:
    place = os.path.dirname(paths.ledger_socket())
    os.chmod(place, 0o777)
    with pytest.raises(Denied, match="can be written by others"):
        ensure_ledger()
    os.chmod(place, 0o700)


def test_a_login_and_cron_use_the_same_ledger(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_ledger()
    pid = world.ledger_pid()
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert ledger_link().send(api.status())["seq"] == 1
    assert world.ledger_pid() == pid


def test_a_ledger_whose_socket_was_removed_makes_room_for_the_next(world: World) -> None:
    link = ledger_link()
    link.send(api.status())
    os.unlink(paths.ledger_socket())
    assert starts(ledger_link()) == 2


def test_a_store_that_another_ledger_serves_elsewhere_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasefs.client.embedded.START_TIMEOUT_S", 3.0)
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "leasefs.service", "--socket", f"{world.root}/home/x.sock"),
            *("--store", paths.store_dir()),
        ],
        stderr=subprocess.DEVNULL,
    ) as other:
        eventually(lambda: os.path.exists(f"{world.root}/home/x.sock"), what="the other ledger")
        with pytest.raises(LedgerUnavailable, match=rf"in use by process {other.pid}"):
            ensure_ledger()
        other.terminate()
    tries = Path(paths.ledger_log()).read_text().count("not needed")
    assert 1 <= tries <= 8


def test_a_shell_keeps_its_session_from_command_to_command(world: World) -> None:
    first = shell_session(ledger_link(), agent="a", harness="h", territory="t")
    again = shell_session(ledger_link(), agent="a", harness="h", territory="t")
    assert first == again
    (stored,) = Path(paths.sessions_dir()).glob("*.json")
    assert stored.stat().st_mode & 0o777 == 0o600
    assert stored_sessions() == [first]
    assert first.credentials.secret not in repr(first)


def test_a_session_that_cannot_be_stored_is_told_as_that(world: World) -> None:
    """As on a disk that is full or read-only, with the ledger on another one."""
    session = shell_session(ledger_link(), agent="ann", harness="h", territory="t")
    use, lock = (next(Path(paths.sessions_dir()).glob(pattern)) for pattern in ("*.use", "*.lock"))
    for file in (lock, use):
        file.unlink()
        file.mkdir()
    with pytest.raises(LedgerUnavailable, match="cannot be stored") as refused:
        shell_session(ledger_link(), agent="ann", harness="h", territory="t")
    assert str(lock) in refused.value.message
    end_shell_session(ledger_link(), session)


def test_a_session_that_the_ledger_forgot_is_opened_anew(world: World) -> None:
    link = ledger_link()
    first = shell_session(link, agent="a", harness="h", territory="t")
    link.send(api.end_session(first.credentials.session))
    second = shell_session(link, agent="a", harness="h", territory="t")
    assert second.credentials != first.credentials
    end_shell_session(link, second)
    assert stored_sessions() == []
    assert link.send(api.sessions("t")) == {"sessions": []}


def test_an_agent_that_lives_elsewhere_is_busy_and_leaves_nothing_stored(world: World) -> None:
    link = ledger_link()
    session = shell_session(link, agent="a", harness="h", territory="t")
    for file in Path(paths.sessions_dir()).glob("*.json"):
        file.unlink()
    with pytest.raises(AgentBusy):
        shell_session(link, agent="a", harness="h", territory="t")
    assert stored_sessions() == []
    replacing = shell_session(link, agent="a", harness="h", territory="t", replace=True)
    assert replacing.credentials != session.credentials


@pytest.fixture
def two(world: World) -> tuple[Link, Link]:
    links = (ledger_link(), ledger_link())
    for link, agent in zip(links, "ab", strict=True):
        shell_session(link, agent=agent, harness="h", territory="t")
    return links


def test_a_wait_that_takes_too_long_withdraws_the_claim(two: tuple[Link, Link]) -> None:
    holder, waiter = two
    holder.send(api.claim(["x"], key=new_key()))
    with pytest.raises(ClaimConflict):
        waiter.send(api.claim(["x"], key=new_key()))
    waiting = waiter.send(api.claim(["x"], key=new_key(), wait=True))
    seen: list[int] = []
    with pytest.raises(WaitTimedOut, match=r"not granted within 0\.2 s: a still holds"):
        wait_for_grant(
            waiter, waiting, timeout_s=0.2, on_change=lambda answer: seen.append(answer["position"])
        )
    assert seen == [1]
    assert waiter.send(api.queue("t")) == {"waiters": []}


def test_a_release_is_pushed_to_who_waits(two: tuple[Link, Link]) -> None:
    holder, waiter = two
    held = holder.send(api.claim(["x"], key=new_key()))
    waiting = waiter.send(api.claim(["x"], key=new_key(), wait=True))

    def release(_: api.Body) -> None:
        holder.send(api.release(held["lease"], key=new_key()))

    granted = wait_for_grant(waiter, waiting, timeout_s=None, on_change=release)
    assert (granted["state"], granted["lease"]) == ("granted", waiting["lease"])


def test_an_interrupted_wait_withdraws_the_claim(two: tuple[Link, Link]) -> None:
    holder, waiter = two
    holder.send(api.claim(["x"], key=new_key()))
    waiting = waiter.send(api.claim(["x"], key=new_key(), wait=True))

    def interrupt(_: api.Body) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wait_for_grant(waiter, waiting, timeout_s=None, on_change=interrupt)
    assert waiter.send(api.queue("t")) == {"waiters": []}


def test_a_claim_that_an_operator_withdrew_is_lost(two: tuple[Link, Link]) -> None:
    holder, waiter = two
    holder.send(api.claim(["x"], key=new_key()))
    waiting = waiter.send(api.claim(["x"], key=new_key(), wait=True))

    def withdraw(_: api.Body) -> None:
        holder.send(api.revoke(waiting["lease"]))

    with pytest.raises(LeaseLost, match="ended"):
        wait_for_grant(waiter, waiting, timeout_s=None, on_change=withdraw)


def test_an_idle_ledger_is_found_stopped_and_started_anew(world: World) -> None:
    ensure_ledger()
    world.kill_ledger(signal.SIGTERM)
    assert not Path(paths.ledger_socket()).exists()
    assert starts(ledger_link()) == 2
