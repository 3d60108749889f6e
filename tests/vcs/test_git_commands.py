from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from leasefs.testing.judged import (
    copy_history,
    covers,
    judged,
    really_changed,
    shell,
    work,
)
from leasefs.vcs.git_commands import Nothing, Paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.testing.git_tree import GitTree


@pytest.fixture
def tree(history: bytes, make_tree: Callable[[str], GitTree]) -> GitTree:
    made = make_tree("tree")
    copy_history(history, made.path)
    return made


class Case(NamedTuple):
    """`first` runs before; `exact`: what is foretold is what happens, not more. `busy`: with others' work around."""

    command: str
    first: str = ""
    cwd: bytes = b""
    exact: bool = True
    busy: bool = True
    happens: bool = True


REMOTE = "git remote add origin ."

SWITCHING = [
    Case("git checkout old"),
    Case("git checkout -q --detach v1"),
    Case("git checkout -qf side"),
    Case("git checkout --fo side", "echo x >> a"),
    Case("git checkout -B again old"),
    Case("git checkout -bnew side"),
    Case("git checkout -b new", happens=False),
    Case("git checkout -", "git checkout -q old; git checkout -q main"),
    Case("git checkout main...side"),
    Case("git checkout remote", REMOTE),
    Case("git checkout --no-guess remote", exact=False, happens=False),
    Case("git checkout --orphan fresh", happens=False),
    Case("git checkout -f --orphan fresh"),
    Case("git checkout -m old", exact=False),
    Case("git checkout -f"),
    Case("git checkout", exact=False, happens=False),
    Case("git checkout shape"),
    Case("git checkout main~1 -- a"),
    Case("git checkout side -- d"),
    Case("git checkout side d s"),
    Case("git checkout -- ."),
    Case("git checkout ."),
    Case("git checkout -- ':(glob)d/**/f'"),
    Case("git checkout -- ':!exec' ."),
    Case("git checkout HEAD -- '*'"),
    Case("git checkout --no-overlay side -- ."),
    Case("git checkout --pathspec-from-file=list", "printf 'd/e\\nexec\\n' > list"),
    Case("git checkout --ours a", "git merge -q clash || true", busy=False),
    Case("git checkout -- f", cwd=b"d/e"),
    Case("git checkout ../../exec", cwd=b"d/e"),
    Case("git checkout :/exec", cwd=b"d/e"),
    Case("git -C d checkout -- e"),
    Case("git -C d -C e checkout -- f"),
    Case("git --no-pager -c core.autocrlf=false checkout side"),
    Case("git switch side"),
    Case("git switch -c new old"),
    Case("git switch --disc old"),
    Case("git switch -dq v1"),
    Case("git switch remote", REMOTE),
    Case("git switch --orphan fresh", busy=False),
    Case("git restore ."),
    Case("git restore -s side -- d"),
    Case("git restore --source=old -SW :/"),
    Case("git restore -S st", happens=False),
    Case("git restore d", "rm -r d"),
]

RESETTING = [
    Case("git reset --hard"),
    Case("git reset --har old"),
    Case("git reset -q --hard HEAD~1"),
    Case("git reset --hard", "touch -d 2001-01-01 keep"),
    Case("git reset --hard", "rm gone; mkdir gone; echo x > gone/y"),
    Case("git reset --hard shape", "mkdir -p other"),
    Case("git reset --merge side"),
    Case("git reset --keep old"),
    Case("git reset --soft old", happens=False),
    Case("git reset old", happens=False),
    Case("git reset -- a", happens=False),
    Case("git read-tree -u -m old"),
    Case("git read-tree -mu HEAD old"),
    Case("git read-tree --reset -u HEAD"),
    Case("git read-tree -m -u old HEAD side", busy=False, exact=False),
    Case("git read-tree old", happens=False),
    Case("git read-tree --prefix=sub/ -u side"),
    Case("git checkout-index -fa"),
    Case("git checkout-index -a", "rm d/b"),
    Case("git checkout-index -f d/e/f", cwd=b""),
    Case("git checkout-index -a --prefix=out/"),
]

CLEANING = [
    Case("git clean -f"),
    Case("git clean -fd"),
    Case("git clean -dfq"),
    Case("git clean -fdx"),
    Case("git clean -fxd -e x.o"),
    Case("git clean -fX"),
    Case("git clean -fdX"),
    Case("git clean -f ud"),
    Case("git clean -fd .", cwd=b"ud"),
    Case("git clean", happens=False),
    Case("git clean -nfd", happens=False),
    Case("git clean -d", "git config clean.requireForce false"),
    Case("git clean -fd", "git init -q ud/nested; echo x > ud/nested/x", exact=False),
    Case("git clean -ffd", "git init -q ud/nested; echo x > ud/nested/x", exact=False),
    Case("git rm -rf d"),
    Case("git rm -f 'far*' a", exact=False, happens=False),
    Case("git rm -fq a exec"),
    Case("git rm --cached a", happens=False),
    Case("git mv a z"),
    Case("git mv d n", exact=False),
    Case("git mv a exec d", exact=False),
    Case("git mv -n a z", happens=False),
]

STASHING = [
    Case("git stash"),
    Case("git stash -u"),
    Case("git stash push -a"),
    Case("git stash -k", exact=False),
    Case("git stash -qu -- d ud"),
    Case("git stash push -S", exact=False),
    Case("git stash save message words"),
    Case("git stash pop", "git stash -qu"),
    Case("git stash apply -q 1", "git stash -q; echo 1 > gone; git stash -q"),
    Case("git stash pop --index", "git stash -qu"),
    Case("git stash pop", "git stash -q; git mv d/e/f d/moved; git commit -qm moved", exact=False),
    Case("git stash branch new", "git stash -q; git checkout -q far", exact=False),
    Case("git stash list", "git stash -q; git stash apply -q", happens=False),
    Case("git stash drop", "git stash -q", happens=False),
]

MERGING = [
    Case("git merge side", busy=False),
    Case("git merge side", exact=False),
    Case("git merge far", busy=False),
    Case("git merge far", exact=False, happens=False),
    Case("git merge --no-ff far", busy=False),
    Case("git merge --no-ff far", exact=False),
    Case("git merge --ff-on far", busy=False),
    Case("git merge --ff-on far", exact=False, happens=False),
    Case("git merge clash", busy=False),
    Case("git merge clash", exact=False),
    Case("git merge -s ours side", busy=False, happens=False),
    Case("git merge -s resolve side", exact=False, busy=False),
    Case("git merge -Xtheirs clash", exact=False, busy=False),
    Case("git merge side far", busy=False, exact=False),
    Case("git merge --squash side", busy=False),
    Case("git merge old", happens=False),
    Case("git merge --abort", "git merge -q clash || true", busy=False),
    Case("git merge --autostash side", exact=False),
    Case(
        "git merge kept-moved",
        "git checkout -q -b kept-moved side; git mv kept d/kept; git commit -qm m;"
        "git checkout -q main; seq 31 > keep; git commit -qam longer",
        busy=False,
    ),
    Case("git cherry-pick side", busy=False),
    Case("git cherry-pick far~1 far", busy=False, exact=False),
    Case("git cherry-pick main..far", busy=False),
    Case("git cherry-pick -n far~2", busy=False),
    Case("git cherry-pick clash", busy=False),
    Case("git cherry-pick --abort", "git cherry-pick clash || true", busy=False),
    Case("git cherry-pick --skip", "git cherry-pick clash far~2 || true", busy=False),
    Case(
        "git cherry-pick --continue", "git cherry-pick clash far~2 || true; git add a", busy=False
    ),
    Case("git revert --no-edit HEAD", busy=False),
    Case("git revert --no-edit HEAD~1..HEAD", busy=False),
    Case("git revert -n HEAD", busy=False),
]

REBASING = [
    Case("git rebase side", busy=False, exact=False),
    Case("git rebase main far", busy=False, exact=False),
    Case("git rebase --onto side main far", busy=False, exact=False),
    Case("git rebase clash", busy=False, exact=False),
    Case("git rebase --apply side", busy=False, exact=False),
    Case("git rebase -i side", busy=False, exact=False),
    Case("git rebase -r side", "git merge -q --no-edit far~2", busy=False, exact=False),
    Case("git rebase --root --onto side", busy=False, exact=False),
    Case("git rebase side", exact=False, happens=False),
    Case("git rebase --autostash side", exact=False),
    Case("git rebase side", "git config rebase.autoStash true", exact=False),
    Case("git rebase --abort", "git rebase clash || true", busy=False),
    Case(
        "git rebase --skip",
        "git checkout -q far; git rebase clash || true",
        busy=False,
        exact=False,
    ),
    Case(
        "git rebase --continue",
        "git checkout -q far; git rebase clash || true; git add a",
        busy=False,
        exact=False,
    ),
    Case("git rebase --quit", "git rebase clash || true", busy=False, happens=False),
]

PATCHING = [
    Case("git apply p", "git diff main far -- far1 far2 > p"),
    Case("git apply --index p", "git diff main side > p", busy=False),
    Case("git apply p", "git diff -M main side > p", busy=False),
    Case("git apply -R p", "git diff old main > p"),
    Case("git apply --check p", "git diff main far -- far1 far2 > p", happens=False),
    Case("git apply --cached p", "git diff main far -- far1 far2 > p", happens=False),
    Case(
        "git apply -p0 --directory=sub p", "git diff --no-prefix main far -- far1 > p", exact=False
    ),
    Case("git am box", "git format-patch -q --stdout main..far > box", busy=False),
    Case("git am -3 box", "git format-patch -q --stdout old..clash > box", busy=False),
    Case("git am ../box", "git format-patch -q --stdout main..far > box", cwd=b"d", busy=False),
    Case(
        "git am --abort",
        "git format-patch -q --stdout old..clash > box; git am box || true",
        busy=False,
        happens=False,
    ),
    Case(
        "git am --skip",
        "git format-patch -q --stdout old..clash > box; git format-patch -q --stdout main..far >> box;"
        "git am -3 box || true",
        busy=False,
        exact=False,
    ),
]

ELSEWHERE = [
    Case("git worktree add ../beside side", happens=False),
    Case("git worktree add -q -b w in/side side"),
    Case("git clone -q . copy", exact=False),
    Case("git sparse-checkout set d/e", busy=False),
    Case("git sparse-checkout set --no-cone '/d/' '!/d/b'", busy=False),
    Case("git sparse-checkout disable", "git sparse-checkout set d/e", busy=False),
    Case("git sparse-checkout add n", "git sparse-checkout set d/e", busy=False),
    Case("git checkout old", "git sparse-checkout set d/e", busy=False, exact=False),
    Case("git bisect start far old", busy=False, exact=False),
    Case("git bisect good", "git bisect start far old", busy=False, exact=False),
    Case("git bisect reset", "git bisect start far old", busy=False),
    Case("git pull -q . side", "git config pull.rebase false", busy=False, exact=False),
    Case("git gc -q", happens=False),
    Case("git commit -qam x", happens=False),
    Case("git add -A", happens=False),
    Case("git status", happens=False),
    Case("git fetch -q . side:new", happens=False),
    Case("git branch -f new old", happens=False),
]

ALIASES = [
    Case("git co old", "git config alias.co checkout"),
    Case("git CO old", "git config alias.co checkout"),
    Case("git undo", "git config alias.undo '!git reset --hard'", exact=False),
    Case("git wipe", "git config alias.wipe 'un -q'; git config alias.un 'reset --hard'"),
    Case("git quoted", 'git config alias.quoted "checkout -- \'d/e/f\' \\"exec\\""'),
    Case("git -c alias.x='reset --hard' x"),
    Case("git -c alias.x='!true' x", happens=False),
]

ALL = [
    *SWITCHING,
    *RESETTING,
    *CLEANING,
    *STASHING,
    *MERGING,
    *REBASING,
    *PATCHING,
    *ELSEWHERE,
    *ALIASES,
]


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.command} [{case.first}]"[:70])
def test_no_path_changes_that_was_not_foretold(tree: GitTree, case: Case) -> None:
    if case.busy:
        work(tree.path)
    if case.first:
        shell(tree.path, case.first)
    effect = judged(tree, case.command, case.cwd)
    changed = really_changed(tree, case.command, case.cwd)
    assert bool(changed) == case.happens
    if isinstance(effect, Nothing) and effect.delegates:
        return
    assert covers(effect, changed), (effect, changed)
    if case.exact:
        foretold = effect.paths if isinstance(effect, Paths) else frozenset()
        whole = tuple(path for path in foretold if path.endswith(b"/"))
        # Of directories, those count that are named: others go with the last file in them.
        happened = {path for path in changed if not path.endswith(b"/") or path.startswith(whole)}
        assert _spread(foretold, changed) == happened


def _spread(foretold: frozenset[bytes], changed: set[bytes]) -> set[bytes]:
    """A whole directory stands for what changed below it, and must not stand for nothing."""
    found = set()
    for path in foretold:
        below = {name for name in changed if path.endswith(b"/") and name.startswith(path)}
        found |= below or {path}
    return found
