"""`leasefs service`: what it writes, below a directory of its own, and that systemd understands it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from leasefs.core.errors import InvalidRequest
from leasefs_cli.unit_files import Flavour, own_command

LEASEFS = str(Path(sys.executable).parent / "leasefs")
COMMAND = ("--command", "/opt/leasefs/bin/leasefs")
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd here"
)


@pytest.fixture(params=["system", "user"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, ...]:
    """The options that keep it below a directory."""
    if request.param == "system" and shutil.which("systemctl") is None:
        pytest.skip("no systemd here")
    user = ("--user",) if request.param == "user" else ()
    return ("--root", str(tmp_path), *user, *COMMAND)


def test_install_status_uninstall(here: Any, place: tuple[str, ...]) -> None:
    count = 4 if "--user" in place else 6
    ran = here("service", "status", *place)
    assert ran.code == 1
    assert ran.out.count("missing") == count
    first = json.loads(here("service", "install", *place, "--json").out)
    assert [file["done"] for file in first["files"]] == ["written"] * count
    again = json.loads(here("service", "install", *place, "--json").out)
    assert [file["done"] for file in again["files"]] == ["unchanged"] * count
    assert os.path.isdir(first["mounts"])
    ran = here("service", "status", *place)
    assert (ran.code, ran.out.count("installed")) == (0, count)
    gone = json.loads(here("service", "uninstall", *place, "--json").out)
    assert sorted(gone["removed"]) == sorted(file["path"] for file in first["files"])
    assert not any(os.path.exists(path) for path in gone["removed"])
    ran = here("service", "uninstall", *place)
    assert (ran.code, ran.out) == (0, "")
    assert "nothing to take away" in ran.err


def test_what_was_changed_by_hand_is_told_and_replaced(here: Any, place: tuple[str, ...]) -> None:
    files = json.loads(here("service", "install", *place, "--json").out)["files"]
    Path(files[0]["path"]).write_text("[Unit]\n")
    ran = here("service", "status", *place)
    assert ran.code == 1
    assert "changed" in ran.out
    again = json.loads(here("service", "install", *place, "--json").out)
    assert [file["done"] for file in again["files"]][:2] == ["replaced", "unchanged"]


@pytest.mark.parametrize("verb", ["install", "status", "uninstall"])
def test_a_root_that_is_none_is_refused(here: Any, tmp_path: Path, verb: str) -> None:
    """Least of all does a variable without a value stand for the machine itself."""
    (tmp_path / "file").touch()
    for root in ("", str(tmp_path / "none"), str(tmp_path / "file")):
        ran = here("service", verb, "--root", root, "--user", *COMMAND)
        assert ran.code == 2, root
        assert "is no directory" in ran.err
    assert not (tmp_path / "none").exists()


def test_what_cannot_be_written_or_read_is_named(here: Any, place: tuple[str, ...]) -> None:
    files = json.loads(here("service", "install", *place, "--json").out)["files"]
    path = Path(files[-1]["path"])
    path.unlink()
    path.mkdir()
    for verb in ("install", "status", "uninstall"):
        ran = here("service", verb, *place, "--json")
        error = json.loads(ran.out)["error"]
        assert (ran.code, error["exit_code"]) == (1, 1)
        assert str(path) in error["message"]
        assert "trace" not in ran.err


def test_where_no_systemd_runs_for_a_user_it_says_what_is_done_and_what_is_left(
    here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bin/systemctl"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'Failed to connect to bus: No medium found' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    ran = here("service", "install", "--user", *COMMAND)
    assert ran.code == 1
    assert "No medium found" in ran.err
    assert "The units are written" in ran.err
    assert "loginctl enable-linger" in ran.err
    assert list((tmp_path / "config/systemd/user").glob("leasefs-*"))


def test_every_unit_starts_the_given_command(tmp_path: Path) -> None:
    for user in (False, True):
        files = Flavour(user, str(tmp_path)).files("/opt/x/leasefs")
        text = "".join(file.content for file in files)
        assert "/usr/bin/leasefs" not in text
        assert text.count("ExecStart=/opt/x/leasefs ") == 2


def test_a_users_socket_is_where_the_user_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/data/100%")
    text = next(iter(Flavour(user=True).files("/x/leasefs"))).content
    assert "ListenStream=/data/100%%/leasefs/run/ledger.sock\n" in text
    monkeypatch.delenv("XDG_STATE_HOME")
    text = next(iter(Flavour(user=True).files("/x/leasefs"))).content
    assert "ListenStream=%h/.local/state/leasefs/run/ledger.sock\n" in text


@pytest.mark.parametrize("command", ["/opt/a b/leasefs", "/opt/$HOME/leasefs", "/opt/100%/leasefs"])
def test_a_command_that_a_unit_cannot_name_is_refused(command: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot be named in a unit"):
        own_command(command, Flavour(user=True))


def test_the_machines_ledger_cannot_start_from_a_home(here: Any, tmp_path: Path) -> None:
    home = "/home/ann/.venv/bin/leasefs"
    ran = here("service", "install", "--root", str(tmp_path), "--command", home)
    assert ran.code == 2
    assert "shut out of home" in ran.err
    assert own_command(home, Flavour(user=True)) == home


@needs_systemd
@pytest.mark.slow
@pytest.mark.parametrize("user", [False, True])
def test_systemd_has_nothing_to_say_about_the_units(tmp_path: Path, user: bool) -> None:
    units = []
    for file in Flavour(user, str(tmp_path)).files(LEASEFS):
        name = os.path.basename(file.path).replace("@.", "@agent-07.")
        if not name.endswith(".conf"):
            (tmp_path / name).write_text(file.content)
            units.append(str(tmp_path / name))
    where = ["--user"] if user else ["--system"]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        ["systemd-analyze", *where, "verify", "--man=no", *units],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_option_hides_a_mount_from_the_host() -> None:
    """Each of these gives a service a mount namespace of its own (systemd.exec(5))."""
    hiding = [
        "PrivateTmp",
        "PrivateDevices",
        "PrivateMounts",
        "ProtectSystem",
        "ProtectHome",
        "ProtectProc",
        "ProcSubset",
        "ProtectKernelTunables",
        "ProtectKernelModules",
        "ProtectKernelLogs",
        "ProtectControlGroups",
        "ReadWritePaths",
        "ReadOnlyPaths",
        "InaccessiblePaths",
        "BindPaths",
        "BindReadOnlyPaths",
        "TemporaryFileSystem",
        "MountFlags",
        "RootDirectory",
        "RootImage",
        "DynamicUser",
        "PrivateIPC",
    ]
    for user in (False, True):
        files = {os.path.basename(file.path): file for file in Flavour(user).files("/x/leasefs")}
        lines = files["leasefs-mount@.service"].content.splitlines()
        assert not [line for line in lines if line.partition("=")[0] in hiding]
