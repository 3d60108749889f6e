from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs_cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable

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
    return home


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run `leasefs` in this process: quick, and a fake can be put under it."""

    def run(*arguments: str) -> Ran:
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
