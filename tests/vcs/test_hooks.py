"""Installing hooks beside, into and around what is there, and taking them away without a trace."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.vcs.errors import GitFailed
from leasefs.vcs.hook_script import NAMES, own_script, takes_lines, with_lines, without_lines
from leasefs.vcs.hooks import HookProblem, hooks_place, install, status, uninstall

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.testing.git_tree import GitTree

# What passes for `leasefs`: it writes down how it was called, and refuses if told to.
FAKE = """#!/bin/sh
echo "leasefs $*" >>"$CALLS"
exit "${REFUSE:-0}"
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Put a false `leasefs` first in PATH; the lines that it and others wrote to $CALLS."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "leasefs").write_text(FAKE)
    (programs / "leasefs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    written = tmp_path / "calls"
    monkeypatch.setenv("CALLS", str(written))

    def read() -> list[str]:
        lines = written.read_text().splitlines() if written.exists() else []
        written.unlink(missing_ok=True)
        return lines

    return read


def hooks_of(tree: GitTree) -> Path:
    return Path(os.fsdecode(tree.path)) / ".git" / "hooks"


def put(tree: GitTree, name: str, text: str, mode: int = 0o755) -> Path:
    path = hooks_of(tree) / name
    path.write_text(text)
    path.chmod(mode)
    return path


def snapshot(directory: Path) -> dict[str, tuple[object, ...]]:
    """Everything about the files of a directory that anybody could miss."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(directory.rglob("*")):
        about = path.lstat()
        text = (
            path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        )
        mode = 0 if path.is_symlink() else stat.S_IMODE(about.st_mode)
        found[str(path.relative_to(directory))] = (stat.S_IFMT(about.st_mode), mode, text)
    return found


def place_of(tree: GitTree) -> str:
    return os.fsdecode(tree.path)


def commit(tree: GitTree, name: str = "a", ok: tuple[int, ...] = (0,)) -> bytes:
    tree.write(os.fsencode(name), os.urandom(8))
    tree.git("add", "-A")
    return tree.git("commit", "-q", "-m", name, ok=ok)


SHELL = '#!/bin/sh\necho "mine $0 $*" >>"$CALLS"\n'
PYTHON = "#!/usr/bin/env python3\nimport os, sys\nopen(os.environ['CALLS'], 'a').write('mine ' + sys.argv[0] + chr(10))\n"


@pytest.mark.parametrize(
    "before",
    [
        {},
        {"pre-commit": (SHELL, 0o755)},
        {
            "pre-commit": (SHELL, 0o700),
            "commit-msg": (PYTHON, 0o755),
            "pre-push": ("no shebang", 0o755),
        },
        {"pre-commit": (SHELL, 0o644)},
        {"pre-commit": ("#!/bin/sh", 0o755)},
        {"pre-commit": ("#!/bin/sh\r\nexit 0\r\n", 0o755)},
        {"pre-commit": ("", 0o755)},
        {"pre-commit": ("#!/bin/sh\n\0\n", 0o755)},
        {"commit-msg": ("#!/usr/bin/env bash\nset -e\ntrue", 0o755)},
    ],
    ids=lambda before: " ".join(before) or "none",
)
def test_uninstalling_leaves_what_was_there(
    repo: GitTree, before: dict[str, tuple[str, int]]
) -> None:
    for name, (text, mode) in before.items():
        put(repo, name, text, mode)
    untouched = snapshot(hooks_of(repo))
    place = hooks_place(place_of(repo))
    assert [hook.state for hook in status(place)] == ["missing"] * 3
    assert [hook.state for hook in install(place)] == ["installed"] * 3
    installed = snapshot(hooks_of(repo))
    assert [hook.state for hook in install(place)] == ["installed"] * 3
    assert snapshot(hooks_of(repo)) == installed
    assert uninstall(place) == []
    assert snapshot(hooks_of(repo)) == untouched
    assert uninstall(place) == []
    assert snapshot(hooks_of(repo)) == untouched


@pytest.mark.parametrize("target", ["../../tools/check", "/bin/true", "gone"])
def test_a_hook_that_is_a_link_is_put_back_as_the_link_it_was(repo: GitTree, target: str) -> None:
    (hooks_of(repo) / "pre-commit").symlink_to(target)
    untouched = snapshot(hooks_of(repo))
    place = hooks_place(place_of(repo))
    install(place)
    assert uninstall(place) == []
    assert snapshot(hooks_of(repo)) == untouched


def test_a_hook_with_another_name_elsewhere_is_not_written_through(
    repo: GitTree, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "shared-hook"
    elsewhere.write_text(SHELL)
    elsewhere.chmod(0o755)
    (hooks_of(repo) / "pre-commit").hardlink_to(elsewhere)
    install(hooks_place(place_of(repo)))
    assert elsewhere.read_text() == SHELL
    uninstall(hooks_place(place_of(repo)))
    assert (hooks_of(repo) / "pre-commit").samefile(elsewhere)


def test_ours_runs_first_and_then_theirs_with_the_same_name_and_arguments(
    repo: GitTree, calls: Callable[[], list[str]]
) -> None:
    put(repo, "pre-commit", SHELL)
    put(repo, "commit-msg", PYTHON)
    install(hooks_place(place_of(repo)))
    commit(repo)
    ours, theirs, message, theirs_too = calls()
    assert ours == "leasefs hooks run pre-commit"
    assert theirs.split() == ["mine", ".git/hooks/pre-commit"]
    assert message == "leasefs hooks run commit-msg .git/COMMIT_EDITMSG"
    assert theirs_too.split() == ["mine", ".git/hooks/before-leasefs/commit-msg"]


def test_the_exit_status_of_either_counts(
    repo: GitTree, calls: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(repo, "pre-commit", SHELL)
    install(hooks_place(place_of(repo)))
    monkeypatch.setenv("REFUSE", "3")
    commit(repo, ok=(1,))
    assert calls() == ["leasefs hooks run pre-commit"]
    monkeypatch.delenv("REFUSE")
    commit(repo)
    uninstall(hooks_place(place_of(repo)))
    put(repo, "pre-commit", "#!/usr/bin/env python3\nraise SystemExit(1)\n")
    install(hooks_place(place_of(repo)))
    commit(repo, ok=(1,))


def test_a_hook_that_was_switched_off_stays_so(
    repo: GitTree, calls: Callable[[], list[str]]
) -> None:
    put(repo, "pre-commit", SHELL, 0o644)
    install(hooks_place(place_of(repo)))
    commit(repo)
    assert [call for call in calls() if call.startswith("mine")] == []


def test_what_git_feeds_a_hook_reaches_the_one_that_was_there(
    repo: GitTree, make_tree: Callable[[str], GitTree], calls: Callable[[], list[str]]
) -> None:
    remote = make_tree("remote")
    remote.git("init", "-q", "--bare")
    put(repo, "pre-push", '#!/bin/sh\nsed "s/^/fed /" >>"$CALLS"\n')
    install(hooks_place(place_of(repo)))
    commit(repo)
    calls()
    repo.git("push", "-q", os.fsdecode(remote.path), "HEAD:refs/heads/main")
    ours, fed = calls()
    assert ours.startswith("leasefs hooks run pre-push ")
    assert fed.startswith("fed HEAD ")


def test_without_leasefs_the_commit_passes_and_says_so(
    repo: GitTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(hooks_place(place_of(repo)))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    repo.write(b"a")
    repo.git("add", "-A")
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "a"],
        cwd=repo.path,
        capture_output=True,
        check=True,
    )
    assert b"leasefs: not on PATH, so pre-commit looked at no lease" in done.stderr


def test_what_the_user_changed_since_stays(repo: GitTree) -> None:
    path = put(repo, "pre-commit", SHELL)
    place = hooks_place(place_of(repo))
    install(place)
    path.write_text(path.read_text().replace("mine", "ours") + "echo more\n")
    assert [hook.state for hook in status(place)] == ["installed"] * 3
    uninstall(place)
    assert path.read_text() == SHELL.replace("mine", "ours") + "echo more\n"


def test_what_the_user_added_to_a_hook_of_ours_stays(repo: GitTree) -> None:
    place = hooks_place(place_of(repo))
    install(place)
    path = hooks_of(repo) / "pre-commit"
    path.write_text(path.read_text() + "echo more\n")
    uninstall(place)
    assert path.read_text() == "#!/bin/sh\necho more\n"


def test_a_kept_hook_that_the_user_changed_is_put_back_as_it_is_now(repo: GitTree) -> None:
    path = put(repo, "pre-commit", PYTHON)
    place = hooks_place(place_of(repo))
    install(place)
    (hooks_of(repo) / "before-leasefs" / "pre-commit").write_text(PYTHON + "# more\n")
    uninstall(place)
    assert path.read_text() == PYTHON + "# more\n"


def test_a_hook_that_another_tool_put_over_ours_stays(repo: GitTree) -> None:
    path = put(repo, "pre-commit", PYTHON)
    place = hooks_place(place_of(repo))
    install(place)
    path.write_text("#!/usr/bin/env ruby\n")
    assert status(place)[0].state == "missing"
    with pytest.raises(HookProblem, match="is still there from an earlier time"):
        install(place)
    (words,) = uninstall(place)
    assert "is not ours any more" in words
    assert path.read_text() == "#!/usr/bin/env ruby\n"
    assert (hooks_of(repo) / "before-leasefs" / "pre-commit").read_text() == PYTHON


def test_lines_of_another_version_are_renewed(repo: GitTree) -> None:
    path = put(repo, "pre-commit", SHELL)
    place = hooks_place(place_of(repo))
    install(place)
    now = path.read_text()
    path.write_text(now.replace("hooks run", "hooks old"))
    assert status(place)[0].state == "changed"
    assert install(place)[0].state == "installed"
    assert path.read_text() == now
    path.chmod(0o644)
    assert status(place)[0].state == "changed"
    assert install(place)[0].state == "installed"


@pytest.mark.parametrize("kept", [False, True])
def test_stopped_in_between_it_goes_on_from_there(repo: GitTree, kept: bool) -> None:
    """As if killed after the hook that was there was moved, and before ours was written."""
    path = put(repo, "pre-commit", PYTHON)
    untouched = snapshot(hooks_of(repo))
    (hooks_of(repo) / "before-leasefs").mkdir()
    if kept:
        path.rename(hooks_of(repo) / "before-leasefs" / "pre-commit")
    place = hooks_place(place_of(repo))
    assert [hook.state for hook in install(place)] == ["installed"] * 3
    uninstall(place)
    assert snapshot(hooks_of(repo)) == untouched


def test_all_working_trees_of_a_clone_share_them(repo: GitTree) -> None:
    commit(repo)
    repo.git("worktree", "add", "-q", "../other")
    other = os.path.join(os.path.dirname(place_of(repo)), "other")
    assert hooks_place(other) == hooks_place(place_of(repo))
    assert hooks_place(os.path.join(place_of(repo), ".git")).shared == ""


def test_hooks_that_others_may_use_are_known(repo: GitTree, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    repo.git("config", "--global", "core.hooksPath", str(shared))
    place = hooks_place(place_of(repo))
    assert place.directory == str(shared)
    assert place.shared == f"core.hooksPath (global) is '{shared}'"
    assert [hook.state for hook in install(place)] == ["installed"] * 3
    assert {path.name for path in shared.iterdir()} == set(NAMES)
    repo.git("config", "core.hooksPath", ".githooks")
    assert hooks_place(place_of(repo)).shared == "core.hooksPath (local) is '.githooks'"
    # One that says where they are anyway changes nothing.
    repo.git("config", "core.hooksPath", ".git/hooks")
    assert hooks_place(place_of(repo)).shared == ""
    repo.git("config", "--unset", "core.hooksPath")
    repo.git("config", "--global", "--unset", "core.hooksPath")
    hooks_of(repo).rename(tmp_path / "moved")
    hooks_of(repo).symlink_to(tmp_path / "moved")
    assert "are a link to" in hooks_place(place_of(repo)).shared


def test_outside_a_repository_there_are_no_hooks(tmp_path: Path) -> None:
    with pytest.raises(GitFailed, match="not a git repository"):
        hooks_place(str(tmp_path))


def test_a_directory_that_cannot_be_written_says_so(repo: GitTree) -> None:
    for path in hooks_of(repo).iterdir():
        path.unlink()
    hooks_of(repo).rmdir()
    hooks_of(repo).write_text("")
    with pytest.raises(HookProblem, match="cannot be changed"):
        install(hooks_place(place_of(repo)))


def test_lines_come_out_as_they_went_in() -> None:
    for script in (b"#!/bin/sh\n", b"#!/usr/bin/env -S bash -eu\nx", b"#! /bin/dash\n\n\n"):
        assert takes_lines(script)
        assert without_lines(with_lines(script, "pre-commit")) == script
        assert with_lines(with_lines(script, "pre-commit"), "pre-commit") == with_lines(
            script, "pre-commit"
        )
    for script in (
        b"",
        b"#!/bin/sh",
        b"#!/usr/bin/python3\n",
        b"#!/bin/shellcheck\n",
        b"\x7fELF\n",
    ):
        assert not takes_lines(script)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shell", ["sh", "bash", "dash"])
def test_shells_read_it(name: str, shell: str) -> None:
    for script in (own_script(name), own_script(name, then_kept=True)):
        subprocess.run([shell, "-n"], input=script, check=True)
