"""No token and no session's secret gets anywhere but into the files of its owner, and those are closed to others."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.testing.ledger_process import LedgerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

INSTALLED = Path(sys.executable).parent / "leasefs"


class World:
    """A ledger with its log on disk, a repository, and an agent with a token in a file."""

    def __init__(self, root: Path, ledger: LedgerProcess) -> None:
        self.root = root
        self.ledger = ledger
        self.token_file = root / "ci.token"

    @property
    def token(self) -> str:
        return self.token_file.read_text().strip()

    def secrets(self) -> list[str]:
        """Of the token and of every stored session, the part that nobody else may know."""
        stored = (self.root / "home").rglob("*.json")
        found = [json.loads(path.read_text()).get("secret") for path in stored]
        return [self.token.rpartition("_")[2], *filter(None, found)]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name in ("ledger", "home", "home/h", "home/s", "home/r", "repo"):
        (tmp_path / name).mkdir(mode=0o700)
    for variable, name in (("HOME", "h"), ("XDG_STATE_HOME", "s"), ("XDG_RUNTIME_DIR", "r")):
        monkeypatch.setenv(variable, str(tmp_path / "home" / name))
    subprocess.run(["git", "init", "-q", tmp_path / "repo"], check=True)
    monkeypatch.chdir(tmp_path / "repo")
    with LedgerProcess(str(tmp_path / "ledger")) as ledger:
        monkeypatch.setenv("LEASEFS_LEDGER", f"unix:{ledger.socket_path}")
        yield World(tmp_path, ledger)


def _processes() -> Iterator[tuple[str, bytes]]:
    """What anybody of this user can read of each process: its arguments and environment."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                yield f"/proc/{pid}/{name}", Path(f"/proc/{pid}/{name}").read_bytes()


def _files(root: Path) -> Iterator[tuple[Path, bytes]]:
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path, path.read_bytes()


def test_no_secret_leaves_the_files_of_its_owner(
    world: World, installed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.umask(0o022)
    said = [installed("agent", "add", "ci", "--token-file", str(world.token_file))]
    said.append(installed("claim", "docs/**", "--agent", "ann"))
    monkeypatch.setenv("LEASEFS_TOKEN_FILE", str(world.token_file))
    said.append(installed("claim", "src/**", "--agent", "ci"))
    assert [ran.code for ran in said] == [0, 0, 0], said
    running = subprocess.Popen(
        [
            INSTALLED,
            "run",
            "--agent",
            "ci",
            "--claim",
            "lib/**",
            "--",
            "sh",
            "-c",
            "echo up; exec sleep 1000",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "up\n"
        secrets = world.secrets()
        assert len(secrets) >= 3
        for where, content in _processes():
            for secret in secrets:
                assert secret.encode() not in content, where
    finally:
        running.terminate()
        running.communicate(timeout=20)
    said.extend(
        installed(*command)
        for command in (
            ["log"],
            ["log", "--json"],
            ["agent", "list", "--json"],
            ["status", "--agent", "ci", "--json"],
            ["leases", "--json"],
        )
    )
    refused = [installed("claim", "src/**", "--agent", "bob"), installed("agent", "add", "x")]
    assert [ran.code for ran in refused] == [9, 9]
    assert world.ledger.stop() == 0
    assert world.ledger.process.stderr is not None
    log = world.ledger.process.stderr.read().decode()
    for secret in secrets:
        for ran in (*said, *refused):
            assert secret not in ran.out + ran.err
        assert secret not in log
        holding = [path for path, content in _files(world.root) if secret.encode() in content]
        assert len(holding) == 1, holding
        assert stat.S_IMODE(holding[0].stat().st_mode) == 0o600
        assert not str(holding[0]).startswith(str(world.root / "ledger"))


def test_what_is_wrong_with_a_token_is_said_without_it(
    world: World, installed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "leasefs_0123456789ab_" + "c0ffee" * 10 + "c0de"
    world.token_file.touch(mode=0o600)
    monkeypatch.setenv("LEASEFS_TOKEN_FILE", str(world.token_file))
    for written in (token, token + "0", f"{token}\n{token}"):
        world.token_file.write_text(written)
        for arguments in (["claim", "x", "--agent", "ci"], ["leases", "--json"]):
            ran = installed(*arguments)
            assert ran.code == 9, ran
            assert "c0ffee" not in (ran.out + ran.err).lower()


_PRINTS = """
from leasefs.client.ids import new_credentials, new_token
credentials, token = new_credentials(), new_token()
print(credentials.secret, token.text.rpartition("_")[2])
print(repr(credentials), f"{token}", str([credentials, token]))
"""


def test_secrets_do_not_show_in_a_trace() -> None:
    """What Python prints of the values that carry them."""
    shown = subprocess.run(
        [
            sys.executable,
            "-c",
            _PRINTS,
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for secret in shown[0].split():
        assert secret not in shown[1]
