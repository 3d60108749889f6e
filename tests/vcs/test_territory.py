from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from leasefs.vcs.errors import BadGitFile, BadRemoteUrl, BadTerritoryFile
from leasefs.vcs.territory import Territory, territory_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.testing.git_tree import GitTree


def _of(tree: GitTree) -> Territory:
    return territory_of(tree.open_root(), os.fsdecode(tree.path))


def _here(tree: GitTree) -> str:
    return "path:" + os.path.realpath(os.fsdecode(tree.path))


def test_the_file_comes_before_origin(repo: GitTree) -> None:
    repo.git("remote", "add", "origin", "git@github.com:o/r.git")
    assert _of(repo) == Territory("github.com/o/r", "origin")
    repo.write(b".leasefs.toml", b'territory = "fleet/one"\n')
    assert _of(repo) == Territory("fleet/one", "config")


def test_an_empty_file_says_nothing(repo: GitTree) -> None:
    repo.write(b".leasefs.toml", b"# nothing yet\n")
    assert _of(repo).source == "path"


def test_without_git_the_path_is_the_territory(make_tree: Callable[[str], GitTree]) -> None:
    tree = make_tree("plain")
    assert _of(tree) == Territory(_here(tree), "path")


def test_worktrees_of_a_clone_without_origin_meet(
    repo: GitTree, make_tree: Callable[[str], GitTree]
) -> None:
    repo.git("commit", "-q", "--allow-empty", "-m", "x")
    repo.git("worktree", "add", "-q", "../linked")
    assert _of(make_tree("linked")) == _of(repo) == Territory(_here(repo), "path")


def test_a_clone_of_a_local_repository_meets_it(
    repo: GitTree, make_tree: Callable[[str], GitTree]
) -> None:
    repo.git("commit", "-q", "--allow-empty", "-m", "x")
    repo.git("clone", "-q", ".", "../clone")
    clone = make_tree("clone")
    assert _of(clone) == Territory(_here(repo), "origin")
    clone.git("config", "remote.origin.url", "../repo/.git")
    assert _of(clone) == Territory(_here(repo), "origin")


def test_the_first_of_several_urls_counts_and_insteadof_does_not(repo: GitTree) -> None:
    repo.git("remote", "add", "origin", "gh:o/r")
    repo.git("config", "--add", "remote.origin.url", "https://mirror.example/o/r")
    repo.git("config", "url.https://elsewhere.example/.insteadOf", "gh:")
    assert _of(repo).id == "gh/o/r"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"territory = 3\n", "toml:1: `territory` must be a string, not int"),
        (b'\nterritory = ""\n', "toml:2: `territory` must be 1 to"),
        (b'territory = " a"\n', "no blanks around it"),
        (b'territory = "a\\u0000b"\n', "printable"),
        (b'# x\nterritory = "a"\nteritory = "b"\n', "toml:3: unknown key 'teritory'"),
        (b'territory = "a"\n[mount]\nx = 1\n', "toml:3: unknown key 'mount.x'"),
        (b'territory = "a\n', "toml:1 is not TOML"),
        (b"\xff", "is not TOML"),
        (b"a = " + b"[" * 10_000, "is not TOML"),
        (b"#" * 70_000, "longer than"),
    ],
)
def test_a_wrong_file_says_what_and_where(repo: GitTree, content: bytes, said: str) -> None:
    repo.write(b".leasefs.toml", content)
    with pytest.raises(BadTerritoryFile) as caught:
        _of(repo)
    assert said in str(caught.value)
    assert os.fsdecode(repo.path) in str(caught.value)


def test_a_link_in_place_of_the_file_is_not_followed(repo: GitTree) -> None:
    os.symlink("/etc/passwd", repo.path + b"/.leasefs.toml")
    with pytest.raises(BadTerritoryFile, match="cannot be read"):
        _of(repo)


def test_a_nameless_origin_and_a_bad_git_file_are_typed_errors(
    repo: GitTree, make_tree: Callable[[str], GitTree]
) -> None:
    repo.git("config", "remote.origin.url", "https:///")
    with pytest.raises(BadRemoteUrl):
        _of(repo)
    tree = make_tree("bad")
    tree.write(b".git", b"gitdir: /etc\n")
    with pytest.raises(BadGitFile):
        _of(tree)
