"""Random histories, random work in the tree, random commands: no path changes that was not foretold."""

from __future__ import annotations

import os
import random
import shutil
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.judged import covers, judged, really_changed, shell
from leasefs.vcs.git_commands import Nothing, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.testing.git_tree import GitTree

_NAMES = [
    "a",
    "b",
    "d",
    "d/a",
    "d/b",
    "d/e/a",
    "d/e/b",
    "f/a",
    "f/g/b",
    "long/name",
    "x.o",
    "built/a",
]
_REVISIONS = [
    "main",
    "one",
    "two",
    "three",
    "HEAD~1",
    "HEAD~2",
    "HEAD",
    "-",
    "main...one",
    "stash@{0}",
    "HEAD^{tree}",
]
_COMMANDS = """
checkout R | checkout -f R | checkout -m R | checkout -B new R | checkout --detach R | checkout -- P | checkout R -- P
checkout --no-overlay R -- P | checkout --orphan new R | checkout . | checkout -f | switch --discard-changes B
switch B | switch -C new R | restore P | restore -s R P | restore -s R -SW P | restore -W --overlay -s R .
reset --hard | reset --hard R | reset --merge R | reset --keep R | reset R | reset --soft R
clean -f | clean -fd | clean -fdx | clean -fX | clean -fdX P | clean -f P | clean -ffdx
stash | stash -u | stash -a | stash -k | stash -S | stash -u -- P | stash pop | stash apply | stash pop --index
stash apply 1 | stash branch new
merge B | merge --no-ff B | merge --squash B | merge B B | merge -s resolve B | merge -X ours B | merge --abort
merge --autostash B | merge --ff-only B | merge --no-commit B
rebase B | rebase --onto R B | rebase -i B | rebase --autostash B | rebase --apply B | rebase B B | rebase -r B
rebase --abort | rebase --skip | rebase --continue | rebase --root --onto R
cherry-pick R | cherry-pick -n R | cherry-pick R..B | cherry-pick --abort | cherry-pick --skip | cherry-pick --continue
revert --no-edit R | revert -n R | revert --no-edit HEAD~1..HEAD | revert --abort
rm -rf P | rm -f P P | mv P P | mv P P d | mv -k P P | read-tree -um R | read-tree -um HEAD R | read-tree --reset -u R
checkout-index -fa | checkout-index -a | apply ../p | apply --index ../p | apply -R ../p | apply --3way ../p | am ../m
am -3 ../m | am --abort | am --skip | sparse-checkout set d f | sparse-checkout set --no-cone d/a /f
sparse-checkout add long | sparse-checkout disable | bisect start HEAD HEAD~2 | bisect good | bisect bad | bisect reset
"""


class _Writer:
    """Makes up shell commands from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def history(self) -> str:
        """Four branches of a few commits each, with renames and changes of type."""
        lines = [
            "git init -q -b main .",
            "git config user.name t; git config user.email t@e",
            "printf '*.o\\nbuilt/\\n' > .gitignore",
        ]
        lines += ["git config gc.auto 0; git config rerere.enabled false"]
        for branch in ("main", "one", "two", "three"):
            if branch != "main":
                lines.append(
                    f"git checkout -qf -b {branch} {self._random.choice(['main', 'main~1', 'HEAD'])}"
                )
            for _ in range(self._random.randint(2, 4)):
                lines += [self.edit() for _ in range(self._random.randint(1, 3))]
                lines.append("git add -A; git commit -q --allow-empty -m c")
        lines.append("git checkout -qf main")
        lines.append("git diff main two > ../p; git format-patch -q --stdout main..three > ../m")
        return "\n".join(lines)

    def edit(self) -> str:
        """One change of a file."""
        name, other = self._random.sample(_NAMES, 2)
        clear = f'p={name}; while [ "$p" != . ]; do [ -d "$p" ] || rm -f "$p" || true; p=$(dirname "$p"); done'
        write = f"{clear}; [ -d {name} ] && rm -rf {name}; mkdir -p $(dirname {name}); "
        lines = self._random.randint(3, 30)
        return self._random.choice(
            [
                f"{write} seq {lines} > {name}",
                f"{write} seq {lines} > {name}",
                f"[ -f {name} ] && echo {lines} >> {name} || true",
                f"[ -f {name} ] && sed -i '1s/^/{lines}/' {name} || true",
                f"rm -rf {name} || true",
                f"[ -f {name} ] && [ ! -e {other} ] && mkdir -p $(dirname {other}) && git mv -f {name} {other} || true",
                "[ -d d ] && [ ! -e moved ] && git mv d moved || true",
                f"{write} ln -s {other} {name}",
                f"[ -f {name} ] && chmod +x {name} || true",
            ]
        )

    def work(self) -> str:
        """Local changes: some staged, some stashed, some left in the middle of a command."""
        lines = [self.edit() for _ in range(self._random.randint(0, 4))]
        if self._random.random() < 0.4:
            lines.insert(len(lines) // 2, "git add -A 2>/dev/null || true")
        if self._random.random() < 0.4:
            lines.append("git stash -q 2>/dev/null || true")
            lines += [self.edit()] if self._random.random() < 0.5 else []
        if self._random.random() < 0.4:
            started = self._random.choice(["merge", "rebase", "cherry-pick", "revert --no-edit"])
            lines.append(f"git {started} {self._revision()} >/dev/null 2>&1 || true")
            lines += ["git add -A"] if self._random.random() < 0.5 else []
        return "\n".join(lines)

    def command(self) -> tuple[str, bytes]:
        """A git command, and where it is to be run."""
        words = self._random.choice(" | ".join(_COMMANDS.strip().split("\n")).split(" | ")).split()
        put = {
            "R": self._revision,
            "B": lambda: self._random.choice(_REVISIONS[:4]),
            "P": self._path,
        }
        made = " ".join(put[word]() if word in put else word for word in words)
        made = made.replace("R..B", f"{self._revision()}..{self._random.choice(_REVISIONS[:4])}")
        return f"git {made}", self._random.choice([b"", b"", b"", b"d"])

    def _revision(self) -> str:
        return self._random.choice(_REVISIONS)

    def _path(self) -> str:
        return self._random.choice(
            [*_NAMES, ".", "'*a'", "':(glob)**/b'", "':!d' .", ":/", "d", "../b"]
        )


def _tell(seed: int, make_tree: Callable[[str], GitTree]) -> None:
    writer = _Writer(seed)
    tree = make_tree(f"tree{seed}")
    shell(tree.path, writer.history())
    shell(tree.path, writer.work())
    for _ in range(4):
        command, cwd = writer.command()
        if not os.path.isdir(os.path.join(tree.path, cwd)) or os.path.islink(
            os.path.join(tree.path, cwd)
        ):
            cwd = b""
        effect = judged(tree, command, cwd)
        changed = really_changed(tree, command, cwd)
        if isinstance(effect, Unknown) or (isinstance(effect, Nothing) and effect.delegates):
            break
        assert covers(effect, changed), (seed, command, cwd, effect, changed)
    shutil.rmtree(tree.path)


# Each of these once changed a path that was not foretold.
_FOUND = (1237, 1258, 5163, 5498, 5598, 7154, 7293, 10201, 12617)


@pytest.mark.parametrize("seed", [*range(16), *_FOUND])
def test_no_path_changes_that_was_not_foretold(
    seed: int, make_tree: Callable[[str], GitTree]
) -> None:
    _tell(seed, make_tree)


@pytest.mark.long
@pytest.mark.parametrize("start", range(100, 4000, 100))
def test_nor_in_thousands_of_others(start: int, make_tree: Callable[[str], GitTree]) -> None:
    for seed in range(start, start + 100):
        _tell(seed, make_tree)
