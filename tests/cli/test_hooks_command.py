"""`leasefs hooks` on real repositories, with real commits and a real ledger."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import api
from leasefs.client.blocking import Link
from leasefs.client.ids import Credentials

if TYPE_CHECKING:
    from collections.abc import Iterator

INSTALLED = Path(sys.executable).parent
IDENTITY = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "t"), ("EMAIL", "t@example.org"))
}


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: Any) -> Iterator[Path]:
    """A repository with a commit and our hooks, with the shell in it."""
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "-b", "main", root], check=True)
    monkeypatch.chdir(root)
    monkeypatch.setenv("PATH", f"{INSTALLED}:{os.environ['PATH']}")
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    git("commit", "-q", "--allow-empty", "-m", "first")
    assert installed("hooks", "install").code == 0
    yield root
    stopped = installed("ledger", "stop")
    assert stopped.code in (0, 7), stopped.err


def git(
    *arguments: str, ok: tuple[int, ...] = (0,), **variables: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["git", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
        timeout=60,
    )
    assert done.returncode in ok, done.stderr
    return done


def stage(*names: str) -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(os.urandom(8))
    git("add", "--", *names)


def head() -> str:
    return git("rev-parse", "HEAD").stdout


def message() -> str:
    return git("log", "-1", "--format=%B").stdout


def claim(installed: Any, agent: str, *globs: str) -> str:
    ran = installed("claim", *globs, "--agent", agent)
    assert ran.code == 0, ran.err
    return str(ran.out.strip())


def test_status_says_how_they_stand(installed: Any, repo: Path) -> None:
    ran = installed("hooks", "status", "--json")
    said = json.loads(ran.out)
    assert ran.code == 0
    assert [(hook["name"], hook["state"]) for hook in said["hooks"]] == [
        ("pre-commit", "installed"),
        ("commit-msg", "installed"),
        ("pre-push", "installed"),
    ]
    assert installed("hooks", "uninstall").code == 0
    ran = installed("hooks", "status")
    assert ran.code == 1
    assert "pre-commit  missing" in ran.out


def test_a_directory_that_others_use_needs_consent(
    installed: Any, repo: Path, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    git("config", "--global", "core.hooksPath", str(shared))
    ran = installed("hooks", "install")
    assert (ran.code, shared.exists()) == (2, False)
    assert f"core.hooksPath (global) is '{shared}'" in ran.err
    assert 'leasefs hooks run pre-commit "$@" || exit $?' in ran.err
    assert installed("hooks", "install", "--shared").code == 0
    assert (shared / "pre-commit").exists()
    assert installed("hooks", "uninstall").code == 0
    assert list(shared.iterdir()) == []


def test_outside_a_repository_nothing_is_installed(
    installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for verb in ("install", "uninstall", "status"):
        ran = installed("hooks", verb)
        assert ran.code == 2
        assert "not a git repository" in ran.err


def test_a_commit_under_ones_leases_passes(installed: Any, repo: Path) -> None:
    claim(installed, "ada", "src/**")
    stage("src/a", "src/\xff\n")
    before = head()
    done = git("commit", "-q", "-m", "mine", LEASEFS_AGENT="ada")
    assert done.stderr == ""
    assert head() != before


def test_a_commit_that_sweeps_in_anothers_path_is_refused(installed: Any, repo: Path) -> None:
    claim(installed, "ada", "src/**")
    theirs = claim(installed, "bo", "docs/**")
    stage("src/a", "docs/b", "free")
    before = head()
    done = git("commit", "-q", "-m", "mine", ok=(1,), LEASEFS_AGENT="ada")
    assert head() == before
    held, free, refused = done.stderr.splitlines()
    assert held.startswith(f"leasefs: docs/b: held by bo (shell), {theirs} docs/** (expires in ")
    assert free == "leasefs: free: no lease of ada covers it"
    assert refused.startswith("leasefs: not committed: 2 of its paths are not under your leases; ")
    assert "git restore --staged docs/b" in refused
    git("restore", "--staged", "docs/b", "free")
    git("commit", "-q", "-m", "mine", LEASEFS_AGENT="ada")
    git("add", "-A")
    git("commit", "-q", "-n", "-m", "past the hooks", LEASEFS_AGENT="ada")


def test_many_paths_are_told_of_by_the_first(installed: Any, repo: Path) -> None:
    claim(installed, "ada", "src/**")
    stage(*(f"free/{number}" for number in range(30)))
    done = git("commit", "-q", "-m", "mine", ok=(1,), LEASEFS_AGENT="ada")
    lines = done.stderr.splitlines()
    assert len(lines) == 12
    assert lines[10] == "leasefs: and 20 more paths"
    ran = installed(
        "hooks", "run", "pre-commit", "--json", env={**os.environ, "LEASEFS_AGENT": "ada"}
    )
    error = json.loads(ran.out)["error"]
    assert (ran.code, error["code"], len(error["details"]["paths"])) == (3, "conflict", 30)


@pytest.mark.parametrize("how", [["-a"], ["--", "src/a"], ["-o", "src/a"], ["-i", "src/a"]])
def test_what_counts_is_what_the_commit_will_hold(
    installed: Any, repo: Path, how: list[str]
) -> None:
    stage("src/a", "docs/b")
    git("commit", "-q", "-n", "-m", "before")
    claim(installed, "ada", "src/**")
    (repo / "src/a").write_text("changed")
    (repo / "docs/b").write_text("changed")
    if how == ["-i", "src/a"]:
        git("add", "docs/b")
    sweeps = how in (["-a"], ["-i", "src/a"])
    git("commit", "-q", "-m", "mine", *how, ok=(1,) if sweeps else (0,), LEASEFS_AGENT="ada")


def test_the_agent_is_the_one_that_holds_something_here(installed: Any, repo: Path) -> None:
    claim(installed, "ada", "src/**")
    stage("free")
    done = git("commit", "-q", "-m", "mine", ok=(1,))
    assert "no lease of ada covers it" in done.stderr


def test_who_is_no_agent_is_kept_from_what_is_held_alone(installed: Any, repo: Path) -> None:
    claim(installed, "ada", "src/**")
    claim(installed, "bo", "docs/**")
    stage("free")
    assert git("commit", "-q", "-m", "free").stderr == ""
    stage("src/a")
    done = git("commit", "-q", "-m", "swept", ok=(1,))
    assert "src/a: held by ada" in done.stderr
    assert "LEASEFS_AGENT" in done.stderr


def test_without_leasefs_in_use_nobody_notices_the_hooks(installed: Any, repo: Path) -> None:
    stage("free")
    assert git("commit", "-q", "-m", "free").stderr == ""
    assert installed("ledger", "status").code == 7


def test_a_shared_lease_lets_nobody_commit(installed: Any, repo: Path) -> None:
    installed("claim", "--shared", "src/**", "--agent", "ada")
    stage("src/a")
    done = git("commit", "-q", "-m", "mine", ok=(1,), LEASEFS_AGENT="ada")
    assert "over it is shared" in done.stderr


def test_with_the_ledger_away_it_says_what_was_not_checked(installed: Any, repo: Path) -> None:
    stage("src/a")
    away = "unix:/nowhere/ledger.sock"
    done = git("commit", "-q", "-m", "mine", LEASEFS_AGENT="ada", LEASEFS_LEDGER=away)
    assert "the commit was checked against no lease: cannot reach the ledger" in done.stderr
    stage("src/b")
    assert git("commit", "-q", "-m", "mine", LEASEFS_LEDGER=away).stderr == ""


def test_a_home_that_leasefs_cannot_use_stops_agents_alone(installed: Any, repo: Path) -> None:
    stage("src/a")
    nowhere = "/proc/nowhere"
    done = git("commit", "-q", "-m", "a", ok=(1,), LEASEFS_AGENT="ada", XDG_STATE_HOME=nowhere)
    assert "leasefs: /proc/nowhere" in done.stderr
    done = git("commit", "-q", "-m", "mine", XDG_STATE_HOME=nowhere)
    assert "the commit was checked against no lease: /proc/nowhere" in done.stderr


def test_a_merge_brings_what_it_brings(installed: Any, repo: Path) -> None:
    claim(installed, "ada", "src/**")
    git("checkout", "-q", "-b", "theirs")
    stage("docs/b")
    git("commit", "-q", "-n", "-m", "theirs")
    git("checkout", "-q", "main")
    stage("src/a")
    git("commit", "-q", "-m", "mine", LEASEFS_AGENT="ada")
    git("merge", "-q", "--no-commit", "theirs")
    stage("free")
    done = git("commit", "-q", "-m", "merge", ok=(1,), LEASEFS_AGENT="ada")
    assert done.stderr.startswith("leasefs: free: ")
    git("restore", "--staged", "free")
    git("commit", "-q", "-m", "merge", LEASEFS_AGENT="ada")
    git("checkout", "-q", "-b", "more", "HEAD~1")
    git("merge", "-q", "--no-edit", "theirs", LEASEFS_AGENT="ada")


@pytest.fixture
def trailing(installed: Any, repo: Path) -> str:
    (repo / ".leasefs.toml").write_text("[hooks]\ntrailer = true\n")
    git("add", ".leasefs.toml")
    git("commit", "-q", "-n", "-m", "trailers")
    claim(installed, "ada", "docs/**")
    return claim(installed, "ada", "src/**")


def test_a_commit_names_the_leases_that_it_was_made_under(trailing: str) -> None:
    stage("src/a")
    git("commit", "-q", "-m", "what\n\nwhy\n---\nnot a patch", LEASEFS_AGENT="ada")
    assert message() == f"what\n\nwhy\n---\nnot a patch\n\nLease: {trailing}\n\n"
    git("commit", "-q", "--amend", "--no-edit", LEASEFS_AGENT="ada")
    stage("src/b")
    git("commit", "-q", "--amend", "--no-edit", LEASEFS_AGENT="ada")
    assert message().count("Lease:") == 1


def test_a_message_given_up_stays_without_a_word(trailing: str) -> None:
    stage("src/a")
    before = head()
    for verbose in ("-q", "-v"):
        git("commit", verbose, ok=(1,), LEASEFS_AGENT="ada", GIT_EDITOR="true")
    assert head() == before
    git("commit", "-v", LEASEFS_AGENT="ada", GIT_EDITOR="sed -i '1s/^/word/'")
    assert message() == f"word\n\nLease: {trailing}\n\n"


def test_without_the_setting_messages_are_left_alone(installed: Any, repo: Path) -> None:
    claim(installed, "ada", "src/**")
    stage("src/a")
    git("commit", "-q", "-m", "what", LEASEFS_AGENT="ada")
    assert message() == "what\n\n"


def test_a_setting_that_cannot_be_read_stops_the_commit(trailing: str) -> None:
    Path(".leasefs.toml").write_text("[hooks]\ntrailers = true\n")
    stage("src/a")
    done = git("commit", "-q", "-m", "what", ok=(1,), LEASEFS_AGENT="ada")
    assert ".leasefs.toml:2: unknown key" in done.stderr


def test_a_linked_worktree_has_them_too(
    installed: Any, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(installed, "ada", "src/**")
    git("worktree", "add", "-q", "../other")
    monkeypatch.chdir(repo.parent / "other")
    stage("src/a")
    git("commit", "-q", "-m", "mine", LEASEFS_AGENT="ada")
    stage("docs/b")
    git("commit", "-q", "-m", "mine", ok=(1,), LEASEFS_AGENT="ada")


def note(own_world: Path, lease: dict[str, Any], *names: str) -> None:
    """Let the ledger know of changed paths, as the agent's mount would."""
    (stored,) = (own_world / "r" / "leasefs" / "sessions").glob("*.json")
    said = json.loads(stored.read_text())
    link = Link(said["ledger"], Credentials(said["session"], said["secret"]))
    about = {"kind": "modify", "lease": lease["lease"], "token": lease["token"], "wall_s": 1.0}
    notes = [{**about, "path": name} for name in names]
    link.send(api.report_intents("t-0", notes, host="here", root="/somewhere"))


def test_a_push_tells_what_was_left_uncommitted(
    installed: Any, repo: Path, own_world: Path
) -> None:
    git("init", "-q", "--bare", "../remote")
    lease = json.loads(installed("claim", "src/**", "--agent", "ada", "--json").out)
    pushed = git("push", "-q", "../remote", "HEAD:a", LEASEFS_AGENT="ada")
    assert pushed.stderr == ""
    note(own_world, lease, "src/a", "src/\udcff", "src/c", "src/d", "src/e")
    pushed = git("push", "-q", "../remote", "HEAD:b", LEASEFS_AGENT="ada")
    assert pushed.stderr == (
        "leasefs: pushing without what you changed and did not commit yet: "
        "src/a, src/c, src/d and 2 more\n"
    )
    assert git("push", "-q", "../remote", "HEAD:c", LEASEFS_AGENT="bo").stderr == ""
    pushed = git(
        "push", "-q", "../remote", "HEAD:d", LEASEFS_AGENT="ada", LEASEFS_LEDGER="unix:/no"
    )
    assert "was not checked: cannot reach the ledger" in pushed.stderr
    assert git("-C", "../remote", "branch", "--list").stdout.split() == ["a", "b", "c", "d"]
