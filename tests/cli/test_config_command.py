"""`leasefs config`, and what other commands do about a configuration that is wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from leasefs.client.config_files import user_path
from leasefs_cli.config_rows import as_toml, plain


def user_says(content: str) -> Path:
    path = Path(user_path())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o600)
    return path


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "deep").mkdir()
    (tmp_path / ".leasefs.toml").write_text('territory = "T"\n[unleased]\npolicy = "claim"\n')
    monkeypatch.chdir(tmp_path / "deep")
    return tmp_path


def test_nothing_is_configured(here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = here("config", "show")
    assert (ran.code, ran.out) == (0, "")
    assert "nothing differs from the defaults; --all shows those" in ran.err
    ran = here("config", "show", "--all")
    assert (ran.code, ran.err) == (0, "")
    rows = ran.out.splitlines()[1:]
    assert all(row.endswith("  default") for row in rows)


def test_each_value_is_shown_with_who_says_it(
    here: Any, repository: Path, monkeypatch: pytest.MonkeyPatch, own_world: Path
) -> None:
    path = user_says('[agent]\nname = "ada"\n\n[unleased]\npolicy = "wait"\nwait_s = 5\n')
    system = own_world / "system.toml"
    system.write_text('[agent]\nharness = "codex"\n')
    monkeypatch.setenv("LEASEFS_CONFIG_SYSTEM", str(system))
    monkeypatch.setenv("LEASEFS_CLAIM_TTL_S", "10m")
    ran = here("-c", "claim.wait_s=forever", "config", "show")
    assert (ran.code, ran.err) == (0, "")
    rows = [row.split(maxsplit=1) for row in ran.out.splitlines()]
    assert {name: " ".join(rest.split()) for name, rest in rows} == {
        "SETTING": "VALUE SAID BY",
        "agent.name": f'"ada" {path}:2',
        "agent.harness": f'"codex" {system}:2',
        "claim.ttl_s": "600 LEASEFS_CLAIM_TTL_S",
        "claim.wait_s": "inf -c claim.wait_s",
        "unleased.policy": f'"claim" {repository}/.leasefs.toml:3',
        "unleased.wait_s": f"5 {path}:6",
        "territory": f'"T" {repository}/.leasefs.toml:1',
    }
    (said,) = json.loads(here("config", "show", "unleased.policy", "--json").out)["settings"]
    assert (said["value"], said["place"]) == ("claim", "repository")
    assert said["also"] == [{"place": "user", "where": f"{path}:5"}]
    assert said["variable"] == "LEASEFS_UNLEASED_POLICY"
    wait = json.loads(here("-c", "claim.wait_s=inf", "config", "show", "claim", "--json").out)
    assert [one["value"] for one in wait["settings"]] == [600.0, "inf", 0]


def test_one_value_for_a_script(here: Any, repository: Path) -> None:
    user_says('[ledger]\nurl = "unix:/x y.sock"\n')
    assert here("config", "get", "ledger.url").out == "unix:/x y.sock\n"
    assert here("config", "get", "mount.fsmonitor").out == "true\n"
    assert here("config", "get", "agent.name").out == "\n"
    assert here("config", "get", "unleased.policy").out == "claim\n"
    assert json.loads(here("config", "get", "territory", "--json").out)["place"] == "repository"


@pytest.mark.parametrize("words", [("get", "claim.tll_s"), ("show", "claim.tll_s")])
def test_a_name_that_is_none(here: Any, words: tuple[str, ...]) -> None:
    ran = here("config", *words)
    assert (ran.code, ran.out) == (2, "")
    assert "no setting 'claim.tll_s': did you mean 'claim.ttl_s'?" in ran.err


def test_the_files_that_are_looked_at(
    here: Any, repository: Path, monkeypatch: pytest.MonkeyPatch, own_world: Path
) -> None:
    monkeypatch.setenv("LEASEFS_CONFIG_SYSTEM", str(own_world / "none.toml"))
    path = user_says("x = 1\n")
    files = json.loads(here("config", "path", "--json").out)["files"]
    assert [(one["place"], one["path"], one["state"]) for one in files] == [
        ("system", str(own_world / "none.toml"), "not there"),
        ("user", str(path), "wrong"),
        ("repository", f"{repository}/.leasefs.toml", "read"),
    ]
    assert here("config", "path").out.splitlines()[0].split() == ["PLACE", "PATH", "STATE"]


def test_all_that_is_wrong_is_shown_and_the_rest_as_well(
    here: Any, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = user_says("[claim]\ntll_s = 60\nwait_s = 5\n[mount]\nredirects = 1\n")
    (repository / ".leasefs.toml").write_text('[mount]\non_recall = "rm -rf ~"\n')
    monkeypatch.setenv("LEASEFS_HOOKS_TRAILER", "perhaps")
    monkeypatch.setenv("LEASEFS_AGNT", "ada")
    ran = here("config", "show")
    assert ran.code == 2
    assert f"claim.wait_s  5      {path}:3" in ran.out
    told = ran.err.splitlines()
    assert [line.split(": ")[1] for line in told] == [
        f"{path}:2",
        f"{path}:5",
        f"{repository}/.leasefs.toml:2",
        "LEASEFS_HOOKS_TRAILER",
        "LEASEFS_AGNT",
    ]
    assert "did you mean 'claim.ttl_s'?" in told[0]
    assert "`mount.on_recall` is not a repository's to say" in told[2]
    assert "did you mean LEASEFS_AGENT?" in told[4]
    said = json.loads(here("config", "show", "--json").out)
    assert [one["fatal"] for one in said["troubles"]] == [True, True, True, True, False]
    assert (said["troubles"][0]["key"], said["troubles"][0]["line"]) == ("claim.tll_s", 2)


def test_a_strange_variable_alone_stops_nothing(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEFS_AGNT", "ada")
    assert here("config", "show").code == 0
    assert here("config", "get", "agent.name").code == 0


def test_what_runs_on_says_which_variable_nobody_reads(
    here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount's variables stand in a file that is written once."""
    monkeypatch.setenv("LEASEFS_UNLEASED_POLCY", "claim")
    about = {"mountpoint": "/m", "source": "/m", "agent": "a", "harness": "h"}
    monkeypatch.setattr("leasefs_cli.commands.mount.start_mount", lambda _: about)
    monkeypatch.setattr("leasefs.service.server.serve", lambda *_: None)
    for words in (("mount", str(tmp_path)), ("ledger", "serve")):
        ran = here(*words)
        assert ran.code == 0
        assert (
            "LEASEFS_UNLEASED_POLCY: no setting has this variable; did you mean LEASEFS_UNLEASED_POLICY?"
            in ran.err
        )


@pytest.mark.parametrize(
    "words",
    [
        ("ledger", "status"),
        ("leases",),
        ("claim", "src/**"),
        ("release", "L7"),
        ("mount", "."),
        ("config", "get", "claim.ttl_s"),
    ],
    ids=" ".join,
)
def test_a_command_that_needs_it_names_the_file_and_the_line(
    here: Any, repository: Path, words: tuple[str, ...]
) -> None:
    path = user_says("[claim]\n\ntll_s = 60\n")
    ran = here(*words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"leasefs: {path}:3: unknown key 'claim.tll_s'; ")
    assert ran.err.count("\n") == 1
    said = json.loads(here(*words, "--json").out)["error"]
    assert (said["code"], said["exit_code"]) == ("bad-configuration", 2)
    assert said["details"] == {"where": f"{path}:3", "key": "claim.tll_s", "line": 3}


@pytest.mark.parametrize(
    "words", [("--version",), ("--help",), ("claim", "--help"), ("completion", "bash")]
)
def test_what_needs_nothing_goes_on(here: Any, words: tuple[str, ...]) -> None:
    user_says("nonsense")
    assert here(*words).code == 0


def test_doctor_goes_on(here: Any, repository: Path) -> None:
    path = user_says("[claim]\n\ntll_s = 60\n")
    ran = here("doctor")
    assert ran.code == 1
    assert f"{path}:3" in ran.out
    assert "unexpected" not in ran.err


@pytest.mark.parametrize(
    "wish", ["claim.tll_s=1", "claim.ttl_s=soon", "claim.ttl_s", "territory=x"]
)
def test_what_cannot_be_given(here: Any, wish: str) -> None:
    ran = here("-c", wish, "leases")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"leasefs: {'no setting' if 'tll' in wish else '-c '}")


def test_a_mount_of_a_hostile_repository_is_refused_before_anything_is_run(
    here: Any, repository: Path
) -> None:
    made = repository / "made"
    (repository / ".leasefs.toml").write_text(
        f'[mount]\non_recall = "touch {made}"\n[ledger]\nurl = "unix:{repository}/evil.sock"\n'
    )
    ran = here("mount", str(repository), "--agent", "ada")
    assert ran.code == 2
    assert (
        f"{repository}/.leasefs.toml:2: `mount.on_recall` is not a repository's to say" in ran.err
    )
    assert not made.exists()
    assert not os.path.ismount(repository)


@pytest.mark.parametrize(
    ("value", "toml", "text"),
    [
        (True, "true", "true"),
        (7, "7", "7"),
        (7.0, "7", "7"),
        (float("inf"), "inf", "inf"),
        (2592000.0, "2592000", "2592000"),
        ('a"b', '"a\\"b"', 'a"b'),
        (("a", ("b", "c")), '["a", ["b", "c"]]', '["a", ["b", "c"]]'),
        (None, "", ""),
    ],
)
def test_values_are_written_as_a_file_would_say_them(value: Any, toml: str, text: str) -> None:
    assert (as_toml(value), plain(value)) == (toml, text)
