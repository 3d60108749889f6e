"""Settings for git while a tree is mounted: there in time, nobody else's touched, gone to the byte."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from leasefs.vcs.fsmonitor import HOOK, HOOK_AND_CACHE, Fsmonitor, sweep, switch_on
from leasefs.vcs.own_settings import NotSet

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.testing.git_tree import GitTree

WORKER = 65534


def state(tree: GitTree) -> dict[bytes, tuple[int, int, int, bytes]]:
    """Configuration files of the tree, with mode and owner."""
    found = {}
    for directory, _, names in os.walk(tree.path + b"/.git"):
        for name in names:
            path = os.path.join(directory, name)
            if b"config" in name:
                stat = os.stat(path)
                with open(path, "rb") as file:
                    found[path] = (stat.st_mode, stat.st_uid, stat.st_gid, file.read())
    return found


def monitor(tree: GitTree) -> bytes:
    return tree.git("config", "core.fsmonitor", ok=(0, 1)).removesuffix(b"\n")


def cache(tree: GitTree) -> bytes:
    return tree.git("config", "core.untrackedCache", ok=(0, 1)).removesuffix(b"\n")


@pytest.fixture
def repo(make_tree: Callable[[str], GitTree]) -> GitTree:
    """At a path that would be a pattern."""
    tree = make_tree("a [b]* \\?")
    tree.git("init", "-q")
    tree.track(b"a", b"d/b")
    tree.git("commit", "-q", "-m", "x")
    return tree


@pytest.fixture
def linked(repo: GitTree, make_tree: Callable[[str], GitTree]) -> GitTree:
    """A linked working tree of `repo`."""
    repo.git("worktree", "add", "-q", "-b", "linked", "../a.b")
    return make_tree("a.b")


def crash(setting: Fsmonitor) -> None:
    """What is left of a process that is gone: its settings, and none of its locks."""
    os.close(setting._lock_fd)


def test_set_while_mounted_and_gone_to_the_byte(repo: GitTree) -> None:
    before = state(repo)
    setting = switch_on(repo.open_git())
    assert (monitor(repo), cache(repo)) == (HOOK_AND_CACHE.encode(), b"true")
    setting.switch_off()
    assert state(repo) == before


SHAPES = [
    (b"", True),
    (b"[core]\n\tbare = false\n", True),
    (b"# first\n[user]\n\tname = x\n", True),
    (b"[core]\n\tx = y\n[user]\n\tname = x\n[core]\n\tz = y\n; end\n", True),
    (b"[core]\r\n\tbare = false\r\n", True),
    (b'[core]\n\tbare = false\n\n\n[remote "o"]\n\turl = x\n', True),
    # What git would not undo: an end of the last line, an empty section, one after a comment.
    (b"[core]\n\tbare = false", False),
    (b"[core]\n", False),
    (b"[core] # comment\n", False),
    (b"[user]\n\tname = x\n# last\n", False),
]


@pytest.mark.parametrize(("content", "possible"), SHAPES)
def test_any_configuration_is_the_same_afterwards(
    repo: GitTree, content: bytes, possible: bool
) -> None:
    repo.write(b".git/config", content)
    if possible:
        setting = switch_on(repo.open_git())
        assert monitor(repo)
        setting.switch_off()
    else:
        with pytest.raises(NotSet, match="without a trace"):
            switch_on(repo.open_git())
    with open(repo.path + b"/.git/config", "rb") as file:
        assert file.read() == content


@pytest.mark.parametrize("value", ["false", "true", "", "/usr/bin/watch-it", "x # leasef"])
@pytest.mark.parametrize("level", ["--global", "--local"])
def test_somebodys_own_is_left_alone(repo: GitTree, level: str, value: str) -> None:
    repo.git("config", level, "core.fsmonitor", value)
    before = state(repo)
    with pytest.raises(NotSet, match="set already"):
        switch_on(repo.open_git())
    assert state(repo) == before


def test_somebodys_own_in_an_included_file_is_left_alone(repo: GitTree) -> None:
    repo.write(b"more", b"[core]\n\tfsmonitor = x\n")
    around = os.fsdecode(os.path.dirname(os.path.realpath(repo.path)))
    repo.git(
        "config", "--global", f"includeIf.gitdir:{around}/.path", os.fsdecode(repo.path) + "/more"
    )
    with pytest.raises(NotSet, match="set already"):
        switch_on(repo.open_git())


def test_one_that_is_set_meanwhile_stays(repo: GitTree) -> None:
    setting = switch_on(repo.open_git())
    repo.git("config", "core.fsmonitor", "mine")
    setting.switch_off()
    assert (monitor(repo), cache(repo)) == (b"mine", b"")


def test_an_untracked_cache_of_somebodys_own_stays(repo: GitTree) -> None:
    for value in ("true", "false", "keep"):
        repo.git("config", "core.untrackedCache", value)
        setting = switch_on(repo.open_git())
        assert (monitor(repo), cache(repo)) == (HOOK.encode(), value.encode())
        setting.switch_off()
        assert (monitor(repo), cache(repo)) == (b"", value.encode())


def test_many_files_means_an_untracked_cache(repo: GitTree) -> None:
    repo.git("config", "feature.manyFiles", "true")
    setting = switch_on(repo.open_git())
    assert (monitor(repo), cache(repo)) == (HOOK.encode(), b"")
    setting.switch_off()


def test_the_last_of_several_mounts_takes_it_away(repo: GitTree) -> None:
    before = state(repo)
    first, second = switch_on(repo.open_git()), switch_on(repo.open_git())
    first.switch_off()
    assert monitor(repo)
    assert cache(repo)
    second.switch_off()
    assert state(repo) == before


def test_what_a_crash_left_goes_with_the_next_mount(repo: GitTree) -> None:
    before = state(repo)
    crash(switch_on(repo.open_git()))
    assert monitor(repo)
    switch_on(repo.open_git()).switch_off()
    assert state(repo) == before


def test_what_a_crash_left_can_be_swept_unless_it_is_in_use(repo: GitTree) -> None:
    before = state(repo)
    sweep(os.fsdecode(repo.path))
    crash(switch_on(repo.open_git()))
    used = switch_on(repo.open_git())
    sweep(os.fsdecode(repo.path))
    assert monitor(repo)
    crash(used)
    sweep(os.fsdecode(repo.path))
    assert state(repo) == before


@pytest.mark.parametrize("cached", [False, True])
def test_one_of_another_version_is_renewed(repo: GitTree, cached: bool) -> None:
    before = state(repo)
    repo.git("config", "core.fsmonitor", "older # leasefs" + HOOK_AND_CACHE[len(HOOK) :] * cached)
    if cached:
        repo.git("config", "core.untrackedCache", "true")
    setting = switch_on(repo.open_git())
    assert monitor(repo) == HOOK_AND_CACHE.encode()
    setting.switch_off()
    assert state(repo) == before


def test_a_linked_working_tree_has_its_own(repo: GitTree, linked: GitTree) -> None:
    """Nothing is set for the main one, nor for others."""
    before = state(repo)
    repo.git("worktree", "add", "-q", "../other")
    setting = switch_on(linked.open_git())
    assert (monitor(linked), cache(linked)) == (HOOK_AND_CACHE.encode(), b"true")
    assert (monitor(repo), cache(repo)) == (b"", b"")
    setting.switch_off()
    assert monitor(linked) == b""
    assert state(repo) == before


def test_main_and_linked_ones_come_and_go_in_any_order(repo: GitTree, linked: GitTree) -> None:
    before = state(repo)
    main = switch_on(repo.open_git())
    own, again = switch_on(linked.open_git()), switch_on(linked.open_git())
    main.switch_off()
    own.switch_off()
    assert (monitor(linked), cache(linked)) == (HOOK_AND_CACHE.encode(), b"true")
    assert monitor(repo) == b""
    again.switch_off()
    assert state(repo) == before


@pytest.mark.parametrize("main", [True, False])
def test_a_configuration_for_each_working_tree_is_used(
    repo: GitTree, linked: GitTree, main: bool
) -> None:
    repo.git("config", "extensions.worktreeConfig", "true")
    before = state(repo)
    here, there = (repo, linked) if main else (linked, repo)
    setting = switch_on(here.open_git())
    assert monitor(here)
    assert monitor(there) == b""
    setting.switch_off()
    assert state(repo) == before


def test_a_removed_working_tree_leaves_nothing_that_harms(repo: GitTree, linked: GitTree) -> None:
    crash(switch_on(linked.open_git()))
    repo.git("worktree", "remove", "--force", os.path.realpath(linked.path))
    assert repo.git("status", "--porcelain") == b""


@pytest.mark.root
def test_root_leaves_files_to_their_owner(repo: GitTree) -> None:
    """`git config` makes the file anew; root's would be closed to its owner."""
    os.chmod(repo.path + b"/.git/config", 0o600)
    for directory, _, names in os.walk(os.path.dirname(repo.path)):
        for name in [b".", *names]:
            os.chown(os.path.join(directory, name), WORKER, WORKER)
    above = os.path.dirname(repo.path)
    while above != b"/":
        os.chmod(above, os.stat(above).st_mode | 0o001)
        above = os.path.dirname(above)
    before = state(repo)
    setting = switch_on(repo.open_git())
    assert [entry[:3] for entry in state(repo).values()] == [entry[:3] for entry in before.values()]
    setting.switch_off()
    assert state(repo) == before


def test_a_configuration_elsewhere_is_not_written(repo: GitTree) -> None:
    os.rename(repo.path + b"/.git/config", repo.path + b"/real")
    os.symlink(b"../real", repo.path + b"/.git/config")
    before = state(repo)
    with pytest.raises(NotSet, match="not a regular file"):
        switch_on(repo.open_git())
    assert state(repo) == before


def test_a_lock_on_the_configuration_is_not_waited_for(repo: GitTree) -> None:
    before = state(repo)
    repo.write(b".git/config.lock")
    with pytest.raises(NotSet, match="could not lock"):
        switch_on(repo.open_git())
    os.unlink(repo.path + b"/.git/config.lock")
    assert state(repo) == before


def test_git_on_the_bare_tree_sees_all_and_says_nothing(repo: GitTree) -> None:
    """Where no mount answers, be it after a crash, the line of shell fails without a word."""
    crash(switch_on(repo.open_git()))
    for number in range(3):
        repo.write(b"a", b"%d" % number)
        repo.write(b"d/new%d" % number)
        shown = repo.git("status", "--porcelain", "--untracked-files=all").splitlines()
        assert shown == [b" M a", *[b"?? d/new%d" % n for n in range(number + 1)]]
