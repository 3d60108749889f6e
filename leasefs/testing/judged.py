"""A repository with a history to run git commands on, and what each of them really changes.

A path counts as changed also when it was written anew with the same bytes: the write is what a lease is about.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
from typing import TYPE_CHECKING

from leasefs.vcs.git_commands import GitProcess, Paths, judge

if TYPE_CHECKING:
    from leasefs.testing.git_tree import GitTree
    from leasefs.vcs.git_commands import Effect

Snapshot = dict[bytes, tuple[object, ...]]

# Branches: `old` is one commit behind `main`; `side` adds, renames and edits; `clash` edits what main edits; `far` is
# three commits ahead of main; `shape` has a directory where main has a file.
_HISTORY = """
git init -q -b main .
git config user.name t
git config user.email t@example.org
mkdir -p d/e; seq 9 > a; seq 20 > d/b; echo f > d/e/f; seq 30 > keep; echo x > exec; chmod +x exec; ln -s a link; echo g > gone
printf '*.o\\nbuilt/\\n' > .gitignore
git add -A; git commit -qm one; git branch old
git checkout -q -b side; mkdir s; echo s > s/side; git mv keep kept; echo 21 >> d/b; git add -A; git commit -qm side
git checkout -q -b clash old; sed -i s/5/clash/ a; git commit -qam clash
git checkout -q -b shape old; git rm -q gone; mkdir gone; echo x > gone/x; git add -A; git commit -qm shape
git checkout -q main; sed -i s/5/five/ a; mkdir n; echo n > n/new; git add -A; git commit -qm two
git checkout -q -b far; for i in 1 2 3; do echo $i > far$i; echo $i >> d/e/f; git add -A; git commit -qm far$i; done
git checkout -q main; git tag -a -m t v1 old
git update-ref refs/remotes/origin/remote side
"""

# Others' work in the same tree: unstaged, staged, untracked, ignored.
_WORK = """
echo work >> d/e/f; echo staged > st; git add st; echo more >> exec
echo u > u; mkdir -p ud/deep empty/dir built; echo v > ud/deep/v; echo o > ud/x.o; echo o > x.o; echo b > built/out
"""


def make_history(directory: bytes) -> None:
    """Make the repository in an empty directory."""
    shell(directory, _HISTORY)


def copy_history(source: bytes, target: bytes) -> None:
    """Copy it so that git finds nothing changed in the copy."""
    shutil.copytree(os.fsdecode(source), os.fsdecode(target), symlinks=True, dirs_exist_ok=True)
    shell(target, "git update-index -q --refresh")


def work(directory: bytes) -> None:
    """Leave uncommitted work of every kind in the tree."""
    shell(directory, _WORK)


def shell(directory: bytes, script: str) -> None:
    """Run a script of the shell, which must succeed."""
    done = subprocess.run(["sh", "-ec", script], cwd=directory, capture_output=True, check=False)
    assert not done.returncode, done.stderr.decode()


def process_of(tree: GitTree, command: str, cwd: bytes = b"", **environ: str) -> GitProcess:
    """The git process that a command line would be, without running it."""
    words = tuple(os.fsencode(word) for word in shlex.split(command))
    named = {name.encode(): os.fsencode(value) for name, value in environ.items()}
    named |= {b"HOME": os.environb[b"HOME"]}
    return GitProcess(words, os.path.normpath(os.path.join(tree.path, cwd)), tree.path, named)


def judged(tree: GitTree, command: str, cwd: bytes = b"", **environ: str) -> Effect:
    """What is said of the command, which must leave the repository and the tree as they are."""
    process = process_of(tree, command, cwd, **environ)
    before = snapshot(tree.path, with_git=True)
    effect = judge(process, tree.open_git(), tree.open_root())
    assert snapshot(tree.path, with_git=True) == before
    return effect


def really_changed(tree: GitTree, command: str, cwd: bytes = b"", **environ: str) -> set[bytes]:
    """Run the command, whatever its exit status, and say which paths it changed; directories end in `/`."""
    before = snapshot(tree.path)
    subprocess.run(
        shlex.split(command),
        cwd=os.path.join(tree.path, cwd),
        env=os.environ | {"GIT_EDITOR": "true", "GIT_MERGE_AUTOEDIT": "no"} | environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    after = snapshot(tree.path)
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def snapshot(directory: bytes, *, with_git: bool = False) -> Snapshot:
    """Every file below, and every directory that holds none."""
    found: Snapshot = {}
    for at, directories, files in os.walk(directory):
        if not with_git:
            directories[:] = [name for name in directories if name != b".git"]
            files = [name for name in files if name != b".git"]
        links = [name for name in directories if os.path.islink(os.path.join(at, name))]
        for name in (*files, *links):
            path = os.path.join(at, name)
            status = os.lstat(path)
            content = os.readlink(path) if stat.S_ISLNK(status.st_mode) else b""
            name_in = os.path.relpath(path, directory)
            # Git marks an object as used when it would have made the very same one.
            time_ns = 0 if name_in.startswith(b".git/objects/") else status.st_mtime_ns
            found[name_in] = (status.st_mode, status.st_ino, time_ns, status.st_size, content)
        if not files and not directories:
            found[os.path.relpath(at, directory) + b"/"] = ()
    return found


def covers(effect: Effect, changed: set[bytes]) -> bool:
    """Whether every path that was changed had been foretold. A directory that comes or goes follows its files."""
    if not isinstance(effect, Paths):
        return not changed
    whole = tuple(path for path in effect.paths if path.endswith(b"/"))
    files = {path for path in changed if not path.endswith(b"/")}
    return all(path in effect.paths or path.startswith(whole) for path in files)
