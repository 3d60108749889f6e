from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING

import pytest

from leasefs.vcs import ignore
from leasefs.vcs.tracked import load_tracked

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from leasefs.testing.git_tree import GitTree


def test_without_git_nothing_is_scratch(make_tree: Callable[[str], GitTree]) -> None:
    tree = make_tree("plain")
    tree.write(b".gitignore", b"*\n")
    rules = tree.rules()
    assert not rules.is_scratch(b"a", is_dir=False)
    assert not rules.scratch_directory(b"d")
    assert rules.is_prepared(b"d")
    assert "not a git working tree" in rules.problems[0]


def test_tracked_is_never_scratch_whatever_the_rules_say(repo: GitTree) -> None:
    repo.write(b".gitignore", b"build/\n")
    repo.track(b"build/keep/me")
    rules = repo.rules()
    assert not rules.is_scratch(b"build/keep/me", is_dir=False)
    assert rules.is_scratch(b"build/keep/you", is_dir=False)
    assert not rules.scratch_directory(b"build")
    assert not rules.scratch_directory(b"build/keep")
    assert rules.scratch_directory(b"build/other")


def test_the_git_directory_and_impossible_paths_are_not_scratch(repo: GitTree) -> None:
    repo.write(b".gitignore", b"*\n")
    rules = repo.rules()
    assert rules.is_scratch(b"a", is_dir=False)
    for path in (b"", b".git", b".git/x", b"/a", b"a//b", b"./a", b"../a", b"a/..", b"a/", b"a\0"):
        assert not rules.is_scratch(path, is_dir=False), path
        assert not rules.is_scratch(path, is_dir=True), path


def test_a_change_is_seen_after_it_is_told(repo: GitTree) -> None:
    repo.write(b"d/.gitignore", b"*.o\n")
    rules = repo.rules()
    assert rules.is_scratch(b"d/e/x.o", is_dir=False)
    repo.write(b"d/.gitignore", b"*.c\n")
    assert rules.is_scratch(b"d/e/x.o", is_dir=False)  # not told yet
    rules.invalidate(b"d/.gitignore")
    assert not rules.is_prepared(b"d/e")
    assert not rules.is_scratch(b"d/e/x.o", is_dir=False)
    assert rules.is_scratch(b"d/e/x.c", is_dir=False)
    os.rename(repo.path + b"/d", repo.path + b"/f")
    rules.invalidate(b"d")
    rules.invalidate(b"f")
    assert not rules.is_scratch(b"d/e/x.c", is_dir=False)
    assert rules.is_scratch(b"f/e/x.c", is_dir=False)
    os.unlink(repo.path + b"/f/.gitignore")
    rules.invalidate(b"f/.gitignore")
    assert not rules.is_scratch(b"f/e/x.c", is_dir=False)


def test_invalidating_one_directory_leaves_the_others(repo: GitTree) -> None:
    repo.write(b".gitignore", b"*.o\n")
    rules = repo.rules()
    for directory in (b"d", b"d/e", b"de"):
        rules.prepare(directory)
    rules.invalidate(b"d/.gitignore")
    assert [rules.is_prepared(d) for d in (b"", b"d", b"d/e", b"de")] == [True, False, False, True]
    rules.invalidate(b".gitignore")
    assert not any(rules.is_prepared(d) for d in (b"", b"de"))


def test_below_an_ignored_directory_nothing_is_read(repo: GitTree) -> None:
    repo.write(b".gitignore", b"node_modules/\n")
    repo.write(b"node_modules/p/.gitignore", b"!*\n")
    rules = repo.rules()
    assert rules.is_scratch(b"node_modules/p/q/r", is_dir=False)
    assert rules.is_prepared(b"node_modules/never/asked")
    assert len(rules._directories) == 2


def test_a_new_index_is_used_once_set(repo: GitTree) -> None:
    repo.write(b".gitignore", b"*.o\n")
    rules = repo.rules()
    assert rules.is_scratch(b"x.o", is_dir=False)
    repo.track(b"x.o")
    rules.set_tracked(load_tracked(repo.open_git()))
    assert not rules.is_scratch(b"x.o", is_dir=False)


def test_excludes_outside_the_tree(repo: GitTree, tmp_path: Path) -> None:
    rules = repo.rules()
    assert not rules.is_scratch(b"a.x", is_dir=False)
    home = os.environb[b"HOME"]
    os.makedirs(home + b"/.config/git")
    with open(home + b"/.config/git/ignore", "wb") as file:
        file.write(b"*.x\n*.y\n")
    repo.write(b".git/info/exclude", b"!b.y\n")
    rules.refresh_excludes()
    assert rules.is_scratch(b"a.x", is_dir=False)
    assert not rules.is_scratch(b"b.y", is_dir=False)
    (tmp_path / "mine").write_bytes(b"*.z\n")
    os.symlink(tmp_path / "mine", tmp_path / "link")  # a person's own dotfiles are often links
    repo.git("config", "core.excludesFile", str(tmp_path / "link"))
    rules.refresh_excludes()
    assert rules.is_scratch(b"a.z", is_dir=False)
    assert not rules.is_scratch(b"a.x", is_dir=False)


@pytest.mark.parametrize("value", ["rules", "{tree}/rules", "{tree}/d/../rules"])
def test_an_excludes_file_in_the_tree_is_read_through_the_root(repo: GitTree, value: str) -> None:
    repo.write(b"rules", b"*.z\n")
    repo.git("config", "core.excludesFile", value.format(tree=os.fsdecode(repo.path)))
    rules = repo.rules()
    assert rules.is_scratch(b"a.z", is_dir=False)
    os.rename(repo.path + b"/rules", repo.path + b"/elsewhere")
    os.symlink("elsewhere", repo.path + b"/rules")
    rules.refresh_excludes()
    assert not rules.is_scratch(b"a.z", is_dir=False)
    assert "cannot be read" in rules.problems[0]


def test_an_empty_or_missing_excludes_file_is_none(repo: GitTree) -> None:
    repo.write(b".gitignore", b"*.o\n")
    for value in ("", "/nowhere/at/all"):
        repo.git("config", "core.excludesFile", value)
        rules = repo.rules()
        assert rules.is_scratch(b"x.o", is_dir=False)
        assert rules.problems == []


def test_configuration_that_is_not_understood_makes_nothing_scratch(repo: GitTree) -> None:
    repo.write(b".gitignore", b"*.o\n")
    repo.git("config", "core.ignoreCase", "true")
    rules = repo.rules()
    assert not rules.is_scratch(b"x.o", is_dir=False)
    assert "core.ignoreCase" in rules.problems[0]
    repo.git("config", "core.ignoreCase", "perhaps")
    rules.refresh_excludes()
    assert not rules.is_scratch(b"x.o", is_dir=False)
    repo.git("config", "core.ignoreCase", "false")
    rules.refresh_excludes()
    assert rules.is_scratch(b"x.o", is_dir=False)


def test_a_gitignore_that_is_no_file_has_no_rules_as_for_git(repo: GitTree) -> None:
    repo.write(b"real", b"*\n")
    os.symlink("real", repo.path + b"/.gitignore")
    assert repo.ignored_by_git([b"x"]) == set()
    assert not repo.rules().is_scratch(b"x", is_dir=False)
    os.unlink(repo.path + b"/.gitignore")
    for make in (os.mkfifo, os.mkdir):
        make(repo.path + b"/.gitignore")
        rules = repo.rules()
        assert not rules.is_scratch(b"x", is_dir=False)
        assert rules.problems == []
        (os.rmdir if make is os.mkdir else os.unlink)(repo.path + b"/.gitignore")


def test_a_link_on_the_way_down_is_a_doubt(repo: GitTree) -> None:
    repo.write(b".gitignore", b"*.o\n")
    os.symlink("/etc", repo.path + b"/link")
    rules = repo.rules()
    assert rules.is_scratch(b"real/x.o", is_dir=False)
    assert not rules.is_scratch(b"link/x.o", is_dir=False)


def test_an_excluded_info_link_is_a_doubt_only_for_what_git_would_ask_it(repo: GitTree) -> None:
    repo.write(b".gitignore", b"*.o\n")
    repo.git("config", "core.excludesFile", os.fsdecode(repo.path) + "/global")
    repo.write(b"global", b"*.z\n")
    os.unlink(repo.path + b"/.git/info/exclude")
    os.symlink("/etc/hostname", repo.path + b"/.git/info/exclude")
    rules = repo.rules()
    assert rules.is_scratch(b"x.o", is_dir=False)
    assert not rules.is_scratch(b"x.z", is_dir=False)
    assert "info/exclude cannot be read" in rules.problems[0]


def test_rules_that_a_sparse_checkout_leaves_out_are_a_doubt(repo: GitTree) -> None:
    repo.write(b".gitignore", b"*.o\n")
    repo.write(b"out/.gitignore", b"!x.o\n")
    repo.write(b"in/file")
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "x")
    repo.git("sparse-checkout", "set", "--no-cone", "/in", "/.gitignore")
    os.makedirs(repo.path + b"/out", exist_ok=True)
    assert not os.path.exists(repo.path + b"/out/.gitignore")
    rules = repo.rules()
    assert rules.is_scratch(b"in/x.o", is_dir=False)
    assert not rules.is_scratch(b"out/x.o", is_dir=False)
    assert repo.ignored_by_git([b"in/x.o", b"out/x.o"]) == {b"in/x.o"}
    repo.git("sparse-checkout", "disable")
    rules.set_tracked(load_tracked(repo.open_git()))
    assert rules.is_scratch(b"out/y.o", is_dir=False)


def test_an_answer_made_from_old_rules_is_not_remembered(
    repo: GitTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that read `.gitignore` before a change must not put its answer back after the change was told."""
    repo.write(b".gitignore", b"*.o\n")
    rules = repo.rules()
    has_read, may_go_on = threading.Event(), threading.Event()
    read = rules._read

    def slow_read(directory: bytes) -> bytes | None:
        content = read(directory)
        has_read.set()
        assert may_go_on.wait(10)
        return content

    monkeypatch.setattr(rules, "_read", slow_read)
    asking = threading.Thread(target=rules.is_scratch, args=(b"x.o", False))
    asking.start()
    assert has_read.wait(10)
    repo.write(b".gitignore", b"!*.o\n")
    rules.invalidate(b".gitignore")
    may_go_on.set()
    asking.join(10)
    assert not rules.is_scratch(b"x.o", is_dir=False)


def test_an_ignore_file_that_counts_is_never_scratch(repo: GitTree) -> None:
    """It may be ignored itself, but whoever writes it says what else is."""
    repo.write(b".gitignore", b".*\nout/\n")
    rules = repo.rules()
    assert rules.is_scratch(b"a/.other", is_dir=False)
    for path in (b".gitignore", b"a/.gitignore", b"a/b/.gitignore"):
        assert not rules.is_scratch(path, is_dir=False)
        assert not rules.is_scratch(path, is_dir=True)
    for path in (b"out/.gitignore", b"a/.x/.gitignore", b"a/.x/y/.gitignore"):
        assert rules.is_scratch(path, is_dir=False)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM])
def test_what_runs_out_for_a_moment_is_no_answer_to_remember(
    repo: GitTree, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    repo.write(b".gitignore", b"*.o\n")
    rules = repo.rules()
    with monkeypatch.context() as patched:

        def failing(*_: object) -> bytes:
            raise OSError(number, os.strerror(number))

        patched.setattr(ignore, "read_file", failing)
        with pytest.raises(OSError, match=os.strerror(number)):
            rules.is_scratch(b"a.o", is_dir=False)
    assert rules.is_scratch(b"a.o", is_dir=False)
    assert rules.problems == []
