"""What is in the wheel and in the sdist, and that the one comes out of the other."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from typing import Any

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def contents_of(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as file:
        return {name: file.read(name) for name in file.namelist()}


def _below(directory: str, prefix: str) -> dict[str, bytes]:
    """The files of a directory of the checkout, by the name that they are to have in the wheel."""
    files = (path for path in (ROOT / directory).rglob("*") if path.is_file())
    return {
        f"{prefix}{path.relative_to(ROOT / directory)}": path.read_bytes()
        for path in files
        if "__pycache__" not in path.parts
    }


def test_the_wheel_holds_the_packages_and_their_data(built: Any) -> None:
    inside = contents_of(built.wheel)
    info = built.wheel.name.split("-py3")[0]
    wanted = {
        **_below("leasefs", "leasefs/"),
        **_below("cli/leasefs_cli", "leasefs_cli/"),
        **_below("systemd", "leasefs_cli/systemd/"),
        **_below("share", f"{info}.data/data/share/"),
        f"{info}.dist-info/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    assert {"leasefs/py.typed", "leasefs_cli/py.typed"} <= set(wanted)
    assert {name: inside.get(name) for name in wanted} == wanted
    own = {name for name in inside if not name.startswith(f"{info}.dist-info/")}
    assert own <= set(wanted)
    scripts = inside[f"{info}.dist-info/entry_points.txt"].decode()
    assert "leasefs = leasefs_cli.main:main" in scripts


def test_the_sdist_builds_the_same_wheel(built: Any) -> None:
    assert contents_of(built.wheel_of_sdist) == contents_of(built.wheel)
    assert built.wheel_of_sdist.read_bytes() == built.wheel.read_bytes()


def test_the_sdist_holds_what_a_clone_holds_and_nothing_else(built: Any) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("this is no clone: there is nothing to compare the sdist with")
    with tarfile.open(built.sdist) as file:
        inside = {member.name.partition("/")[2] for member in file.getmembers()}
    cloned = {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}
    assert inside - {"PKG-INFO"} == {name for name in cloned if not name.startswith(".ci/")}
