"""Directories, names and mounts: where things are and whose they are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from leasefs.client import find, names, paths
from leasefs.client.address import MAX_SOCKET_PATH_BYTES
from leasefs.client.process import is_stopped, process_identity, program_name
from leasefs.core.errors import Denied, NotMounted
from leasefs.testing.eventually import eventually
from leasefs.testing.own_world import World, own_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with own_world(str(tmp_path)) as world:
        yield world


def test_directories_are_made_for_their_owner_alone(world: World) -> None:
    for path in (paths.state_dir(), paths.runtime_dir(), paths.store_dir(), paths.mounts_dir()):
        assert os.stat(path).st_mode & 0o777 == 0o700
        assert path.startswith(world.root)


def test_parents_are_made_for_their_owner_alone_whatever_the_umask(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who can write to a parent can put another directory in the place of ours."""
    monkeypatch.setenv("XDG_STATE_HOME", f"{world.root}/state/not/yet")
    before = os.umask(0)
    try:
        paths.store_dir()
    finally:
        os.umask(before)
    for made in ("not", "not/yet", "not/yet/leasefs", "not/yet/leasefs/ledger"):
        assert os.stat(f"{world.root}/state/{made}").st_mode & 0o777 == 0o700


@pytest.mark.parametrize("home", ["/proc/nowhere", "/dev/null", "/dev/null/x", "/sys/x/y"])
def test_where_nothing_can_be_made_nothing_is_tried_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("XDG_STATE_HOME", home)
        with pytest.raises(Denied, match="leasefs needs a directory of its own there"):
            paths.store_dir()


def test_one_store_has_one_socket(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login has another runtime directory than cron or `su`, and the same store."""
    at_login = paths.ledger_socket()
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert paths.ledger_socket() == at_login
    monkeypatch.setenv("XDG_STATE_HOME", f"{world.root}/other")
    assert paths.ledger_socket() != at_login


def test_without_a_runtime_directory_the_state_directory_has_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in ("", "relative", "/nonexistent"):
        monkeypatch.setenv("XDG_RUNTIME_DIR", value)
        assert paths.runtime_dir() == f"{world.root}/state/leasefs/run"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert paths.state_dir() == f"{world.root}/home/.local/state/leasefs"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_a_runtime_directory_of_another_user_is_left_alone(world: World) -> None:
    """`su` leaves the former user's XDG_RUNTIME_DIR in place."""
    os.chown(os.environ["XDG_RUNTIME_DIR"], 65534, -1)
    assert paths.runtime_dir() == f"{world.root}/state/leasefs/run"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_a_state_directory_of_another_user_is_refused(world: World) -> None:
    place = paths.state_dir()
    os.chown(place, 65534, -1)
    with pytest.raises(Denied, match=r"belongs to another user \(uid 65534\)"):
        paths.state_dir()
    os.chown(place, os.geteuid(), -1)


def test_what_is_no_directory_of_ours_is_refused(world: World) -> None:
    os.rmdir(paths.state_dir())
    os.symlink("/var/tmp", f"{world.root}/state/leasefs")
    with pytest.raises(Denied, match="is a symlink"):
        paths.state_dir()
    os.unlink(f"{world.root}/state/leasefs")
    open(f"{world.root}/state/leasefs", "w").close()
    with pytest.raises(Denied, match="is not a directory"):
        paths.state_dir()
    os.unlink(f"{world.root}/state/leasefs")


def test_a_socket_path_that_is_too_long_gets_a_short_stand_in(world: World) -> None:
    deep = world.root + "/" + "d" * 120
    first, second = paths.socket_path(deep, "a.sock"), paths.socket_path(deep, "b.sock")
    assert len(first) <= MAX_SOCKET_PATH_BYTES
    assert first != second
    assert first == paths.socket_path(deep, "a.sock")
    assert paths.socket_path("/run/x", "a.sock") == "/run/x/a.sock"


def test_the_configured_ledger_wins(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert paths.ledger_url() == (f"unix:{world.root}/state/leasefs/run/ledger.sock", True)
    monkeypatch.setenv("LEASEFS_LEDGER", "https://ledger.example:8470")
    assert paths.ledger_url() == ("https://ledger.example:8470", False)


def test_agent_and_harness_names(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "a b/c")
    assert names.agent_name().startswith("a-b-c@")
    monkeypatch.setenv("LEASEFS_AGENT", "agent-07")
    assert names.agent_name() == "agent-07"
    assert names.agent_name("agent-08") == "agent-08"
    for mark in ("CLAUDECODE", "CODEX_SANDBOX", "GEMINI_CLI", "CURSOR_AGENT", "OPENCODE"):
        monkeypatch.delenv(mark, raising=False)
    monkeypatch.delenv("AIDER_MODEL", raising=False)
    assert names.harness_name() == "shell"
    monkeypatch.setenv("CLAUDECODE", "1")
    assert names.harness_name() == "claude"
    monkeypatch.setenv("LEASEFS_HARNESS", "editor")
    assert names.harness_name() == "editor"
    assert names.harness_name("codex") == "codex"


def test_a_process_is_named_once_and_for_all() -> None:
    mine = process_identity(os.getpid())
    assert mine == process_identity(os.getpid())
    assert mine.split(":")[2] == str(os.getpid())
    with subprocess.Popen(["sleep", "60"]) as child:
        other = process_identity(child.pid)
        assert other.split(":")[:2] == mine.split(":")[:2]
        assert other != mine
        assert program_name(child.pid) == "sleep"
        child.kill()
    assert process_identity(child.pid) == ""
    assert program_name(child.pid) == "?"
    assert not is_stopped(child.pid)


def test_a_stopped_process_is_seen_to_be_stopped() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        assert not is_stopped(child.pid)
        os.kill(child.pid, signal.SIGSTOP)
        eventually(lambda: is_stopped(child.pid))
        os.kill(child.pid, signal.SIGCONT)
        eventually(lambda: not is_stopped(child.pid))
        child.kill()


def entry(world: World, **changes: object) -> None:
    facts = {name: name for name in find.MountFound._fields if name != "beneath"}
    pid = os.getpid()
    facts = {**facts, "pid": pid, "process": process_identity(pid), **changes}  # type: ignore[dict-item]
    with open(
        os.path.join(paths.mounts_dir(), f"{len(os.listdir(paths.mounts_dir()))}.json"), "w"
    ) as f:
        json.dump(facts, f)


def test_the_registry_knows_the_living_from_the_dead(world: World) -> None:
    entry(world, agent="a", mountpoint="/m", source="/s")
    entry(world, agent="b", process="another boot")
    entry(world, agent="c", pid=0, process="")
    entry(world, agent=7)
    entry(world, agent="d", pid="1")
    os.mkdir(os.path.join(paths.mounts_dir(), "directory.json"))
    for name, content in (("broken", "{"), ("list", "[]"), ("empty", ""), ("foreign", "\udcff")):
        path = os.path.join(paths.mounts_dir(), f"{name}.json")
        with open(path, "w", errors="surrogateescape") as file:
            file.write(content)
    assert [found.agent for found in find.live_mounts()] == ["a"]
    assert [(found.agent, alive) for found, alive in find.registered_mounts()] == [
        ("a", True),
        ("b", False),
        ("c", False),
    ]
    for place in ("a", "/m", "/s"):
        assert [found.agent for found in find.mounts_of(place)] == ["a"]
    assert find.mounts_of("b") == []


def test_a_tree_that_only_looks_like_a_mount_is_not_believed(world: World) -> None:
    """A repository may bring a `.leasefs/mount.json` along, with any socket in it."""
    os.makedirs(f"{world.root}/repo/.leasefs")
    entry(world)
    (name,) = os.listdir(paths.mounts_dir())
    os.rename(f"{paths.mounts_dir()}/{name}", f"{world.root}/repo/.leasefs/mount.json")
    assert find.find_mount(f"{world.root}/repo") is None
    with pytest.raises(NotMounted, match="not inside a leasefs mount"):
        find.require_mount(f"{world.root}/repo")
