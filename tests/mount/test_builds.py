"""What builds make beside the sources: directories that become scratch under their last name only."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.eventually import eventually
from leasefs.testing.mount_trees import git
from leasefs.testing.mounted import Mounted, mounted

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mount, pytest.mark.root]


@pytest.fixture
def mount(place: Path, request: pytest.FixtureRequest) -> Iterator[Mounted]:
    base = place / request.node.name
    for name in ("source/rs/src", "source/kept/targetAb12Cd", "source/plain", "mount"):
        (base / name).mkdir(parents=True)
    source = base / "source"
    (source / "rs/.gitignore").write_text("/target/\nCargo.lock\n")
    (source / "kept/.gitignore").write_text("/target/\n")
    (source / "kept/targetAb12Cd/f").write_text("tracked")
    (source / "rs/Cargo.toml").write_text(
        '[package]\nname = "w"\nversion = "0.1.0"\nedition = "2021"\n'
    )
    (source / "rs/src/lib.rs").write_text("pub fn f() {}\n")
    git(source, "init", "-q")
    git(source, "add", "-f", ".")
    git(source, "commit", "-qm", "start")
    with mounted(str(source), str(base / "mount"), "--lease", "src/f") as child:
        yield child


def test_cargos_first_build_needs_no_lease(mount: Mounted) -> None:
    """Cargo marks its target directory before the directory has the name that git ignores."""
    made = Path(mount.root, "rs/targetWzvZFn")
    made.mkdir()
    (made / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n")
    made.rename(made.with_name("target"))
    (made.with_name("target") / "debug").mkdir()
    assert mount.report()["refusals"] == []


def test_one_that_is_given_up_is_removed(mount: Mounted) -> None:
    made = Path(mount.root, "rs/targetWzvZFn")
    made.mkdir()
    (made / "f").write_text("x")
    shutil.rmtree(made)
    assert not Path(mount.source, "rs/targetWzvZFn").exists()


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")
def test_cargo_itself(mount: Mounted) -> None:
    done = subprocess.run(
        ["cargo", "build", "--offline", "--quiet"],
        cwd=f"{mount.root}/rs",
        env={**os.environ, "CARGO_TARGET_DIR": "target"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Path(mount.source, "rs/target/debug").is_dir()


def refused(path: Path) -> bool:
    try:
        path.mkdir()
    except PermissionError:
        return True
    return False


def test_nothing_else_becomes_free(mount: Mounted) -> None:
    """Not where nothing is ignored, not beside the real one, not a word, and not what git tracks."""
    root = Path(mount.root)
    assert refused(root / "plain/targetWzvZFn")
    assert refused(root / "targetWzvZFn")
    assert refused(root / "rs/targetsystem")
    assert refused(root / "rs/srcWzvZFn")
    assert refused(root / "kept/targetAb12Cd/d")
    with pytest.raises(PermissionError):
        (root / "rs/targetWzvZFn").touch()
    (root / "rs/target").mkdir()
    assert refused(root / "rs/targetWzvZFn")


def writes(fd: int) -> bool:
    try:
        return os.write(fd, b"y") == 1
    except OSError:
        return False


def test_a_file_made_there_is_not_written_once_it_is_none_any_more(mount: Mounted) -> None:
    """The directory's name is free only as long as the real one is missing."""
    root = Path(mount.root)
    (root / "rs/targetWzvZFn").mkdir()
    fd = os.open(root / "rs/targetWzvZFn/f", os.O_WRONLY | os.O_CREAT)
    try:
        assert os.write(fd, b"x") == 1
        (root / "rs/target").mkdir()
        with pytest.raises(PermissionError):
            (root / "rs/targetWzvZFn/g").touch()
        eventually(lambda: not writes(fd), within_s=3)
    finally:
        os.close(fd)
