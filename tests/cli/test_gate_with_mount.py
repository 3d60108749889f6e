"""The release gate through a real mount: what it looks at is what is there when it is asked (P9)."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.mount

NAMES = ["-c", "user.name=ada", "-c", "user.email=ada@localhost"]


def git(place: Path, *words: str) -> None:
    subprocess.run(["git", *NAMES, *words], cwd=place, check=True, capture_output=True)


@pytest.fixture
def plain(installed: Any, tmp_path: Path) -> Iterator[Path]:
    """A tree without git, mounted beside itself."""
    source, mountpoint = tmp_path / "plain", tmp_path / "mount"
    (source / "src").mkdir(parents=True)
    (source / "src/x").write_text("as it was\n")
    (source / "src/gone").write_text("as it was\n")
    (source / ".leasefs.toml").write_text('territory = "plain"\n')
    mountpoint.mkdir()
    ran = installed("mount", str(source), str(mountpoint), "--agent", "ada")
    assert ran.code == 0, ran.err
    yield mountpoint
    assert installed("unmount", str(mountpoint)).code == 0
    assert installed("ledger", "stop").code in (0, 7)


@pytest.fixture
def place(installed: Any, tmp_path: Path) -> Iterator[Path]:
    """A clone, mounted beside itself; what is committed in it has not landed before it is pushed."""
    source, mountpoint = tmp_path / "repo", tmp_path / "mount"
    mountpoint.mkdir()
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "origin.git")
    git(tmp_path, "init", "-q", "-b", "main", "repo")
    (source / "src").mkdir()
    (source / "src/x").write_text("as it was\n")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "first")
    git(source, "remote", "add", "origin", "../origin.git")
    git(source, "push", "-qu", "origin", "main")
    # Not by leasefs, so that it is nobody's work.
    (source / ".git/info/exclude").write_text("/.leasefs.toml\n")
    ran = installed("mount", str(source), str(mountpoint), "--agent", "ada")
    assert ran.code == 0, ran.err
    yield mountpoint
    assert installed("unmount", str(mountpoint)).code == 0
    assert installed("ledger", "stop").code in (0, 7)


def asks(place: Path, project: str) -> None:
    (place.parent / "repo/.leasefs.toml").write_text(project)


def claim(installed: Any, place: Path) -> str:
    claimed = installed("claim", "src/**", cwd=place)
    assert claimed.code == 0, claimed.err
    return str(claimed.out.strip())


def test_checks_stand_before_what_was_committed_a_moment_ago(installed: Any, place: Path) -> None:
    """The ledger takes it for uncommitted still, and checks are not run on that."""
    asks(place, '[release]\nchecks = ["cat $LEASEFS_PATHS; false"]\n')
    lease = claim(installed, place)
    for number in range(5):
        (place / "src/x").write_text(f"{number}\n")
        git(place, "commit", "-qam", "more")
        ran = installed("release", lease, cwd=place)
        assert ran.code == 6, ran.err
        assert "on 1 paths" in ran.err
    asks(place, '[release]\nchecks = ["true"]\n')
    assert installed("release", lease, cwd=place).code == 0


def test_nothing_is_checked_while_a_write_of_a_moment_ago_is_uncommitted(
    installed: Any, place: Path
) -> None:
    asks(place, '[release]\nchecks = ["true"]\n')
    lease = claim(installed, place)
    (place / "src/new").write_text("x")
    ran = installed("release", lease, cwd=place)
    assert (ran.code, "not yet committed: 'src/new'" in ran.err) == (6, True), ran.err
    assert "running" not in ran.err
    assert installed("release", lease, "--keep", cwd=place).code == 0


def test_what_a_project_asks_for_may_change_while_it_is_mounted(
    installed: Any, place: Path
) -> None:
    lease = claim(installed, place)
    (place / "src/x").write_text("more\n")
    git(place, "commit", "-qam", "more")
    asks(place, '[release]\nrequire = "pushed"\n')
    refused = installed("release", lease, cwd=place)
    assert (refused.code, "not yet pushed: 'src/x'" in refused.err) == (6, True), refused.err
    assert "push" in refused.err.partition("src/x")[2]
    asks(place, "")
    assert installed("release", lease, cwd=place).code == 0


def test_checks_stand_before_the_release_at_the_end_of_a_run(installed: Any, place: Path) -> None:
    asks(place, '[release]\nchecks = ["test -e src/ok"]\n')
    ran = installed("run", "--claim", "src/**", "--", "true", cwd=place)
    assert ran.code == 0
    assert "was not released" in ran.err
    assert "test -e src/ok: exit code 1" in ran.err
    (place / "src/ok").touch()
    git(place, "add", "-A")
    git(place, "commit", "-qm", "ok")
    assert installed("release", "--all", cwd=place).code == 0
    ran = installed("run", "--claim", "src/**", "--", "true", cwd=place)
    assert (ran.code, "was not released" in ran.err) == (0, False), ran.err
    assert installed("leases", cwd=place).out.strip() == "no leases"


def test_in_a_tree_without_git_work_is_kept_as_well(installed: Any, plain: Path) -> None:
    lease = claim(installed, plain)
    (plain / "src/x").write_text("work\n")
    (plain / "src/new").write_text("more work\n")
    (plain / "src/gone").unlink()
    ran = installed("release", lease, "--rescue", cwd=plain)
    assert ran.code == 0, ran.err
    assert "nothing is uncommitted" in installed("intents", cwd=plain).out
    claim(installed, plain)
    (plain / "src/x").write_text("as it was\n")
    (plain / "src/new").unlink()
    refused = installed("rescue", "apply", lease, cwd=plain)
    assert (refused.code, "src/x" in refused.err) == (6, True)
    assert installed("rescue", "apply", lease, "--overwrite", cwd=plain).code == 0
    assert (plain / "src/x").read_text() == "work\n"
    assert (plain / "src/new").read_text() == "more work\n"
    assert installed("release", "--all", cwd=plain).code == 0


def test_what_is_to_be_kept_is_kept_where_nothing_is_required(installed: Any, place: Path) -> None:
    lease = claim(installed, place)
    (place / "src/x").write_text("work\n")
    ran = installed("release", lease, "--require", "none", "--rescue", cwd=place)
    assert ran.code == 0, ran.err
    assert "src/x" in installed("rescue", "list", cwd=place).out
    assert "nothing is uncommitted" in installed("intents", cwd=place).out
