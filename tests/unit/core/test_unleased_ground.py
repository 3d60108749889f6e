"""What is claimed for a change that no lease covers: enough for it to pass, and no more than the rules say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasefs.core.errors import InvalidRequest
from leasefs.core.globs import parse_glob
from leasefs.core.held import HeldLease, HeldView
from leasefs.core.lease import Mode
from leasefs.core.policy import Allowed, Op, Place, Target, decide
from leasefs.core.unleased_ground import (
    Regions,
    ground_for,
    ground_of_files,
    saves_unleased,
    written_over,
)
from leasefs.core.unleased_policy import DENY, WORDS, UnleasedPolicy, parse_policy

NONE = Regions()
PACKAGES = Regions(["packages/*/", "docs/", "packages/core/deep/"])


class Seen(Target):
    """A name in a directory of which more is known."""

    __slots__ = ("changed", "names", "reading")

    def __init__(
        self, path: bytes, *names: bytes, reading: bytes = b"", changed: bool = False
    ) -> None:
        super().__init__(path)
        self.names = names
        self.reading = reading
        self.changed = changed

    def is_beside(self, name: bytes) -> bool:
        return name in self.names

    def read_beside(self, pid: int) -> list[bytes]:
        return [self.reading] if self.reading and pid == 7 else []

    def changed_since_read(self, pid: int, beside: bytes = b"") -> bool:
        return self.changed


def view_of(*globs: str) -> HeldView:
    lease = HeldLease("L1", 1, tuple(map(parse_glob, globs)), Mode.EXCLUSIVE, 30.0, 100.0)
    return HeldView([lease] if globs else [])


def ground(
    op: Op, *targets: Target, regions: Regions = NONE, held: tuple[str, ...] = ()
) -> list[str]:
    return list(ground_for(op, targets, view_of(*held), 0.0, regions, 7))


def test_a_file_is_claimed_by_its_path_alone() -> None:
    assert ground(Op.OPEN, Target(b"src/[slug].py")) == [r"src/\[slug].py"]
    assert ground(Op.UNLINK, Target(b"a")) == ["a"]
    assert ground(Op.RMDIR, Target(b"a")) == ["a"]
    assert ground(Op.CHMOD, Target(b"\xff")) == ["\udcff"]


def test_a_new_directory_is_claimed_with_what_will_be_in_it() -> None:
    assert ground(Op.MKDIR, Target(b"src/new")) == ["src/new", "src/new/**"]


def test_a_directory_that_moves_takes_all_under_both_names() -> None:
    ends = Target(b"a", whole_tree=True), Target(b"b", whole_tree=True)
    assert ground(Op.RENAME, *ends) == ["a", "a/**", "b", "b/**"]


def test_all_names_of_a_file_are_claimed_at_once() -> None:
    assert ground(Op.OPEN, Target(b"a", aliases=(b"b", b"c"))) == ["b", "c", "a"]
    scratch = Target(b"out/a", Place.SCRATCH, aliases=(b"b",))
    assert ground(Op.OPEN, scratch) == ["b"]


def test_what_is_held_is_not_claimed_again() -> None:
    assert ground(Op.RENAME, Target(b"a"), Target(b"b"), held=("a",)) == ["b"]


def test_the_root_is_not_to_be_claimed() -> None:
    assert ground(Op.CHMOD, Target(b"", tracked=True)) == []


def test_more_names_than_a_claim_may_have_are_not_claimed() -> None:
    assert ground(Op.OPEN, Target(b"a", aliases=tuple(b"%d" % n for n in range(300)))) == []


@pytest.mark.parametrize(
    ("path", "region"),
    [
        (b"packages/core/a.py", b"packages/core"),
        (b"packages/core/x/a.py", b"packages/core"),
        (b"packages/core/deep/a.py", b"packages/core/deep"),
        (b"packages/core/deep/er/a.py", b"packages/core/deep"),
        (b"packages/core", None),
        (b"docs/a", b"docs"),
        (b"src/docs/a", None),
    ],
)
def test_the_smallest_region_around_a_path(path: bytes, region: bytes | None) -> None:
    assert PACKAGES.around(path) == region
    claimed = ground(Op.OPEN, Target(path), regions=PACKAGES)
    where = region.decode() if region else path.decode()
    assert claimed == ([where, f"{where}/**"] if region else [where])


def test_a_region_that_is_being_made_is_claimed_as_one() -> None:
    made = ground(Op.MKDIR, Target(b"packages/new"), regions=PACKAGES)
    assert made == ["packages/new", "packages/new/**"]
    # The regions below are claimed one by one.
    assert ground(Op.MKDIR, Target(b"packages"), regions=PACKAGES) == ["packages"]


@pytest.mark.parametrize("text", ["docs", "/", "", "//", "a/**", "[/", "../a/"])
def test_a_region_is_a_directory(text: str) -> None:
    with pytest.raises(InvalidRequest):
        Regions([text])


def test_a_companion_claims_the_file_that_is_saved() -> None:
    assert ground(Op.CREATE, Seen(b"src/.a.py.swp", b"a.py")) == ["src/a.py"]
    assert ground(Op.CREATE, Seen(b"src/a.py.tmp.123", b"a.py")) == ["src/a.py"]
    # Where there is no such file it is one by itself.
    assert ground(Op.CREATE, Seen(b"src/notes.bak")) == ["src/notes.bak"]
    tracked = Target(b"src/a.py~", tracked=True)
    assert ground(Op.OPEN, tracked) == ["src/a.py~"]


def test_a_companion_of_what_is_about_to_change_needs_nothing_more() -> None:
    assert ground(Op.RENAME, Seen(b"a.py.tmp.123"), Seen(b"a.py")) == ["a.py"]


def test_a_companion_whose_name_does_not_say_of_what_claims_what_is_being_read() -> None:
    assert ground(Op.CREATE, Seen(b"src/sedAbCdEf", reading=b"src/a.py")) == ["src/a.py"]
    assert ground(Op.CREATE, Seen(b"src/sedAbCdEf")) == ["src/sedAbCdEf"]


def test_what_is_being_saved_is_claimed_though_a_neighbours_lease_lets_the_companion_pass() -> None:
    sed = Seen(b"src/sedAbCdEf", reading=b"src/a.py")
    assert saves_unleased(Op.CREATE, [sed], view_of("src/b"), 0.0, 7) == b"src/a.py"
    assert saves_unleased(Op.CREATE, [sed], view_of("src/a.py"), 0.0, 7) is None
    assert saves_unleased(Op.CREATE, [Seen(b"src/a")], view_of(), 0.0, 7) is None


def test_what_others_changed_since_it_was_read_is_not_written_over() -> None:
    changed = Seen(b"a", changed=True)
    for op in (Op.TRUNCATE, Op.UNLINK):
        assert written_over(op, [changed], 7) == b"a"
    assert written_over(Op.RENAME, [Seen(b"b"), changed], 7) == b"a"
    # Who appends, or reads what is there after opening it, undoes nothing.
    assert written_over(Op.OPEN, [changed], 7) is None
    assert written_over(Op.TRUNCATE, [Seen(b"a")], 7) is None
    sed = Seen(b"sedAbCdEf", reading=b"a", changed=True)
    assert written_over(Op.CREATE, [sed], 7) == b"a"


def test_many_files_are_claimed_in_as_few_claims_as_will_do() -> None:
    paths = [b"%d" % n for n in range(300)]
    claims = ground_of_files(paths, NONE)
    assert [len(globs) for globs in claims] == [256, 44]
    assert ground_of_files([b"docs/a", b"docs/b"], PACKAGES) == [("docs", "docs/**")]


NAMES = st.sampled_from([b"a", b"b", b"packages", b"core", b"docs", b"f.py", b"x~", b".f.py.swp"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(b"/".join)
OPS = st.sampled_from([op for op in Op if op not in (Op.RENAME, Op.LINK)])


@given(
    OPS,
    PATHS,
    st.lists(PATHS, max_size=2),
    st.lists(PATHS, max_size=3),
    st.sampled_from([NONE, PACKAGES]),
    st.booleans(),
)
def test_what_is_claimed_lets_the_operation_pass(
    op: Op, path: bytes, aliases: list[bytes], held: list[bytes], regions: Regions, whole: bool
) -> None:
    """And what passes already claims nothing."""
    before = tuple(one.decode() for one in held)
    target = Target(path, aliases=tuple(aliases), whole_tree=whole)
    claimed = ground(op, target, regions=regions, held=before)
    assert isinstance(decide(op, [target], view_of(*before, *claimed), 0.0), Allowed)


@given(PATHS, PATHS, st.booleans(), st.sampled_from([NONE, PACKAGES]))
def test_so_it_is_with_two_names(source: bytes, goal: bytes, whole: bool, regions: Regions) -> None:
    ends = Target(source, whole_tree=whole), Target(goal, whole_tree=whole)
    claimed = ground(Op.RENAME, *ends, regions=regions)
    assert isinstance(decide(Op.RENAME, ends, view_of(*claimed), 0.0), Allowed)


def test_policies_are_read_and_said() -> None:
    for word in WORDS:
        assert parse_policy(word).word == word
    assert parse_policy("wait,claim") == UnleasedPolicy(claims=True, waits=True)
    assert parse_policy("deny") == DENY
    for wrong in ("", "claims", "observe+wait", "deny,claim", "claim+", "claim wait"):
        with pytest.raises(ValueError, match="one of deny, claim, wait, claim\\+wait, observe"):
            parse_policy(wrong)
