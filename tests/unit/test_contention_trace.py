"""The trace of scripts/bench_contention and the bounds that it is judged by."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from leasefs.testing.contention_trace import (
    HOT,
    Edit,
    Task,
    bound_s,
    edit_by_edit,
    fair_s,
    files,
    jain,
    planned_s,
    total_s,
    trace,
)

EDITS = st.builds(Edit, st.sampled_from("abcd"), st.sampled_from([0.5, 1.0, 2.0]))
TASKS = st.lists(EDITS, min_size=1, max_size=2, unique_by=lambda edit: edit.path).map(
    lambda edits: Task(tuple(edits))
)
TRACES = st.lists(st.lists(TASKS, min_size=1, max_size=4), min_size=1, max_size=5)


@given(TRACES)
def test_no_plan_beats_the_bound_and_none_is_worse_than_one_after_the_other(
    wanted: list[list[Task]],
) -> None:
    assert bound_s(edit_by_edit(wanted)) <= bound_s(wanted) + 1e-9
    assert bound_s(wanted) <= planned_s(wanted, tries=20) + 1e-9
    assert planned_s(wanted, tries=20) <= planned_s(wanted) <= total_s(wanted) + 1e-9


@given(TRACES)
def test_a_fair_queue_beats_no_bound_and_is_not_worse_than_one_after_the_other(
    wanted: list[list[Task]],
) -> None:
    assert bound_s(wanted) - 1e-9 <= fair_s(wanted) <= total_s(wanted) + 1e-9


def test_a_fair_queue_lets_nobody_pass_who_came_later_and_wants_the_same() -> None:
    a, both, b = Edit("a", 2.0), (Edit("a", 1.0), Edit("b", 1.0)), Edit("b", 1.0)
    # The third could have had its file while the second waited, and would have held it up.
    assert fair_s([[Task((a,))], [Task(both)], [Task((b,))]]) == 5.0
    # Whoever wants nothing of what is waited for does not wait.
    assert fair_s([[Task((a,))], [Task(both)], [Task((Edit("c", 4.5),))]]) == 4.5


def test_one_file_for_all_is_one_task_at_a_time() -> None:
    wanted = [[Task((Edit("a", 1.0),))] * 3 for _ in range(4)]
    assert bound_s(wanted) == planned_s(wanted) == total_s(wanted) == 12.0


def test_files_of_their_own_do_not_wait() -> None:
    wanted = [[Task((Edit(str(agent), 1.0),))] * 3 for agent in range(4)]
    assert bound_s(wanted) == planned_s(wanted) == 3.0


def test_whole_tasks_hold_all_their_files_all_the_time() -> None:
    wanted = [[Task((Edit("a", 1.0), Edit("b", 3.0)))], [Task((Edit("a", 1.0),))]]
    assert bound_s(wanted) == 5.0
    assert bound_s(edit_by_edit(wanted)) == 4.0


def test_looking_at_more_plans_finds_better_ones() -> None:
    wanted = trace(16, 8.0, 1)
    assert planned_s(wanted, tries=100) < planned_s(wanted)


def test_a_trace_comes_from_its_seed_and_is_skewed() -> None:
    one = trace(20, 30.0, 1)
    assert one == trace(20, 30.0, 1) != trace(20, 30.0, 2)
    assert all(30.0 <= sum(task.work_s for task in tasks) < 32.0 for tasks in one)
    edits = [edit.path for tasks in one for task in tasks for edit in task.edits]
    assert all(0.005 < edits.count(path) / len(edits) < 0.05 for path in HOT)
    assert len(files(one)) > 200


@pytest.mark.parametrize(
    ("shares", "index"), [([1.0, 1.0, 1.0], 1.0), ([1.0, 0.0, 0.0, 0.0], 0.25), ([0.0], 1.0)]
)
def test_jains_index(shares: list[float], index: float) -> None:
    assert jain(shares) == index
