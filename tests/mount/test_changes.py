"""What is told to git: never too little, whatever happened since the token it shows (fsmonitor.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasefs.mount.changes import ChangeLog

if TYPE_CHECKING:
    from collections.abc import Iterable

EVERYTHING = {b"/"}


def covered(**options: int) -> ChangeLog:
    log = ChangeLog("ab12", lambda _: (), **options)
    log.cover()
    return log


def ask_once(
    log: ChangeLog, token: bytes = b"", directories: Iterable[bytes] | None = None
) -> tuple[bytes, set[bytes]]:
    new, *paths, end = log.answer(log.number_of(token), directories).split(b"\0")
    assert end == b""
    return new, set(paths)


def ask(log: ChangeLog, token: bytes = b"") -> tuple[bytes, set[bytes]]:
    """Ask, and if the new token is a weak one ask with that, so that it is none."""
    new, paths = ask_once(log, token)
    if log.is_weak(log.number_of(new)):
        new, everywhere = ask_once(log, new, ())
        assert everywhere == {b".leasefs"}
    return new, paths


def test_a_change_is_in_every_later_answer_for_an_older_token() -> None:
    log = covered()
    first, _ = ask(log)
    log.changed(b"a")
    second, paths = ask(log, first)
    assert paths == {b"a"}
    assert ask(log, second)[1] == set()
    assert ask(log, first)[1] == {b"a"}


def test_a_change_after_the_answer_is_in_the_next_one_though_it_was_in_this_one() -> None:
    log = covered()
    first, _ = ask(log)
    log.changed(b"a")
    second, _ = ask(log, first)
    log.changed(b"a")
    assert ask(log, second)[1] == {b"a"}


def test_the_epoch_ends_with_each_answer() -> None:
    log = covered()
    before = log.epoch
    log.changed(b"a")
    assert log.epoch == before
    ask(log)
    assert log.epoch != before


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"0",
        b"1701299443123456789",
        b"builtin:fake",
        b"c:1:2:3",
        b"leasefs:ab12:",
        b"leasefs:ab12:0",
        b"leasefs:ab12:-1",
        b"leasefs:ab12:99",
        b"leasefs:ab13:1",
        b"leasefs:ab12:1 ",
        b"leasefs:ab12:1\n",
        b"leasefs:ab12:" + b"9" * 300,
        b"\xff" * 255,
    ],
)
def test_a_token_of_somebody_else_is_answered_with_everything(token: bytes) -> None:
    log = covered()
    ask(log)
    assert ask(log, token)[1] == EVERYTHING


def test_nothing_is_known_while_the_tree_beneath_is_not_covered() -> None:
    log = ChangeLog("ab12", lambda _: ())
    first, paths = ask(log)
    assert paths == EVERYTHING
    second, paths = ask(log, first)
    assert paths == EVERYTHING
    log.cover()
    third, paths = ask(log, second)
    assert paths == EVERYTHING, "what happened beneath since the token was not seen"
    assert ask(log, third)[1] == set()
    log.uncover()
    fourth, paths = ask(log, third)
    assert paths == EVERYTHING
    log.cover()
    assert ask(log, third)[1] == ask(log, fourth)[1] == EVERYTHING


def test_after_everything_git_is_told_to_read_each_directory() -> None:
    """Its lists of untracked files outlive "everything" where nobody looks for those."""
    log = covered()
    weak, paths = ask_once(log)
    assert paths == EVERYTHING
    log.changed(b"x")
    again, paths = ask_once(log, weak, None)
    assert paths == EVERYTHING, "too many directories to say: it has to go on like this"
    log.changed(b"y")
    strong, paths = ask_once(log, again, [b"d", b"d/e"])
    assert paths == {b"y", b".leasefs", b"d/.leasefs", b"d/e/.leasefs"}
    assert ask_once(log, strong, [b"d"])[1] == set()
    assert ask_once(log, weak, [b"d"])[1] == {b"x", b"y", b".leasefs", b"d/.leasefs"}


def test_what_nobody_tells_of_is_always_looked_at() -> None:
    log = covered()
    log.doubt(b"linked")
    first, _ = ask_once(log, ask_once(log)[0], ())
    for _ in range(2):
        first, paths = ask_once(log, first)
        assert paths == {b"linked"}
    for number in range(2000):
        log.doubt(b"l%d" % number)
    assert ask_once(log, first)[1] == EVERYTHING


def test_lost_events_change_everything_once() -> None:
    log = covered()
    first, _ = ask(log)
    log.everything()
    second, paths = ask(log, first)
    assert paths == EVERYTHING
    assert ask(log, second)[1] == set()


def test_what_is_forgotten_is_everything() -> None:
    log = covered(most=8)
    tokens = [ask(log)[0]]
    for number in range(40):
        log.changed(b"f%d" % number)
        tokens.append(ask(log)[0])
    assert ask(log, tokens[0])[1] == EVERYTHING
    assert ask(log, tokens[-2])[1] == {b"f39"}
    for at in range(39):
        known = ask(log, tokens[at])[1]
        assert known == EVERYTHING or known == {b"f%d" % n for n in range(at, 40)}


def test_more_changes_than_are_remembered_between_two_answers() -> None:
    log = covered(most=8)
    first, _ = ask(log)
    for number in range(40):
        log.changed(b"f%d" % number)
    second, paths = ask(log, first)
    assert paths == EVERYTHING
    log.changed(b"x")
    assert ask(log, second)[1] == {b"x"}


def test_a_directory_made_or_removed_is_told_with_a_name_inside() -> None:
    """Without, git shows what it remembers of an older directory of that name."""
    log = covered()
    first, _ = ask(log)
    log.directory_changed(b"d")
    assert ask(log, first)[1] == {b"d", b"d/.leasefs"}


def test_a_directory_that_moved_is_told_with_each_directory_below() -> None:
    below = {b"d": [b"d/e", b"d/e/f"]}
    log = ChangeLog("ab12", lambda path: below.get(path, []))
    log.cover()
    first, _ = ask(log)
    log.tree_changed(b"d")
    inside = {b"d/.leasefs", b"d/e/.leasefs", b"d/e/f/.leasefs"}
    assert ask(log, first)[1] == {b"d", b"d/", *inside}


def test_a_directory_with_too_much_below_changes_everything() -> None:
    def too_many(_: bytes) -> Iterable[bytes] | None:
        return None

    for log in (ChangeLog("ab12", too_many), ChangeLog("ab12")):
        log.cover()
        first, _ = ask(log)
        log.tree_changed(b"d")
        assert ask(log, first)[1] == EVERYTHING


def test_the_root_itself_changes_everything() -> None:
    for change in (ChangeLog.changed, ChangeLog.tree_changed):
        log = covered()
        first, _ = ask(log)
        change(log, b"")
        assert ask(log, first)[1] == EVERYTHING


def test_gits_own_directory_is_not_told() -> None:
    log = covered()
    first, _ = ask(log)
    for path in (b".git", b".git/index", b".git/objects/ab/cd"):
        log.changed(path)
    log.changed(b".gitignore")
    log.changed(b".github/ci")
    assert ask(log, first)[1] == {b".gitignore", b".github/ci"}


@pytest.mark.parametrize("path", [b"sub/.git", b"sub/.git/HEAD", b"sub/.git/x/.git/y"])
def test_a_nested_repository_is_told_as_its_directory(path: bytes) -> None:
    """Git passes over names with `.git` in them (verify_path in read-cache.c)."""
    log = covered()
    first, _ = ask(log)
    log.changed(path)
    assert ask(log, first)[1] == {b"sub", b"sub/.leasefs"}


def test_a_nested_repository_may_stand_anywhere() -> None:
    """Right after "everything" git may go by lists from when the repository was half made."""
    log = covered()
    first, _ = ask(log)
    log.changed(b"a\xe2\x80\x8d/.git/objects")
    assert ask(log, first)[1] == {b"a\xe2\x80\x8d", b"a\xe2\x80\x8d/.leasefs"}


@pytest.mark.parametrize(
    "path",
    [b".GIT", b"a/.Git/b", b"a/git~1", b"a/.git.", b"a/.git ./b", b"a\\.git", b".g\xe2\x80\x8cit"],
)
def test_a_name_that_git_passes_over_changes_everything(path: bytes) -> None:
    log = covered()
    first, _ = ask(log)
    log.changed(path)
    assert ask(log, first)[1] == EVERYTHING


def test_odd_names_are_told_as_they_are() -> None:
    names = {b"a\\b", b"a~", b"\xff\xfe", b"a\n", b" ", b"git~2", b".gitx", b"a.git"}
    log = covered()
    first, _ = ask(log)
    for name in names:
        log.changed(name)
    assert ask(log, first)[1] == names


PATHS = st.sampled_from([b"a", b"b", b"d/a", b"d/e/a", b"x~"])
STEPS = st.lists(
    st.one_of(
        PATHS,
        st.sampled_from(["ask", "ask", "everything", "uncover", "cover"]),
    ),
    max_size=60,
)


@given(STEPS, st.integers(4, 8))
def test_no_change_is_ever_kept_from_git(steps: list[bytes | str], most: int) -> None:
    """Against the plain list of all that happened: each answer holds what changed since its token."""
    log = ChangeLog("ab12", lambda _: (), most=most)
    happened: list[bytes] = []
    told: list[tuple[bytes, int]] = []
    for step in steps:
        if isinstance(step, bytes):
            happened.append(step)
            log.changed(step)
        elif step == "ask":
            for token, since in told:
                _, paths = ask(log, token)
                assert paths == EVERYTHING or paths == set(happened[since:])
            told.append((ask(log)[0], len(happened)))
        elif step == "everything":
            # A change that nobody saw: what is told must be "everything" for all tokens until now.
            happened.append(b"unseen")
            log.everything()
        elif step == "cover":
            log.cover()
        else:
            log.uncover()
            happened.append(b"unseen")


@given(st.binary(max_size=300))
def test_any_token_is_answered(token: bytes) -> None:
    assert ask(covered(), token.replace(b"\0", b""))[1] == EVERYTHING
