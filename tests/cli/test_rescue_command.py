"""`leasefs rescue` on real repositories, with a real ledger and a real mount."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client.paths import state_dir
from leasefs.core.errors import LedgerUnavailable
from leasefs.vcs.gitdir import find_git
from leasefs.vcs.rescue import About, bare_repository, place_outside, snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.fake_ledger import FakeLedger
    from leasefs.vcs.gitdir import GitDir

INSTALLED = Path(sys.executable).parent


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: Any) -> Iterator[Path]:
    """A repository with a commit, with the shell in its `src`."""
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "-b", "main", root], check=True)
    monkeypatch.chdir(root / "src")
    (root / "src" / "a").write_text("old\n")
    (root / "src" / "gone").write_text("g")
    git("add", "-A", cwd=root)
    git("commit", "-q", "-m", "first")
    yield root
    stopped = installed("ledger", "stop")
    assert stopped.code in (0, 7), stopped.err


def git(*arguments: str, **options: Any) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    done: subprocess.CompletedProcess[str] = subprocess.run(
        ["git", *identity, *arguments], check=True, capture_output=True, text=True, **options
    )
    return done.stdout


def keep(root: Path, *paths: bytes, lease: str = "L17", repository: GitDir | None = None) -> None:
    about = About(lease, 17, "ada", "shell", ("src/**",), "expired", 1_700_000_000.0)
    root_fd = os.open(root, os.O_RDONLY)
    gitdir = repository or find_git(root_fd)
    assert gitdir is not None
    snapshot(gitdir, root_fd, paths, about)
    os.close(root_fd)
    if repository is None:
        gitdir.close()


def change(root: Path) -> None:
    (root / "src" / "a").write_text("new\n")
    (root / "src" / "gone").unlink()
    (root / "src" / "n\tew").write_bytes(b"\0\xff")
    (root / "src" / "link").symlink_to("a")
    os.mkfifo(root / "src" / "pipe")


NAMES = (b"src/a", b"src/gone", b"src/n\tew", b"src/link", b"src/pipe")


def clean(root: Path) -> None:
    git("reset", "-q", "--hard", cwd=root)
    git("clean", "-xfdq", cwd=root)


def test_the_whole_way(installed: Any, repo: Path) -> None:
    assert installed("rescue", "list").out == "no rescues\n"
    change(repo)
    keep(repo, *NAMES)
    clean(repo)
    listed = installed("rescue", "list")
    assert listed.code == 0
    assert "L17" in listed.out
    assert "ada" in listed.out
    (row,) = json.loads(installed("rescue", "list", "--json").out)["rescues"]
    assert (row["id"], row["here"], row["in_ledger"], row["paths"]) == ("L17", True, False, 4)
    assert row["names"] == ["src/a", "src/gone", "src/link", "src/n\tew"]

    told = installed("rescue", "show", "L17").out
    assert "ada (shell), lease L17 (token 17) over src/**" in told
    assert "because: expired" in told
    assert "src/n\\tew" in told
    assert "not kept as it was: src/pipe: it is a FIFO" in told
    assert installed("rescue", "show", "L17", "a").out == "new\n"
    assert installed("rescue", "show", "L17", "n\tew").out == "\0\udcff"
    assert installed("rescue", "show", "L17", "link").out == "a"
    assert "deleted" in installed("rescue", "show", "L17", "gone").out
    below = installed("rescue", "show", "L17", ".", "--json")
    assert [entry["change"] for entry in json.loads(below.out)["entries"]] == [
        *("modified", "deleted", "created", "created"),
    ]

    assert installed("rescue", "apply", "L17", "a").out == "src/a\n"
    assert git("status", "--porcelain") == " M src/a\n"
    rest = installed("rescue", "apply", "L17", "--json")
    said = json.loads(rest.out)
    assert said["unchanged"] == ["src/a"]
    assert said["changed"] == ["src/gone", "src/link", "src/n\tew"]
    assert (repo / "src" / "n\tew").read_bytes() == b"\0\xff"
    dropped = installed("rescue", "drop", "L17")
    assert dropped.code == 0
    assert "the ledger still lists L17" in dropped.err
    assert git("for-each-ref", "refs/leasefs") == ""


def test_other_work_is_not_written_over(installed: Any, repo: Path) -> None:
    change(repo)
    keep(repo, *NAMES)
    clean(repo)
    (repo / "src" / "a").write_text("mine\n")
    refused = installed("rescue", "apply", "L17", "--json")
    assert refused.code == 6
    assert json.loads(refused.out)["error"]["code"] == "dirty"
    assert "src/a has other content by now" in refused.err
    assert git("status", "--porcelain") == " M src/a\n"
    assert installed("rescue", "apply", "L17", "--overwrite").code == 0
    assert (repo / "src" / "a").read_text() == "new\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "L1"), "no rescue 'L1'"),
        (("apply", "L1"), "no rescue 'L1'"),
        (("drop", "L1"), "no rescue 'L1'"),
        (("drop", "--forget", "L1"), "no rescue 'L1'"),
        (("show", "L17", "nothing"), "holds nothing at src/nothing"),
        (("apply", "L17", "a", "nothing"), "holds nothing at src/nothing"),
        (("show", "L17", "/etc/passwd"), "outside"),
        (("apply", "L17", "../../x"), "outside"),
        (("show", "../heads/main"), "no rescue"),
        (("drop", "../../heads/main"), "no rescue"),
    ],
)
def test_what_is_not_there(
    installed: Any, repo: Path, arguments: tuple[str, ...], said: str
) -> None:
    change(repo)
    keep(repo, *NAMES)
    ran = installed("rescue", *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert ran.out == ""
    refs = git("for-each-ref", "--format=%(refname)").split()
    assert refs == ["refs/heads/main", "refs/leasefs/rescue/L17"]


def test_without_a_ledger_the_repository_here_is_enough(
    installed: Any, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEFS_LEDGER", "unix:/nowhere/ledger.sock")
    change(repo)
    keep(repo, *NAMES)
    clean(repo)
    listed = installed("rescue", "list", "--json")
    assert listed.code == 0
    (row,) = json.loads(listed.out)["rescues"]
    assert (row["id"], row["here"], row["in_ledger"]) == ("L17", True, None)
    assert "what lies in other places is not known" in listed.err
    assert installed("rescue", "apply", "L17").code == 0
    assert installed("rescue", "drop", "L17").code == 0


def test_a_tree_without_git(
    installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "plain"
    root.mkdir()
    (root / ".leasefs.toml").write_text('territory = "plain"\n')
    monkeypatch.chdir(root)
    assert "nothing was ever kept of this tree" in installed("rescue", "show", "L17").err
    (root / "a").write_text("1")
    with bare_repository(place_outside(state_dir(), os.path.realpath(root))) as repository:
        keep(root, b"a", repository=repository)
    (root / "a").unlink()
    assert installed("rescue", "apply", "L17").out == "a\n"
    assert (root / "a").read_text() == "1"
    assert installed("ledger", "stop").code in (0, 7)


def test_outside_any_tree(installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = installed("rescue", "list")
    assert ran.code == 2
    assert "is in no repository" in ran.err
    assert installed("ledger", "stop").code in (0, 7)


@pytest.mark.mount
def test_in_a_mount_leases_decide(
    installed: Any, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(repo)
    keep(repo, *NAMES[:-1])
    clean(repo)
    monkeypatch.chdir("/")
    mounted = installed("mount", str(repo), "--agent", "ada")
    assert mounted.code == 0, mounted.err
    try:
        refused = installed("rescue", "apply", "L17", cwd=repo / "src")
        assert refused.code == 5
        assert "Permission denied" in refused.err
        assert "leasefs why" in refused.err
        assert git("status", "--porcelain", cwd=repo) == ""
        assert installed("claim", "src/**", cwd=repo).code == 0
        applied = installed("rescue", "apply", "L17", cwd=repo / "src")
        assert applied.code == 0, applied.err
        assert (repo / "src" / "n\tew").read_bytes() == b"\0\xff"
        assert (repo / "src" / "a").read_text() == "new\n"
        assert os.readlink(repo / "src" / "link") == "a"
        assert not (repo / "src" / "gone").exists()
        assert installed("rescue", "list", cwd=repo).code == 0
        assert installed("rescue", "drop", "L17", cwd=repo).code == 0
        assert git("for-each-ref", "refs/leasefs", cwd=repo) == ""
    finally:
        ended = installed("unmount", str(repo))
        assert ended.code == 0, ended.err


ELSEWHERE = {
    "id": "L9",
    "territory": "T",
    "tree": "t-1",
    "lease": "L9",
    "token": 9,
    "agent": "bo",
    "harness": "codex",
    "globs": ["docs/**"],
    "ref": "refs/leasefs/rescue/L9",
    "commit": "c" * 40,
    "paths": 5,
    "names": ["docs/a", "docs/b", "docs/c", "docs/d", "docs/e"],
    "reason": "revoked",
    "wall_s": 1_700_000_000.0,
    "by": "bo",
    "host": "far",
    "root": "/srv/clone",
}


def test_what_lies_elsewhere_is_listed_and_said_where(
    here: Any, mounted: FakeLedger, tree: Path
) -> None:
    mounted.answers["GET /v1/rescues"] = {"rescues": [ELSEWHERE]}
    listed = here("rescue", "list").out
    assert "far:/srv/clone" in listed
    assert "docs/a docs/b docs/c ..." in listed
    for act in ("show", "apply", "drop"):
        ran = here("rescue", act, "L9")
        assert ran.code == 2
        assert "is not in this repository but in that of far:/srv/clone" in ran.err
    mounted.answers["DELETE /v1/rescues/L9"] = {"dropped": True}
    forgot = here("rescue", "drop", "L9", "--forget", "--json")
    assert json.loads(forgot.out) == {"dropped": [{"id": "L9", "here": False, "in_ledger": True}]}


def test_the_ledgers_record_and_the_commit_here_are_one_row(
    here: Any, mounted: FakeLedger, tree: Path
) -> None:
    subprocess.run(["git", "init", "-q", tree], check=True)
    (tree / "a").write_text("1")
    keep(tree, b"a", lease="L9")
    commit = git("rev-parse", "refs/leasefs/rescue/L9", cwd=tree).strip()
    mounted.answers["GET /v1/rescues"] = {"rescues": [{**ELSEWHERE, "commit": commit}]}
    (row,) = json.loads(here("rescue", "list", "--json").out)["rescues"]
    assert (row["here"], row["in_ledger"], row["host"]) == (True, True, "far")
    mounted.answers["GET /v1/rescues"] = {"rescues": [ELSEWHERE]}
    rows = json.loads(here("rescue", "list", "--json").out)["rescues"]
    assert [row["here"] for row in rows] == [True, False]


def test_dropping_here_is_done_although_the_ledger_is_away(
    here: Any, mounted: FakeLedger, tree: Path
) -> None:
    subprocess.run(["git", "init", "-q", tree], check=True)
    (tree / "a").write_text("1")
    keep(tree, b"a")
    mounted.answers["DELETE /v1/rescues/L17"] = LedgerUnavailable("the ledger is away")
    ran = here("rescue", "drop", "L17")
    assert ran.code == 0
    assert "the ledger still lists L17: the ledger is away" in ran.err
