from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasefs.core.toml_lines import lines_of_keys
from leasefs.vcs.errors import BadTerritoryFile
from leasefs.vcs.project_file import _FIELDS, Check, ProjectFile, UnleasedWishes, read_project_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.testing.git_tree import GitTree

FULL = b"""\
# what this project asks for
territory = "fleet/one"
upstream = "origin/trunk"

[release]
require = "pushed"
checks = [
    "make lint",   # ] not the end
    ["pytest", "-q", "a b"],
]
check_timeout_s = 90

[unleased]
policy = "wait,claim"
regions = ["packages/*/", "docs/"]
wait_s = 5
idle_s = 0
ttl_s = 20.5
uncommitted = "lapse"

[hooks]
trailer = true
"""


@pytest.fixture
def tree(make_tree: Callable[[str], GitTree]) -> GitTree:
    return make_tree("plain")


def _read(tree: GitTree, content: bytes) -> ProjectFile:
    tree.write(b".leasefs.toml", content)
    return read_project_file(tree.open_root(), os.fsdecode(tree.path))


def test_without_a_file_nothing_is_said(tree: GitTree) -> None:
    assert read_project_file(tree.open_root(), "x") == ProjectFile()
    assert _read(tree, b"") == ProjectFile()


def test_every_key(tree: GitTree) -> None:
    assert _read(tree, FULL) == ProjectFile(
        territory="fleet/one",
        upstream="origin/trunk",
        require="pushed",
        checks=(
            Check(("sh", "-c", "make lint"), "make lint"),
            Check(("pytest", "-q", "a b"), "pytest -q a b"),
        ),
        check_timeout_s=90.0,
        unleased=UnleasedWishes(
            policy="claim+wait",
            regions=("packages/*/", "docs/"),
            wait_s=5.0,
            idle_s=0.0,
            ttl_s=20.5,
            keep=False,
        ),
        trailer=True,
    )


def test_toml_has_several_ways_to_say_the_same(tree: GitTree) -> None:
    said = _read(tree, b'release.require = "none"\nhooks = {trailer = true}\n')
    assert said == ProjectFile(require="none", trailer=True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'upstream = ""\n', "toml:1: `upstream` must be 1 to"),
        (b"[hooks]\ntrailer = 1\n", "toml:2: `hooks.trailer` must be true or false, not int"),
        (
            b'[release]\n\nrequire = "landed"\n',
            'toml:3: `release.require` must be "none", "committed" or "pushed", not \'landed\'',
        ),
        (b"[release]\nrequire = [1]\n", "toml:2: `release.require` must be"),
        (b'[release]\nchecks = "make"\n', "toml:2: `release.checks` must be a list of commands"),
        (b"[release]\nchecks = [[]]\n", "toml:2: `release.checks` must be a list of commands"),
        (b'[release]\nchecks = [["a", 1]]\n', "toml:2: `release.checks`"),
        (b'[release]\nchecks = [" "]\n', "toml:2: `release.checks`"),
        (b'[release]\nchecks = ["a\\u0000"]\n', "toml:2: `release.checks`"),
        (b"[release]\nchecks = [" + b'"a",' * 101 + b"]", "at most 100 commands, not 101"),
        (b"[release]\ncheck_timeout_s = 0\n", "toml:2: `release.check_timeout_s` must be seconds"),
        (b"[release]\ncheck_timeout_s = true\n", "toml:2: `release.check_timeout_s`"),
        (b"[release]\ncheck_timeout_s = nan\n", "toml:2: `release.check_timeout_s`"),
        (b'[release]\ncheck_timeout_s = "1m"\n', "toml:2: `release.check_timeout_s`"),
        (
            b'territory = "x"\n[release]\nrequire = "none"\nrequre = "none"\n',
            "toml:4: unknown key 'release.requre'; the keys of [release] are check_timeout_s, checks and require",
        ),
        (b"release = 3\n", "toml:1: `release` must be a table, not int"),
        (b"[[hooks]]\ntrailer = true\n", "toml:1: `hooks` must be a table, not list"),
        (
            b'territory = """\nx = 1"""\n[nope]\n',
            "toml:3: unknown key 'nope'; the keys are hooks, release, territory, unleased and upstream",
        ),
        (
            b'[unleased]\npolicy = "claim+deny"\n',
            "toml:2: `unleased.policy` must be one of deny, claim, wait, claim+wait, observe, not 'claim+deny'",
        ),
        (
            b'[unleased]\npolicy = "observe"\n',
            'toml:2: `unleased.policy` must be one that refuses; "observe" is for whoever mounts',
        ),
        (
            b'[unleased]\nregions = ["docs"]\n',
            "toml:2: `unleased.regions` must be directories: a region is a directory and ends in a slash, not 'docs'",
        ),
        (b'[unleased]\nregions = ["/"]\n', "toml:2: `unleased.regions` must be directories"),
        (b'[unleased]\nregions = ["[/"]\n', "toml:2: `unleased.regions` must be directories"),
        (b"[unleased]\nregions = [1]\n", "toml:2: `unleased.regions` must be a list of dir"),
        (b"[unleased]\nregions = [" + b'"a/",' * 257 + b"]", "at most 256 directories, not 257"),
        (b"[unleased]\nwait_s = -1\n", "toml:2: `unleased.wait_s` must be seconds, 0 to 3600"),
        (b"[unleased]\nidle_s = 601\n", "toml:2: `unleased.idle_s` must be seconds, 0 to 600"),
        (b"[unleased]\nttl_s = 0.5\n", "toml:2: `unleased.ttl_s` must be seconds, 1 to 86400"),
        (b"[unleased]\nuncommitted = true\n", "toml:2: `unleased.uncommitted` must be "),
        (b'"release".x = 1\n', "toml:1: unknown key 'release.x'"),
        (b"hooks = {\ttrailer = 3}\n", "toml:1: `hooks.trailer`"),
        (b"[release.deep]\nx = 1\n", "toml:1: unknown key 'release.deep'"),
        (b"x" + b".a" * 7_000 + b" = 1\n", "toml:1: unknown key 'x'"),
    ],
)
def test_a_wrong_file_says_what_and_where(tree: GitTree, content: bytes, said: str) -> None:
    with pytest.raises(BadTerritoryFile) as caught:
        _read(tree, content)
    assert said in str(caught.value)
    assert os.fsdecode(tree.path) in str(caught.value)


def test_a_link_in_place_of_the_file_is_not_followed(tree: GitTree) -> None:
    os.symlink("/etc/hostname", tree.path + b"/.leasefs.toml")
    with pytest.raises(BadTerritoryFile, match="cannot be read"):
        read_project_file(tree.open_root(), "x")


def test_a_fifo_in_place_of_the_file_is_not_waited_for(tree: GitTree) -> None:
    os.mkfifo(tree.path + b"/.leasefs.toml")
    with pytest.raises(BadTerritoryFile, match="not a regular file"):
        read_project_file(tree.open_root(), "x")


# Values that could be taken for the ends of statements, keys or tables by who counts lines.
_VALUES = st.sampled_from(
    [
        "1",
        '"a # b"',
        "'[x'",
        '"""\n[t]\nx = 1\n"""',
        "'''\n# '' ]\n'''",
        '"\\""',
        "[\n  1, # ]\n  2,\n]",
        "{a = 1}",
        '[{b = "]"}]',
        '"""a""""',
        "1 # it's",
    ]
)
_LINES = st.lists(
    st.one_of(
        st.tuples(st.just("key"), _VALUES),
        st.tuples(st.just("table"), st.sampled_from(["[t{}]", '["t{}"]', "[[t{}]]"])),
        st.tuples(st.just("noise"), st.sampled_from(["", "# it's [", "  "])),
    ),
    max_size=12,
)


@given(_LINES, st.sampled_from(["\n", "\r\n"]))
def test_lines_are_those_on_which_the_keys_were_written(
    lines: list[tuple[str, str]], newline: str
) -> None:
    text, table = "", ""
    expected: dict[tuple[str, ...], int] = {}
    for number, (kind, what) in enumerate(lines):
        at = text.count("\n") + 1
        if kind == "table":
            table = f"t{number}"
            expected[table,] = at
            text += what.format(number) + "\n"
        elif kind == "key":
            expected[(table, f"k{number}") if table else (f"k{number}",)] = at
            text += f"k{number} = {what}\n"
        else:
            text += what + "\n"
    text = text.replace("\n", newline)
    tomllib.loads(text)
    found = lines_of_keys(text)
    assert {key: line for key, line in found.items() if key in expected} == expected


def test_every_key_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs/SEMANTICS.md").read_text()
    section = text.partition("## What a project asks for")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    for *table, key in (name.split(".") for name in _FIELDS):
        inside = f"`[{table[0]}]" if table else "`"
        assert any(f"{key}`" in row and inside in row for row in rows), key
