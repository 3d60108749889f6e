"""What a plan counts, on real repositories."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from leasefs.core.globs import parse_glob
from leasefs.vcs.errors import GitFailed
from leasefs.vcs.territory_files import History, history, share_of, sizes, tracked_paths

if TYPE_CHECKING:
    from pathlib import Path


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", "-C", root, *identity, *arguments], check=True, timeout=60)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    git(tmp_path, "init", "-q", "-b", "main", str(root))
    return root


def commit(root: Path, **contents: str) -> None:
    for name, content in contents.items():
        (root / name.replace("__", "/")).write_text(content)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "some")


def test_paths_are_those_of_the_index_whatever_their_names(repo: Path) -> None:
    strange = b"src/\xff \n*"
    (repo / os.fsdecode(strange)).touch()
    commit(repo, README="a", src__b="b")
    (repo / "untracked").touch()
    (repo / "README").unlink()
    assert tracked_paths(str(repo)) == [b"README", b"src/b", strange]
    assert tracked_paths(str(repo / "src")) == [b"b", strange.removeprefix(b"src/")]


def test_an_unmerged_path_counts_once(repo: Path) -> None:
    commit(repo, a="1")
    git(repo, "checkout", "-q", "-b", "other")
    commit(repo, a="2")
    git(repo, "checkout", "-q", "main")
    commit(repo, a="3")
    with pytest.raises(subprocess.CalledProcessError):
        git(repo, "merge", "-q", "other")
    assert tracked_paths(str(repo)) == [b"a"]


def test_a_tree_that_is_not_gits_has_all_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").touch()
    (tmp_path / "link").symlink_to("d")
    assert tracked_paths(str(tmp_path)) == [b"d/x", b"link"]
    assert history(str(tmp_path), 10) == History({}, 0)


def test_sizes_are_of_regular_files(repo: Path) -> None:
    (repo / "link").symlink_to("src")
    commit(repo, a="12345")
    assert sizes(str(repo), [b"a", b"link", b"src", b"gone"]) == [5, 0, 0, 0]


def test_history_counts_commits_and_leaves_merges_out(repo: Path) -> None:
    commit(repo, a="1", src__b="1")
    commit(repo, a="2")
    git(repo, "checkout", "-q", "-b", "other")
    commit(repo, src__b="2")
    git(repo, "checkout", "-q", "main")
    commit(repo, a="3")
    git(repo, "merge", "-q", "-m", "merge", "other")
    assert history(str(repo), 100) == History({b"a": 3, b"src/b": 2}, 4)
    assert history(str(repo / "src"), 100).changes == {b"b": 2}
    assert history(str(repo), 1).commits == 1
    assert history(str(repo), 0) == History({}, 0)


def test_there_is_no_history_before_the_first_commit(repo: Path) -> None:
    assert history(str(repo), 10) == History({}, 0)


def test_the_share_is_of_the_tracked_files(repo: Path) -> None:
    assert share_of(str(repo), [parse_glob("**")]) == 0
    commit(repo, a="1", src__b="1", src__c="1", d="1")
    (repo / "src" / "untracked").touch()
    assert share_of(str(repo), [parse_glob("src/**"), parse_glob("src/b")]) == pytest.approx(0.5)
    assert share_of(str(repo), [parse_glob("**")]) == 1
    assert share_of(str(repo), [parse_glob("none")]) == 0


def test_a_broken_index_is_told(repo: Path) -> None:
    commit(repo, a="1")
    (repo / ".git" / "index").write_bytes(b"no index")
    with pytest.raises(GitFailed):
        tracked_paths(str(repo))
