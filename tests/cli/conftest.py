from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import blocking
from leasefs.client.config import start_afresh
from leasefs.client.config_files import SYSTEM_VARIABLE
from leasefs.client.find import MountFound
from leasefs.testing.fake_ledger import LEASE, OTHER, REFUSAL, TRUSTED, WAITING, FakeLedger
from leasefs_cli import place
from leasefs_cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INSTALLED = Path(sys.executable).parent / "leasefs"


@dataclass
class Ran:
    code: int
    out: str
    err: str


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


@pytest.fixture(autouse=True)
def own_world(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No variable of the person's environment has a say, and nothing of theirs is touched."""
    for name in list(os.environ):
        if name.startswith(("LEASEFS_", "GIT_", "XDG_", "NO_COLOR")):
            monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("w")
    for variable, directory in (("HOME", "h"), ("XDG_STATE_HOME", "s"), ("XDG_RUNTIME_DIR", "r")):
        (home / directory).mkdir(mode=0o700)
        monkeypatch.setenv(variable, str(home / directory))
    monkeypatch.setenv(SYSTEM_VARIABLE, "")
    return home


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run `leasefs` in this process: quick, and a fake can be put under it."""

    def run(*arguments: str) -> Ran:
        start_afresh()
        monkeypatch.setattr(sys, "argv", ["leasefs", *arguments])
        code = main()
        out, err = capfd.readouterr()
        return Ran(code, out, err)

    return run


@pytest.fixture
def installed() -> Callable[..., Ran]:
    """Run the installed `leasefs` as a person would."""

    def run(*arguments: str | bytes, timeout_s: float = 60.0, **options: Any) -> Ran:
        done = subprocess.run(
            [INSTALLED, *arguments],
            capture_output=True,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
            **options,
        )
        return Ran(done.returncode, _text(done.stdout), _text(done.stderr))

    return run


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: Any) -> Iterator[Path]:
    """A repository to stand in; the ledger that was started for it is stopped at the end."""
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", root], check=True)
    monkeypatch.chdir(root)
    yield root
    stopped = installed("ledger", "stop")
    assert stopped.code in (0, 7), stopped.err


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> FakeLedger:
    fake = FakeLedger(
        {
            "GET /v1/leases": {"leases": [OTHER, LEASE]},
            "GET /v1/queue": {"waiters": [WAITING]},
            "POST /v1/leases": LEASE,
            "GET /v1/leases/L7": LEASE,
            "GET /v1/intents": {"intents": [], "total": 0},
            "DELETE /v1/leases/L7": {**LEASE, "state": "ended"},
            "DELETE /v1/leases/L9": {**WAITING, "state": "ended"},
            "POST /v1/mount/look": {"ok": True},
            "POST /v1/mount/leave": {**LEASE, "state": "ended"},
        }
    )
    monkeypatch.setattr(blocking.Link, "send", lambda link, call: fake.send(link, call))
    return fake


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that passes for ada's mount, with the shell in it."""
    root = tmp_path / "tree"
    (root / "src").mkdir(parents=True)
    (root / "src" / "x.py").touch()
    (root / "app" / "[slug]").mkdir(parents=True)
    (root / "app" / "[slug]" / "page.tsx").touch()
    found = MountFound(
        agent="ada",
        harness="shell",
        session="S-ada",
        territory="T",
        ledger="unix:/nowhere/ledger",
        control="unix:/nowhere/control",
        source=str(root),
        mountpoint=str(root),
        pid=1,
        process="",
        version="0.1.0",
    )

    def find_mount(directory: str) -> MountFound | None:
        return found if (directory + "/").startswith(f"{root}/") else None

    monkeypatch.setattr(place, "find_mount", find_mount)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def mounted(ledger: FakeLedger) -> FakeLedger:
    ledger.answers["GET /v1/mount"] = {"leases": [TRUSTED], "refusals": [REFUSAL]}
    ledger.answers["GET /v1/who"] = {"leases": []}
    ledger.answers["GET /v1/rescues"] = {"rescues": []}
    return ledger
