"""Rules come from the repository: whatever they say, asking stays cheap and doubt stays "not scratch"."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from leasefs.vcs import ignore as ignore_module
from leasefs.vcs.errors import RulesRefused
from leasefs.vcs.ignore_file import (
    FILE_LIMIT_BYTES,
    PATTERN_LIMIT,
    Cost,
    compile_rules,
)
from leasefs.vcs.ignore_patterns import PATTERN_LIMIT_BYTES

if TYPE_CHECKING:
    from leasefs.testing.git_tree import GitTree

_LONG = b"a" * 255
_DEEP = b"/".join([_LONG] * 15)  # about PATH_MAX


@pytest.mark.parametrize(
    "pattern",
    [
        b"*a" * 7 + b"b",
        b"*a" * 120 + b"b",
        b"**/" * 100 + b"b",
        b"a**" * 50 + b"b",
        b"/" + b"*/" * 50 + b"b",
        b"**/*a*/" * 30 + b"b",
        b"[!b]" * 250 + b"*" * 50 + b"b",
        b"?*" * 200 + b"b",
    ],
)
def test_a_pattern_made_to_backtrack_costs_little(pattern: bytes) -> None:
    """Pathspec's own backtracking matcher needs 1.6 s for the first and over a minute for the next."""
    rules = compile_rules(b"", pattern + b"\n", "t")
    assert not rules.problems
    started_s = time.process_time()
    assert rules.verdict(_LONG, is_dir=False) is None
    assert rules.verdict(_DEEP, is_dir=False) is None
    assert time.process_time() - started_s < 0.5


def test_the_most_costly_file_that_is_taken_costs_a_bounded_time() -> None:
    lines = [b"*a*a*a*a*a*a*a*x%d\n" % number for number in range(5000)]
    fitting = 5000
    while not compile_rules(b"", b"".join(lines[:fitting]), "t").cost.fits():
        fitting //= 2
    rules = compile_rules(b"", b"".join(lines[:fitting]), "t")
    started_s = time.process_time()
    assert rules.verdict(_DEEP, is_dir=False) is None
    assert time.process_time() - started_s < 2


def test_what_is_costly_together_is_refused(repo: GitTree) -> None:
    lines = b"".join(b"*a*a*a*a*a*a*a*x%d\n" % number for number in range(700))
    repo.write(b".gitignore", b"*.o\n" + lines)
    repo.write(b"d/.gitignore", b"*.c\n" + lines)
    rules = repo.rules()
    assert rules.is_scratch(b"x.o", is_dir=False)
    assert not rules.is_scratch(b"d/x.c", is_dir=False)
    assert not rules.is_scratch(b"d/x.o", is_dir=False)  # d's file might say `!x.o`
    assert any("d/.gitignore" in problem for problem in rules.problems)


@pytest.mark.parametrize(
    "content",
    [
        b"*\n" + b"#" * FILE_LIMIT_BYTES,
        b"*\n" + b"a\n" * PATTERN_LIMIT,
        b"*\n!" + b"a" * (PATTERN_LIMIT_BYTES + 1),
        b"*\n!" + b"?" * PATTERN_LIMIT_BYTES,
    ],
)
def test_what_cannot_be_taken_whole_is_refused_whole(repo: GitTree, content: bytes) -> None:
    repo.write(b".gitignore", b"*.o\n")
    repo.write(b"d/.gitignore", content)
    rules = repo.rules()
    assert rules.is_scratch(b"x.o", is_dir=False)
    assert not rules.is_scratch(b"d/anything", is_dir=False)
    assert not rules.is_scratch(b"d/x.o", is_dir=False)
    assert [problem for problem in rules.problems if "d/.gitignore" in problem]


def test_a_pattern_that_only_ignores_is_left_out_alone(repo: GitTree) -> None:
    repo.write(
        b".gitignore", b"*.o\n" + b"?" * PATTERN_LIMIT_BYTES + b"\n" + b"a" * 5000 + b"\n*.p\n"
    )
    rules = repo.rules()
    assert rules.is_scratch(b"x.o", is_dir=False)
    assert rules.is_scratch(b"x.p", is_dir=False)
    assert [problem.split(":")[:2] for problem in rules.problems] == [
        [".gitignore", "2"],
        [".gitignore", "3"],
    ]


def test_ten_thousand_patterns_are_taken(repo: GitTree) -> None:
    repo.write(b".gitignore", b"".join(b"dir%d/name%d\n" % (n, n) for n in range(PATTERN_LIMIT)))
    rules = repo.rules()
    assert rules.is_scratch(b"dir77/name77", is_dir=False)
    assert rules.is_scratch(b"dir9999/name9999", is_dir=False)
    assert not rules.is_scratch(b"dir77/name78", is_dir=False)
    assert rules.problems == []


def test_refused_means_typed() -> None:
    with pytest.raises(RulesRefused, match="patterns"):
        compile_rules(b"", b"a\n" * (PATTERN_LIMIT + 1), "t")
    assert Cost(64, 50_000).fits()
    assert not Cost(65, 0).fits()


def test_memory_is_bounded(repo: GitTree, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_ANSWERS", "_DIRECTORIES", "_SETS"):
        monkeypatch.setattr(ignore_module, name, 20)
    repo.write(b".gitignore", b"*.o\n")
    for number in range(60):
        repo.write(b"d%d/.gitignore" % number, b"*.c\n!x.o\n")
    rules = repo.rules()
    for number in range(60):
        for file in range(30):
            assert rules.is_scratch(b"d%d/%d.c" % (number, file), is_dir=False)
            assert rules.is_scratch(b"d%d/%d.o" % (number, file), is_dir=False)
        assert not rules.is_scratch(b"d%d/x.o" % number, is_dir=False)
        assert len(rules._directories) <= 20
        assert len(rules._files) <= 22
        assert sum(map(len, rules._answers)) <= 40
