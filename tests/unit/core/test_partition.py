"""Partitions: regions never meet, every wanted file lies in exactly one, no conflict is missed (P1).

The judge of what matches is `naive_match`, and of what can meet `overlap`, which has tests of its own.
"""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasefs.core import partition_cuts, partition_regions
from leasefs.core.errors import BadPattern
from leasefs.core.globs import Glob, parse_glob
from leasefs.core.lease import MAX_GLOBS
from leasefs.core.overlap import first_overlap, overlap
from leasefs.core.partition import partition
from leasefs.core.partition_cuts import MOST_SIBLINGS
from leasefs.core.partition_meetings import meetings
from leasefs.core.partition_types import Conflict, File, Plan, Region, Spelling, Task
from leasefs.core.partition_walk import GlobWalk, numbers, share
from leasefs.testing.naive_globs import naive_match

TOKENS = ["a", "b", "/", "*", "?", "[ab]", "[!a]", "/**/", "**", "a/", "*a*", "é"]
PATHS = [
    "/".join(names).encode()
    for depth in (1, 2, 3)
    for names in product(("a", "b", "ab", "é"), repeat=depth)
]


def readable(pattern: str) -> Glob | None:
    try:
        return parse_glob(pattern)
    except BadPattern:
        return None


globs = (
    st.lists(st.sampled_from(TOKENS), min_size=1, max_size=5)
    .map("".join)
    .map(readable)
    .filter(lambda glob: glob is not None)
)
task_lists = st.lists(st.lists(globs, min_size=1, max_size=3), min_size=1, max_size=5).map(
    lambda lists: [Task(f"t{n}", tuple(one)) for n, one in enumerate(lists)]
)
file_lists = st.lists(
    st.builds(File, st.sampled_from(PATHS), st.integers(0, 9), st.integers(0, 9)),
    max_size=20,
    unique_by=lambda file: file.path,
)


def task(name: str, *patterns: str) -> Task:
    return Task(name, tuple(map(parse_glob, patterns)))


def files(*paths: str) -> list[File]:
    return [File(path.encode(), 100) for path in paths]


def matching(glob_list: tuple[Glob, ...], path: bytes) -> list[Glob]:
    return [glob for glob in glob_list if naive_match(glob.text, path)]


def check_regions(plan: Plan, tasks: list[Task], known: list[File]) -> None:
    for one, other in combinations(plan.regions, 2):
        assert first_overlap(one.globs, other.globs) is None, (one, other)
    for file in known:
        wanting = {one.name for one in tasks if matching(one.globs, file.path)}
        inside = [region for region in plan.regions if matching(region.globs, file.path)]
        assert len(inside) == bool(wanting), (file, inside)
        for region in inside:
            assert wanting <= {region.task, *region.then}
    for region in plan.regions:
        counted = [file for file in known if matching(region.globs, file.path)]
        assert region.files == len(counted)
        assert region.size_bytes == sum(file.size_bytes for file in counted)
        assert region.commits == sum(file.commits for file in counted)
        assert region.task not in region.then


def check_never_more(plan: Plan, tasks: list[Task]) -> None:
    """A region's tasks want something of it, and nothing lies in it that nobody wanted."""
    by_name = {one.name: one for one in tasks}
    for region in plan.regions:
        for name in (region.task, *region.then):
            assert first_overlap(region.globs, by_name[name].globs) is not None
        for path in PATHS:
            if matching(region.globs, path):
                assert any(matching(one.globs, path) for one in tasks)


def check_conflicts(plan: Plan, tasks: list[Task], known: list[File]) -> None:
    found = {conflict.tasks: conflict for conflict in plan.conflicts}
    assert len(found) == len(plan.conflicts)
    for one, other in combinations(tasks, 2):
        conflict = found.get((one.name, other.name))
        common = [
            file.path
            for file in known
            if matching(one.globs, file.path) and matching(other.globs, file.path)
        ]
        assert (conflict is None) == (first_overlap(one.globs, other.globs) is None)
        if conflict is None:
            assert not common
            continue
        assert conflict.files == len(common)
        assert conflict.witness in common or not common
        for glob, whose in zip(conflict.globs, (one, other), strict=True):
            assert naive_match(glob, conflict.witness)
            assert glob in {mine.text for mine in whose.globs}
        assert conflict.regions or not common


def check_unclaimed(plan: Plan, tasks: list[Task], known: list[File]) -> None:
    nobodys = [
        file.path for file in known if not any(matching(one.globs, file.path) for one in tasks)
    ]
    rows = [row.path for row in plan.unclaimed]
    assert sum(row.files for row in plan.unclaimed) == len(nobodys)
    for path in nobodys:
        assert (
            sum(path == row or (row.endswith(b"/") and path.startswith(row)) for row in rows) == 1
        )
    for file in known:
        if file.path not in nobodys:
            assert not any(file.path.startswith(row) for row in rows if row.endswith(b"/"))


def check_nothing_is_left_open(plan: Plan, tasks: list[Task]) -> None:
    """What is wanted and in no region is said to be: it would lie below an open directory."""
    open_ = set(plan.open)
    for path in PATHS:
        wanted = any(matching(one.globs, path) for one in tasks)
        if wanted and not any(matching(region.globs, path) for region in plan.regions):
            above = {path.rpartition(b"/")[0], *(path[:at] for at in range(len(path)))}
            assert open_ & above, path


@settings(max_examples=300, deadline=None)
@given(task_lists, file_lists, st.booleans())
def test_regions_are_apart_and_whole_and_no_conflict_is_missed(
    tasks: list[Task], known: list[File], exact: bool
) -> None:
    plan = partition(tasks, known, exact=exact)
    assert plan.files == len(known)
    check_regions(plan, tasks, known)
    check_never_more(plan, tasks)
    check_conflicts(plan, tasks, known)
    check_unclaimed(plan, tasks, known)
    check_nothing_is_left_open(plan, tasks)
    firsts = {region.task for region in plan.regions}
    assert plan.idle == tuple(one.name for one in tasks if one.name not in firsts)


@settings(deadline=None)
@given(task_lists, file_lists, st.lists(globs, max_size=2))
def test_what_is_to_be_apart_is_a_region_of_its_own(
    tasks: list[Task], known: list[File], apart: list[Glob]
) -> None:
    plan = partition(tasks, known, apart=apart)
    check_conflicts(plan, tasks, known)
    for one, other in combinations(plan.regions, 2):
        assert first_overlap(one.globs, other.globs) is None
    for file in known:
        wanting = [one for one in tasks if matching(one.globs, file.path)]
        inside = [region for region in plan.regions if matching(region.globs, file.path)]
        # What is apart may be more than anybody wanted.
        assert len(inside) == 1 or (not wanting and not inside)
        rows = [row.path for row in plan.unclaimed]
        under = [
            row
            for row in rows
            if file.path == row or (row[-1:] == b"/" and file.path.startswith(row))
        ]
        assert len(under) + len(inside) == 1


@settings(deadline=None)
@given(st.lists(globs, min_size=1, max_size=8), file_lists)
def test_the_walk_matches_as_globs_do(glob_list: list[Glob], known: list[File]) -> None:
    paths = [file.path for file in known]
    seen: list[int] = []
    for set_, inside in GlobWalk(glob_list).cells(paths).items():
        seen += inside
        for number in inside:
            wanted = [at for at, glob in enumerate(glob_list) if glob.matches(paths[number])]
            assert list(numbers(set_)) == wanted
    assert sorted(seen) == list(range(len(paths)))
    matched = sum(any(glob.matches(path) for glob in glob_list) for path in paths)
    assert share(glob_list, paths) == pytest.approx(matched / len(paths) if paths else 0.0)


def regions_of(plan: Plan) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    found: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for region in plan.regions:
        text = " ".join(glob.text for glob in region.globs)
        found.setdefault(region.task, []).append((text, region.then))
    return found


def test_tasks_apart_keep_what_they_asked_for() -> None:
    plan = partition([task("a", "src/**", "*.md"), task("b", "docs/**")], files("src/x", "docs/y"))
    assert regions_of(plan) == {"a": [("*.md src/**", ())], "b": [("docs/**", ())]}
    assert plan.conflicts == ()
    assert {region.spelling for region in plan.regions} == {Spelling.ASKED}


def test_the_narrower_task_keeps_the_common_ground_as_a_region_that_the_wider_has_next() -> None:
    known = files("src/ab/1", "src/ab/2", "src/x", "src/y/z", "docs/d")
    plan = partition([task("wide", "src/**"), task("core", "src/ab/**", "docs/**")], known)
    assert regions_of(plan) == {
        "wide": [("src/* src/[!a]*/** src/a/** src/a[!b]*/** src/ab?*/**", ())],
        "core": [("docs/**", ()), ("src/ab/**", ("wide",))],
    }
    assert plan.conflicts == (
        Conflict(("wide", "core"), ("src/**", "src/ab/**"), b"src/ab/1", 2, ("R3",)),
    )


def test_ground_that_is_wanted_as_it_is_by_several_goes_to_the_task_of_which_it_is_more() -> None:
    known = files("package.json", "src/a", "src/b", "docs/c")
    plan = partition(
        [task("big", "package.json", "src/**"), task("small", "package.json", "docs/**")], known
    )
    assert regions_of(plan)["small"] == [("docs/**", ()), ("package.json", ("big",))]
    assert plan.idle == ()


def test_many_directories_stay_whole_where_one_task_cuts_across_them() -> None:
    known = files(*(f"p{n}/{name}" for n in range(40) for name in ("a.md", "b", "c")), "top.md")
    tasks = [*(task(f"p{n}", f"p{n}/**") for n in range(40)), task("docs", "**/*.md")]
    plan = partition(tasks, known)
    assert len(plan.regions) == 41
    assert regions_of(plan)["p7"] == [("p7/**", ("docs",))]
    (docs,) = (region for region in plan.regions if region.task == "docs")
    assert docs.files == 1
    assert len(plan.conflicts) == 40


def test_what_could_meet_only_in_future_is_a_conflict_with_a_path_for_witness() -> None:
    plan = partition([task("a", "src/**"), task("b", "**/*.zig")], files("src/x", "y"))
    (conflict,) = plan.conflicts
    assert (conflict.files, conflict.witness) == (0, b"src/a.zig")
    assert regions_of(plan)["a"] == [("src/**", ("b",))]


def test_siblings_name_what_exists_and_say_where_new_files_are_nobodys() -> None:
    known = files("src/ab/1", "src/x/1", "src/x/2", "src/f")
    plan = partition([task("wide", "src/**"), task("core", "src/ab/**")], known, exact=False)
    (wide,) = (region for region in plan.regions if region.task == "wide")
    assert [glob.text for glob in wide.globs] == ["src/f", "src/x/**"]
    assert (wide.spelling, plan.open) == (Spelling.SIBLINGS, (b"src",))


def test_what_cannot_be_taken_apart_stays_whole_and_goes_to_the_task_with_more_of_it() -> None:
    known = files(
        *(f"src/{name}{n}" for name in ("xy", "x", "y", "yy") for n in range(MOST_SIBLINGS + 1))
    )
    tasks = [task("x", "src/**/*x*", "doc/**"), task("y", "src/**/*y*")]
    plan = partition(tasks, known)
    (knot,) = (region for region in plan.regions if region.spelling is Spelling.WHOLE)
    assert (knot.task, knot.then, knot.files) == ("y", ("x",), len(known))
    assert regions_of(plan)["x"] == [("doc/**", ())]


def test_one_that_cuts_across_many_takes_several_regions_and_leaves_them_alone() -> None:
    claimed, others = range(100), range(100, 700)
    known = files(*(f"packages/p{n}/{name}" for n in (*claimed, *others) for name in ("a.md", "b")))
    tasks = [*(task(f"p{n}", f"packages/p{n}/**") for n in claimed), task("docs", "**/*.md")]
    plan = partition(tasks, known)
    docs = [region for region in plan.regions if region.task == "docs"]
    assert [len(region.globs) for region in docs] == [256, 256, 88]
    assert [region.files for region in docs] == [256, 256, 88]
    assert docs[0].globs[0].text == "packages/p100/**/*.md"
    assert len(plan.regions) == len(claimed) + len(docs)
    assert plan.open == (b"", b"packages")


@settings(max_examples=150, deadline=None)
@given(task_lists, file_lists, st.booleans())
def test_however_little_a_lease_may_say_the_rules_hold(
    tasks: list[Task], known: list[File], exact: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition_regions, "MAX_GLOBS", 2)
        patch.setattr(partition_cuts, "MOST_EXACT", 3)
        patch.setattr(partition_cuts, "MOST_SIBLINGS", 3)
        plan = partition(tasks, known, exact=exact)
    check_regions(plan, tasks, known)
    check_never_more(plan, tasks)
    check_conflicts(plan, tasks, known)
    check_nothing_is_left_open(plan, tasks)


def test_a_region_that_is_too_much_for_a_lease_becomes_several() -> None:
    patterns = [f"src/{n}.c" for n in range(MAX_GLOBS + 10)]
    plan = partition([task("many", *patterns)], files(*patterns))
    assert [len(region.globs) for region in plan.regions] == [MAX_GLOBS, 10]
    assert sum(region.files for region in plan.regions) == MAX_GLOBS + 10


def test_what_is_apart_is_taken_out_of_everything_else() -> None:
    known = files("src/routes", "src/a", "src/b")
    plan = partition([task("one", "src/**")], known, apart=[parse_glob("src/routes")])
    (alone,) = (region for region in plan.regions if region.files == 1)
    assert [glob.text for glob in alone.globs] == ["src/routes"]
    assert partition([task("one", "docs/**")], known, apart=[parse_glob("src/a")]).regions == (
        Region("R1", "one", (), (parse_glob("docs/**"),), 0, 0, 0, Spelling.ASKED),
    )


def test_unclaimed_ground_is_told_by_its_uppermost_directories() -> None:
    plan = partition([task("a", "src/a/**")], files("src/a/1", "src/b/2", "src/b/c/3", "x/4", "y"))
    assert [(row.path, row.files, row.size_bytes) for row in plan.unclaimed] == [
        (b"src/b/", 2, 200),
        (b"x/", 1, 100),
        (b"y", 1, 100),
    ]


def test_large_and_hot_files_are_told_and_which_of_them_should_be_apart() -> None:
    known = [
        File(b"src/big", 500_000, 1),
        File(b"src/hot", 10, 40),
        File(b"src/calm", 20, 3),
        File(b"alone", 600_000, 90),
        File(b"nobodys", 700_000, 50),
    ]
    plan = partition([task("one", "src/**"), task("two", "alone")], known, commits=200)
    assert [(one.file.path, one.apart, one.tasks) for one in plan.largest] == [
        (b"nobodys", False, ()),
        (b"alone", False, ("two",)),
        (b"src/big", True, ("one",)),
        (b"src/calm", False, ("one",)),
        (b"src/hot", True, ("one",)),
    ]
    assert [one.file.path for one in plan.hottest[:3]] == [b"alone", b"nobodys", b"src/hot"]
    hot = next(one for one in plan.hottest if one.file.path == b"src/hot")
    assert (hot.apart, hot.region) == (True, "R1")
    later = partition([task("one", "src/**")], known, commits=10_000)
    assert not any(one.apart for one in later.hottest if one.file.path == b"src/hot")


@settings(deadline=None)
@given(st.lists(globs, max_size=8, unique=True))
def test_meetings_are_those_of_every_pair(glob_list: list[Glob]) -> None:
    for number, met in enumerate(meetings(glob_list)):
        others = [at for at in range(len(glob_list)) if at != number]
        assert met == {at for at in others if overlap(glob_list[at], glob_list[number]) is not None}
