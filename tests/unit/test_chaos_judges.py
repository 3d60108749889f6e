"""The judges of `scripts/chaos`: sound histories pass, and each kind of broken promise is found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from leasefs.core.lease import Mode
from leasefs.testing.chaos.acts import NO, UNSURE, ActRecorder, read_acts
from leasefs.testing.chaos.history import History, Violation
from leasefs.testing.chaos.holds import merged, within, without
from leasefs.testing.chaos.invented import TREE, TTL_S, Invented
from leasefs.testing.chaos.verdict import violations

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AGENTS = ("ada", "bob", "cy")
PATHS = ("hot/a", "hot/b", "src/c")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "grant",
                "grant",
                "write",
                "write",
                "write",
                "reset",
                "count",
                "renew",
                "end",
                "restart",
            ]
        ),
        st.sampled_from(AGENTS),
        st.sampled_from(PATHS),
        st.sampled_from([0.0, 0.5, 4.0, TTL_S + 1]),
    ),
    max_size=40,
)


def kinds(history: History) -> set[str]:
    return {found.kind for found in violations(history)}


class Sound:
    """Does steps as far as they are allowed; remembers who holds what, and until when it is good."""

    def __init__(self) -> None:
        self.made = Invented()
        self.held: dict[str, tuple[str, str, float]] = {}

    def step(self, what: str, agent: str, path: str, pause_s: float) -> None:
        made = self.made
        made.now_s += pause_s
        lease, holder, good_until_s = self.held.get(path, ("", "", 0.0))
        mine = holder == agent and made.now_s + 1 < good_until_s
        if what == "grant":
            if not lease or made.now_s > good_until_s:
                if lease:
                    made.expire(holder, lease)
                self._good(path, made.grant(agent, path), agent)
        elif what == "restart":
            made.start(ahead_s=pause_s * 100, stood_s=pause_s)
        elif what == "renew" and holder == agent:
            made.renew(agent, lease)
            self._good(path, lease, agent)
        elif what == "end" and holder == agent:
            made.release(agent, lease)
            del self.held[path]
        elif what == "count" and mine:
            made.count(agent, path)
        elif what in {"write", "reset"} and mine:
            made.write(agent, path, "append" if what == "write" else "reset")

    def _good(self, path: str, lease: str, agent: str) -> None:
        self.held[path] = lease, agent, self.made.now_s + TTL_S - 1


def sound(steps: list[tuple[str, str, str, float]]) -> Sound:
    world = Sound()
    for step in steps:
        if step[0] == "count" and step[2] != "src/c":
            continue  # a file is either counted in or written to
        if step[0] in {"write", "reset"} and step[2] == "src/c":
            continue
        world.step(*step)
    return world


def without_foreign_resets(made: Invented) -> Invented:
    """What another agent's reset took away is kept, as a new holder has to (P9)."""
    for act in made.acts:
        if act.line:
            made.kept.append(act.line.encode())
    return made


@given(STEPS)
def test_sound_histories_pass(steps: list[tuple[str, str, str, float]]) -> None:
    assert violations(without_foreign_resets(sound(steps).made).history()) == []


@given(STEPS, st.data())
def test_a_line_that_is_nowhere_is_missed(
    steps: list[tuple[str, str, str, float]], data: st.DataObject
) -> None:
    made = sound(steps).made
    made.kept.clear()
    last = {path: lines for path, lines in made.files.items() if lines}
    if not last:
        return
    path = data.draw(st.sampled_from(sorted(last)))
    line = data.draw(st.sampled_from(last[path]))
    author = next(act for act in made.acts if act.line == line)
    later = [
        a for a in made.acts if a.what == "reset" and a.path == path and a.agent == author.agent
    ]
    if any(act.ended_s >= author.began_s for act in later):
        return
    made.files[path].remove(line)
    assert "acknowledged bytes lost" in kinds(made.history())


@given(STEPS, st.data())
def test_a_write_moved_to_where_its_agent_held_nothing_is_found(
    steps: list[tuple[str, str, str, float]], data: st.DataObject
) -> None:
    made = without_foreign_resets(sound(steps).made)
    writes = [number for number, act in enumerate(made.acts) if act.line or act.what == "count"]
    if not writes:
        return
    number = data.draw(st.sampled_from(writes))
    long_ago = {"began_s": 1.0, "ended_s": 1.1}
    made.acts[number] = msgspec.structs.replace(made.acts[number], **long_ago)
    assert "written outside of any lease" in kinds(made.history())


@given(STEPS, st.data())
def test_a_grant_beside_one_that_lives_is_found(
    steps: list[tuple[str, str, str, float]], data: st.DataObject
) -> None:
    world = sound(steps)
    if not world.held:
        return
    path = data.draw(st.sampled_from(sorted(world.held)))
    world.made.grant("mallory", data.draw(st.sampled_from([path, "**", f"{path[:3]}*/*"])))
    assert "double holders" in kinds(without_foreign_resets(world.made).history())


def two_in_turn() -> Invented:
    made = Invented()
    first = made.grant("ada", "hot/**")
    made.write("ada", "hot/a")
    made.release("ada", first)
    second = made.grant("bob", "hot/**")
    made.write("bob", "hot/a")
    made.release("bob", second)
    return made


def fenced(made: Invented) -> None:
    """Ada's line lies behind Bob's."""
    made.files["hot/a"].reverse()


def twice(made: Invented) -> None:
    made.files["hot/a"].insert(0, made.files["hot/a"][0])


def refused(made: Invented) -> None:
    made.grant("cy", "hot/**")
    act = made.write("cy", "hot/a")
    made.acts[-1] = msgspec.structs.replace(act, outcome=NO)


def unsure_and_late(made: Invented) -> None:
    """Cy was cut off, and its line came into the file although it held nothing."""
    act = made.write("cy", "hot/a")
    made.acts[-1] = msgspec.structs.replace(act, outcome=UNSURE, ended_s=float("inf"))


def lapsed(made: Invented) -> None:
    made.grant("ada", "src/c")
    made.now_s += TTL_S + 1
    made.write("ada", "src/c")


def shared(made: Invented) -> None:
    made.grant("ada", "src/c", mode=Mode.SHARED)
    made.write("ada", "src/c")


def downgraded(made: Invented) -> None:
    made.downgrade("ada", made.grant("ada", "src/c"))
    made.now_s += 1
    made.write("ada", "src/c")


def given_away(made: Invented) -> None:
    """The giver of a part writes there."""
    made.grant("bob", "src/c", parent=made.grant("ada", "src/**"))
    made.write("ada", "src/c")


def forgotten_grant(made: Invented) -> None:
    made.act("ada", "claim", lease="L99", token=99)


def other_token(made: Invented) -> None:
    lease = made.grant("ada", "src/c")
    made.act("ada", "claim", lease=lease, token=3)


def forgotten_waiter(made: Invented) -> None:
    made.act("ada", "claim", lease="L99")


def forgotten_release(made: Invented) -> None:
    made.act("ada", "release", lease=made.grant("ada", "src/c"))


def waiting_for_ever(made: Invented) -> None:
    made.queue("ada", "src/c")


def gap(made: Invented) -> None:
    made.withdraw(made.claim("ada", "src/c"))
    made.log[-1] = msgspec.structs.replace(made.log[-1], seq=made.log[-1].seq + 1)


def back_in_time(made: Invented) -> None:
    made.withdraw(made.claim("ada", "src/c"))
    made.log[-1] = msgspec.structs.replace(made.log[-1], at_s=0.0)


def same_number(made: Invented) -> None:
    made.grant("ada", "count/0")
    act = made.count("ada", "count/0")
    made.acts.append(msgspec.structs.replace(act, number=999))


def lost_number(made: Invented) -> None:
    made.grant("ada", "count/0")
    made.count("ada", "count/0")
    made.counts["count/0"] = 0


def number_of_nobody(made: Invented) -> None:
    made.counts["count/0"] = 1
    made.grant("ada", "count/0")
    made.count("ada", "count/0")


def moved_and_lost(made: Invented) -> None:
    """Bob moved Ada's file over another one, and her line is gone."""
    lease = made.grant("ada", "src/**")
    made.write("ada", "src/c")
    made.release("ada", lease)
    made.grant("bob", "src/**")
    made.act("bob", "rename", path="src/d", other="src/c")
    del made.files["src/c"]


BAD = [
    (fenced, "a fenced writer wrote"),
    (twice, "written twice"),
    (refused, "a refused write had an effect"),
    (unsure_and_late, "written outside of any lease"),
    (lapsed, "written outside of any lease"),
    (shared, "written outside of any lease"),
    (downgraded, "written outside of any lease"),
    (given_away, "written outside of any lease"),
    (forgotten_grant, "a grant was forgotten"),
    (other_token, "a grant was forgotten"),
    (forgotten_waiter, "a queued claim was forgotten"),
    (forgotten_release, "a release was forgotten"),
    (waiting_for_ever, "a lost waiter"),
    (gap, "tokens not monotonic"),
    (back_in_time, "ledger time went back"),
    (same_number, "a count was lost"),
    (lost_number, "a count was lost"),
    (number_of_nobody, "a count out of nothing"),
    (moved_and_lost, "acknowledged bytes lost"),
]


@pytest.mark.parametrize(("spoil", "kind"), BAD, ids=lambda one: getattr(one, "__name__", None))
def test_each_broken_promise_is_found_and_none_besides(
    spoil: Callable[[Invented], None], kind: str
) -> None:
    made = two_in_turn()
    assert violations(made.history()) == []
    spoil(made)
    assert kinds(made.history()) == {kind}


def test_a_log_that_lost_its_beginning_is_found() -> None:
    made = two_in_turn()
    del made.log[0]
    assert "history incomplete" in kinds(made.history())


def test_uncommitted_work_is_known_or_lies_in_a_rescue_as_it_is() -> None:
    made = two_in_turn()
    path = (TREE, "hot/a")
    history = replace(made.history(), dirty=frozenset({path}))
    assert kinds(history) == {"a lost intent"}
    assert kinds(replace(history, intents=frozenset({path}))) == set()
    rescued = replace(history, rescued=frozenset({path}))
    assert kinds(rescued) == {"a lost intent"}, "the rescue has other bytes"
    text = history.texts[TREE]["hot/a"]
    assert kinds(replace(rescued, kept={TREE: (text,)})) == set()
    assert kinds(replace(history, dirty=frozenset(), intents=frozenset({path}))) == {
        "an intent of nothing"
    }


def test_what_the_runner_says_and_whoever_still_waits_are_told() -> None:
    trouble = Violation("left behind", ("a mount",))
    history = replace(two_in_turn().history(), troubles=(trouble,), waiting=("L1 of ada",))
    assert kinds(history) == {"left behind", "a lost waiter"}


def test_what_is_allowed_is_no_violation() -> None:
    made = Invented()
    parent = made.grant("ada", "src/**")
    part = made.grant("bob", "src/c", parent=parent)
    made.write("bob", "src/c")
    made.write("ada", "src/d")
    made.release("bob", part)
    made.write("ada", "src/c")
    made.renew("ada", parent)
    made.start(ahead_s=7000.0, stood_s=3.0)
    made.write("ada", "src/c")
    made.release("ada", parent)
    readers = [made.grant(agent, "src/**", mode=Mode.SHARED) for agent in AGENTS[:2]]
    made.release("bob", readers[1])
    made.grant("ada", "src/**", replaces=readers[0])
    made.write("ada", "src/c")
    made.act("ada", "rename", path="src/e", other="src/d")
    made.files["src/e"] = made.files.pop("src/d")
    made.withdraw(made.queue("cy", "src/**"))
    assert violations(made.history()) == []


@pytest.mark.parametrize("what", ["unlink", "reset", "append"])
@pytest.mark.parametrize("left", ["handed-on", "kept", ""])
@pytest.mark.parametrize("order", ["after", "before"])
def test_only_what_was_handed_on_is_its_heirs_to_do_away_with(
    what: str, left: str, order: str
) -> None:
    made = Invented()
    lease = made.grant("ada", "hot/a")
    if order == "after":
        made.write("ada", "hot/a")
    made.release("ada", lease, left)
    lease = made.grant("ada", "hot/a")
    if order == "before":
        made.write("ada", "hot/a")
    made.release("ada", lease)
    made.grant("bob", "hot/a")
    if what == "unlink":
        made.act("bob", what, path="hot/a")
    else:
        made.write("bob", "hot/a", what)
    made.files["hot/a"] = made.files["hot/a"][-1:] if what != "unlink" else []
    allowed = left == "handed-on" and order == "after" and what != "append"
    assert kinds(made.history()) == (set() if allowed else {"acknowledged bytes lost"})


def test_a_cut_off_write_may_be_there_or_not() -> None:
    for there in (True, False):
        made = two_in_turn()
        made.grant("cy", "hot/**")
        act = made.write("cy", "hot/a")
        made.acts[-1] = msgspec.structs.replace(act, outcome=UNSURE, ended_s=float("inf"))
        if not there:
            made.files["hot/a"].pop()
        assert violations(made.history()) == []


def test_acts_are_read_as_they_were_written(tmp_path: Path) -> None:
    times = iter([1.0, 2.0, 3.0])
    path = tmp_path / "acts"
    record = ActRecorder(str(path), "ada", 7, lambda: next(times))
    first = record.begin("append", path="a", line="L1")
    record.begin("append", path="b", line="L2")
    record.end(first, "ok", told="x")
    done, cut_off = read_acts(path.read_text().splitlines())
    assert (done.number, done.outcome, done.began_s, done.ended_s) == (7, "ok", 1.0, 3.0)
    assert (cut_off.number, cut_off.outcome, cut_off.ended_s) == (8, UNSURE, float("inf"))


SPANS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 8)).map(lambda one: (one[0], one[0] + one[1])),
    max_size=5,
)


@given(SPANS, SPANS)
def test_spans(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    def inside(spans: list[tuple[float, float]]) -> set[float]:
        points = [number + 0.5 for number in range(30)]
        return {point for point in points if any(low <= point <= high for low, high in spans)}

    one, two = [list(map(tuple, spans)) for spans in (some, others)]
    assert inside(merged(one)) == inside(one)
    assert inside(within(one, two)) == inside(one) & inside(two)
    assert inside(without(one, two)) == inside(one) - inside(two)
