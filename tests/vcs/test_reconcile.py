"""Each git situation by name: where a path stands before and after, on real repositories."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.vcs.errors import BadGitFile
from leasefs.vcs.reconcile import (
    Difference,
    Seen,
    Standing,
    WorkTree,
    dirty_below,
    heads_of,
    standings,
)
from leasefs.vcs.worktree import BadPath

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.testing.git_tree import GitTree


@dataclass
class Watched:
    """A tree with what is known of its paths, as the mount knows it."""

    tree: GitTree
    seen: dict[bytes, Seen] = field(default_factory=dict)

    def head(self) -> str:
        return self.tree.git("rev-parse", "-q", "--verify", "HEAD", ok=(0, 1)).decode().strip()

    def write(self, path: bytes, content: bytes) -> None:
        self.note(path)
        self.tree.write(path, content)

    def note(self, *paths: bytes) -> None:
        for path in paths:
            self.seen[path] = Seen(self.head())

    def commit(self, *arguments: str) -> str:
        self.tree.git("commit", "-q", "-m", "work", *arguments)
        return self.head()

    def at(self, path: bytes, upstream: str | None = None) -> Standing:
        found = self.all([path], upstream)[path]
        assert found is not None
        return found

    def all(self, paths: list[bytes], upstream: str | None = None) -> dict[bytes, Standing | None]:
        tree = WorkTree(self.tree.open_root())
        return standings(tree, paths, self.seen, upstream=upstream)

    def settle(self, path: bytes) -> Standing:
        """What the mount does with a path that was committed."""
        found = self.at(path)
        assert found.outcome == "committed"
        self.seen[path] = Seen(found.commit, found.blob)
        return found

    def below(self, *prefixes: bytes) -> dict[bytes, Difference]:
        return dirty_below(WorkTree(self.tree.open_root()), prefixes)


@pytest.fixture
def work(repo: GitTree) -> Watched:
    """A repository with one commit: `f`, `d/g` and `x` (executable)."""
    repo.write(b"f", b"first\n")
    repo.write(b"d/g", b"g\n")
    repo.write(b"x", b"#!/bin/sh\n")
    os.chmod(repo.path + b"/x", 0o755)
    repo.git("add", ".")
    repo.git("commit", "-q", "-m", "first")
    repo.git("branch", "-M", "main")
    return Watched(repo)


def bare(work: Watched, make_tree: Callable[[str], GitTree]) -> GitTree:
    """Push `main` to a new remote `origin`, which it follows."""
    remote = make_tree("origin.git")
    remote.git("init", "-q", "--bare")
    work.tree.git("remote", "add", "origin", os.fsdecode(remote.path))
    work.tree.git("push", "-q", "-u", "origin", "main")
    return remote


# -- what is dirty ---------------------------------------------------------------------------------


def test_untouched_paths_are_clean(work: Watched) -> None:
    assert set(work.all([b"f", b"d/g", b"x", b"not/there"]).values()) == {Standing()}


def test_each_way_to_be_dirty(work: Watched) -> None:
    tree = work.tree
    os.symlink("f", tree.path + b"/link")
    tree.git("add", "link")
    work.commit()
    tree.write(b"new", b"n")
    tree.write(b"f", b"second\n")
    os.unlink(tree.path + b"/d/g")
    os.chmod(tree.path + b"/x", 0o644)
    os.unlink(tree.path + b"/link")
    tree.write(b"link", b"f")
    found = work.all([b"new", b"f", b"d/g", b"x", b"link"])
    assert {path: one.dirty for path, one in found.items() if one} == {
        b"new": Difference.UNTRACKED,
        b"f": Difference.MODIFIED,
        b"d/g": Difference.DELETED,
        b"x": Difference.MODE,
        b"link": Difference.TYPE,
    }
    assert work.below(b"") == {path: one.dirty for path, one in found.items() if one}


def test_the_same_size_and_time_hide_nothing(work: Watched) -> None:
    """The index's stat data alone never decides."""
    work.tree.git("update-index", "--refresh")
    path = work.tree.path + b"/f"
    before = os.stat(path)
    with open(path, "r+b") as file:
        file.write(b"FIRST")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert work.at(b"f").dirty is Difference.MODIFIED
    assert work.below(b"") == {b"f": Difference.MODIFIED}


def test_assume_unchanged_hides_nothing(work: Watched) -> None:
    work.tree.git("update-index", "--assume-unchanged", "f")
    work.tree.write(b"f", b"other")
    assert work.at(b"f").dirty is Difference.MODIFIED


def test_a_revert_by_hand_is_clean(work: Watched) -> None:
    work.write(b"f", b"second\n")
    assert work.at(b"f").dirty is Difference.MODIFIED
    work.tree.write(b"f", b"first\n")
    assert work.at(b"f") == Standing()


def test_added_and_removed_again_is_clean(work: Watched) -> None:
    work.write(b"new", b"n")
    os.unlink(work.tree.path + b"/new")
    assert work.at(b"new") == Standing()


# -- commits ---------------------------------------------------------------------------------------


def test_commit(work: Watched) -> None:
    work.write(b"f", b"second\n")
    work.write(b"new", b"n")
    work.tree.git("add", "f", "new")
    assert work.at(b"f").dirty is Difference.MODIFIED
    assert work.at(b"new").dirty is Difference.UNTRACKED
    commit = work.commit()
    blob = work.tree.git("rev-parse", "HEAD:f").decode().strip()
    assert work.at(b"f") == Standing(commit=commit, blob=blob)
    assert work.at(b"new").commit == commit


def test_commit_of_a_deletion(work: Watched) -> None:
    work.note(b"f")
    os.unlink(work.tree.path + b"/f")
    commit = work.commit("-a")
    assert work.at(b"f") == Standing(commit=commit, blob="")


def test_commit_of_a_mode(work: Watched) -> None:
    work.note(b"f")
    os.chmod(work.tree.path + b"/f", 0o755)
    commit = work.commit("-a")
    assert work.at(b"f").commit == commit


def test_commit_of_one_path(work: Watched) -> None:
    work.write(b"f", b"second\n")
    work.write(b"d/g", b"second\n")
    work.tree.git("add", ".")
    commit = work.commit("--", "f")
    assert work.at(b"f").commit == commit
    assert work.at(b"d/g").dirty is Difference.MODIFIED


def test_the_commit_that_holds_is_not_simply_the_newest(work: Watched) -> None:
    work.write(b"f", b"second\n")
    commit = work.commit("-a")
    for _ in range(3):
        work.commit("--allow-empty")
    assert work.at(b"f").commit == commit


def test_partial_staging(work: Watched) -> None:
    """What is staged is committed, what is in the file is not: still dirty."""
    work.write(b"f", b"first\nstaged\n")
    work.tree.git("add", "f")
    work.tree.write(b"f", b"first\nstaged\nmore\n")
    work.commit()
    assert work.at(b"f").dirty is Difference.MODIFIED


def test_staged_but_undone_in_the_file(work: Watched) -> None:
    work.write(b"f", b"second\n")
    work.tree.git("add", "f")
    work.tree.write(b"f", b"first\n")
    assert work.at(b"f") == Standing()


def test_amend(work: Watched) -> None:
    work.write(b"f", b"second\n")
    work.commit("-a")
    first = work.settle(b"f")
    work.write(b"d/g", b"second\n")
    amended = work.commit("-a", "--amend")
    assert first.commit != amended
    assert work.at(b"f") == Standing(commit=amended, blob=first.blob)
    assert work.at(b"d/g").commit == amended


def test_amend_that_drops_the_path(work: Watched) -> None:
    work.write(b"f", b"second\n")
    work.write(b"d/g", b"second\n")
    work.commit("-a")
    work.settle(b"f")
    work.tree.git("checkout", "-q", "HEAD~", "--", "f")
    work.commit("--amend")
    assert work.at(b"f") == Standing(dropped=True)
    work.tree.write(b"f", b"second\n")
    assert work.at(b"f").dirty is Difference.MODIFIED


def test_edited_again_after_its_commit(work: Watched) -> None:
    work.write(b"f", b"second\n")
    work.commit("-a")
    work.settle(b"f")
    work.tree.write(b"f", b"third\n")
    assert work.at(b"f").dirty is Difference.MODIFIED


# -- stash, reset, switch, rebase, merge -------------------------------------------------------------


def test_stash_and_pop(work: Watched) -> None:
    work.write(b"f", b"second\n")
    work.write(b"new", b"n")
    work.tree.git("stash", "push", "-q", "-u")
    assert work.at(b"f") == work.at(b"new") == Standing()
    work.tree.git("stash", "pop", "-q")
    assert work.at(b"f").dirty is Difference.MODIFIED
    assert work.at(b"new").dirty is Difference.UNTRACKED


@pytest.mark.parametrize("how", ["--soft", "--mixed"])
def test_reset_that_keeps_the_files(work: Watched, how: str) -> None:
    work.write(b"f", b"second\n")
    work.commit("-a")
    work.settle(b"f")
    work.tree.git("reset", "-q", how, "HEAD~")
    assert work.at(b"f").dirty is Difference.MODIFIED


def test_reset_hard_drops_a_commit(work: Watched) -> None:
    work.write(b"f", b"second\n")
    work.commit("-a")
    work.settle(b"f")
    work.tree.git("reset", "-q", "--hard", "HEAD~")
    assert work.at(b"f") == Standing(dropped=True)
    work.tree.git("reset", "-q", "--hard", "ORIG_HEAD")
    assert work.at(b"f").outcome == "committed"


def test_reset_hard_undoes_an_edit(work: Watched) -> None:
    work.write(b"f", b"second\n")
    work.tree.git("reset", "-q", "--hard")
    assert work.at(b"f") == Standing()


def test_reset_to_an_older_commit_holds_nothing(work: Watched) -> None:
    work.tree.write(b"f", b"second\n")
    work.commit("-a")
    work.write(b"f", b"third\n")
    work.tree.git("reset", "-q", "--hard", "HEAD~")
    assert work.at(b"f") == Standing()


def test_each_path_has_a_history_of_its_own_that_does_not_count(work: Watched) -> None:
    """What set the path before it was dirty is not what holds it, though it may hold another."""
    first = work.head()
    work.tree.write(b"f", b"second\n")
    work.commit("-a")
    work.note(b"f")
    work.seen[b"d/g"] = Seen("")
    work.tree.git("reset", "-q", "--hard", "HEAD~")
    assert work.at(b"f") == Standing()
    both = work.all([b"f", b"d/g"])
    assert [one.commit for one in both.values() if one] == ["", first]


def test_what_only_a_stash_leads_to_is_dropped(work: Watched) -> None:
    work.write(b"f", b"second\n")
    work.commit("-a")
    work.settle(b"f")
    work.tree.write(b"d/g", b"second\n")
    work.tree.git("stash", "-q")
    work.tree.git("reset", "-q", "--hard", "HEAD~")
    assert work.at(b"f") == Standing(dropped=True)


def test_a_branch_switch(work: Watched) -> None:
    """The commit stays on its branch: not dirty, not lost."""
    work.tree.git("switch", "-q", "-c", "side")
    work.write(b"f", b"second\n")
    commit = work.commit("-a")
    work.settle(b"f")
    work.tree.git("switch", "-q", "main")
    assert work.at(b"f").commit == commit
    work.tree.git("branch", "-q", "-D", "side")
    assert work.at(b"f") == Standing(dropped=True)


def test_an_edit_carried_over_a_switch(work: Watched) -> None:
    work.tree.git("branch", "side")
    work.write(b"f", b"second\n")
    work.tree.git("switch", "-q", "side")
    assert work.at(b"f").dirty is Difference.MODIFIED
    commit = work.commit("-a")
    assert work.at(b"f").commit == commit


def test_rebase(work: Watched) -> None:
    work.tree.git("switch", "-q", "-c", "side")
    work.write(b"f", b"second\n")
    work.commit("-a")
    first = work.settle(b"f")
    work.commit("--allow-empty")
    work.tree.git("switch", "-q", "main")
    work.tree.write(b"d/g", b"main\n")
    work.commit("-a")
    work.tree.git("switch", "-q", "side")
    work.tree.git("rebase", "-q", "main")
    rebased = work.tree.git("rev-list", "-1", "HEAD", "--", "f").decode().strip()
    assert rebased != first.commit
    assert work.at(b"f") == Standing(commit=rebased, blob=first.blob)


def test_a_merge(work: Watched) -> None:
    work.tree.git("switch", "-q", "-c", "side")
    work.tree.write(b"d/g", b"side\n")
    work.tree.write(b"f", b"side\n")
    side = work.commit("-a")
    work.tree.git("switch", "-q", "main")
    work.write(b"f", b"main\n")
    main = work.commit("-a")
    work.settle(b"f")
    work.note(b"d/g")
    work.tree.git("merge", "-q", "side", ok=(1,))
    assert work.at(b"f").dirty is Difference.MODIFIED
    assert work.at(b"d/g").dirty is Difference.MODIFIED
    work.tree.write(b"f", b"both\n")
    work.note(b"f")
    merged = work.commit("-a")
    assert work.at(b"f").commit == merged
    assert work.at(b"d/g").commit == side
    assert main != merged


def test_a_squash_and_a_cherry_pick(work: Watched) -> None:
    work.tree.git("switch", "-q", "-c", "side")
    work.write(b"f", b"second\n")
    work.commit("-a")
    first = work.settle(b"f")
    work.tree.git("switch", "-q", "main")
    work.tree.git("merge", "-q", "--squash", "side")
    squashed = work.commit()
    assert work.at(b"f") == Standing(commit=squashed, blob=first.blob)


# -- how far a commit has come ------------------------------------------------------------------------


def test_pushed_and_landed(work: Watched, make_tree: Callable[[str], GitTree]) -> None:
    bare(work, make_tree)
    work.tree.git("switch", "-q", "-c", "side")
    work.write(b"f", b"second\n")
    work.commit("-a")
    first = work.settle(b"f")
    assert first == Standing(commit=first.commit, blob=first.blob, upstream=None)
    main = "refs/remotes/origin/main"
    assert not work.at(b"f", "origin/main").landed
    work.tree.git("push", "-q", "origin", "side")
    assert work.at(b"f", "origin/main") == Standing(
        commit=first.commit, blob=first.blob, pushed=True, upstream=main
    )
    work.tree.git("push", "-q", "origin", "side:main")
    assert work.at(b"f", "origin/main").landed
    assert work.at(b"f", "origin/main").outcome == "landed"


def test_landed_by_a_squash_that_others_went_on_from(
    work: Watched, make_tree: Callable[[str], GitTree]
) -> None:
    remote = bare(work, make_tree)
    work.tree.git("switch", "-q", "-c", "side")
    work.write(b"f", b"second\n")
    work.write(b"d/g", b"second\n")
    work.commit("-a")
    work.settle(b"f")
    work.settle(b"d/g")
    other = make_tree("other")
    other.git("clone", "-q", os.fsdecode(remote.path), ".")
    other.git("switch", "-q", "main")
    other.write(b"f", b"second\n")
    other.git("commit", "-q", "-a", "-m", "squashed")
    other.write(b"f", b"third\n")
    other.git("commit", "-q", "-a", "-m", "further")
    other.git("push", "-q", "origin", "main")
    work.tree.git("fetch", "-q")
    assert work.at(b"f", "origin/main").landed
    assert not work.at(b"d/g", "origin/main").landed


def test_a_deletion_lands(work: Watched, make_tree: Callable[[str], GitTree]) -> None:
    bare(work, make_tree)
    work.note(b"f")
    work.tree.git("rm", "-q", "f")
    work.commit()
    assert work.at(b"f").outcome == "committed"
    assert work.at(b"f").upstream == "refs/remotes/origin/main"
    work.tree.git("push", "-q")
    assert work.at(b"f").outcome == "landed"


def test_a_mode_lands_only_as_a_mode(work: Watched, make_tree: Callable[[str], GitTree]) -> None:
    bare(work, make_tree)
    work.note(b"f")
    os.chmod(work.tree.path + b"/f", 0o755)
    work.commit("-a")
    assert not work.at(b"f").landed
    work.tree.git("push", "-q")
    assert work.at(b"f").landed


def test_an_upstream_that_is_not_there_yet(work: Watched) -> None:
    work.write(b"f", b"second\n")
    work.commit("-a")
    found = work.at(b"f", "origin/later")
    assert found.upstream == "refs/remotes/origin/later"
    assert found.outcome == "committed"


def test_a_local_branch_as_upstream(work: Watched) -> None:
    work.tree.git("switch", "-q", "-c", "side")
    work.write(b"f", b"second\n")
    work.commit("-a")
    assert work.at(b"f", "main").outcome == "committed"
    work.tree.git("branch", "-q", "-f", "main", "side")
    assert work.at(b"f", "main").outcome == "landed"


# -- where HEAD and the repository are ----------------------------------------------------------------


def test_a_repository_without_a_commit(repo: GitTree) -> None:
    work = Watched(repo)
    work.write(b"f", b"first\n")
    assert work.at(b"f").dirty is Difference.UNTRACKED
    assert work.below(b"") == {b"f": Difference.UNTRACKED}
    repo.git("add", "f")
    assert work.at(b"f").dirty is Difference.UNTRACKED
    commit = work.commit()
    assert work.at(b"f").commit == commit


def test_a_detached_head(work: Watched) -> None:
    work.tree.git("checkout", "-q", "--detach")
    work.write(b"f", b"second\n")
    commit = work.commit("-a")
    work.settle(b"f")
    assert work.at(b"f").commit == commit
    work.tree.git("checkout", "-q", "main")
    assert work.at(b"f") == Standing(dropped=True)


def test_no_git_at_all(make_tree: Callable[[str], GitTree]) -> None:
    work = Watched(make_tree("plain"))
    work.tree.write(b"f", b"x")
    assert work.all([b"f"]) == {b"f": None}
    assert work.below(b"") == {}


def test_a_blob_that_a_partial_clone_has_not_fetched(work: Watched) -> None:
    """The id of what HEAD has is known without it."""
    blob = work.tree.git("rev-parse", "HEAD:f").decode().strip()
    os.unlink(work.tree.path + f"/.git/objects/{blob[:2]}/{blob[2:]}".encode())
    assert work.at(b"f") == Standing()
    work.tree.write(b"f", b"other\n")
    assert work.at(b"f").dirty is Difference.MODIFIED


def test_a_git_file_that_leads_nowhere_is_an_error(make_tree: Callable[[str], GitTree]) -> None:
    work = Watched(make_tree("odd"))
    work.tree.write(b".git", b"gitdir: nowhere\n")
    with pytest.raises(BadGitFile):
        work.all([b"f"])


def test_a_linked_worktree(work: Watched, make_tree: Callable[[str], GitTree]) -> None:
    work.tree.git("worktree", "add", "-q", "-b", "side", "../linked")
    linked = Watched(make_tree("linked"))
    linked.write(b"f", b"second\n")
    assert linked.at(b"f").dirty is Difference.MODIFIED
    assert linked.below(b"") == {b"f": Difference.MODIFIED}
    assert work.at(b"f") == Standing()
    commit = linked.commit("-a")
    assert linked.at(b"f").commit == commit
    assert work.at(b"f") == Standing()


@pytest.mark.parametrize("absolute", [False, True])
def test_a_submodule(work: Watched, make_tree: Callable[[str], GitTree], *, absolute: bool) -> None:
    inner = make_tree("inner")
    inner.git("init", "-q")
    inner.track(b"in/side")
    inner.git("commit", "-q", "-m", "x")
    work.tree.git("submodule", "--quiet", "add", os.fsdecode(inner.path), "mods/inner")
    work.commit("-a")
    module = Watched(make_tree("repo/mods/inner"))
    if absolute:
        place = b"gitdir: " + os.path.realpath(work.tree.path) + b"/.git/modules/mods/inner\n"
        module.tree.write(b".git", place)
    heads = heads_of(WorkTree(work.tree.open_root()), [b"mods/inner/in/side", b"mods/inner"])
    assert list(heads.values()) == [module.head(), work.head()]
    work.seen |= {path: Seen(head) for path, head in heads.items()}
    assert work.at(b"mods/inner/in/side") == work.at(b"mods/inner") == Standing()
    module.tree.write(b"in/side", b"second\n")
    module.tree.write(b"new", b"n")
    assert work.at(b"mods/inner/in/side").dirty is Difference.MODIFIED
    wanted = {
        b"mods/inner/in/side": Difference.MODIFIED,
        b"mods/inner/new": Difference.UNTRACKED,
    }
    assert work.below(b"") == work.below(b"mods") == work.below(b"mods/inner/") == wanted
    assert list(work.below(b"mods/inner/in")) == [b"mods/inner/in/side"]
    inside = module.commit("-a")
    assert work.at(b"mods/inner/in/side").commit == inside
    assert work.at(b"mods/inner").dirty is Difference.MODIFIED
    outside = work.commit("-a")
    assert work.at(b"mods/inner").commit == outside


@pytest.mark.root
def test_a_submodule_beneath_a_mount_that_covers_its_git_directory(
    work: Watched, make_tree: Callable[[str], GitTree]
) -> None:
    """`.git` names it by an absolute path, and the mount is seen at yet another."""
    test_a_submodule(work, make_tree, absolute=True)
    make_tree("elsewhere").write(b".git/modules/mods/inner/HEAD", b"not that one")
    elsewhere = make_tree("elsewhere").path
    for path in (work.tree.path, elsewhere):
        pointer = b"gitdir: " + os.path.realpath(path) + b"/.git/modules/mods/inner\n"
        work.tree.write(b"mods/inner/.git", pointer)
        work.tree.write(b"mods/inner/in/side", b"under a mount\n")
        tree = WorkTree(work.tree.open_root(), (elsewhere,))
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", work.tree.path], check=True)
        try:
            found = standings(tree, [b"mods/inner/in/side"], {})[b"mods/inner/in/side"]
            assert found
            assert found.dirty is Difference.MODIFIED
            assert set(dirty_below(tree, [b""])) == {b"mods/inner/in/side", b"mods/inner/new"}
        finally:
            subprocess.run(["umount", work.tree.path], check=True)


def test_a_submodule_that_is_not_checked_out(
    work: Watched, make_tree: Callable[[str], GitTree]
) -> None:
    test_a_submodule(work, make_tree, absolute=False)
    work.tree.git("submodule", "--quiet", "deinit", "-f", "mods/inner")
    assert work.at(b"mods/inner") == Standing(
        commit=work.head(), blob=work.tree.git("rev-parse", "HEAD:mods/inner").decode().strip()
    )
    assert work.below(b"") == {}


def test_a_clone_inside_the_tree(work: Watched, make_tree: Callable[[str], GitTree]) -> None:
    nested = Watched(make_tree("repo/vendor"))
    nested.tree.git("init", "-q")
    nested.tree.track(b"a")
    nested.commit()
    nested.tree.write(b"a", b"changed")
    assert work.at(b"vendor/a").dirty is Difference.MODIFIED
    assert work.below(b"") == {b"vendor/a": Difference.MODIFIED}
    assert work.below(b"vendor/a") == {b"vendor/a": Difference.MODIFIED}


@pytest.mark.parametrize("around", [True, False], ids=["in a repository", "in a plain tree"])
def test_what_git_keeps_of_a_clone_inside_the_tree_is_nobodys_work(
    make_tree: Callable[[str], GitTree], around: bool
) -> None:
    work = Watched(make_tree("ws"))
    if around:
        work.tree.git("init", "-q")
    nested = Watched(make_tree("ws/vendor"))
    nested.tree.git("init", "-q")
    nested.tree.track(b"a")
    nested.commit()
    nested.tree.write(b"new", b"n")
    for own in (b"index", b"HEAD", b"COMMIT_EDITMSG", b"objects/12/34", b"refs/heads/main.lock"):
        assert work.at(b"vendor/.git/" + own) == Standing()
    assert work.at(b"vendor/new").dirty is Difference.UNTRACKED


def test_a_git_directory_that_is_none_is_passed_over(work: Watched) -> None:
    work.tree.write(b"d/.git/HEAD", b"nonsense")
    work.tree.write(b"e/.git", b"nonsense")
    work.tree.write(b"e/new", b"n")
    assert work.at(b"d/g") == Standing()
    assert work.at(b"e/new").dirty is Difference.UNTRACKED


@pytest.mark.parametrize("how", ["--cone", "--no-cone"])
def test_a_sparse_checkout(work: Watched, how: str) -> None:
    work.tree.git("sparse-checkout", "set", how, "--sparse-index", "elsewhere")
    assert not os.path.exists(work.tree.path + b"/d")
    assert work.at(b"d/g") == Standing()
    assert b"d/g" not in work.below(b"")
    work.tree.write(b"d/g", b"again\n")
    assert work.at(b"d/g").dirty is Difference.MODIFIED
    assert work.below(b"d") == {b"d/g": Difference.MODIFIED}


def test_a_git_directory_that_was_replaced(work: Watched) -> None:
    work.write(b"f", b"second\n")
    os.rename(work.tree.path + b"/.git", work.tree.path + b"/../gone")
    work.tree.git("init", "-q")
    assert work.at(b"f").dirty is Difference.UNTRACKED
    work.tree.git("add", ".")
    commit = work.commit()
    assert work.at(b"f").commit == commit


# -- renames and types -------------------------------------------------------------------------------


def test_a_renamed_file(work: Watched) -> None:
    work.note(b"f", b"h")
    os.rename(work.tree.path + b"/f", work.tree.path + b"/h")
    assert work.at(b"f").dirty is Difference.DELETED
    assert work.at(b"h").dirty is Difference.UNTRACKED
    work.tree.git("add", "-A")
    commit = work.commit()
    assert work.at(b"f") == Standing(commit=commit)
    assert work.at(b"h").commit == commit


def test_a_renamed_directory(work: Watched) -> None:
    work.tree.write(b".gitignore", b"*.o\n")
    work.tree.write(b"d/x.o")
    os.rename(work.tree.path + b"/d", work.tree.path + b"/e")
    assert work.below(b"d", b"e") == {b"d/g": Difference.DELETED, b"e/g": Difference.UNTRACKED}
    assert work.below(b"d/") == {b"d/g": Difference.DELETED}
    assert work.below(b"f") == {}


def test_a_file_that_became_a_directory_and_back(work: Watched) -> None:
    work.note(b"f", b"f/in", b"d", b"d/g")
    os.unlink(work.tree.path + b"/f")
    work.tree.write(b"f/in", b"x")
    os.unlink(work.tree.path + b"/d/g")
    os.rmdir(work.tree.path + b"/d")
    work.tree.write(b"d", b"x")
    kinds = {path: one.dirty for path, one in work.all(list(work.seen)).items() if one}
    assert kinds == {
        b"f": Difference.TYPE,
        b"f/in": Difference.UNTRACKED,
        b"d": Difference.TYPE,
        b"d/g": Difference.DELETED,
    }
    work.tree.git("add", "-A")
    commit = work.commit()
    found = work.all(list(work.seen))
    assert {one.commit for one in found.values() if one} == {commit}
    assert work.below(b"") == {}


def test_a_file_that_became_a_link_and_a_link_elsewhere(work: Watched) -> None:
    work.note(b"f")
    os.unlink(work.tree.path + b"/f")
    os.symlink("d/g", work.tree.path + b"/f")
    assert work.at(b"f").dirty is Difference.TYPE
    work.tree.git("add", "f")
    commit = work.commit()
    assert work.at(b"f").commit == commit
    work.note(b"f")
    os.unlink(work.tree.path + b"/f")
    os.symlink("x", work.tree.path + b"/f")
    assert work.at(b"f").dirty is Difference.MODIFIED


def test_what_git_does_not_see(work: Watched) -> None:
    os.mkfifo(work.tree.path + b"/pipe")
    os.mkdir(work.tree.path + b"/empty")
    assert work.at(b"pipe") == work.at(b"empty") == Standing()
    os.unlink(work.tree.path + b"/f")
    os.mkfifo(work.tree.path + b"/f")
    assert work.at(b"f").dirty is Difference.DELETED
    assert work.below(b"") == {b"f": Difference.DELETED}


def test_a_link_in_place_of_a_directory_is_not_followed(work: Watched) -> None:
    os.rename(work.tree.path + b"/d", work.tree.path + b"/e")
    os.symlink("e", work.tree.path + b"/d")
    assert work.at(b"d/g").dirty is Difference.DELETED
    assert work.at(b"d").dirty is Difference.TYPE


# -- names, numbers, hostile input ---------------------------------------------------------------------

ODD = [
    b":(glob)**",
    b":!f",
    b"-n",
    b"--",
    b"new\nline",
    b'tab\tquote"back\\',
    b"caf\xe9",
    b"* [a]?",
    b" ",
    b"d/-x/:y",
]


def test_odd_names(work: Watched) -> None:
    for path in ODD:
        work.write(path, b"x")
    assert set(work.below(b"")) == set(ODD)
    assert set(work.below(*ODD)) == set(ODD)
    assert all(one and one.dirty is Difference.UNTRACKED for one in work.all(ODD).values())
    work.tree.git("add", "-A")
    commit = work.commit()
    assert {one.commit for one in work.all(ODD).values() if one} == {commit}
    for path in ODD:
        os.unlink(work.tree.path + b"/" + path)
    assert set(work.below(*ODD)) == set(ODD)
    assert all(one and one.dirty is Difference.DELETED for one in work.all(ODD).values())


@pytest.mark.parametrize("path", [b"", b"/etc", b"../x", b"a//b", b"./a", b"a/..", b"a\0b", b"a/"])
def test_paths_out_of_the_tree_are_refused(work: Watched, path: bytes) -> None:
    with pytest.raises(BadPath):
        work.all([path])


def test_what_was_known_may_be_nonsense(work: Watched) -> None:
    work.tree.write(b"f", b"second\n")
    commit = work.commit("-a")
    nonsense = ["--all", "HEAD", "f" * 40, "x\ny", "refs/heads/main", ""]
    for said in nonsense:
        work.seen[b"f"] = Seen(said)
        assert work.at(b"f").commit == commit
        work.seen[b"f"] = Seen(said, work.tree.git("rev-parse", "HEAD:f").decode().strip())
        assert work.at(b"f").commit == commit
        work.seen[b"f"] = Seen(said, "0" * 40)
        assert work.at(b"f") == Standing(dropped=True)
    work.seen[b"f"] = Seen()
    assert work.at(b"f").commit == commit


def test_thousands_of_paths_cost_a_handful_of_processes(
    work: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [b"many/%03d/%04d" % (n % 100, n) for n in range(3000)]
    for path in paths:
        work.tree.write(path, path)
    work.tree.git("add", ".")
    work.commit()
    for path in paths[::3]:
        work.write(path, b"changed")
    for path in paths[1::3]:
        os.unlink(work.tree.path + b"/" + path)
    runs = _counted(monkeypatch)
    found = work.all(paths)
    assert len([one for one in found.values() if one and one.dirty]) == 2000
    assert len(runs) < 12
    work.commit("-a")
    runs.clear()
    assert all(one and not one.dirty for one in work.all(paths).values())
    assert len(runs) < 16


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    runs: list[object] = []
    begin: Any = subprocess.Popen.__init__

    def counting(self: object, *arguments: object, **options: object) -> None:
        runs.append(arguments)
        begin(self, *arguments, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", counting)
    return runs
