from __future__ import annotations

import os
import socket
import stat
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.testing.tree_state import tree_state
from leasefs.vcs import rescue_files
from leasefs.vcs.errors import NoSuchRescue, RescueFailed
from leasefs.vcs.rescue import (
    About,
    Kind,
    RescueMade,
    bare_repository,
    content,
    drop,
    read,
    rescues,
    snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from leasefs.testing.git_tree import GitTree

ABOUT = About(
    lease="L17",
    token=17,
    agent="agent-07",
    harness="claude",
    globs=("src/**", "caf\udce9/*"),
    reason="expired",
    wall_s=1_700_000_000.5,
    territory="github.com/o/r",
    tree="t-0123",
    by="leasefs",
)


def _keep(tree: GitTree, *paths: bytes, **about: Any) -> RescueMade:
    changed = About(**{field: getattr(ABOUT, field) for field in ABOUT.__slots__} | about)
    return snapshot(tree.open_git(), tree.open_root(), paths, changed)


def _commit(tree: GitTree, **files: bytes) -> None:
    for name, text in files.items():
        tree.write(name.encode(), text)
    tree.git("add", "-A")
    tree.git("commit", "-q", "-m", "x")


def _bytes(tree: GitTree, rescue_id: str, path: bytes) -> bytes:
    return b"".join(content(tree.open_git(), rescue_id, path))


def _objects(tree: GitTree) -> set[bytes]:
    return set(tree_state(tree.path + b"/.git/objects", without=frozenset()))


# -- what is kept ------------------------------------------------------------------------------


def test_what_a_rescue_says(repo: GitTree) -> None:
    _commit(repo, a=b"old\n", gone=b"g")
    repo.write(b"a", b"new\n")
    os.chmod(repo.path + b"/a", 0o6751)
    os.unlink(repo.path + b"/gone")
    repo.write(b"new\nline\xff", b"n")
    made = _keep(repo, b"a", b"gone", b"new\nline\xff")
    assert (made.id, made.ref) == ("L17", "refs/leasefs/rescue/L17")
    assert made.paths == (b"a", b"gone", b"new\nline\xff")
    assert (made.problems, made.is_new) == ((), True)
    found = read(repo.open_git(), "L17")
    assert found.about == ABOUT
    assert found.commit == made.commit
    assert found.parent == repo.git("rev-parse", "HEAD").decode().strip()
    changed, gone, untracked = found.paths
    assert (changed.kind, changed.permissions, changed.size) == (Kind.FILE, 0o6751, 4)
    assert changed.base == repo.git("rev-parse", "HEAD:a").decode().strip()
    assert (gone.kind, gone.change, gone.base_mode) == (Kind.ABSENT, "deleted", 0o100644)
    assert (untracked.change, untracked.base) == ("created", "")
    assert _bytes(repo, "L17", b"a") == b"new\n"
    message = repo.git("log", "-1", "--format=%B", made.ref)
    assert message.isascii()
    assert message.startswith(b"rescue of 3 paths of agent-07 (L17)\n\n")
    assert b"\n  modified  a\n  deleted   gone\n  created   new\\nline\\xff\n" in message
    listed = repo.git("diff", "--no-renames", "--name-status", "-z", "HEAD", made.ref)
    assert listed == b"M\0a\0D\0gone\0A\0new\nline\xff\0"


def test_a_directory_is_kept_as_itself(repo: GitTree) -> None:
    _commit(repo, a=b"1")
    repo.write(b"d/inside", b"x")
    os.chmod(repo.path + b"/d", 0o2750)
    made = _keep(repo, b"d/", b"was/")
    assert made.paths == (b"d/", b"was/")
    kept, gone = read(repo.open_git(), made.id).paths
    assert (kept.path, kept.kind, kept.permissions) == (b"d", Kind.DIRECTORY, 0o2750)
    assert (gone.path, gone.kind) == (b"was", Kind.ABSENT)


def test_what_stood_there_in_head_is_kept_as_gone(repo: GitTree) -> None:
    """Named is `d`, a file now; HEAD has files below it, which nobody named."""
    repo.write(b"d/deep/x", b"1")
    _commit(repo, f=b"2")
    subprocess.run(["rm", "-r", "d", "f"], cwd=repo.path, check=True)
    repo.write(b"d", b"file")
    repo.write(b"f/inside", b"dir")
    made = _keep(repo, b"d", b"f/inside")
    assert set(made.paths) == {b"d", b"d/deep/x", b"f", b"f/inside"}
    kinds = {entry.path: entry.kind for entry in read(repo.open_git(), made.id).paths}
    assert kinds[b"d/deep/x"] is Kind.ABSENT
    assert kinds[b"f"] is Kind.DIRECTORY
    names = repo.git("ls-tree", "-r", "--name-only", made.ref)
    assert names == b"d\nf/inside\n"


def test_the_very_same_content_is_the_same_rescue(repo: GitTree) -> None:
    _commit(repo, a=b"1")
    repo.write(b"a", b"2")
    first = _keep(repo, b"a")
    again = _keep(repo, b"a", reason="asked for twice", wall_s=1.0)
    assert (again.ref, again.commit, again.is_new) == (first.ref, first.commit, False)
    os.chmod(repo.path + b"/a", 0o640)
    assert _keep(repo, b"a").id == "L17-2"
    repo.write(b"a", b"3")
    assert _keep(repo, b"a").id == "L17-3"
    repo.write(b"a", b"2")
    os.chmod(repo.path + b"/a", 0o644)
    assert _keep(repo, b"a").id == "L17"
    assert _keep(repo, b"a", lease="L18").id == "L18"
    assert _keep(repo, b"a", token=18).id == "L17-4"


def test_of_many_at_once_each_has_its_own(repo: GitTree) -> None:
    _commit(repo, a=b"1")
    gitdir, root_fd = repo.open_git(), repo.open_root()
    made: list[RescueMade] = []

    def keep(number: int) -> None:
        name = b"n%d" % number
        repo.write(name, name)
        made.append(snapshot(gitdir, root_fd, [name], ABOUT))

    threads = [threading.Thread(target=keep, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.id for one in made} == {"L17", "L17-2", "L17-3", "L17-4"}
    assert {one.paths for one in made} == {(b"n%d" % number,) for number in range(4)}


def test_special_files_are_named_and_not_kept(repo: GitTree) -> None:
    _commit(repo, a=b"1", b=b"2")
    os.unlink(repo.path + b"/b")
    os.mkfifo(repo.path + b"/b")
    other = socket.socket(socket.AF_UNIX)
    other.bind(repo.path + b"/sock")
    repo.write(b"a", b"3")
    made = _keep(repo, b"a", b"b", b"sock", b"", b"/etc/passwd", b"../x", b"a//b", b"n\0")
    other.close()
    assert made.paths == (b"a",)
    told = {problem.path: problem.why for problem in made.problems}
    assert told[b"b"] == "it is a FIFO, which cannot be kept"
    assert told[b"sock"] == "it is a socket, which cannot be kept"
    assert {why for path, why in told.items() if path not in {b"b", b"sock"}} == {
        "it is no path of a working tree"
    }
    assert len(told) == 7
    assert read(repo.open_git(), made.id).problems == made.problems


@pytest.mark.root
def test_devices_are_not_opened(repo: GitTree) -> None:
    os.mknod(repo.path + b"/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    made = _keep(repo, b"null")
    assert made.problems[0].why == "it is a character device, which cannot be kept"


def test_links_are_kept_and_never_followed(repo: GitTree, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    os.symlink(tmp_path / "outside", repo.path + b"/link")
    made = _keep(repo, b"link", b"link/secret")
    link, below = read(repo.open_git(), made.id).paths
    assert (link.kind, below.kind) == (Kind.SYMLINK, Kind.ABSENT)
    assert _bytes(repo, made.id, b"link") == os.fsencode(tmp_path / "outside")


def test_bytes_are_kept_whatever_the_attributes_say(repo: GitTree) -> None:
    witness = repo.path + b"/ran"
    repo.write(b"run", b"#!/bin/sh\ntouch " + witness + b"\ncat\n")
    os.chmod(repo.path + b"/run", 0o755)
    _commit(repo, **{".gitattributes": b"*.txt text eol=crlf ident\n*.f filter=f\n"})
    repo.git("config", "filter.f.clean", os.fsdecode(repo.path + b"/run"))
    repo.git("config", "filter.f.required", "true")
    repo.git("config", "core.autocrlf", "true")
    for hook in (b"post-index-change", b"reference-transaction", b"post-commit"):
        repo.write(b".git/hooks/" + hook, b"#!/bin/sh\ntouch " + witness + b"\n")
        os.chmod(repo.path + b"/.git/hooks/" + hook, 0o755)
    text = b"a\r\nb\n$Id$\r\n\0"
    repo.write(b"a.txt", text)
    repo.write(b"a.f", text)
    made = _keep(repo, b"a.txt", b"a.f")
    assert _bytes(repo, made.id, b"a.txt") == _bytes(repo, made.id, b"a.f") == text
    assert not os.path.exists(witness)


def test_large_files_go_through_in_a_stream(repo: GitTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescue_files, "BIG_FILE_BYTES", 1 << 20)
    large = os.urandom(5 << 20)
    repo.write(b"large", large)
    with open(repo.path + b"/hole", "wb") as file:
        file.truncate(20 << 20)
    made = _keep(repo, b"large", b"hole")
    assert repo.git("count-objects", "-v").split(b"packs: ")[1].startswith(b"2\n")
    assert _bytes(repo, made.id, b"large") == large
    assert not any(_bytes(repo, made.id, b"hole"))
    repo.git("fsck", "--strict")


def test_names_that_git_refuses_are_put_aside(repo: GitTree) -> None:
    names = [
        b"n/.git/config",
        b"git~1",
        b".GIT/x",
        b".gi\xe2\x80\x8ct/x",
        b"a\\.git",
        b"b/.git ./x",
    ]
    for name in names:
        repo.write(name, name)
    repo.write(b".leasefs-rescue", b"somebody's own")
    os.symlink("x", repo.path + b"/.gitmodules")
    names += [b".leasefs-rescue", b".gitmodules"]
    made = _keep(repo, *names)
    assert set(made.paths) == set(names)
    assert made.problems == ()
    listed = repo.git("ls-tree", "-r", "--name-only", "-z", made.ref).split(b"\0")[:-1]
    assert sum(name.startswith(b".leasefs-rescue_/") for name in listed) == 7
    assert b".leasefs-rescue" in listed
    assert _bytes(repo, made.id, b"n/.git/config") == b"n/.git/config"
    repo.git("fsck", "--strict")
    repo.git("gc", "-q", "--prune=now")
    assert _bytes(repo, made.id, b".gitmodules") == b"x"


# -- repositories of all kinds -----------------------------------------------------------------


def test_a_repository_without_a_commit(repo: GitTree) -> None:
    repo.write(b"a", b"1")
    made = _keep(repo, b"a")
    assert read(repo.open_git(), made.id).parent == ""
    assert repo.git("status", "--porcelain") == b"?? a\n"
    assert _keep(repo, b"a").ref == made.ref


def test_a_detached_head(repo: GitTree) -> None:
    _commit(repo, a=b"1")
    repo.git("checkout", "-q", "--detach")
    repo.write(b"a", b"2")
    made = _keep(repo, b"a")
    assert repo.git("rev-parse", made.ref + "^") == repo.git("rev-parse", "HEAD")
    assert repo.git("branch", "--show-current") == b""


@pytest.mark.parametrize("broken", [b"0123456789" * 4 + b"\n", b"garbage\n"])
def test_a_head_that_leads_nowhere_does_not_keep_work_from_being_kept(
    repo: GitTree, broken: bytes
) -> None:
    _commit(repo, a=b"1")
    gitdir, root_fd = repo.open_git(), repo.open_root()
    repo.write(b".git/refs/heads/master", broken)
    made = snapshot(gitdir, root_fd, [b"a"], ABOUT)
    assert made.paths == (b"a",)
    assert b"".join(content(gitdir, made.id, b"a")) == b"1"


def test_missing_trees_do_not_keep_work_from_being_kept(repo: GitTree) -> None:
    repo.write(b"d/x", b"1")
    _commit(repo, a=b"1")
    tree = repo.git("rev-parse", "HEAD:d").decode().strip()
    os.unlink(repo.path + f"/.git/objects/{tree[:2]}/{tree[2:]}".encode())
    repo.write(b"d/x", b"2")
    made = _keep(repo, b"d/x")
    assert made.paths == (b"d/x",)
    assert any("cannot be read" in problem.why for problem in made.problems)
    assert _bytes(repo, made.id, b"d/x") == b"2"


def test_a_linked_worktree(repo: GitTree, make_tree: Callable[[str], GitTree]) -> None:
    _commit(repo, a=b"1")
    repo.git("worktree", "add", "-q", "../linked")
    linked = make_tree("linked")
    linked.write(b"a", b"here")
    linked.write(b"b", b"staged")
    linked.git("add", "b")
    status = linked.git("--no-optional-locks", "status", "--porcelain", "-z")
    made = _keep(linked, b"a", b"b")
    assert linked.git("--no-optional-locks", "status", "--porcelain", "-z") == status
    assert [found.id for found in rescues(repo.open_git())] == [made.id]
    assert _bytes(repo, made.id, b"a") == b"here"
    assert repo.git("status", "--porcelain") == b""


def test_a_submodule(repo: GitTree, make_tree: Callable[[str], GitTree]) -> None:
    inner = make_tree("inner")
    inner.git("init", "-q")
    _commit(inner, x=b"1")
    repo.git("submodule", "--quiet", "add", os.fsdecode(inner.path), "mods/inner")
    _commit(repo)
    repo.write(b"mods/inner/x", b"2")
    repo.write(b"mods/inner/y", b"new")
    module = make_tree("repo/mods/inner")
    before = _objects_of(module)
    made = _keep(repo, b"mods/inner/x", b"mods/inner/y")
    assert _objects_of(module) == before
    x, y = read(repo.open_git(), made.id).paths
    assert (x.change, y.change) == ("modified", "created")
    assert x.base == inner.git("rev-parse", "HEAD:x").decode().strip()
    repo.git("fsck", "--strict")


def _objects_of(tree: GitTree) -> bytes:
    return tree.git("cat-file", "--batch-all-objects", "--batch-check")


def test_a_repository_of_sha256(make_tree: Callable[[str], GitTree]) -> None:
    tree = make_tree("wide")
    tree.git("init", "-q", "--object-format=sha256")
    _commit(tree, a=b"1")
    tree.write(b"a", b"2")
    made = _keep(tree, b"a", b"b")
    assert len(made.commit) == 64
    assert _keep(tree, b"a", b"b").ref == made.ref
    assert _bytes(tree, made.id, b"a") == b"2"


def test_a_tree_without_git(make_tree: Callable[[str], GitTree], tmp_path: Path) -> None:
    tree = make_tree("plain")
    tree.write(b"a", b"1")
    place = str(tmp_path / "deep" / "rescues.git")
    with bare_repository(place) as gitdir:
        made = snapshot(gitdir, tree.open_root(), [b"a"], ABOUT)
    with bare_repository(place) as gitdir:
        assert [found.id for found in rescues(gitdir)] == [made.id]
        assert b"".join(content(gitdir, made.id, b"a")) == b"1"
    assert os.listdir(tree.path) == [b"a"]
    assert stat.S_IMODE(os.stat(place).st_mode) == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(RescueFailed, match="file"), bare_repository(str(tmp_path / "file")):
        pass


@pytest.mark.root
@pytest.mark.parametrize("name", ["repo", "linked"])
def test_a_tree_that_a_mount_covers(
    repo: GitTree, make_tree: Callable[[str], GitTree], name: str
) -> None:
    """A file system mounted over the trees stands for an in-place mount: nothing beneath is reachable by path."""
    inner = make_tree("inner")
    inner.git("init", "-q")
    _commit(inner, x=b"1")
    _commit(repo, a=b"1")
    repo.git("worktree", "add", "-q", "../linked")
    tree = make_tree(name)
    tree.git("submodule", "--quiet", "add", os.fsdecode(inner.path), "mods/inner")
    tree.write(b"mods/inner/x", b"2")
    tree.write(b"a", b"2")
    gitdir, root_fd = tree.open_git(), tree.open_root()
    covered = [make_tree(which).path for which in ("repo", "linked")]
    for path in covered:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", path], check=True)
    try:
        made = snapshot(gitdir, root_fd, [b"a", b"mods/inner/x"], ABOUT)
        assert (len(made.paths), made.problems) == (2, ())
        # A linked tree's submodules have their repositories in the main tree's, which is covered as well.
        in_submodule = "modified" if name == "repo" else "created"
        changes = [entry.change for entry in read(gitdir, made.id).paths]
        assert changes == ["modified", in_submodule]
        assert b"".join(content(gitdir, made.id, b"mods/inner/x")) == b"2"
        assert [found.id for found in rescues(gitdir)] == ["L17"]
        drop(gitdir, made.id)
        assert all(os.listdir(path) == [] for path in covered)
    finally:
        for path in covered:
            subprocess.run(["umount", path], check=True)


# -- nothing else is touched -------------------------------------------------------------------


def test_no_reflog_is_begun_and_no_lock_left(repo: GitTree) -> None:
    repo.git("config", "core.logAllRefUpdates", "always")
    _commit(repo, a=b"1")
    repo.write(b"a", b"2")
    before = tree_state(repo.path + b"/.git")
    _keep(repo, b"a")
    after = tree_state(repo.path + b"/.git")
    assert {path for path in before if before[path] != after.get(path)} == set()
    new = {path for path in set(after) - set(before) if not path.startswith(b"objects/")}
    assert new == {b"refs/leasefs", b"refs/leasefs/rescue", b"refs/leasefs/rescue/L17"}


def test_an_index_in_use_is_nothing_to_wait_for(repo: GitTree) -> None:
    _commit(repo, a=b"1")
    repo.write(b"a", b"2")
    for name in (b"index.lock", b"HEAD.lock"):
        repo.write(b".git/" + name)
    assert _keep(repo, b"a").paths == (b"a",)


# -- faults ------------------------------------------------------------------------------------


@contextmanager
def _small_disk(place: Path, size: str) -> Iterator[None]:
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.root
@pytest.mark.parametrize("threshold", [1 << 16, 64 << 20], ids=["packed", "loose"])
def test_a_full_disk_is_told_and_nothing_is_left(
    tmp_path: Path,
    make_tree: Callable[[str], GitTree],
    monkeypatch: pytest.MonkeyPatch,
    threshold: int,
) -> None:
    monkeypatch.setattr(rescue_files, "BIG_FILE_BYTES", threshold)
    with _small_disk(tmp_path / "small", "4m"):
        tree = make_tree("small")
        tree.git("init", "-q")
        _commit(tree, a=b"1")
        tree.write(b"small", b"kept first")
        tree.write(b"large", os.urandom(5 << 19))
        before = tree_state(tree.path, without=frozenset())
        with pytest.raises(RescueFailed, match=r"No space left on device|Out of diskspace"):
            _keep(tree, b"small", b"large", b"a")
        assert tree_state(tree.path, without=frozenset()) == before
        tree.write(b"large", b"now it fits")
        assert _keep(tree, b"small", b"large", b"a").problems == ()
        tree.resources.close()


@pytest.mark.root
def test_a_repository_that_cannot_be_written(repo: GitTree) -> None:
    _commit(repo, a=b"1")
    repo.write(b"a", b"2")
    git = repo.path + b"/.git"
    subprocess.run(["mount", "--bind", git, git], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", git], check=True)
        with pytest.raises(RescueFailed, match="Read-only"):
            _keep(repo, b"a")
    finally:
        repo.resources.close()
        subprocess.run(["umount", "-l", git], check=True)


def test_without_git_nothing_is_kept_and_that_is_said(
    repo: GitTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    gitdir, root_fd = repo.open_git(), repo.open_root()
    before = _objects(repo)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RescueFailed, match="install git"):
        snapshot(gitdir, root_fd, [b"a"], ABOUT)
    assert _objects(repo) == before


def test_a_ref_that_cannot_be_made(repo: GitTree) -> None:
    repo.write(b"a", b"1")
    repo.write(b".git/refs/leasefs", b"a file in the way\n")
    with pytest.raises(RescueFailed, match="L17"):
        _keep(repo, b"a")


@pytest.mark.parametrize("lease", ["", "../x", "a b", "-x", ".x", "x/y", "x" * 101, "a\n"])
def test_a_lease_that_names_no_ref(repo: GitTree, lease: str) -> None:
    with pytest.raises(RescueFailed, match="no lease's id"):
        _keep(repo, b"a", lease=lease)


def test_a_file_that_is_written_meanwhile_is_one_version_or_named(repo: GitTree) -> None:
    versions = [bytes([65 + n]) * (1 << 20) for n in range(4)]
    repo.write(b"busy", versions[0])
    over = threading.Event()

    def write() -> None:
        with open(repo.path + b"/busy", "r+b", buffering=0) as file:
            while not over.is_set():
                for version in versions:
                    for at in range(0, len(version), 1 << 18):
                        file.seek(at)
                        file.write(version[at : at + (1 << 18)])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        made = [_keep(repo, b"busy", lease=f"L{number}") for number in range(3)]
    finally:
        over.set()
        writer.join()
    for one in made:
        if one.problems:
            assert one.problems[0].why == "it changed each time it was read"
        else:
            assert _bytes(repo, one.id, b"busy") in versions
    assert any(one.problems for one in made)
    last = _keep(repo, b"busy")
    assert last.problems == ()
    assert _bytes(repo, last.id, b"busy") == versions[-1]


def test_files_that_are_cut_vanish_and_change_their_kind(repo: GitTree) -> None:
    over = threading.Event()
    path = repo.path + b"/busy"

    def disturb() -> None:
        while not over.is_set():
            with open(path, "wb") as file:
                file.write(b"x" * (1 << 20))
                file.truncate(3)
            os.unlink(path)
            os.symlink("nowhere", path)
            os.unlink(path)
            os.mkdir(path)
            os.rmdir(path)

    other = threading.Thread(target=disturb)
    other.start()
    try:
        for number in range(20):
            repo.write(b"calm", b"%d" % number)
            made = _keep(repo, b"busy", b"calm", lease=f"L{number}")
            assert b"calm" in made.paths
            assert _bytes(repo, made.id, b"calm") == b"%d" % number
            assert b"busy" in made.paths or made.problems[0].path == b"busy"
    finally:
        over.set()
        other.join()


# -- another user's repository -----------------------------------------------------------------


def _give_away(tree: GitTree) -> None:
    subprocess.run(["chown", "-R", "12345:12345", tree.path], check=True)


@pytest.mark.root
def test_objects_belong_to_the_repositorys_owner(
    repo: GitTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescue_files, "BIG_FILE_BYTES", 1 << 20)
    _commit(repo, a=b"1")
    _give_away(repo)
    repo.write(b"a", b"root's own")
    os.chmod(repo.path + b"/a", 0o600)
    repo.write(b"large", os.urandom(2 << 20))
    made = _keep(repo, b"a", b"large")
    assert made.problems == ()
    assert _bytes(repo, made.id, b"a") == b"root's own"
    for directory, names, files in os.walk(repo.path + b"/.git"):
        for name in (*names, *files):
            assert os.lstat(os.path.join(directory, name)).st_uid == 12345, name
    drop(repo.open_git(), made.id)
    assert rescues(repo.open_git()) == []


@pytest.mark.parametrize(("mode", "umask"), [(0o755, 0o777), (0o700, 0o000), (0o2770, 0o077)])
def test_objects_are_as_open_as_the_repository_whatever_our_umask(
    repo: GitTree, mode: int, umask: int
) -> None:
    """A mount's process has another caller's umask for moments."""
    git = repo.path + b"/.git"
    if mode & 0o2000:
        repo.git("config", "core.sharedRepository", "group")
    subprocess.run(
        ["chmod", "-R", f"u=rwX,g={'rwX' if mode & 0o020 else 'rX'},o=rX", git], check=True
    )
    for directory, _, _ in os.walk(git):
        os.chmod(directory, mode)
    repo.write(b"a", b"1")
    gitdir, root_fd = repo.open_git(), repo.open_root()
    before = tree_state(git)
    ours = os.umask(umask)
    try:
        snapshot(gitdir, root_fd, [b"a"], ABOUT)
    finally:
        os.umask(ours)
    for path, (found, _) in tree_state(git).items():
        if path not in before:
            wanted = (
                mode if stat.S_ISDIR(found) else mode & (0o444 if b"objects/" in path else 0o644)
            )
            assert stat.S_IMODE(found) & 0o777 & ~0o020 == wanted & 0o777 & ~0o020, path


def test_nothing_to_keep_is_a_mistake(repo: GitTree) -> None:
    with pytest.raises(ValueError, match="no paths"):
        _keep(repo)


@pytest.mark.root
def test_a_hard_link_brings_no_secret_into_anothers_repository(
    repo: GitTree, tmp_path: Path
) -> None:
    _give_away(repo)
    secret = tmp_path / "secret"
    secret.write_text("root alone")
    secret.chmod(0o600)
    os.link(secret, repo.path + b"/linked")
    made = _keep(repo, b"linked")
    assert made.paths == ()
    assert "hard link" in made.problems[0].why
    secret.chmod(0o644)
    assert _keep(repo, b"linked").paths == (b"linked",)


@pytest.mark.root
def test_links_in_anothers_repository_lead_root_nowhere(repo: GitTree, tmp_path: Path) -> None:
    repo.write(b"a", b"1")
    target = tmp_path / "roots"
    target.mkdir(mode=0o755)
    os.rename(repo.path + b"/.git/objects", tmp_path / "objects")
    os.symlink(target, repo.path + b"/.git/objects")
    _give_away(repo)
    with pytest.raises(RescueFailed, match="Permission denied"):
        _keep(repo, b"a")
    assert list(target.iterdir()) == []
    assert os.geteuid() == 0
    (tmp_path / "as-root").touch()
    assert (tmp_path / "as-root").stat().st_uid == 0


# -- looking at them ---------------------------------------------------------------------------


def test_listing_reading_and_dropping(repo: GitTree) -> None:
    _commit(repo, a=b"1")
    gitdir = repo.open_git()
    assert rescues(gitdir) == []
    repo.write(b"a", b"2")
    for lease in ("L2", "L10"):
        _keep(repo, b"a", lease=lease)
    repo.git("update-ref", "refs/leasefs/rescue/strange", "HEAD")
    blob = repo.git("rev-parse", "HEAD:a").decode().strip()
    repo.git("update-ref", "refs/leasefs/rescue/blob", blob)
    found = {one.id: one for one in rescues(gitdir)}
    assert set(found) == {"L2", "L10", "strange", "blob"}
    assert found["strange"].problems[0].why == "the commit is not one of leasefs"
    assert found["blob"].problems
    for rescue_id in ("strange", "blob", "L1", "", "../heads/master", "L2^{commit}", "L 2"):
        with pytest.raises(NoSuchRescue):
            read(gitdir, rescue_id)
    for path in (b"b", b"", b"../a"):
        with pytest.raises(NoSuchRescue, match="leasefs rescue show L2"):
            content(gitdir, "L2", path)
    for rescue_id in ("L1", "", "../../heads/master"):
        with pytest.raises(NoSuchRescue):
            drop(gitdir, rescue_id)
    for rescue_id in ("L2", "blob"):
        drop(gitdir, rescue_id)
    assert {one.id for one in rescues(gitdir)} == {"L10", "strange"}
    assert repo.git("rev-parse", "--verify", "master")


def test_a_later_versions_rescue_is_told_apart(repo: GitTree) -> None:
    tree = repo.git("write-tree").decode().strip()
    text = b"later\n\nLeasefs-Rescue: "
    for block, said in (
        (b'{"version": 2}', "version 2"),
        (b"{}", "does not say"),
        (b'{"version": 1, "paths": 3}', "does not say"),
        (b"[" * 100_000, "does not say"),
        (
            b'{"version": 1, "paths": [], "problems": [], "globs": [], "lease": "L1"}',
            "does not say",
        ),
    ):
        commit = repo.git("commit-tree", tree, stdin=text + block).decode().strip()
        repo.git("update-ref", "refs/leasefs/rescue/L1", commit)
        (found,) = rescues(repo.open_git())
        assert said in found.problems[0].why
        with pytest.raises(NoSuchRescue, match=said):
            read(repo.open_git(), "L1")
