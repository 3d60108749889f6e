from __future__ import annotations

import json
import os
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.tree_state import tree_state
from leasefs.vcs.errors import NoSuchRescue, RestoreRefused, RestoreStopped
from leasefs.vcs.rescue import About, RescueMade, restore, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from leasefs.testing.git_tree import GitTree

ABOUT = About(lease="L17", token=17, agent="agent-07")


def _commit(tree: GitTree, **files: bytes) -> None:
    for name, text in files.items():
        tree.write(name.encode(), text)
    tree.git("add", "-A")
    tree.git("commit", "-q", "-m", "x")


def _keep(tree: GitTree, *paths: bytes) -> RescueMade:
    return snapshot(tree.open_git(), tree.open_root(), paths, ABOUT)


def _clean(tree: GitTree) -> None:
    tree.git("reset", "-q", "--hard")
    tree.git("clean", "-xfdq")


def _restore(
    tree: GitTree, *paths: bytes, overwrite: bool = False, rescue_id: str = "L17"
) -> tuple[bytes, ...]:
    gitdir, root_fd = tree.open_git(), tree.open_root()
    return restore(gitdir, rescue_id, root_fd, paths or None, overwrite=overwrite).changed


def _read(tree: GitTree, path: bytes) -> bytes:
    with open(os.path.join(tree.path, path), "rb") as file:
        return file.read()


@pytest.fixture
def kept(repo: GitTree) -> GitTree:
    """A rescue of a changed, a new and a deleted path; the tree is clean again."""
    _commit(repo, **{"src/a": b"old\n", "src/gone": b"g", "b": b"b"})
    repo.write(b"src/a", b"new\n")
    repo.write(b"src/new", b"n")
    os.unlink(repo.path + b"/src/gone")
    _keep(repo, b"src/a", b"src/gone", b"src/new")
    _clean(repo)
    return repo


def test_it_all_comes_back(kept: GitTree) -> None:
    assert _restore(kept) == (b"src/a", b"src/gone", b"src/new")
    status = kept.git("status", "--porcelain")
    assert status == b" M src/a\n D src/gone\n?? src/new\n"
    assert _restore(kept) == ()


def test_only_what_is_asked_for_comes_back(kept: GitTree) -> None:
    assert _restore(kept, b"src/new") == (b"src/new",)
    assert kept.git("status", "--porcelain") == b"?? src/new\n"
    assert _restore(kept, b"src/") == (b"src/a", b"src/gone")
    with pytest.raises(NoSuchRescue, match="holds nothing at b;"):
        _restore(kept, b"src/a", b"b")
    with pytest.raises(NoSuchRescue, match="L99"):
        _restore(kept, rescue_id="L99")


@pytest.mark.parametrize("path", [b"src/a", b"src/gone", b"src/new"])
def test_other_content_is_refused_whole_and_named(kept: GitTree, path: bytes) -> None:
    kept.write(path, b"somebody's")
    before = tree_state(kept.path)
    with pytest.raises(RestoreRefused, match="nothing was touched") as caught:
        _restore(kept)
    assert os.fsdecode(path) in str(caught.value)
    assert "--overwrite" in str(caught.value)
    assert tree_state(kept.path) == before
    others = {b"src/a", b"src/gone", b"src/new"} - {path}
    assert set(_restore(kept, *others)) == others
    assert _restore(kept, overwrite=True) == (path,)
    assert kept.git("status", "--porcelain") == b" M src/a\n D src/gone\n?? src/new\n"


def test_what_was_committed_since_is_not_undone(kept: GitTree) -> None:
    _commit(kept, **{"src/a": b"landed meanwhile\n"})
    with pytest.raises(RestoreRefused, match="src/a has other content by now"):
        _restore(kept)
    assert _read(kept, b"src/a") == b"landed meanwhile\n"


def test_many_are_named_by_the_first(repo: GitTree) -> None:
    names = [b"f%02d" % number for number in range(20)]
    _commit(repo, a=b"1")
    for name in names:
        repo.write(name, b"1")
    _keep(repo, *names)
    for name in names:
        repo.write(name, b"2")
    with pytest.raises(RestoreRefused, match=r"f00 has been made since.*; and 15 more"):
        _restore(repo)


def test_what_is_missing_is_nothing_to_lose(kept: GitTree) -> None:
    subprocess.run(["rm", "-r", "src"], cwd=kept.path, check=True)
    assert set(_restore(kept)) == {b"src/a", b"src/new"}


def test_a_path_without_content_then_and_now(repo: GitTree) -> None:
    """Made and removed again before the rescue: nothing to put back, and nothing of somebody's to remove."""
    _commit(repo, a=b"1")
    repo.write(b"a", b"2")
    _keep(repo, b"a", b"passing")
    repo.write(b"passing", b"the next holder's")
    _clean_tracked(repo)
    assert _restore(repo) == (b"a",)
    assert _read(repo, b"passing") == b"the next holder's"


def _clean_tracked(tree: GitTree) -> None:
    tree.git("reset", "-q", "--hard")


def test_line_ends_and_filters_of_a_clean_file_are_no_other_content(repo: GitTree) -> None:
    repo.git("config", "filter.f.clean", "tr a-z A-Z")
    repo.git("config", "filter.f.smudge", "tr A-Z a-z")
    _commit(repo, **{".gitattributes": b"*.txt text eol=crlf\n*.f filter=f\n"})
    _commit(repo, **{"a.txt": b"one\r\n", "a.f": b"two"})
    assert repo.git("show", "HEAD:a.txt") == b"one\n"
    repo.write(b"a.txt", b"changed\r\n")
    repo.write(b"a.f", b"changed")
    _keep(repo, b"a.txt", b"a.f")
    _clean(repo)
    assert _read(repo, b"a.txt") == b"one\r\n"
    assert _read(repo, b"a.f") == b"two"
    assert set(_restore(repo)) == {b"a.txt", b"a.f"}
    assert _read(repo, b"a.txt") == b"changed\r\n"


def test_a_mode_alone(repo: GitTree) -> None:
    _commit(repo, a=b"1", b=b"2")
    os.chmod(repo.path + b"/a", 0o4751)
    os.chmod(repo.path + b"/b", 0o400)
    _keep(repo, b"a", b"b")
    _clean(repo)
    os.chmod(repo.path + b"/b", 0o644)
    assert _restore(repo) == (b"a", b"b")
    assert stat.S_IMODE(os.stat(repo.path + b"/a").st_mode) == 0o4751
    assert stat.S_IMODE(os.stat(repo.path + b"/b").st_mode) == 0o400


def test_kinds_that_changed(repo: GitTree) -> None:
    repo.write(b"d/x", b"1")
    os.symlink("old", repo.path + b"/l")
    _commit(repo, f=b"2", g=b"3")
    for name in ("d", "l", "f", "g"):
        subprocess.run(["rm", "-r", name], cwd=repo.path, check=True)
    repo.write(b"d", b"file")
    repo.write(b"l", b"file")
    repo.write(b"f/deep/y", b"dir")
    os.symlink("d", repo.path + b"/g")
    after = tree_state(repo.path)
    _keep(repo, b"d", b"l", b"f/deep/y", b"g")
    _clean(repo)
    assert set(_restore(repo)) == {b"d", b"d/x", b"l", b"f", b"f/deep/y", b"g"}
    assert tree_state(repo.path) == after
    _clean(repo)
    assert set(_restore(repo, b"f/deep/y")) == {b"f", b"f/deep/y"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_the_rescue_does_not_know_is_never_removed(repo: GitTree, overwrite: bool) -> None:
    repo.write(b"d/x", b"1")
    _commit(repo, a=b"1")
    subprocess.run(["rm", "-r", "d"], cwd=repo.path, check=True)
    repo.write(b"d", b"file")
    repo.write(b"n/m", b"new")
    _keep(repo, b"d", b"n/m")
    _clean(repo)
    repo.write(b"d/deep/other", b"somebody's")
    with pytest.raises(RestoreRefused, match="d/deep/other is in the way of d; move it away"):
        _restore(repo, overwrite=overwrite)
    os.rename(repo.path + b"/d/deep/other", repo.path + b"/n")
    with pytest.raises(RestoreRefused, match="n is in the way: it is no directory"):
        _restore(repo, overwrite=overwrite)
    assert _read(repo, b"d/x") == b"1"
    os.unlink(repo.path + b"/n")
    assert set(_restore(repo)) == {b"d", b"d/x", b"n/m"}


def test_special_files_in_the_way(kept: GitTree) -> None:
    os.unlink(kept.path + b"/src/a")
    os.mkfifo(kept.path + b"/src/a")
    with pytest.raises(RestoreRefused, match="src/a has other content"):
        _restore(kept)
    assert b"src/a" in _restore(kept, overwrite=True)
    assert _read(kept, b"src/a") == b"new\n"


def test_directories_that_were_gone_go_again_unless_something_is_in_them(repo: GitTree) -> None:
    repo.write(b"d/deep/x", b"1")
    repo.write(b"e/deep/x", b"1")
    _commit(repo, a=b"1")
    subprocess.run(["rm", "-r", "d", "e"], cwd=repo.path, check=True)
    os.mkdir(repo.path + b"/e")
    _keep(repo, b"d/deep/x", b"e/deep/x")
    _clean(repo)
    os.mkdir(repo.path + b"/d/other")
    _restore(repo)
    assert set(tree_state(repo.path)) == {b"a", b"d", b"d/other", b"e"}


def test_a_submodules_clean_file_may_be_replaced(
    repo: GitTree, make_tree: Callable[[str], GitTree]
) -> None:
    inner = make_tree("inner")
    inner.git("init", "-q")
    _commit(inner, x=b"1")
    repo.git("submodule", "--quiet", "add", os.fsdecode(inner.path), "mods/inner")
    _commit(repo)
    repo.write(b"mods/inner/x", b"2")
    _keep(repo, b"mods/inner/x")
    make_tree("repo/mods/inner").git("reset", "-q", "--hard")
    assert _restore(repo) == (b"mods/inner/x",)
    assert _read(repo, b"mods/inner/x") == b"2"


def test_links_are_not_followed(kept: GitTree, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    subprocess.run(["rm", "-r", "src"], cwd=kept.path, check=True)
    os.symlink(tmp_path / "outside", kept.path + b"/src")
    with pytest.raises(RestoreRefused, match="src is in the way"):
        _restore(kept)
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize(
    "path",
    [
        "../out",
        "/tmp/out",
        ".git/hooks/post-commit",
        ".git",
        ".leasefs/x",
        "",
        ".",
        "a//b",
        "a/../../b",
    ],
)
def test_a_crafted_rescue_writes_nowhere_else(repo: GitTree, path: str) -> None:
    _commit(repo, a=b"1")
    blob = repo.git("rev-parse", "HEAD:a").decode().strip()
    said = {
        "version": 1,
        "lease": "L1",
        "token": 1,
        "agent": "x",
        "globs": [],
        "problems": [],
        "paths": [
            {"path": "fine", "kind": "file", "mode": "100644", "blob": blob},
            {"path": path, "kind": "file", "mode": "100755", "blob": blob},
        ],
    }
    text = b"x\n\nLeasefs-Rescue: " + json.dumps(said).encode()
    commit = repo.git("commit-tree", "HEAD^{tree}", stdin=text).decode().strip()
    repo.git("update-ref", "refs/leasefs/rescue/L1", commit)
    before = tree_state(repo.path, without=frozenset())
    with pytest.raises(RestoreRefused, match="never written; nothing was touched"):
        _restore(repo, overwrite=True, rescue_id="L1")
    assert tree_state(repo.path, without=frozenset()) == before


@pytest.mark.root
def test_a_full_disk_leaves_the_old_file(
    tmp_path: Path, make_tree: Callable[[str], GitTree]
) -> None:
    source = make_tree("repo")
    source.git("init", "-q")
    _commit(source, a=b"old", z=b"old")
    source.write(b"a", b"new")
    source.write(b"large", os.urandom(1 << 20))
    source.write(b"z", b"new")
    _keep(source, b"a", b"large", b"z")
    (tmp_path / "small").mkdir()
    small = tmp_path / "small"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", small], check=True)
    try:
        target = make_tree("small")
        target.write(b"a", b"old")
        target.write(b"z", b"old")
        with pytest.raises(RestoreStopped, match="large cannot be written: No space left"):
            restore(source.open_git(), "L17", target.open_root())
        assert {path: text for path, (_, text) in tree_state(target.path).items()} == {
            b"a": b"new",
            b"z": b"old",
        }
        target.resources.close()
    finally:
        subprocess.run(["umount", "-l", small], check=True)
