"""What is shipped, built once from this checkout, and the Pythons of this machine to install it into."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_BUILD_S = 300


@dataclass(frozen=True)
class Built:
    """The wheel and the sdist of the checkout, and the wheel that the sdist builds."""

    wheel: Path
    sdist: Path
    wheel_of_sdist: Path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    place = tmp_path_factory.mktemp("built")
    python = empty_environment(sys.executable, place / "builder")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "hatchling")
    run(python, "-m", "hatchling", "build", "-d", str(place / "dist"), cwd=ROOT)
    (sdist,) = (place / "dist").glob("*.tar.gz")
    (wheel,) = (place / "dist").glob("*.whl")
    pip_wheel = ("-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps")
    run(python, *pip_wheel, "-w", str(place / "again"), str(sdist))
    (again,) = (place / "again").glob("*.whl")
    return Built(wheel, sdist, again)


def empty_environment(python: str, place: Path) -> str:
    """A virtual environment with nothing in it but pip; its Python."""
    run(python, "-m", "venv", str(place))
    return str(place / "bin" / "python")


def run(*command: str, cwd: Path | None = None) -> str:
    """Run it to its good end; what it printed."""
    done = subprocess.run(
        command,
        cwd=cwd or "/",
        capture_output=True,
        text=True,
        timeout=_BUILD_S,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
