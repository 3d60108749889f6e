from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasefs.core import paths
from leasefs.core.errors import BadPath


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("", b""),
        (".", b""),
        ("./", b""),
        ("a", b"a"),
        ("./a//b", b"a/b"),
        ("a/./b/.", b"a/b"),
        ("a/b/", b"a/b"),
        ("...", b"..."),
        ("a..b/..c/.d", b"a..b/..c/.d"),
        ("naïve/☃", "naïve/☃".encode()),
        (b"\xff\xfe/x", b"\xff\xfe/x"),
        ("\udcff\udcfe/x", b"\xff\xfe/x"),
        ("app/[slug]/a*b ?", b"app/[slug]/a*b ?"),
        (" a \n", b" a \n"),
        ("n" * 255, b"n" * 255),
    ],
)
def test_a_path_has_one_spelling(raw: str | bytes, path: bytes) -> None:
    assert paths.parse_path(raw) == path
    assert paths.is_normal(path)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ("/a", "absolute"),
        ("//a", "absolute"),
        ("..", "`..`"),
        ("a/../b", "`..`"),
        ("../a", "`..`"),
        ("a\0b", "NUL"),
        ("a/" + "n" * 256, "longer than 255 bytes"),
        ("é" * 128, "longer than 255 bytes"),
        ("/".join(["n" * 255] * 17), "longer than 4096 bytes"),
        ("a\ud800b", "surrogate"),
    ],
)
def test_what_no_territory_contains_is_refused(raw: str, problem: str) -> None:
    with pytest.raises(BadPath) as caught:
        paths.parse_path(raw)
    assert problem in caught.value.message
    assert "\n" not in caught.value.message


@given(st.binary(max_size=20))
def test_text_is_lossless_and_shown_is_one_line(raw: bytes) -> None:
    assert paths.text(raw).encode("utf-8", "surrogateescape") == raw
    assert paths.shown(raw).isprintable() or not raw


@given(st.text(alphabet="ab./", max_size=8))
def test_what_is_accepted_is_normal_and_stays_as_it_is(raw: str) -> None:
    try:
        path = paths.parse_path(raw)
    except BadPath:
        assert raw.startswith("/") or ".." in raw.split("/")
        return
    assert paths.is_normal(path)
    assert paths.parse_path(path) == path
    assert b"/".join(paths.components(path)) == path


@pytest.mark.parametrize(
    "path", [b"/a", b"a/", b"a//b", b".", b"..", b"a/..", b"./a", b"a/./b", b"a\0"]
)
def test_other_spellings_are_not_normal(path: bytes) -> None:
    assert not paths.is_normal(path)


def test_control_characters_and_foreign_bytes_are_shown_escaped() -> None:
    assert paths.shown(b"a\nb\x1b[31m\xff\xc3\xa9") == "a\\nb\\x1b[31m\\xffé"
    assert paths.shown("a\u2028b\u202ec".encode()) == "a\\u2028b\\u202ec"


@given(st.text(max_size=20), st.integers(3, 25))
def test_shortened_is_never_longer_and_keeps_both_ends(line: str, longest: int) -> None:
    short = paths.shortened(line, longest)
    assert len(short) == min(len(line), longest)
    if len(line) <= longest:
        assert short == line
    else:
        tail = (longest - 3) // 2
        head = longest - 3 - tail
        assert short[head : head + 3] == "..."
        assert line.startswith(short[:head])
        assert line.endswith(short[head + 3 :])


def test_parent_name_join_ancestors() -> None:
    assert paths.parent(b"a/b/c") == b"a/b"
    assert paths.parent(b"a") == paths.parent(b"") == paths.ROOT
    assert paths.name(b"a/b") == b"b"
    assert paths.name(b"") == b""
    assert paths.join(b"a/b", b"c") == b"a/b/c"
    assert paths.join(b"", b"c") == b"c"
    assert paths.join(b"a", b"") == b"a"
    assert list(paths.ancestors(b"a/b/c")) == [b"a/b", b"a", b""]
    assert list(paths.ancestors(b"")) == []
    assert paths.components(b"") == ()
