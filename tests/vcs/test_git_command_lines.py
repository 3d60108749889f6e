"""Command lines as git takes them apart, with no repository at hand."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leasefs.vcs.git_commands.effects import CannotTell
from leasefs.vcs.git_commands.line import Line, expand, parse_line
from leasefs.vcs.git_commands.options import Table
from leasefs.vcs.git_commands.process import GitProcess
from leasefs.vcs.git_commands.routes import Tree

if TYPE_CHECKING:
    from pathlib import Path

TABLE = Table("f,force b: track? q,quiet no-verify hard help-me 2,ours m,message: r")


def line_of(*words: bytes, **environ: bytes) -> Line:
    named = {name.encode(): value for name, value in environ.items()}
    return parse_line(GitProcess(words, b"/t", b"/t", named))


@pytest.mark.parametrize(
    ("words", "options", "arguments", "dashes"),
    [
        ("-fq x", [("force", True), ("quiet", True)], ["x"], None),
        ("-qbname x", [("quiet", True), ("b", b"name")], ["x"], None),
        ("-b name -- x", [("b", b"name")], ["x"], 0),
        ("x -f y", [("force", True)], ["x", "y"], None),
        ("x -- -f", [], ["x", "-f"], 1),
        ("--end-of-options -f", [], ["-f"], None),
        ("--har --no-fo", [("hard", True), ("force", False)], [], None),
        ("--track=direct", [("track", b"direct")], [], None),
        ("--track direct", [("track", True)], ["direct"], None),
        ("--mess x --message=y", [("message", b"x"), ("message", b"y")], [], None),
        ("--verify", [("no-verify", False)], [], None),
        ("--no-verify", [("no-verify", True)], [], None),
        ("-2 -", [("ours", True)], ["-"], None),
        ("-m-f", [("message", b"-f")], [], None),
    ],
)
def test_options(
    words: str, options: list[tuple[str, object]], arguments: list[str], dashes: int | None
) -> None:
    parsed = TABLE.parse([word.encode() for word in words.split()])
    assert list(parsed.options) == options
    assert [word.decode() for word in parsed.arguments] == arguments
    assert parsed.dashes == dashes


@pytest.mark.parametrize("words", ["--h", "--unknown", "-x", "-b", "--message", "-fx", "-é"])
def test_what_git_would_not_take_or_we_do_not_know(words: str) -> None:
    with pytest.raises(CannotTell):
        TABLE.parse([os.fsencode(word) for word in words.split()])


def test_the_first_argument_may_end_the_options() -> None:
    assert Table("q", stops=True).parse([b"-q", b"run", b"-x"]).arguments == (b"run", b"-x")


@given(st.lists(st.binary(max_size=8), max_size=8))
@example([b"--\xff"])
def test_any_words_are_taken_or_refused(words: list[bytes]) -> None:
    try:
        parsed = TABLE.parse(words)
    except CannotTell:
        return
    assert len(parsed.arguments) <= len(words)


def test_global_options() -> None:
    line = line_of(
        b"/usr/bin/git",
        b"-C",
        b"a",
        b"-p",
        b"-c",
        b"x=y",
        b"-C",
        b"b",
        b"--git-dir=g",
        b"--work-tree",
        b"w",
        b"--icase-pathspecs",
        b"checkout",
        b"-f",
    )
    assert (line.name, line.arguments) == (b"checkout", (b"-f",))
    assert line.chdirs == (b"a", b"b")
    assert line.settings == (b"x=y",)
    assert (line.git_dir, line.work_tree) == (b"g", b"w")
    assert line.variables == {"GIT_ICASE_PATHSPECS": "1"}


def test_the_name_of_the_program_is_a_command_too() -> None:
    assert line_of(b"/usr/lib/git-core/git-checkout", b"x").name == b"checkout"
    assert line_of(b"anything", b"checkout", b"x").name == b"checkout"


def test_the_environment_counts_unless_options_say_otherwise() -> None:
    assert line_of(b"git", b"x", GIT_DIR=b"e").git_dir == b"e"
    assert line_of(b"git", b"--git-dir", b"o", b"x", GIT_DIR=b"e").git_dir == b"o"
    assert line_of(b"git", b"x", GIT_LITERAL_PATHSPECS=b"1").variables == {
        "GIT_LITERAL_PATHSPECS": "1"
    }


@pytest.mark.parametrize(
    "words", [b"--version", b"--help checkout", b"--exec-path", b"--list-cmds=main", b"", b"-h"]
)
def test_what_git_tells_about_itself(words: bytes) -> None:
    assert line_of(b"git", *words.split()).name == b""


@pytest.mark.parametrize(
    ("alias", "expected"),
    [
        (b"checkout -f", (b"checkout", (b"-f", b"end"))),
        (b"checkout 'a b' \"c'd\" e\\ f", (b"checkout", (b"a b", b"c'd", b"e f", b"end"))),
        (b"checkout ''", (b"checkout", (b"", b"end"))),
        (b"-c x=y checkout", (b"checkout", (b"end",))),
        (b"two", (b"reset", (b"--hard", b"end"))),
    ],
)
def test_aliases(alias: bytes, expected: tuple[bytes, tuple[bytes, ...]]) -> None:
    aliases = {b"one": alias, b"two": b"reset --hard", b"checkout": b"clean -fd"}
    found = expand(
        line_of(b"git", b"one", b"end"), aliases.get, lambda name: name in {b"checkout", b"reset"}
    )
    assert found is not None
    assert (found.name, found.arguments) == expected


def test_an_alias_for_the_shell() -> None:
    assert expand(line_of(b"git", b"one"), {b"one": b"!git reset"}.get, lambda _: False) is None


@given(st.dictionaries(st.sampled_from([b"a", b"b", b"c"]), st.binary(max_size=12)))
@example({b"a": b"b", b"b": b"a"})
@example({b"a": b"a " * 50})
def test_aliases_come_to_an_end(aliases: dict[bytes, bytes]) -> None:
    try:
        found = expand(line_of(b"git", b"a"), aliases.get, lambda name: name == b"c")
    except CannotTell:
        return
    assert found is None or found.name == b"c" or found.name not in aliases


def test_links_that_lead_nowhere_end(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "out").symlink_to("/usr")
    (tmp_path / "up").symlink_to("d/../e")
    root = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        tree = Tree(root, b"/seen/here")
        with pytest.raises(CannotTell):
            tree.resolve(b"/seen/here", b"round/x")
        assert tree.resolve(b"/seen/here", b"out/lib/../x") == b"/usr/x"
        assert tree.resolve(b"/seen/here/d", b"../up/./x") == b"/seen/here/e/x"
        assert tree.resolve(b"/seen/here", b"../..") == b"/"
        assert tree.below(b"/seen/hereafter") is None
    finally:
        os.close(root)
