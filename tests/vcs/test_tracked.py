from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasefs.vcs.errors import GitFailed
from leasefs.vcs.tracked import NOTHING_TRACKED, TrackedPaths, load_tracked

if TYPE_CHECKING:
    from leasefs.testing.git_tree import GitTree

_NAMES = st.lists(
    st.lists(st.sampled_from([b"a", b"b", b"a-", b"a.", b"\xff"]), min_size=1, max_size=3).map(
        b"/".join
    ),
    max_size=8,
)


def _listed(names: list[bytes]) -> TrackedPaths:
    return TrackedPaths(b"".join(b"H " + name + b"\0" for name in sorted(names)), None)


@given(_NAMES, _NAMES)
def test_questions_agree_with_looking_at_every_name(names: list[bytes], asked: list[bytes]) -> None:
    tracked = _listed(names)
    assert len(tracked) == len(names)
    for path in [b"", *names, *asked]:
        assert tracked.is_tracked(path) == (path in names)
        prefix = path + b"/" if path else b""
        assert tracked.has_tracked_below(path) == any(name.startswith(prefix) for name in names)
        assert tracked.count_below(path) == sum(name.startswith(prefix) for name in names)
        assert tracked.is_below_tracked(path) == any(path.startswith(n + b"/") for n in names)


def test_a_long_listing_is_cut_at_the_right_places() -> None:
    names = [b"d%03d/" % (n // 100) + b"x" * 90 + b"%07d" % n for n in range(50_000)]
    tracked = _listed(names)
    assert len(tracked) == len(names)
    assert all(tracked.is_tracked(name) for name in names[::97])
    assert not tracked.is_tracked(names[5] + b"0")
    assert tracked.has_tracked_below(b"d499")
    assert not tracked.has_tracked_below(b"d500")


def test_memory_is_little_more_than_the_names() -> None:
    listing = b"".join(b"H src/%07d.c\0" % n for n in range(100_000))
    tracked = TrackedPaths(listing, None)
    assert tracked._starts.buffer_info()[1] * tracked._starts.itemsize <= 9 * 100_000


def test_a_listing_out_of_order_is_refused() -> None:
    with pytest.raises(GitFailed, match="byte order"):
        TrackedPaths(b"H b\0H a\0", None)


def test_names_of_any_bytes(repo: GitTree) -> None:
    names = [
        b"caf\xe9",
        b"caf\xc3\xa9",
        b"new\nline",
        b"tab\there",
        b'quo"te',
        b"back\\slash",
        b"d/\xff\xfe",
    ]
    repo.track(*names)
    tracked = load_tracked(repo.open_git())
    assert all(tracked.is_tracked(name) for name in names)
    assert tracked.has_tracked_below(b"d")
    assert not tracked.is_tracked(b"d")


def test_an_index_that_is_not_there_yet(repo: GitTree) -> None:
    gitdir = repo.open_git()
    tracked = load_tracked(gitdir)
    assert len(tracked) == len(NOTHING_TRACKED) == 0
    assert tracked.is_current(gitdir)
    repo.track(b"a")
    assert not tracked.is_current(gitdir)


def test_the_stamp_follows_the_index(repo: GitTree) -> None:
    repo.track(b"a")
    gitdir = repo.open_git()
    tracked = load_tracked(gitdir)
    assert tracked.is_current(gitdir)
    repo.git("rm", "-q", "--cached", "a")
    assert not tracked.is_current(gitdir)
    again = load_tracked(gitdir)
    assert again.is_current(gitdir)
    assert not again.is_tracked(b"a")


def test_unmerged_entries_are_tracked(repo: GitTree) -> None:
    blob = repo.git("hash-object", "-w", "--stdin").strip()
    lines = b"".join(b"100644 %s %d\tboth\n" % (blob, stage) for stage in (1, 2, 3))
    repo.git("update-index", "--index-info", stdin=lines)
    assert load_tracked(repo.open_git()).is_tracked(b"both")


def test_what_a_sparse_checkout_leaves_out_is_tracked(repo: GitTree) -> None:
    repo.track(b"in/a", b"out/b", b"out/.gitignore")
    repo.git("commit", "-q", "-m", "x")
    for cone in ("--no-cone", "--cone"):
        repo.git("sparse-checkout", "set", cone, "--sparse-index", "in")
        assert not os.path.exists(repo.path + b"/out/b")
        tracked = load_tracked(repo.open_git())
        assert tracked.is_tracked(b"out/b")
        assert tracked.has_tracked_below(b"out")
        assert tracked.skipped_ignore_files == {b"out/.gitignore"}
