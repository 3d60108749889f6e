"""`leasefs fresh` on real repositories with a real ledger: when it runs, when not, and what it says."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.testing.agents import agent_mount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def git(*arguments: str | Path) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *identity, *arguments], check=True, timeout=60)


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: Any) -> Iterator[Path]:
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    (root / "docs").mkdir()
    for name in ("src/a", "src/b", "docs/c"):
        (root / name).write_text(name)
    git("init", "-q", root)
    git("-C", root, "config", "core.excludesFile", str(tmp_path / "none"))
    (root / ".git/info/exclude").write_text("ran\n")
    git("-C", root, "add", "-A")
    git("-C", root, "commit", "-q", "-m", "some")
    monkeypatch.chdir(root)
    yield root
    stopped = installed("ledger", "stop")
    assert stopped.code in (0, 7), stopped.err


@pytest.fixture
def lint(installed: Any, repo: Path) -> Callable[..., dict[str, Any]]:
    """Run it with a command that leaves a mark (or another one); what it said, and whether the mark was made."""

    def run(
        *options: str, globs: tuple[str, ...] = ("src/**",), script: str = "", **variables: str
    ) -> dict[str, Any]:
        mark = repo / "ran"
        mark.unlink(missing_ok=True)
        words = ("sh", "-c", f"touch {mark}; {script}")
        ran = installed(
            *("fresh", "--key", "lint", "--json", *options, *globs, "--", *words),
            env={**os.environ, **variables},
        )
        said = json.loads(ran.out.splitlines()[-1])
        assert isinstance(said, dict)
        if "error" not in said:
            assert said["ran"] == mark.exists()
            assert ran.code == said["exit_code"]
        return {**said, "code": ran.code, "err": ran.err}

    return run


def test_it_runs_once_and_again_only_after_a_change(
    lint: Callable[..., dict[str, Any]], repo: Path
) -> None:
    first = lint()
    assert (first["reason"], first["recorded"], first["code"]) == ("never", True, 0)
    assert first["err"] == "leasefs: lint runs: it never succeeded under this key\n"
    second = lint()
    assert (second["ran"], second["code"]) == (False, 0)
    assert second["err"].startswith(
        "leasefs: lint is fresh, not run: nothing changed since it succeeded "
    )
    (repo / "docs/c").write_text("other")
    (repo / "src/a").touch()
    assert not lint()["ran"]
    (repo / "src/a").write_text("changed")
    (repo / "src/b").unlink()
    (repo / "src/new").write_text("new")
    third = lint()
    assert third["changed"] == ["src/a", "src/b", "src/new"]
    assert "src/a, src/b, src/new changed since it succeeded" in third["err"]
    git("add", "-A")
    git("commit", "-q", "-m", "committed")
    assert not lint()["ran"]


def test_many_changes_are_told_of_by_the_first(
    lint: Callable[..., dict[str, Any]], repo: Path
) -> None:
    lint()
    for number in range(70):
        (repo / f"src/new{number:02}").touch()
    said = lint()
    assert "src/new00, src/new01, src/new02 and 67 more changed" in said["err"]
    assert len(said["changed"]) == 50


def test_content_that_comes_back_is_not_fresh_once_another_succeeded(
    lint: Callable[..., dict[str, Any]], repo: Path
) -> None:
    lint()
    (repo / "src/a").write_text("changed")
    assert lint()["ran"]
    (repo / "src/a").write_text("src/a")
    assert lint()["changed"] == ["src/a"]


def test_a_failure_is_passed_on_and_not_recorded(lint: Callable[..., dict[str, Any]]) -> None:
    failed = lint(script="exit 7")
    assert (failed["code"], failed["recorded"]) == (7, False)
    assert lint(script="kill -9 $$")["code"] == 137
    assert lint()["reason"] == "never"


def test_another_command_line_or_directory_runs(
    lint: Callable[..., dict[str, Any]], repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lint()
    assert lint(script="true")["reason"] == "command"
    assert not lint(script="true")["ran"]
    monkeypatch.chdir(repo / "src")
    assert lint(script="true", globs=("**",))["reason"] == "command"


def test_force_runs_and_records(lint: Callable[..., dict[str, Any]]) -> None:
    assert lint("--force")["recorded"]
    assert lint("--force")["reason"] == "forced"
    assert not lint()["ran"]


def test_keys_are_apart(installed: Any, lint: Callable[..., dict[str, Any]]) -> None:
    lint()
    ran = installed("fresh", "--key", "types", "src/**", "--", "true")
    assert "types runs: it never succeeded" in ran.err


def test_what_changed_while_it_ran_is_not_recorded(lint: Callable[..., dict[str, Any]]) -> None:
    said = lint(script="echo more >>src/a; exit 0")
    assert (said["code"], said["recorded"]) == (0, False)
    assert "not recorded: src/a changed while it ran" in said["err"]
    assert lint(script="echo more >>src/a; exit 0")["reason"] == "never"
    said = lint(script="git add -A && git -c user.name=t -c user.email=t@example.org commit -qm x")
    assert said["recorded"], "a commit changes no content"


def test_with_the_ledger_away_it_runs_and_says_so(lint: Callable[..., dict[str, Any]]) -> None:
    lint()
    said = lint(LEASEFS_LEDGER="unix:/nowhere/ledger.sock")
    assert (said["reason"], said["code"], said["recorded"]) == ("ledger", 0, False)
    runs, not_recorded = said["err"].splitlines()
    assert "whether it is fresh could not be asked: cannot reach the ledger" in runs
    assert "the success of lint is not recorded: cannot reach the ledger" in not_recorded


def test_another_host_or_clone_shares_it(
    lint: Callable[..., dict[str, Any]],
    repo: Path,
    own_world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another host: nothing of this one's state but its ledger."""
    (repo / ".leasefs.toml").write_text('territory = "one"\n')
    git("add", "-A")
    git("commit", "-q", "-m", "territory")
    lint()
    clone = tmp_path / "clone"
    git("clone", "-q", repo, clone)
    (own_world / "other").mkdir(mode=0o700)
    elsewhere = {
        "LEASEFS_LEDGER": f"unix:{own_world}/s/leasefs/run/ledger.sock",
        "XDG_STATE_HOME": str(own_world / "other"),
    }
    monkeypatch.chdir(clone)
    assert not lint(**elsewhere)["ran"]
    (clone / "src/a").write_text("changed")
    said = lint(**elsewhere)
    assert "something changed since it succeeded" in said["err"]
    assert "which paths is not known here" in said["err"]


@pytest.mark.parametrize(
    ("globs", "doubt"), [(("none/**",), "no file matches"), (("src/nested/**",), "of its own")]
)
def test_in_doubt_it_runs(
    lint: Callable[..., dict[str, Any]], repo: Path, globs: tuple[str, ...], doubt: str
) -> None:
    git("init", "-q", "src/nested")
    for _ in range(2):
        said = lint(globs=globs)
        assert (said["reason"], said["recorded"]) == ("doubt", False)
        assert doubt in said["message"]


def test_a_file_that_cannot_be_read_is_a_doubt(
    lint: Callable[..., dict[str, Any]], repo: Path
) -> None:
    git("config", "filter.broken.clean", "false")
    git("config", "filter.broken.required", "true")
    (repo / ".gitattributes").write_text("src/a filter=broken\n")
    (repo / "src/a").write_text("changed")
    assert "what is there cannot be told" in lint()["message"]


def test_names_of_any_kind(lint: Callable[..., dict[str, Any]], repo: Path) -> None:
    lint()
    (repo / os.fsdecode(b"src/\xff\n\x1b")).touch()
    said = lint()
    assert said["changed"] == ["src/\udcff\n\x1b"]
    assert r"src/\xff\n\x1b changed" in said["err"]


def test_a_damaged_list_costs_words_alone(
    lint: Callable[..., dict[str, Any]], repo: Path, own_world: Path
) -> None:
    lint()
    (listed,) = (own_world / "s/leasefs/fresh").iterdir()
    listed.write_bytes(b"x")
    (repo / "src/a").write_text("changed")
    assert "which paths is not known here" in lint()["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["src/**", "--", "true"],
        ["--key", "k", "--", "true"],
        ["--key", "k", "src/**"],
        ["--key", "k", "src/**", "--"],
        ["--key", "k", "../out", "--", "true"],
    ],
)
def test_usage(installed: Any, repo: Path, arguments: list[str]) -> None:
    assert installed("fresh", *arguments).code == 2


def test_a_bad_key_is_told(installed: Any, repo: Path) -> None:
    ran = installed("fresh", "--key", "k" * 200, "src/**", "--", "true")
    assert "bad key" in ran.err
    ran = installed("fresh", "--key", "k", "src/**", "--", "no-such-program")
    assert ran.code == 127


def test_the_history_tells_of_successes(
    installed: Any, lint: Callable[..., dict[str, Any]]
) -> None:
    lint()
    lint()
    (line,) = installed("log", "--type", "fresh-recorded").out.splitlines()
    assert "lint succeeded on src/** (2 files)" in line


@pytest.mark.mount
def test_in_a_mount_the_tree_is_the_mounts_and_its_agent_is_named(
    installed: Any, repo: Path, tmp_path: Path
) -> None:
    words = ("fresh", "--key", "lint", "src/**", "--", "true")
    (tmp_path / "mount").mkdir()
    with agent_mount(str(repo), str(tmp_path / "mount"), "ada") as ada:
        ran = installed("-C", ada.root, *words)
        assert ran.err == "leasefs: lint runs: it never succeeded under this key\n"
        assert "(by ada on " in installed("-C", ada.root, *words).err
        assert "lint is fresh" in installed("-C", str(repo), *words).err
        ada.claim("src/**")
        ada.write("src/a", "changed")
        assert "src/a changed since it succeeded" in installed("-C", ada.root, *words).err


@pytest.mark.parametrize("key", ["", " ", "lint ", "x" * 129, "l\u00efnt", "two\nlines"])
def test_a_key_under_which_nothing_can_be_kept_runs_nothing(
    installed: Any, repo: Path, key: str
) -> None:
    ran = installed("fresh", "--key", key, "src/**", "--", "touch", "ran")
    assert ran.code == 2
    assert "a key is 1 to 128 printable ASCII characters" in ran.err
    assert not (repo / "ran").exists()
