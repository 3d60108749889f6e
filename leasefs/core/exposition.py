"""Numbers for a monitor, and how they are written: Prometheus' text format, version 0.0.4.

https://prometheus.io/docs/instrumenting/exposition_formats/ has the format, .../practices/naming/ the names: a
counter ends in `_total` and only grows while its process lives, seconds and bytes stand in the name. A label has few
values, all known beforehand: never a path, never what a caller chose.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

Labels = tuple[tuple[str, str], ...]
_INFINITE = float("inf")
_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Sample(NamedTuple):
    """One number; `suffix` comes behind the family's name (`_bucket`, `_sum`, `_count`)."""

    value: float
    labels: Labels = ()
    suffix: str = ""


class Family(NamedTuple):
    """All numbers of one name, and what they mean."""

    name: str
    kind: str
    meaning: str
    samples: tuple[Sample, ...]


def gauge(name: str, meaning: str, value: float | None) -> Family:
    """A number that goes up and down; None: there is none now, and the family has no sample."""
    return Family(name, GAUGE, meaning, () if value is None else (Sample(value),))


def counter(name: str, meaning: str, value: float) -> Family:
    """A number that only grows."""
    return Family(name, COUNTER, meaning, (Sample(value),))


def by_label(name: str, kind: str, meaning: str, label: str, values: Mapping[str, float]) -> Family:
    """One number for each value of one label."""
    samples = tuple(Sample(number, ((label, value),)) for value, number in values.items())
    return Family(name, kind, meaning, samples)


class Counts:
    """A counter with labels; `known` ones are told from the start, as 0."""

    __slots__ = ("_counts", "_labels", "_meaning", "_name")

    def __init__(
        self,
        name: str,
        meaning: str,
        labels: tuple[str, ...] = (),
        known: Iterable[tuple[str, ...]] = (),
    ) -> None:
        self._name = name
        self._meaning = meaning
        self._labels = labels
        self._counts: dict[tuple[str, ...], float] = dict.fromkeys(known if labels else [()], 0)

    def add(self, *values: str, by: float = 1) -> None:
        """Count, under these values of the labels."""
        self._counts[values] = self._counts.get(values, 0) + by

    def family(self) -> Family:
        """As it stands."""
        samples = tuple(
            Sample(count, tuple(zip(self._labels, values, strict=True)))
            for values, count in sorted(self._counts.items())
        )
        return Family(self._name, COUNTER, self._meaning, samples)


class Histogram:
    """How often a quantity was at most each of some bounds, by the value of one label if it has one."""

    __slots__ = ("_bounds", "_label", "_meaning", "_name", "_series")

    def __init__(self, name: str, meaning: str, bounds: tuple[float, ...], label: str = "") -> None:
        self._name = name
        self._meaning = meaning
        self._bounds = bounds
        self._label = label
        # By the label's value: how many fell between two bounds (the last: above all), and their sum.
        self._series: dict[str, tuple[list[int], list[float]]] = {}
        if not label:
            self._of("")

    def observe(self, quantity: float, value: str = "") -> None:
        """Count one."""
        counts, total = self._of(value)
        counts[bisect_left(self._bounds, quantity)] += 1
        total[0] += quantity

    def family(self) -> Family:
        """As it stands."""
        return Family(self._name, HISTOGRAM, self._meaning, tuple(self._samples()))

    def _of(self, value: str) -> tuple[list[int], list[float]]:
        series = self._series.get(value)
        if series is None:
            series = self._series[value] = ([0] * (len(self._bounds) + 1), [0.0])
        return series

    def _samples(self) -> Iterator[Sample]:
        for value, (counts, total) in sorted(self._series.items()):
            labels: Labels = ((self._label, value),) if self._label else ()
            so_far = 0
            for bound, count in zip((*self._bounds, _INFINITE), counts, strict=True):
                so_far += count
                yield Sample(so_far, (*labels, ("le", _number(bound))), "_bucket")
            yield Sample(total[0], labels, "_sum")
            yield Sample(so_far, labels, "_count")


def exposition(families: Iterable[Family]) -> str:
    """The text. Each family stands in one piece, with its meaning and kind in front."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {_on_one_line(family.meaning)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines.extend(_line(family.name, sample) for sample in family.samples)
    return "\n".join(lines) + "\n" if lines else ""


def merged(parts: Iterable[tuple[Labels, str]]) -> str:
    """Texts of `exposition` as one, each family once.

    The labels of a part are added to each of its numbers that has none of that name.
    """
    heads: dict[str, list[str]] = {}
    numbers: dict[str, list[str]] = {}
    for labels, text in parts:
        family = ""
        for line in text.split("\n"):  # other line ends may stand in values
            if line.startswith("# "):
                family = line.split(" ", 3)[2]
                head = heads.setdefault(family, [])
                if len(head) < 2 and line not in head:
                    head.append(line)
            elif line:
                numbers.setdefault(family, []).append(_with_labels(line, labels))
    return "".join(
        "\n".join([*head, *numbers.get(family, [])]) + "\n" for family, head in heads.items()
    )


def _line(name: str, sample: Sample) -> str:
    return f"{name}{sample.suffix}{_braces(sample.labels)} {_number(sample.value)}"


def _with_labels(line: str, labels: Labels) -> str:
    name, brace, rest = line.partition("{")
    if not brace:
        name, _, value = line.partition(" ")
        return f"{name}{_braces(labels)} {value}"
    # What a number says of itself stays; within a value each quote has a backslash before it.
    said = "," + rest
    added = _braces(tuple(one for one in labels if f',{one[0]}="' not in said))[1:-1]
    return f"{name}{{{added},{rest}" if added else line


def _braces(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels) + "}"


def _escaped(value: str) -> str:
    # What no UTF-8 can say (a lone surrogate) must not make all of the text unreadable.
    sayable = value.encode("utf-8", "backslashreplace").decode()
    return sayable.translate(_ESCAPED)


def _on_one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    if value == _INFINITE:
        return "+Inf"
    if value == -_INFINITE:
        return "-Inf"
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))
