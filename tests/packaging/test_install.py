"""The wheel in an empty environment of each Python that leasefs is for: installed, it does its main job."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs import __version__
from leasefs.mount.mountinfo import top_at
from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.mount]

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.11", "3.12", "3.13")
_TIMEOUT_S = 900

_IMPORT_ALL = """
import importlib, pkgutil, leasefs, leasefs_cli
for package in (leasefs, leasefs_cli):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        # What is for tests takes what tests take; a __main__ runs.
        if ".testing" not in found.name and not found.name.endswith("__main__"):
            importlib.import_module(found.name)
print(leasefs.__file__)
"""


def python_of(version: str) -> str | None:
    """A Python of that version: this one, of the PATH, of pyenv, or of uv."""
    home = os.path.expanduser("~")
    candidates = [
        sys.executable,
        shutil.which(f"python{version}"),
        *sorted(
            glob(f"{os.environ.get('PYENV_ROOT', home + '/.pyenv')}/versions/{version}*/bin/python")
        ),
        *sorted(glob(f"{home}/.local/share/uv/python/cpython-{version}*/bin/python{version}")),
    ]
    return next((path for path in candidates if path and _is(path, version)), None)


def _is(path: str, version: str) -> bool:
    code = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [path, "-c", code], capture_output=True, text=True, timeout=30, check=False
        )
    except OSError:
        return False
    return done.stdout.strip() == version


class Installed:
    """The commands of one environment, in a world of their own, far from the checkout."""

    def __init__(self, place: Path, world: Path) -> None:
        self.place = place
        self.world = world
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("LEASEFS_", "XDG_", "GIT_", "PYTHON", "VIRTUAL_ENV"))
        }
        for name, directory in (
            ("HOME", "home"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_RUNTIME_DIR", "run"),
        ):
            (world / directory).mkdir(mode=0o700)
            self._environment[name] = str(world / directory)
        self._environment["PATH"] = f"{place / 'bin'}:{os.environ['PATH']}"

    def run(
        self, *command: str, cwd: Path | None = None, code: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            cwd=cwd or self.world,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        said = f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert code is None or done.returncode == code, said
        assert "Traceback" not in done.stderr, said
        return done


@pytest.fixture(scope="module", params=VERSIONS)
def installed(
    request: pytest.FixtureRequest, built: Any, tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    python = python_of(request.param)
    if python is None:
        pytest.skip(f"there is no Python {request.param} on this machine")
    place = tmp_path_factory.mktemp(f"v{request.param}")
    environment = Installed(place, tmp_path_factory.mktemp("w"))
    # Where pip looks for packages may stand in the person's own configuration.
    subprocess.run([python, "-m", "venv", place], check=True, timeout=_TIMEOUT_S)
    pip = [place / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "install", built.wheel],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return environment


@pytest.fixture
def repo(installed: Installed, tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("a = 1\n")
    (root / "README").write_text("read me\n")
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org")
    installed.run("git", "init", "-q", str(root))
    installed.run(*git, "add", "-A", cwd=root)
    installed.run(*git, "commit", "-qm", "first", cwd=root)
    yield root
    if top_at(str(root)) is not None:
        installed.run("leasefs", "unmount", str(root))
    installed.run("leasefs", "ledger", "stop", code=None)


def test_it_says_its_version_and_lies_in_the_environment(installed: Installed) -> None:
    assert installed.run("leasefs", "--version").stdout == f"leasefs {__version__}\n"
    where = Path(
        installed.run("python", "-W", "error::SyntaxWarning", "-c", _IMPORT_ALL).stdout.strip()
    )
    assert where.is_relative_to(installed.place)
    installed.run("python", "-m", "pip", "check", "--disable-pip-version-check")


def test_the_machine_is_fit_as_far_as_it_is_asked(installed: Installed) -> None:
    said = installed.run("leasefs", "doctor", code=None)
    assert said.stdout.startswith(("ok", "warn", "fail"))
    assert "not running; the first command that needs it starts it" in said.stdout


def test_completion_and_pages_are_where_shells_and_man_look(installed: Installed) -> None:
    share = installed.place / "share"
    for file in filter(Path.is_file, (ROOT / "share").rglob("*")):
        assert (share / file.relative_to(ROOT / "share")).read_bytes() == file.read_bytes()
    script = installed.run("leasefs", "completion", "bash").stdout
    shipped = (share / "bash-completion" / "completions" / "leasefs").read_text()
    assert script.strip() == shipped.strip()
    probe = (
        f". {share}/bash-completion/completions/leasefs; COMP_WORDS=(leasefs rel); COMP_CWORD=1; "
        '_leasefs_completion leasefs; echo "${COMPREPLY[@]}"'
    )
    assert installed.run("bash", "-c", probe).stdout == "release\n"


def test_it_does_its_main_job(installed: Installed, repo: Path) -> None:
    installed.run("leasefs", "mount", str(repo), "--agent", "ada")
    lease = installed.run("leasefs", "claim", "src/**", cwd=repo).stdout.strip()
    assert lease.startswith("L")
    (repo / "src" / "a.py").write_text("a = 2\n")
    with pytest.raises(PermissionError):
        (repo / "README").write_text("not mine\n")
    assert "README" in installed.run("leasefs", "why", "README", cwd=repo, code=3).stdout
    eventually(
        lambda: "src/a.py" in installed.run("leasefs", "intents", cwd=repo).stdout,
        what="the ledger's knowing of the change",
    )
    installed.run("leasefs", "release", lease, cwd=repo, code=6)  # not committed
    installed.run("leasefs", "release", lease, "--keep", cwd=repo)
    with pytest.raises(PermissionError):
        (repo / "src" / "a.py").write_text("a = 3\n")
    installed.run("leasefs", "unmount", str(repo))
    assert (repo / "src" / "a.py").read_text() == "a = 2\n"
    assert (repo / "README").read_text() == "read me\n"
