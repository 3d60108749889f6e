"""A repository that two agents share, each through its own mount, and commands of git in it."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from leasefs.testing.mount_trees import environment, git
from leasefs.testing.mounted import Mounted, mounted

if TYPE_CHECKING:
    from collections.abc import Iterator

# Agent A holds `a/**`. `mine` changes that, `theirs` what B holds, `both` both, `up` is what origin has.
_REPOSITORY = """
git init -q -b main .
mkdir -p a/sub b; printf '*.o\\n' > .gitignore
seq 9 > a/f; seq 9 > a/g; seq 9 > a/sub/s; seq 9 > b/f; seq 9 > b/g; echo top > top
git add -A; git commit -qm base; sed -i s/8/eight/ b/g; git commit -qam ahead-b
for name in mine theirs both up
do
    git checkout -q -b $name main
    case $name in mine | both) sed -i s/2/two/ a/f; echo $name > a/new-$name;; esac
    case $name in theirs | both | up) sed -i s/2/two/ b/f; echo $name > b/new-$name;; esac
    git add -A; git commit -qm $name
done
git checkout -q main; sed -i s/8/eight/ a/g; git commit -qam ahead-a
git clone -q --bare . ../origin.git; git remote add origin ../origin.git; git push -q origin up:main -f; git fetch -q
git branch -q --set-upstream-to=origin/main main; git config pull.rebase false
git diff mine~ mine > ../mine.patch; git diff both~ both > ../both.patch
git format-patch -q -1 mine --stdout > ../mine.mail; git format-patch -q -1 both --stdout > ../both.mail
echo stashed >> b/g; git stash -q; echo stashed >> a/sub/s; git stash -q
echo mine >> a/f; echo theirs >> b/f; echo new > b/untracked; echo x > a/x.o; echo x > b/x.o
"""


def shell(
    place: Path, tree: Path, command: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    """A command line of the shell at a place in a mount; `$TOP` is the directory that the tree lies in."""
    return subprocess.run(
        ["bash", "-c", command],
        cwd=place,
        env=environment() | {"GIT_EDITOR": "true", "TOP": str(tree.parent)} | environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class Shared(NamedTuple):
    """A tree with two mounts; `a` is the one that commands run in."""

    tree: Path
    a: Mounted
    b: Mounted

    def run(self, command: str, cwd: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        """A command line of the shell through A's mount."""
        return shell(Path(self.a.root, cwd), self.tree, command, **environ)

    def refusals(self) -> list[dict[str, str]]:
        """What `.leasefs/refusals.json` lists, newest first."""
        found: list[dict[str, str]] = json.loads(
            Path(self.a.root, ".leasefs/refusals.json").read_text()
        )
        return found


def state(tree: Path) -> dict[str, object]:
    """Tree, index, references, reflogs, and whatever else lies in the git directory but objects."""
    found: dict[str, object] = {}
    for path in sorted(tree.rglob("*")):
        name = str(path.relative_to(tree))
        if name.startswith(".git/objects/"):
            continue
        known = path.lstat()
        content: object = path.read_bytes() if path.is_file() else None
        # Git may write the same index anew to refresh its times; its entries are compared.
        found[name] = known.st_mode, content
    found[".git/index"] = git(tree, "ls-files", "-s", "-z"), git(tree, "ls-files", "-v", "-z")
    return found


def difference(before: dict[str, object], after: dict[str, object]) -> set[str]:
    """The names in which two states differ."""
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def make_shared(base: Path) -> Path:
    """The repository, in `base`/source; its remote and patches lie beside it."""
    tree = base / "source"
    tree.mkdir(parents=True)
    for name in ("mount-a", "mount-b"):
        (base / name).mkdir()
    subprocess.run(
        ["sh", "-ec", _REPOSITORY], cwd=tree, env=environment(), check=True, capture_output=True
    )
    return tree


@contextmanager
def shared_tree(base: Path, *, clean: bool = False) -> Iterator[Shared]:
    """Two mounts of it; `clean`: with nothing uncommitted."""
    tree = make_shared(base)
    if clean:
        git(tree, "checkout", "-q", ".")
    with (
        mounted(str(tree), str(base / "mount-a"), "--agent", "a", "--lease", "a/**") as a,
        mounted(str(tree), str(base / "mount-b"), "--agent", "b", "--lease", "b/**") as b,
    ):
        yield Shared(tree, a, b)
