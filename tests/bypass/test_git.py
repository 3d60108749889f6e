"""Ways to have git change what is not leased, or to change it where git would not look."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.bypass_scene import MINE, Scene, fill
from leasefs.testing.intruder import AGENT_UID, Intruder
from leasefs.testing.mount_trees import environment, give, snapshot
from leasefs.testing.mounted import mounted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.mount, pytest.mark.root]

BRANCHES = """
git init -q -b main .; printf '*.o\\nbuild/\\n' > .gitignore; mkdir build; echo kept > theirs/kept.o
git add -A; git add -f theirs/kept.o; git commit -qm base
git checkout -q -b other; echo other > theirs/f; echo other > theirs/new; git add -A; git commit -qm other
git diff main other > ../other.patch; git tag tip; git checkout -q main; git tag base
mkdir ../saved; cp -a .git/config .git/hooks .git/info ../saved/
"""


@pytest.fixture(scope="module")
def repository(place: Path) -> Iterator[Scene]:
    """Root's mount of a repository; the git directory is the intruder's to write, as it is every agent's."""
    source, root = place / "closed/repository", place / "repository"
    fill(source)
    (place / "closed").chmod(0o700)
    root.mkdir()
    subprocess.run(["sh", "-ec", BRANCHES], cwd=source, env=environment(), check=True)
    (place / "other.patch").write_bytes((place / "closed/other.patch").read_bytes())
    give(source, AGENT_UID)
    other = place / "other"
    other.mkdir()
    with (
        mounted(str(source), str(root)) as mount,
        mounted(str(source), str(other), "--lease", "theirs/**", "--agent", "other"),
    ):
        yield Scene(source, root, mount, Intruder(str(root), environment=environment()))


# Run beneath: what an attempt left in the git directory goes, and the work tree is that of `main`.
AFRESH = """
rm -rf .git/hooks .git/info .git/worktrees .git/rebase-* .git/modules .git/*_HEAD .git/MERGE_* .git/BISECT* .git/index*
cp -a ../saved/hooks ../saved/info ../saved/config .git/
git symbolic-ref HEAD refs/heads/main; git update-ref refs/heads/main base; git update-ref refs/heads/other tip
git reset -q --hard
"""


@pytest.fixture
def scene(repository: Scene) -> Iterator[Scene]:
    """The work tree is that of `main` before each attempt, and so is what another agent holds at its end."""
    subprocess.run(["sh", "-ec", AFRESH], cwd=repository.source, env=environment(), check=True)
    give(repository.source, AGENT_UID)
    repository.hold(MINE)
    before = snapshot(repository.source / "theirs")
    yield repository
    assert snapshot(repository.source / "theirs") == before


COMMANDS = {
    "checkout of another branch": "git checkout other",
    "checkout of paths": "git checkout other -- theirs",
    "restore": "git restore --source other theirs/f",
    "reset --hard": "git reset --hard other",
    "merge": "git merge --no-edit other",
    "apply": "git apply {place}/other.patch",
    "apply --index": "git apply --index {place}/other.patch",
    "apply with another root": "cd theirs && git apply -p2 --directory=theirs {place}/other.patch",
    "rm": "git rm -f theirs/f",
    "mv": "git mv theirs/f mine/moved",
    "worktree in the tree": "git worktree add theirs/worktree other",
    "submodule": "git -c protocol.file.allow=always submodule add ./. theirs/module",
    "sparse checkout": "git sparse-checkout set mine",
    "a repository in it": "git init theirs/inner",
    "bundle and clone into it": "git clone . theirs/clone",
    "archive": "git archive other theirs | tar -x",
    "checkout-index": "git read-tree other && git checkout-index -f -a",
    "update-index and checkout-index": "git update-index --cacheinfo 100644,$(git rev-parse other:theirs/f),theirs/f && git checkout-index -f theirs/f",
    "read-tree -u": "git read-tree -m -u main other",
    "an index of ones own": "export GIT_INDEX_FILE={place}/open/index; git read-tree other && git checkout-index -f -a",
    "a git directory of ones own": "git clone -q --bare . {place}/open/own.git; export GIT_DIR={place}/open/own.git GIT_WORK_TREE=$PWD; git checkout -f other",
    "core.worktree from outside": "git clone -q . {place}/open/outside; git -C {place}/open/outside config core.worktree $PWD; git -C {place}/open/outside checkout -f other",
    "a smudge filter": "git config filter.x.smudge 'tee theirs/f'; echo '* filter=x' > .git/info/attributes; git checkout -f other -- mine theirs",
    "an alias": "git config alias.x '!echo new > theirs/f'; git x",
    "a hook": "printf '#!/bin/sh\\necho new > theirs/f\\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit; git commit -q --allow-empty -m x; test $(cat theirs/f) = new",
    "core.fsmonitor": "git config core.fsmonitor 'echo new > theirs/f; false'; git status; test $(cat theirs/f) = new",
    "core.editor": "git -c core.editor='echo new > theirs/f; false' commit --allow-empty",
    "stash pop": "git read-tree other; git stash push -q; git stash pop",
    "rebase": "git rebase other",
    "cherry-pick": "git cherry-pick other",
    "revert": "git update-ref HEAD other; git revert --no-edit HEAD",
    "am": "git format-patch -1 --stdout other > {place}/open/mail; git am {place}/open/mail",
    "bisect": "git bisect start other main; git checkout -f other",
    "clean": "rm -f .git/index; git clean -ffdx theirs",
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_a_git_command(scene: Scene, place: Path, command: str) -> None:
    """Refused as a whole, or at each file that it may not change."""
    (place / "open").mkdir(exist_ok=True)
    (place / "open").chmod(0o777)
    done = scene.intruder.shell(command.format(place=place))
    assert done.returncode != 0, done


def test_a_worktree_outside(scene: Scene, place: Path) -> None:
    """Not covered, and no need: it is another tree. What is committed there comes here by git, which is judged here."""
    (place / "open").mkdir(exist_ok=True)
    (place / "open").chmod(0o777)
    script = f"git worktree add -q {place}/open/worktree other && echo new > {place}/open/worktree/theirs/f"
    assert scene.intruder.shell(script).returncode == 0
    scene.intruder.shell(f"git worktree remove --force {place}/open/worktree")


def test_commit_by_plumbing(scene: Scene, place: Path) -> None:
    """With no command that git's hooks hear of: the branch does not move to what another holds."""
    (place / "open").mkdir(exist_ok=True)
    (place / "open").chmod(0o777)
    script = f"""
export GIT_INDEX_FILE={place}/open/plumbing
git read-tree main && blob=$(echo new | git hash-object -w --stdin) || exit 99
git update-index --cacheinfo 100644,$blob,theirs/f && tree=$(git write-tree) || exit 99
git update-ref refs/heads/main $(git commit-tree -p main -m made $tree)
"""
    done = scene.intruder.shell(script)
    assert done.returncode not in {0, 99}, done


def test_commit_without_the_hooks(scene: Scene) -> None:
    """`--no-verify`: what is staged is judged all the same, by where the branch would go."""
    done = scene.intruder.shell(
        "git update-index --cacheinfo 100644,$(git rev-parse other:theirs/f),theirs/f && git commit --no-verify -m x"
    )
    assert done.returncode != 0, done


def test_a_hook_for_others(scene: Scene) -> None:
    """Not covered: what lies under `.git` is every agent's to write, and runs as whoever uses git there."""
    script = "printf '#!/bin/sh\n: > .git/ran\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit"
    assert scene.intruder.shell(script).returncode == 0
    assert (
        Intruder(str(scene.root), environment=environment())
        .shell("git commit -q --allow-empty -m x; test -e .git/ran")
        .returncode
        == 0
    )


def test_an_index_lock_that_stays(scene: Scene) -> None:
    """Not covered: whoever may use git may hinder git."""
    assert scene.intruder.shell(": > .git/index.lock").returncode == 0
    assert "index.lock" in scene.intruder.shell("git add mine/f").stderr


def test_the_git_directory_itself(scene: Scene) -> None:
    assert scene.intruder.attempt("os.rename('.git', 'mine/git')").how in {"EACCES", "EBUSY"}
    assert scene.intruder.attempt("os.rename('.git', '.git2')").how in {"EACCES", "EBUSY"}
    assert scene.intruder.attempt("os.rename('theirs', '.git/theirs')").how == "EACCES"


def test_a_file_out_of_the_git_directory(scene: Scene) -> None:
    code = """
open(".git/planted", "w").write("new")
said = [refused(lambda: os.rename(".git/planted", "theirs/f")), refused(lambda: os.link(".git/planted", "theirs/new"))]
os.unlink(".git/planted")
"""
    assert scene.intruder.attempt(code) == ("done", ["EACCES", "EACCES"])


def test_a_file_into_the_git_directory(scene: Scene) -> None:
    """Where everything may be written: under a name there it would be free."""
    code = """
said = [refused(lambda: os.rename("theirs/f", ".git/f")), refused(lambda: os.link("theirs/f", ".git/f"))]
"""
    assert scene.intruder.attempt(code).said == ["EACCES", "EACCES"]
    link = "os.symlink('../theirs/f', '.git/link'); os.open('.git/link', os.O_WRONLY)"
    assert scene.intruder.attempt(link).how == "EACCES"
    scene.intruder.attempt("os.unlink('.git/link')")


SCRATCH = {
    "the ignore file": "echo theirs/new >> .gitignore",
    "info/exclude": "echo theirs/ > .git/info/exclude; : > theirs/new",
    "core.excludesFile": "echo theirs/ > .git/mine; git config core.excludesFile $PWD/.git/mine; : > theirs/new",
    "an ignore file beside": "printf '../theirs\\n/theirs\\n' > mine/.gitignore; : > theirs/new",
    "out of the index": "git update-index --force-remove theirs/kept.o; echo new > theirs/kept.o",
    "no index": "rm .git/index; echo new > theirs/kept.o",
    "another index": "git read-tree --empty; echo new > theirs/kept.o",
    "assume unchanged": "git update-index --assume-unchanged theirs/f; echo new > theirs/f",
    "a link into the tree": "ln -s ../theirs/f build/link; echo new > build/link",
    "a hard link into scratch": "ln theirs/f build/link",
    "a move into scratch": "mv -n theirs/f build/moved",
    "a move out of scratch": "echo new > build/made; mv -f build/made theirs/f",
    "scratch in the place of tree": "mv -T build theirs/d",
    "a work tree from scratch": "git clone -q . build/clone; git -C build/clone config core.worktree $PWD; git -C build/clone checkout -f origin/other",
}


@pytest.mark.parametrize("script", SCRATCH.values(), ids=SCRATCH.keys())
def test_ground_declared_to_be_scratch(scene: Scene, script: str) -> None:
    done = scene.intruder.shell(script)
    assert done.returncode != 0, done
    scene.intruder.shell(
        "rm -rf build/link build/moved build/made build/clone mine/.gitignore .git/info/exclude"
    )
