"""What a monitor reads is what was counted, as Prometheus' own reader has it."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from leasefs.core.exposition import (
    COUNTER,
    GAUGE,
    Counts,
    Family,
    Histogram,
    Sample,
    by_label,
    counter,
    exposition,
    gauge,
    merged,
)

VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.one_of(
    st.integers(-(10**18), 10**18).map(float), st.floats(allow_nan=False, allow_infinity=True)
)


def read(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every number of a text by its name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@given(st.dictionaries(VALUES, NUMBERS, max_size=5), VALUES)
def test_every_number_is_read_as_it_was_written(values: dict[str, float], meaning: str) -> None:
    text = exposition([by_label("a_total", COUNTER, meaning, "which", values)])
    assert read(text) == {
        ("a_total", frozenset({("which", value)})): number for value, number in values.items()
    }


def test_name_kind_and_meaning_stand_in_front() -> None:
    (family,) = text_string_to_metric_families(exposition([gauge("g_bytes", "A\nB \\ C", 1.5)]))
    assert (family.name, family.type, family.documentation) == ("g_bytes", "gauge", "A\nB \\ C")
    assert exposition([gauge("g", "None now.", None)]) == "# HELP g None now.\n# TYPE g gauge\n"
    assert exposition([]) == ""


def test_what_cannot_be_said_does_not_spoil_the_rest() -> None:
    text = exposition(
        [Family("x", GAUGE, "m", (Sample(1, (("l", "a\udcffb"),)),)), gauge("y", "m", 2)]
    )
    assert read(text) == {("x", frozenset({("l", "a\\udcffb")})): 1, ("y", frozenset()): 2}


@given(st.lists(st.sampled_from(["a", "b"]), max_size=20))
def test_counts(added: list[str]) -> None:
    counts = Counts("c_total", "m", ("l",), [("a",)])
    for value in added:
        counts.add(value)
    expected = {"a": 0} | Counter(added)
    found = read(exposition([counts.family()]))
    assert found == {
        ("c_total", frozenset({("l", value)})): number for value, number in expected.items()
    }


def test_a_count_without_labels_begins_at_0() -> None:
    counts = Counts("c_total", "m")
    assert read(exposition([counts.family()])) == {("c_total", frozenset()): 0}
    counts.add(by=3)
    assert read(exposition([counts.family()])) == {("c_total", frozenset()): 3}


@given(st.lists(st.floats(0, 100), max_size=50))
def test_a_histogram_says_how_many_were_at_most_so_much(seen: list[float]) -> None:
    bounds = (0.5, 1.0, 10.0)
    histogram = Histogram("h_seconds", "m", bounds)
    for quantity in seen:
        histogram.observe(quantity)
    found = read(exposition([histogram.family()]))
    for bound in bounds:
        at_most = sum(quantity <= bound for quantity in seen)
        assert found["h_seconds_bucket", frozenset({("le", f"{bound:g}")})] == at_most
    assert found["h_seconds_bucket", frozenset({("le", "+Inf")})] == len(seen)
    assert found["h_seconds_count", frozenset()] == len(seen)
    assert found["h_seconds_sum", frozenset()] == sum(seen)


def test_a_histogram_has_one_series_for_each_value_of_its_label() -> None:
    histogram = Histogram("h_seconds", "m", (1.0,), "route")
    assert read(exposition([histogram.family()])) == {}
    histogram.observe(0.5, "/a")
    histogram.observe(2.0, "/b")
    found = read(exposition([histogram.family()]))
    assert found["h_seconds_bucket", frozenset({("route", "/a"), ("le", "1")})] == 1
    assert found["h_seconds_bucket", frozenset({("route", "/b"), ("le", "1")})] == 0


@given(VALUES, VALUES)
def test_many_texts_become_one(one: str, other: str) -> None:
    def part(number: float) -> str:
        counts = by_label("n_total", COUNTER, "m", "kind", {"{}x": number})
        return exposition([counts, counter("plain_total", "m", number)])

    text = merged(
        [((("agent", one),), part(1)), ((("agent", other + "2"),), part(2)), ((), part(3))]
    )
    families = list(text_string_to_metric_families(text))
    assert [family.name for family in families] == ["n", "plain"]
    found = read(text)
    assert found["plain_total", frozenset({("agent", other + "2")})] == 2
    assert found["plain_total", frozenset()] == 3
    assert found["n_total", frozenset({("agent", one), ("kind", "{}x")})] == (
        2 if other + "2" == one else 1
    )
    assert text.count("# TYPE n_total") == text.count("# HELP n_total") == 1


@given(VALUES)
def test_a_label_that_is_said_already_stays_as_it_is(said: str) -> None:
    text = exposition([by_label("n_total", COUNTER, "m", "agent", {said: 1})])
    labels = (("agent", "added"), ("place", 'x",agent="'))
    assert read(merged([(labels, text)])) == {
        ("n_total", frozenset({("agent", said), ("place", 'x",agent="')})): 1
    }
