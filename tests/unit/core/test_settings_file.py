"""Files of settings: what is wrong is told with its key and line, whoever wrote it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasefs.core.setting import PLACES, REPOSITORY, SYSTEM, USER
from leasefs.core.settings import SETTINGS, nearest, of_place
from leasefs.core.settings_file import MAX_PROBLEMS, Problem, parse

FILES = (SYSTEM, USER, REPOSITORY)


def only_problem(content: str, place: str) -> Problem:
    (problem,) = parse(content.encode(), place).problems
    return problem


@pytest.mark.parametrize("place", FILES)
@pytest.mark.parametrize(
    ("content", "key", "line", "words"),
    [
        ("\n\n[hooks]\ntrailer = 1\n", "hooks.trailer", 4, "must be true or false, not int"),
        ("[hooks]\n\ntrailr = true\n", "hooks.trailr", 3, "did you mean 'hooks.trailer'?"),
        ("hooks = 3\n", "hooks", 1, "`hooks` must be a table, not int"),
        ("[hoks]\n", "hoks", 1, "unknown key 'hoks'"),
        ("[hoks]\n", "hoks", 1, "did you mean 'hooks'?"),
        ('[release]\nrequire = "landed"\n', "release.require", 2, 'must be "none", "committed"'),
        ("release.check_timeout_s = inf\n", "release.check_timeout_s", 1, "must be seconds"),
        ('x = """\n"""\n', "x", 1, "unknown key 'x'"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(
    place: str, content: str, key: str, line: int, words: str
) -> None:
    problem = only_problem(content, place)
    assert (problem.key, problem.line) == (key, line)
    assert words in problem.words


@pytest.mark.parametrize("place", FILES)
@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b"[a\n", 1, "is not TOML"),
        (b"a = 1\n\nb = \n", 3, "is not TOML"),
        (b"a = 1\na = 2\n", 2, "is not TOML"),
        (b'a = "\n\xff"\n', 2, "is not UTF-8"),
        (b"a = " + b"[" * 3000, 0, "is not TOML"),
        (b"\n[claim]\nttl_s = " + b"9" * 5000, 3, "thousands of digits"),
        (b"a = '" + b"9" * 5000 + b"'\nb =", 0, "is not TOML"),
    ],
)
def test_what_is_not_toml_is_told(place: str, content: bytes, line: int, words: str) -> None:
    (problem,) = parse(content, place).problems
    assert words in problem.words
    assert problem.key == ""
    assert problem.line == line or not line


def test_a_byte_order_mark_is_passed_over() -> None:
    parsed = parse(b"\xef\xbb\xbf[mount]\r\nfsmonitor = false\r\nkeep_leases = 3\r\n", USER)
    assert parsed.said == {"mount.fsmonitor": False}
    assert [one.line for one in parsed.problems] == [3]


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(
    "value",
    [
        "9" * 400,
        "-" + "9" * 400,
        "0x" + "f" * 9000,
        "'" + "x" * 9000 + "'",
        f"[{'1,' * 4000}]",
    ],
)
def test_a_value_beyond_all_bounds_is_told_briefly(name: str, value: str) -> None:
    place = next(one for one in FILES if one in SETTINGS[name].files)
    (problem,) = parse(f"{name} = {value}".encode(), place).problems
    assert problem.key == name
    assert len(problem.words) < 400
    assert f"`{name}` must be " in problem.words
    assert "xceeds" not in problem.words


def test_everything_that_is_wrong_is_told_in_order_and_the_rest_is_read() -> None:
    content = b"[mount]\nkeep_leases = 3\nfsmonitor = false\non_recal = 'x'\n[claim]\nttl_s = 0\n"
    parsed = parse(content, USER)
    assert [(one.key, one.line) for one in parsed.problems] == [
        ("mount.keep_leases", 2),
        ("mount.on_recal", 4),
        ("claim.ttl_s", 6),
    ]
    assert parsed.said == {"mount.fsmonitor": False}
    assert parsed.line_of("mount.fsmonitor") == 3
    assert parsed.line_of("mount.keep_leases") == 0


def test_a_file_full_of_mistakes_is_cut_short() -> None:
    content = "".join(f"k{number} = {number}\n" for number in range(1000))
    assert len(parse(content.encode(), REPOSITORY).problems) == MAX_PROBLEMS


# A repository comes from anywhere: none of these is its to say, however it is spelt.
FORBIDDEN = sorted(set(SETTINGS) - {one.name for one in of_place(REPOSITORY).values()})


def test_what_a_repository_may_say_is_exactly_this() -> None:
    """A line more here is a decision about what nobody need trust; see docs/THREATS.md."""
    assert sorted(one.name for one in of_place(REPOSITORY).values()) == [
        *("hooks.trailer", "release.check_timeout_s", "release.checks", "release.require"),
        *("territory", "unleased.idle_s", "unleased.policy", "unleased.regions"),
        *("unleased.ttl_s", "unleased.uncommitted", "unleased.wait_s", "upstream"),
    ]


@pytest.mark.parametrize("name", FORBIDDEN)
@pytest.mark.parametrize(
    "spelling",
    [
        "[{table}]\n{key} = {value}\n",
        '"{table}"."{key}" = {value}\n',
        "{table} = {{{key} = {value}}}\n",
    ],
)
@pytest.mark.parametrize("value", ['"x"', "1", "true", "{a = 1}", "[]"])
def test_a_repository_says_nothing_that_is_not_its_own(
    name: str, spelling: str, value: str
) -> None:
    table, _, key = name.partition(".")
    parsed = parse(spelling.format(table=table, key=key, value=value).encode(), REPOSITORY)
    assert parsed.said == {}
    (problem,) = parsed.problems
    assert problem.line
    assert f"`{name}` is not a repository's to say" in problem.words
    assert ".config/leasefs/config.toml" in problem.words


@pytest.mark.parametrize("place", [SYSTEM, USER])
def test_what_is_one_repositorys_is_said_in_no_other_file(place: str) -> None:
    for content in ('territory = "x"\n', '[unleased]\nregions = ["a/"]\n'):
        problem = only_problem(content, place)
        assert problem.line
        assert "is one repository's to say; say it in .leasefs.toml" in problem.words


def test_a_name_is_one_persons() -> None:
    assert parse(b'[agent]\nname = "ada"\n', USER).said == {"agent.name": "ada"}
    problem = only_problem('[agent]\nname = "ada"\n', SYSTEM)
    assert (
        problem.words
        == "`agent.name` is one person's to say; say it in ~/.config/leasefs/config.toml"
    )


def test_a_long_or_strange_name_is_shown_short_and_escaped() -> None:
    problem = only_problem('"\\u001b[31m' + "x" * 5000 + '" = 1\n', REPOSITORY)
    assert "\x1b" not in problem.words
    assert len(problem.words) < 400


_TOML = st.recursive(
    st.sampled_from(
        ["1", "-1.5", "inf", "nan", "true", '"x"', '""', "1979-05-27", '"""\n[x]\n"""']
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        inner.map(lambda part: f"{{a = {part}}}".replace("\n", "")),
    ),
    max_leaves=4,
)
_NAMES = st.sampled_from(
    [*SETTINGS, "territory.x", "ledger", "claim", "mount.on_recall.x", "a.b", '"".""']
)


@given(st.lists(st.tuples(_NAMES, _TOML), max_size=4), st.sampled_from(FILES))
def test_whatever_is_said_is_read_as_what_it_is_or_is_a_problem_with_a_line(
    lines: list[tuple[str, str]], place: str
) -> None:
    content = "".join(f"{name} = {value}\n" for name, value in lines)
    parsed = parse(content.encode(), place)
    for name, value in parsed.said.items():
        setting = SETTINGS[name]
        assert place in setting.files
        assert not (isinstance(value, float) and math.isnan(value))
        hash(value)  # nothing in it can be changed behind our back
        assert parsed.line_of(name)
    for problem in parsed.problems:
        assert problem.words
        assert problem.line or "TOML" in problem.words
    assert len(parsed.said) + len(parsed.problems) > 0 or not lines


@pytest.mark.parametrize("name", SETTINGS)
def test_each_setting_is_whole(name: str) -> None:
    setting = SETTINGS[name]
    assert setting.help.endswith(".")
    assert setting.files
    assert set(setting.files) <= set(PLACES)
    assert bool(setting.unset) == (setting.default is None)
    assert name.count(".") <= 1
    assert len({one.variable for one in SETTINGS.values() if one.variable}) == sum(
        bool(one.variable) for one in SETTINGS.values()
    )
    if setting.default is not None and not isinstance(setting.default, tuple):
        assert setting.read(setting.default, setting.files[0]) == setting.default


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("claim.ttl_s", "1h30m", 5400.0),
        ("claim.ttl_s", "90", 90.0),
        ("claim.wait_s", "forever", math.inf),
        ("claim.priority", "background", -20),
        ("claim.priority", "-7", -7),
        ("mount.redirects", "No", False),
        ("mount.redirects", "on", True),
        ("unleased.policy", "wait,claim", "claim+wait"),
        ("mount.on_recall", "git commit -qam wip", "git commit -qam wip"),
    ],
)
def test_text_is_taken_for_what_a_file_would_say(name: str, text: str, value: Any) -> None:
    kind = SETTINGS[name].kind
    assert kind.read(kind.parse(text)) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("claim.ttl_s", "soon"),
        ("claim.ttl_s", "0"),
        ("claim.ttl_s", "nan"),
        ("claim.ttl_s", "inf"),
        ("claim.priority", "7_0"),
        ("claim.priority", "٣"),
        ("claim.priority", "101"),
        ("mount.redirects", "maybe"),
        ("unleased.policy", "allow"),
        ("release.require", "landed"),
    ],
)
def test_text_that_is_no_such_value_is_refused(name: str, text: str) -> None:
    kind = SETTINGS[name].kind
    with pytest.raises(ValueError, match="not"):
        kind.read(kind.parse(text))


def test_the_nearest_name() -> None:
    assert nearest("claim.tll_s") == "claim.ttl_s"
    assert nearest("quite something else") == ""
