"""What is configured: who goes before whom, and which files are believed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasefs.client import config, paths
from leasefs.client.config_files import (
    SYSTEM_FILE,
    SYSTEM_VARIABLE,
    ConfigFile,
    read_config_file,
    system_path,
    user_path,
)
from leasefs.client.config_report import Report
from leasefs.core.errors import BadConfiguration, InvalidRequest
from leasefs.core.layers import Layer, resolve
from leasefs.core.setting import (
    COMMAND_LINE,
    DEFAULT,
    ENVIRONMENT,
    PLACES,
    REPOSITORY,
    SYSTEM,
    USER,
)
from leasefs.core.settings import SETTINGS
from leasefs.core.settings_file import parse
from leasefs.testing.own_world import World, own_world
from leasefs.vcs.project_file import read_project_file

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with own_world(str(tmp_path)) as world:
        yield world


def user_says(content: str) -> Path:
    """Write the user's file, as if this process had just begun."""
    path = Path(user_path())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o600)
    config.forget()
    return path


# -- precedence ---------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.sampled_from(PLACES[1:]), st.one_of(st.none(), st.integers())),
        unique_by=lambda layer: layer[0],
    )
)
def test_the_highest_place_that_says_anything_is_heard(
    said: list[tuple[str, int | None]],
) -> None:
    """In whatever order the layers come, and however many of them say nothing."""
    setting = SETTINGS["claim.ttl_s"]
    layers = [Layer(place, {} if one is None else {"claim.ttl_s": one}) for place, one in said]
    found = resolve(setting, layers)
    saying = {place: one for place, one in said if one is not None}
    by_rank = sorted(saying, key=PLACES.index, reverse=True)
    assert found.place == (by_rank[0] if by_rank else DEFAULT)
    assert found.value == (saying[by_rank[0]] if by_rank else setting.default)
    assert list(found.also) == by_rank[1:]


class Sources(NamedTuple):
    """What each place says of one setting, as TOML, or None."""

    name: str
    system: str | None
    user: str | None
    repository: str | None
    environment: str | None
    command_line: str | None


# Of those that every place may say: as a file says it, as text does, and what comes out.
VALUES = {
    "unleased.wait_s": [
        ("5", "5s", 5.0),
        ("0", "0", 0.0),
        ("90.5", "90.5", 90.5),
        ("60", "1m", 60.0),
    ],
    "unleased.policy": [
        (f'"{word}"', word, word) for word in ("deny", "claim", "wait", "claim+wait")
    ],
    "release.require": [(f'"{word}"', word, word) for word in ("none", "committed", "pushed")],
    "hooks.trailer": [("true", "yes", True), ("false", "0", False)],
}
FIELDS = {
    "unleased.wait_s": lambda file: file.unleased.wait_s,
    "unleased.policy": lambda file: file.unleased.policy or "deny",
    "release.require": lambda file: file.require,
    "hooks.trailer": lambda file: file.trailer,
}


@st.composite
def sources(draw: st.DrawFn) -> tuple[str, dict[str, tuple[str, str, object]]]:
    name = draw(st.sampled_from(sorted(VALUES)))
    places = draw(st.sets(st.sampled_from(PLACES[1:])))
    one_of = st.sampled_from(VALUES[name])
    return name, {place: draw(one_of) for place in sorted(places)}


def in_file(name: str, value: str, lines_before: int) -> str:
    return "\n" * lines_before + f"{name} = {value}\n"


@settings(max_examples=150, deadline=None)
@given(sources(), st.integers(0, 3))
def test_a_setting_is_what_the_highest_source_says_for_whoever_asks(
    given_: tuple[str, dict[str, tuple[str, str, object]]], lines_before: int
) -> None:
    """`leasefs config` and the mount, which reads the repository's file itself, never differ."""
    name, said = given_
    with tempfile.TemporaryDirectory() as root, own_world(root):
        for place, path in ((SYSTEM, f"{root}/system.toml"), (USER, user_path())):
            if place in said:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                Path(path).write_text(in_file(name, said[place][0], lines_before))
                os.chmod(path, 0o644)
        os.environ[SYSTEM_VARIABLE] = f"{root}/system.toml"
        tree = f"{root}/tree"
        os.mkdir(tree)
        text = in_file(name, said[REPOSITORY][0], lines_before) if REPOSITORY in said else ""
        Path(tree, ".leasefs.toml").write_text(text)
        repository = ConfigFile(
            REPOSITORY, f"{tree}/.leasefs.toml", parse(text.encode(), REPOSITORY)
        )
        if ENVIRONMENT in said:
            os.environ[SETTINGS[name].variable] = said[ENVIRONMENT][1]
        if COMMAND_LINE in said:
            config.give(f"{name}={said[COMMAND_LINE][1]}")

        report = Report(repository)
        highest = max(said, key=PLACES.index, default=DEFAULT)
        expected = said[highest][2] if said else SETTINGS[name].default
        found = report.found(name)
        assert (found.place, found.value) == (highest, expected)
        assert (
            report.where(name, highest)
            == {
                DEFAULT: "default",
                SYSTEM: f"{root}/system.toml:{lines_before + 1}",
                USER: f"{user_path()}:{lines_before + 1}",
                REPOSITORY: f"{tree}/.leasefs.toml:{lines_before + 1}",
                ENVIRONMENT: SETTINGS[name].variable,
                COMMAND_LINE: f"-c {name}",
            }[highest]
        )
        root_fd = os.open(tree, os.O_RDONLY)
        try:
            project = read_project_file(root_fd, tree, config.around())
        finally:
            os.close(root_fd)
        assert FIELDS[name](project) == expected


def test_what_no_repository_may_say_is_found_without_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert config.seconds("claim.ttl_s") == 1800.0
    system = Path(world.root, "system.toml")
    system.write_text("[claim]\nttl_s = 60\n")
    monkeypatch.setenv(SYSTEM_VARIABLE, str(system))
    assert config.seconds("claim.ttl_s") == 60.0
    user_says("[claim]\nttl_s = 61\n")
    assert config.seconds("claim.ttl_s") == 61.0
    monkeypatch.setenv("LEASEFS_CLAIM_TTL_S", "62s")
    assert config.seconds("claim.ttl_s") == 62.0
    config.give("claim.ttl_s=63s")
    assert config.seconds("claim.ttl_s") == 63.0
    assert config.found("claim.ttl_s").also == (ENVIRONMENT, USER, SYSTEM)


def test_an_empty_variable_says_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    user_says('[agent]\nname = "ada"\n')
    monkeypatch.setenv("LEASEFS_AGENT", " ")
    assert config.text("agent.name") == "ada"


def test_a_variable_that_is_wrong_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEFS_CLAIM_TTL_S", "soon")
    with pytest.raises(
        BadConfiguration, match=r"^LEASEFS_CLAIM_TTL_S: `claim.ttl_s` must be seconds"
    ):
        config.seconds("claim.ttl_s")
    assert config.text("agent.name") == ""  # who does not need it is not stopped


def test_a_process_goes_on_as_it_began(world: World) -> None:
    """A mount that lives for months is not stopped by a file that somebody is editing."""
    user_says("[claim]\nttl_s = 61\n")
    assert config.seconds("claim.ttl_s") == 61.0
    Path(user_path()).write_text("nonsense")
    assert config.seconds("claim.ttl_s") == 61.0
    config.forget()
    with pytest.raises(BadConfiguration):
        config.seconds("claim.ttl_s")


def test_what_was_given_is_handed_on_as_it_was(world: World) -> None:
    config.give("claim.ttl_s=90s")
    config.give("mount.on_recall=x=y")
    texts = config.given_texts()
    config.start_afresh()
    assert config.seconds("claim.ttl_s") == 1800.0
    config.give_all(texts)
    assert (config.seconds("claim.ttl_s"), config.text("mount.on_recall")) == (90.0, "x=y")


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ("claim.tll_s=1", "did you mean 'claim.ttl_s'?"),
        ("nonsense=1", "`leasefs config show --all` lists them"),
        ("claim.ttl_s", "give it a value"),
        ("claim.ttl_s=soon", "must be seconds"),
        ("territory=x", "is for a repository's own .leasefs.toml to say"),
    ],
)
def test_what_cannot_be_given_is_refused(world: World, wish: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        config.give(wish)
    assert words in caught.value.message
    assert config.given_texts() == {}


def test_a_ledger_that_cannot_be_one_is_told_with_its_line(world: World) -> None:
    path = user_says('[ledger]\n\nurl = "unix:relative"\n')
    with pytest.raises(BadConfiguration) as caught:
        paths.ledger_url()
    assert caught.value.message.startswith(f"{path}:3: bad ledger address 'unix:relative'")


# -- which files are believed -------------------------------------------------------------------


def test_where_the_files_are(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert system_path() == ""
    monkeypatch.delenv(SYSTEM_VARIABLE)
    assert system_path() == SYSTEM_FILE
    assert user_path() == f"{world.root}/home/.config/leasefs/config.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert user_path() == f"{world.root}/home/.config/leasefs/config.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", "/x")
    assert user_path() == "/x/leasefs/config.toml"


def problem_of(place: str, path: Path) -> str:
    (problem,) = read_config_file(place, str(path)).problems
    return problem.words


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o664])
def test_a_file_that_others_can_write_is_not_believed(world: World, mode: int) -> None:
    path = user_says("[claim]\nttl_s = 61\n")
    path.chmod(mode)
    with pytest.raises(BadConfiguration) as caught:
        config.seconds("claim.ttl_s")
    assert f"{path}: can be written by others (mode {mode:04o})" in caught.value.message
    assert caught.value.message.endswith(f"chmod go-w {path}")
    path.chmod(mode & ~0o022)
    config.forget()
    assert config.seconds("claim.ttl_s") == 61.0


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_file_in_a_directory_of_others_is_not_believed(world: World, mode: int) -> None:
    """A link there could lead to any file of one's own, such as one that a clone brought along."""
    path = user_says("[claim]\nttl_s = 61\n")
    path.parent.chmod(mode)
    assert f"lies in {path.parent}, which others can write" in problem_of(USER, path)
    path.parent.chmod(0o700)
    assert read_config_file(USER, str(path)).problems == ()
    elsewhere = Path(world.root, "elsewhere")
    elsewhere.mkdir()
    elsewhere.chmod(mode)
    path.rename(elsewhere / "config.toml")
    path.symlink_to(elsewhere / "config.toml")
    assert f"lies in {elsewhere}, which others can write" in problem_of(USER, path)


def test_who_has_no_home_has_no_file(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", _nobody)
    assert user_path() == ""
    assert config.text("agent.name") == ""


def _nobody(_: int) -> None:
    raise KeyError


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_a_file_of_another_user_is_not_believed(world: World) -> None:
    path = user_says("[claim]\nttl_s = 61\n")
    os.chown(path, 65534, -1)
    with pytest.raises(BadConfiguration, match=r"belongs to uid 65534, not to root.*chown 0 "):
        config.seconds("claim.ttl_s")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_the_machines_file_is_roots_whoever_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[claim]\nttl_s = 61\n")
    path.chmod(0o644)
    monkeypatch.setattr("leasefs.client.config_files.SYSTEM_FILE", str(path))
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert read_config_file(SYSTEM, str(path)).said == {"claim.ttl_s": 61.0}
    os.chown(path, 65534, -1)
    assert "belongs to uid 65534, not to root" in problem_of(SYSTEM, path)
    assert read_config_file(USER, str(path) + "x").parsed is None


def test_links_are_followed_and_judged_by_where_they_lead(world: World) -> None:
    path = user_says("[claim]\nttl_s = 61\n")
    kept = path.with_name("dotfiles.toml")
    path.rename(kept)
    path.symlink_to(kept)
    config.forget()
    assert config.seconds("claim.ttl_s") == 61.0
    kept.chmod(0o666)
    assert "can be written by others" in problem_of(USER, path)
    path.unlink()
    path.symlink_to("nowhere")
    assert read_config_file(USER, str(path)).parsed is None
    path.unlink()
    path.symlink_to(path)
    assert "cannot be read" in problem_of(USER, path)


def test_what_is_no_file_is_refused_at_once(world: World) -> None:
    path = user_says("")
    path.unlink()
    os.mkfifo(path, 0o600)
    assert "is not a regular file" in problem_of(USER, path)
    path.unlink()
    path.mkdir(0o700)
    assert "is not a regular file" in problem_of(USER, path)
    path.rmdir()
    path.symlink_to("/dev/zero")
    assert "is not a regular file" in problem_of(USER, path)


def test_another_file_for_the_machines_is_named_wholly(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Daemons stand in another directory than the shell that started them."""
    monkeypatch.setenv(SYSTEM_VARIABLE, "system.toml")
    with pytest.raises(BadConfiguration, match=r"^system.toml: is no absolute path"):
        config.text("agent.name")


def test_a_giant_file_is_refused(world: World) -> None:
    path = user_says("#" * (1 << 16))
    assert read_config_file(USER, str(path)).problems == ()
    path.write_text("#" * ((1 << 16) + 1))
    assert problem_of(USER, path) == "is longer than 64 KiB"
