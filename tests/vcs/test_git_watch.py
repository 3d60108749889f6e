"""What happens in a git directory is noticed, once for many, wherever the directory is and whatever covers it."""

from __future__ import annotations

import os
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest
from watchdog.observers.inotify_c import InotifyFD

from leasefs.vcs import git_watch
from leasefs.vcs.git_watch import GitWatch
from leasefs.vcs.worktree import WorkTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leasefs.testing.git_tree import GitTree

DEADLINE_S = 10
QUIET_S = 0.3


class Watching:
    def __init__(self, tree: GitTree) -> None:
        self.calls = 0
        self._one = threading.Semaphore(0)
        self.watch = GitWatch(WorkTree(tree.open_root()), self._changed)

    def _changed(self) -> None:
        self.calls += 1
        self._one.release()

    def noticed(self) -> bool:
        """Whether a change is noticed in time; waits until it is quiet again."""
        found = self._one.acquire(timeout=DEADLINE_S)
        self.settle()
        return found

    def settle(self) -> None:
        while self._one.acquire(timeout=QUIET_S):
            pass

    def is_quiet(self) -> bool:
        return not self._one.acquire(timeout=QUIET_S)


@pytest.fixture
def start() -> Iterator[Callable[[GitTree], Watching]]:
    started: list[Watching] = []

    def begin(tree: GitTree) -> Watching:
        watching = Watching(tree)
        watching.watch.start()
        started.append(watching)
        return watching

    yield begin
    for watching in started:
        watching.watch.stop()
        assert watching.watch.join(DEADLINE_S)


@pytest.fixture
def repo(repo: GitTree) -> GitTree:
    repo.track(b"f", b"g")
    repo.git("commit", "-q", "-m", "first")
    repo.git("branch", "-M", "main")
    return repo


def test_what_git_does_is_noticed(repo: GitTree, start: Callable[[GitTree], Watching]) -> None:
    watching = start(repo)
    assert watching.is_quiet()
    repo.write(b"f", b"second")
    assert watching.is_quiet()
    for command in (
        ["add", "f"],
        ["commit", "-q", "-m", "x"],
        ["commit", "-q", "--amend", "-m", "y"],
        ["switch", "-q", "-c", "side/deep/branch"],
        ["switch", "-q", "main"],
        ["update-ref", "refs/remotes/origin/main", "HEAD"],
        ["update-ref", "refs/remotes/origin/main", "HEAD~"],
        ["pack-refs", "--all"],
        ["update-ref", "refs/heads/side/deep/branch", "HEAD~"],
        ["checkout", "-q", "--detach"],
        ["reset", "-q", "--soft", "HEAD~"],
        ["stash", "-q"],
        ["tag", "v1"],
    ):
        repo.git(*command)
        assert watching.noticed(), command
    repo.git("status")
    repo.git("log")
    repo.git("hash-object", "-w", "--stdin", stdin=b"an object")
    watching.settle()
    assert watching.watch.problem is None


def test_many_changes_are_told_few_times(
    repo: GitTree, start: Callable[[GitTree], Watching]
) -> None:
    watching = start(repo)
    lines = b"".join(b"create refs/heads/many/%d HEAD\n" % n for n in range(500))
    repo.git("update-ref", "--stdin", stdin=lines)
    assert watching.noticed()
    assert watching.calls < 50


def test_a_linked_worktree(
    repo: GitTree, make_tree: Callable[[str], GitTree], start: Callable[[GitTree], Watching]
) -> None:
    repo.git("worktree", "add", "-q", "-b", "side", "../linked")
    linked = make_tree("linked")
    watching = start(linked)
    linked.git("commit", "-q", "--allow-empty", "-m", "x")
    assert watching.noticed()
    linked.git("checkout", "-q", "--detach")
    assert watching.noticed()
    repo.git("update-ref", "refs/remotes/origin/main", "HEAD")
    assert watching.noticed()


def test_a_submodule_is_watched_when_asked_for(
    repo: GitTree, make_tree: Callable[[str], GitTree], start: Callable[[GitTree], Watching]
) -> None:
    inner = make_tree("inner")
    inner.git("init", "-q")
    inner.track(b"a")
    inner.git("commit", "-q", "-m", "x")
    repo.git("submodule", "--quiet", "add", os.fsdecode(inner.path), "mods/inner")
    watching = start(repo)
    watching.watch.add(b"mods/inner")
    watching.watch.add(b"not/there")
    module = make_tree("repo/mods/inner")
    module.git("commit", "-q", "--allow-empty", "-m", "x")
    assert watching.noticed()


def test_a_directory_that_is_replaced(repo: GitTree, start: Callable[[GitTree], Watching]) -> None:
    watching = start(repo)
    os.rename(repo.path + b"/.git", repo.path + b"/../gone")
    assert watching.noticed()
    repo.git("init", "-q")
    assert watching.noticed()
    repo.git("add", "f")
    assert watching.noticed()
    with open(repo.path + b"/../gone/HEAD", "ab"):
        pass
    assert watching.is_quiet()


def test_a_repository_that_comes_later(
    make_tree: Callable[[str], GitTree], start: Callable[[GitTree], Watching]
) -> None:
    tree = make_tree("later")
    watching = start(tree)
    tree.write(b"f", b"x")
    assert watching.is_quiet()
    tree.git("init", "-q")
    assert watching.noticed()
    tree.git("add", "f")
    assert watching.noticed()


@pytest.mark.root
def test_a_mount_over_the_tree_hides_nothing(
    repo: GitTree, start: Callable[[GitTree], Watching]
) -> None:
    """A file system mounted over the tree stands for an in-place mount; the tree beneath is reached by descriptor."""
    beneath = f"/proc/self/fd/{repo.open_root()}/.git"
    watching = Watching(repo)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", repo.path], check=True)
    try:
        watching.watch.start()
        assert watching.watch.problem is None
        os.mkdir(f"{beneath}/refs/heads/deep")
        assert watching.noticed()
        with open(f"{beneath}/refs/heads/deep/branch", "w") as file:
            file.write("0" * 40)
        assert watching.noticed()
        with open(f"{beneath}/MERGE_HEAD", "w") as file:
            file.write("0" * 40)
        assert watching.noticed()
        os.mkdir(repo.path + b"/.git")  # in what covers it
        assert watching.is_quiet()
    finally:
        watching.watch.stop()
        watching.watch.join(DEADLINE_S)
        subprocess.run(["umount", repo.path], check=True)


def test_lost_events_count_as_a_change(
    repo: GitTree, start: Callable[[GitTree], Watching], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader is held up until the kernel's queue has overflowed; all events that are left are passed over."""
    with open("/proc/sys/fs/inotify/max_queued_events") as file:
        queue = int(file.read())
    if queue > 1 << 16:
        pytest.skip(f"the queue holds {queue} events: too many to fill in a test")
    held, going_on = threading.Event(), threading.Event()

    def hold(_callback: object, _event: object) -> None:
        held.set()
        going_on.wait(DEADLINE_S * 6)

    monkeypatch.setattr(git_watch._Callback, "on_event", hold)
    watching = start(repo)
    directory = repo.path + b"/.git/refs/heads/"
    with open(directory + b"first", "wb"):
        pass
    assert held.wait(DEADLINE_S)
    for number in range(queue // 2 + 1000):
        os.close(os.open(directory + b"%d" % number, os.O_WRONLY | os.O_CREAT))
    going_on.set()
    assert watching.noticed()


def test_without_inotify_a_change_is_supposed(
    repo: GitTree, start: Callable[[GitTree], Watching], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_self: InotifyFD) -> None:
        raise OSError(24, "inotify instance limit reached")

    monkeypatch.setattr(InotifyFD, "__init__", refuse)
    monkeypatch.setattr(git_watch, "_SUPPOSE_S", 0.1)
    watching = start(repo)
    assert "limit" in (watching.watch.problem or "")
    assert watching._one.acquire(timeout=DEADLINE_S)


def test_with_too_many_directories_a_change_is_supposed(
    repo: GitTree, start: Callable[[GitTree], Watching], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_watch, "_MOST_DIRECTORIES", 3)
    monkeypatch.setattr(git_watch, "_SUPPOSE_S", 0.1)
    watching = start(repo)
    assert "directories of refs" in (watching.watch.problem or "")
    assert watching._one.acquire(timeout=DEADLINE_S)


def test_nothing_is_left_behind(repo: GitTree) -> None:
    # What other tests have stopped closes its descriptors when its thread ends.
    for thread in threading.enumerate():
        if type(thread).__module__.startswith(("leasefs.", "watchdog.")):
            thread.join(DEADLINE_S)
    before = len(os.listdir("/proc/self/fd"))
    root_fd = repo.open_root()
    watching = GitWatch(WorkTree(root_fd), lambda: None)
    watching.start()
    repo.git("commit", "-q", "--allow-empty", "-m", "x")
    watching.stop()
    assert watching.join(DEADLINE_S)
    assert watching._inotify is not None
    watching._inotify.join(DEADLINE_S)
    assert len(os.listdir("/proc/self/fd")) == before + 1
