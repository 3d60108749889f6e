from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasefs.core import component
from leasefs.core.bytesets import ANY, class_text, members, read_class, set_of
from leasefs.core.errors import BadPath, BadPattern
from leasefs.core.globs import Glob, escape, literal_glob, literal_tree, parse_glob
from leasefs.core.paths import components, parse_path

MATCHING = {
    "a.py": (["a.py"], ["a_py", "x/a.py", "a.py/x", "A.py"]),
    "*": (["a", ".hidden", "...", "é"], ["a/b", ""]),
    "**": (["a", "a/b/c", ".git/x", ""], []),
    "a/**": (["a/b", "a/b/c", "a/.b"], ["a", "ab", "b/a/c", ""]),
    "**/a": (["a", "x/a", "x/y/a"], ["a/x", "xa", ""]),
    "a/**/b": (["a/b", "a/x/b", "a/x/y/b", "a/b/b"], ["ab", "a/xb", "x/a/b", "a/b/c"]),
    "**/a/**/b/**": (["a/b/c", "x/a/y/b/z", "a/a/b/b"], ["a/b", "b/a/c", "a/c"]),
    "*/*": (["a/b"], ["a", "a/b/c"]),
    "a**b": (["ab", "axxb"], ["a/b", "a/x/b"]),
    "a**/b": (["a/b", "ax/b"], ["a/x/b", "ab"]),
    "src/*.py": (["src/a.py", "src/.py"], ["src/a/b.py", "src/a.pyc", "a.py"]),
    "?": (["a", "\udcff"], ["ab", "é", ""]),
    "??": (["ab", "é", ".a"], ["a"]),
    "a?c": (["abc", "a.c"], ["ac", "a/c"]),
    "[a-c]x": (["ax", "cx"], ["dx", "x", "-x"]),
    "[!a]": (["b", "!", "\udcff"], ["a", "bb"]),
    "[^a-c]": (["d", "^"], ["a", "b"]),
    "[]a]": (["]", "a"], ["[", "]a"]),
    "[!]a]": (["b"], ["]", "a"]),
    "[a-]": (["a", "-"], ["b"]),
    "[a-c-e]": (["b", "-", "e"], ["d"]),
    "[--/]x": (["-x", ".x"], ["ax"]),
    r"[\]\\]": (["]", "\\"], ["a"]),
    r"[\a-\c]": (["a", "b", "c"], ["\\"]),
    "[[:digit:]x]": (["0", "x"], [":", "d", "["]),
    "[[:alpha:][:digit:]]": (["a", "Z", "5"], ["_", "é"]),
    "[![:space:]]": (["a"], [" ", "\n"]),
    "[[:a]": (["[", ":", "a"], ["b"]),
    "[a/b]": (["a", "b"], ["c"]),
    r"\*": (["*"], ["a", "\\*"]),
    r"\!x": (["!x"], ["x"]),
    r"\#x\ ": (["#x "], ["#x"]),
    "#x": (["#x"], ["x"]),
    "x ": (["x "], ["x"]),
    "{a,b}(c)": (["{a,b}(c)"], ["a(c)"]),
    "*a*b*": (["ab", "xaxbx", "aab", "ab.", "bab"], ["ba", "a", "b"]),
    "a*a": (["aa", "aba"], ["a", "ab"]),
    "ab*ba": (["abba", "abxba"], ["aba"]),
    "*?": (["a", "ab"], [""]),
    "?*?": (["ab", "abc"], ["a"]),
    "*[ab]?*c": (["axc", "xxbbc", "aacc"], ["ac", "bc"]),
    ".*": ([".a", "..."], ["a", "a/.b"]),
    ".?": ([".a"], [".a.", "a"]),
}


def raw(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("pattern", MATCHING)
def test_matching(pattern: str) -> None:
    glob = parse_glob(pattern)
    yes, no = MATCHING[pattern]
    assert [path for path in yes if not glob.matches(raw(path))] == []
    assert [path for path in no if glob.matches(raw(path))] == []


@pytest.mark.parametrize("path", ["a/../b", "..", ".", "a/./b", "a//b", "a/", "/a", "a\0b"])
def test_nothing_matches_what_is_no_normal_path(path: str) -> None:
    globs = ["**", "*", "a/**", "**/b", "*/*", "?", "??", "a/*/b", ".*", "a*"]
    assert [glob for glob in globs if parse_glob(glob).matches(raw(path))] == []


SPELLINGS = {
    "a/b": ["./a//b", "a/./b", r"\a/[b]", "a/b/.", ".//a/b"],
    "a/b/**": ["a/b/", "a//b//", "a/b/**/**", "a/b/**/*"],
    "**": ["**/", "**/**", "**/*", "./**", "**/**/"],
    "*/**": ["*/"],
    "**/a": ["**/**/a"],
    "a/*/**/b": ["a/**/*/b", "a/**/*/**/b"],
    "*": ["***", "?*", "*?", "[!/]*"],
    "a*b": ["a**b", "a***b", "[a]**[b]"],
    "a?*": ["a*?", "a?**"],
    "?": ["[!/]", "[^/]"],
    "[a-c]": ["[abc]", "[cba]", "[a-bb-c]", "[ab-c/]", r"[\abc]"],
    "[!a]": ["[^a]", "[!/a]", "[!aa]"],
    "[!a-c]": ["[!abc]", "[^cab]"],
    r"[\]a]": ["[]a]", r"[a\]]"],
    "[0-9A-Fa-f]": ["[[:xdigit:]]"],
    r"\!x": ["./!x", r".//\!x"],
    r"a\*": [r"\a\*", "a[*]"],
    r"a\\": [r"a[\\]"],
    "]": [r"\]", "[]]"],
}


@pytest.mark.parametrize("text", SPELLINGS)
def test_two_spellings_of_one_glob_are_one_glob(text: str) -> None:
    glob = parse_glob(text)
    assert glob.text == text
    for spelling in SPELLINGS[text]:
        other = parse_glob(spelling)
        assert (other.text, other.parts) == (text, glob.parts), spelling
        assert other == glob
        assert hash(other) == hash(glob)


REFUSED = {
    "": (0, "empty"),
    ".": (0, "root"),
    "./": (0, "root"),
    "./.": (0, "root"),
    "..": (0, "`..`"),
    "a/../b": (2, "`..`"),
    r"a/\.\.": (2, "`..`"),
    "/a": (0, "absolute"),
    "/": (0, "absolute"),
    "/**": (0, "absolute"),
    "a\0b": (1, "NUL"),
    "!a": (0, r"`\!` or use --literal"),
    "a/[b": (2, "not closed"),
    "a[]": (1, "not closed"),
    "a[!]": (1, "not closed"),
    "[[:alpha:]": (0, "not closed"),
    "[[:alpha": (0, "not closed"),
    "[a\\": (0, "not closed"),
    "[[:nonsense:]]": (1, "POSIX class"),
    "[aé]": (2, "longer character"),
    "[a-\udcff]": (3, "longer character"),
    "a\\": (1, "backslash"),
    "a\\/b": (1, "slash"),
    "x[b-a]": (3, "backwards"),
    "app/[[...sign-in]]/page.js": (13, "use --literal"),
    "[/]": (0, "match no byte"),
    "[.]": (0, "match no name"),
    "a/[.]/b": (2, "match no name"),
    r"\.": (0, "match no name"),
    "[.][.]": (0, "`..`"),
    "a/" * 2049: (4096, "4096"),
    "*" + "a/" * 512 + "a": (1024, "1024"),
    "?" * 33: (0, "33 wildcards"),
    "*/" * 32 + "a/**": (0, "33 wildcards"),
    "a" * 256: (0, "255"),
    "*" + "a" * 200 + "?" + "b" * 55: (0, "255"),
    "x" * 10_000: (9217, "10000 bytes long"),
    "\ud800": (0, "surrogate"),
}


@pytest.mark.parametrize("pattern", REFUSED)
def test_refusals_say_where_and_why(pattern: str) -> None:
    with pytest.raises(BadPattern) as caught:
        parse_glob(pattern)
    position, problem = REFUSED[pattern]
    assert problem in caught.value.message
    assert caught.value.details["position"] == position
    assert caught.value.message.isprintable()


def test_the_limits_themselves_are_allowed() -> None:
    longest = "/".join(["n" * 255] * 16)
    assert parse_glob(longest).matches(longest.encode())
    assert parse_glob("?" * 32).matches(b"a" * 32)
    assert parse_glob("*" + "a" * 254 + "?").matches(b"a" * 255)
    assert parse_glob("a/" * 1500 + "b/*").literal_prefix[-1] == b"b"
    assert parse_glob("*" + "/a" * 511).text == "*" + "/a" * 511
    assert parse_glob("*" * 9000).text == "*"
    assert literal_tree(longest).matches(longest.encode() + b"/x")


AWKWARD = [
    "app/[slug]/page.tsx",
    "app/(fleet)/layout.tsx",
    "app/[[...sign-in]]/page.js",
    "a*b",
    "a?b",
    "#x",
    "!y",
    "!",
    "a/!y",
    "x ",
    " ",
    "\\",
    "a\\",
    "a\\b/\\*",
    "[",
    "]",
    "**",
    "a/**/b",
    "{a,b}",
    "...",
    "-",
    "~",
    "a\nb",
    "naïve",
    "\udcff[\udcfe]",
]


@pytest.mark.parametrize("path", AWKWARD)
def test_a_literal_glob_matches_exactly_its_path(path: str) -> None:
    glob = literal_glob(path)
    assert glob.is_literal
    assert glob.prefix_is_whole
    assert glob.matches(raw(path))
    assert glob.literal_path == raw(path)
    assert glob.literal_prefix == components(raw(path))
    assert [other for other in AWKWARD if other != path and glob.matches(raw(other))] == []
    assert parse_glob(glob.text) == glob
    assert parse_glob(raw(glob.text)) == glob
    assert escape(path) == glob.text


@pytest.mark.parametrize("path", AWKWARD)
def test_a_literal_tree_is_what_lies_below_its_path(path: str) -> None:
    glob = literal_tree(path)
    assert glob.text == escape(path) + "/**"
    assert parse_glob(glob.text) == glob
    assert glob.is_tree
    assert not glob.is_literal
    assert glob.matches(raw(path) + b"/x/y")
    assert not glob.matches(raw(path))
    assert not glob.matches(raw(path) + b"x/y")


def test_the_root() -> None:
    assert literal_tree("") == parse_glob("**")
    assert parse_glob("**").is_everything
    assert not parse_glob("a/**").is_everything
    assert not parse_glob("*").is_everything
    with pytest.raises(BadPath, match=r"write \*\* for everything"):
        literal_glob(".")
    with pytest.raises(BadPath):
        literal_glob("../a")


@given(st.binary(min_size=1, max_size=12))
def test_any_bytes_that_are_a_path_can_be_named(data: bytes) -> None:
    try:
        path = parse_path(data)
        glob = literal_glob(path)
    except BadPath:
        return
    assert glob.matches(path)
    assert parse_glob(glob.text) == glob


@given(st.text(alphabet="ab*?[]!^-\\/.:{# é\n", max_size=12))
def test_text_parses_back_to_the_same_glob(pattern: str) -> None:
    try:
        glob = parse_glob(pattern)
    except BadPattern:
        return
    again = parse_glob(glob.text)
    assert (again, again.text, again.parts) == (glob, glob.text, glob.parts)


@given(listed=st.frozensets(st.integers(1, 127), min_size=1), negated=st.booleans())
def test_every_class_can_be_written_and_read_back(*, listed: frozenset[int], negated: bool) -> None:
    byteset = (~set_of(listed) if negated else set_of(listed)) & ANY
    if byteset in {0, ANY}:
        return
    text = class_text(byteset)
    assert read_class(text, 0) == (byteset, len(text))
    assert set_of(members(byteset)) == byteset


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a/b/c", ["", "a", "a/b"], ["a/b/c", "b", "a/c", "a/b/c/d"]),
        ("a/**", ["", "a", "a/x", "a/x/y"], ["b", "ab"]),
        ("**/x", ["", "a", "x", "x/x", "a/b/c"], []),
        ("*/b", ["", "q"], ["q/b", "q/r"]),
        ("a*/*/c", ["", "ax", "ax/q"], ["b", "ax/q/c", "ax/q/d"]),
        ("a/**/b/c", ["a", "a/b", "a/q/r"], ["b"]),
        ("**", ["", "a", "a/b"], []),
    ],
)
def test_may_match_below(pattern: str, yes: list[str], no: list[str]) -> None:
    glob = parse_glob(pattern)
    assert [path for path in yes if not glob.may_match_below(raw(path))] == []
    assert [path for path in no if glob.may_match_below(raw(path))] == []


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        ("a/b", (b"a", b"b")),
        ("a/b/**", (b"a", b"b")),
        (r"a\*/[b]/c?/d", (b"a*", b"b")),
        ("**/a", ()),
        ("*", ()),
    ],
)
def test_the_literal_prefix_is_the_leading_components_without_a_wildcard(
    pattern: str, prefix: tuple[bytes, ...]
) -> None:
    assert parse_glob(pattern).literal_prefix == prefix


def test_a_glob_is_a_value() -> None:
    glob = parse_glob("a/*/**")
    with pytest.raises(AttributeError):
        glob.text = "b"  # type: ignore[misc]
    assert not hasattr(glob, "__dict__")
    for twin in (copy.deepcopy(glob), pickle.loads(pickle.dumps(glob))):
        assert isinstance(twin, Glob)
        assert twin == glob
        assert twin.matches(b"a/b/c")
    assert pickle.loads(pickle.dumps(parse_glob("**"))).matches(b"")


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[int]:
    """Counts the calls of `owner.name`, which still does its work."""
    calls = [0]
    real = getattr(owner, name)

    def counting(*args: Any) -> Any:
        calls[0] += 1
        return real(*args)

    monkeypatch.setattr(owner, name, counting)
    return calls


def test_a_hostile_component_costs_length_times_length(monkeypatch: pytest.MonkeyPatch) -> None:
    glob = parse_glob("*" + "[ab]c*" * 15 + "d")
    fits = counted(monkeypatch, component, "_fits")
    name = b"ac" * 14 + b"a" * 227
    for path in (name, name[:-1] + b"d", b"ac" * 127 + b"d"):
        glob.matches(path)
        assert 0 < fits[0] <= 255 * 47
        fits[0] = 0


def test_a_hostile_path_costs_length_times_length(monkeypatch: pytest.MonkeyPatch) -> None:
    glob = parse_glob("**/a/" * 15 + "?")
    matches = counted(monkeypatch, component.Component, "matches")
    assert not glob.matches(b"a/" * 2000 + b"bb")
    assert 0 < matches[0] <= 2001 * 31
