"""Every tool that changes files: works inside a lease, is refused outside of it (P2).

One row per tool. Each row runs twice per kind of mount: in a directory under a lease, where it must
succeed and have its effect, and in one without, where it must fail, say so, and leave no trace: bytes,
modes, owners, times and names as before, seen from the source side.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.mount_trees import NOBODY, environment, git, give, snapshot
from leasefs.testing.mounted import mounted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.mount, pytest.mark.root]

# One that every user can run; the one that runs the tests may lie in somebody's home.
PYTHON = shutil.which("python3", path=os.defpath) or sys.executable

PATCH = """--- a/f
+++ b/f
@@ -1 +1 @@
-old
+new
"""


def says(name: str, content: str) -> Callable[[Path], bool]:
    """The file says this now."""
    return lambda folder: (folder / name).read_text() == content


def there(*names: str) -> Callable[[Path], bool]:
    """These exist now."""
    return lambda folder: all(os.path.lexists(folder / name) for name in names)


def gone(*names: str) -> Callable[[Path], bool]:
    """These are gone."""
    return lambda folder: not any(os.path.lexists(folder / name) for name in names)


@dataclass(frozen=True)
class Row:
    """`command` runs in a shell in the folder; `{py}` is Python, `{spare}` a folder outside the mount.

    `moves_history` is set for what only brings back what is committed.
    """

    name: str
    command: str
    effect: Callable[[Path], bool]
    clear: str = "ermission denied"
    needs_root: bool = False
    moves_history: bool = False


def python(name: str, code: str, effect: Callable[[Path], bool], **more: object) -> Row:
    """A row whose tool is a few lines of Python."""
    return Row(name, "{py} -c " + shlex.quote("import os\n" + code), effect, **more)  # type: ignore[arg-type]


EXCHANGE = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if libc.renameat2(-100, b"f", -100, b"g", 2):
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""
MMAP = """
import mmap
with open("f", "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
    view[0:3] = b"new"
"""
BIND = """
import socket
with socket.socket(socket.AF_UNIX) as s:
    s.bind("sock")
"""
COPY = """
source = os.open("g", os.O_RDONLY)
goal = os.open("f", os.O_WRONLY)
os.copy_file_range(source, goal, 10)
"""

ROWS = [
    Row(">", "echo new > f", says("f", "new\n")),
    Row("> a new file", "echo new > n", says("n", "new\n")),
    Row(">>", "echo more >> f", says("f", "old\nmore\n")),
    Row("sed -i", "sed -i s/old/new/ f", says("f", "new\n")),
    Row("perl -i", "perl -pi -e s/old/new/ f && grep -q new f", says("f", "new\n")),
    Row("perl -i.bak", "perl -i.bak -pe s/old/new/ f && grep -q new f", there("f.bak")),
    Row("tee", "echo new | tee f", says("f", "new\n")),
    Row("dd", "dd if=g of=f conv=notrunc status=none", says("f", "gee\n")),
    Row("cp over", "cp g f", says("f", "gee\n")),
    Row("cp new", "cp g n", says("n", "gee\n")),
    Row("cp -r", "cp -r sub copy", there("copy/deep/f")),
    Row("mv in from another file system", "mv {spare}/m m", says("m", "from outside\n")),
    Row("mv over", "mv g f", says("f", "gee\n")),
    Row("mv away", "mv f ../moved-{run}", gone("f")),
    Row("mv a directory", "mv sub bus", there("bus/deep/f")),
    Row("mv out of the mount", "mv f {spare}/taken-{run}", gone("f")),
    Row("ln", "ln f hard", there("hard")),
    Row("ln -s", "ln -s f soft", there("soft")),
    Row("rm", "rm f", gone("f")),
    Row("rm -f", "rm -f f", gone("f")),
    Row("rmdir", "rmdir empty", gone("empty")),
    Row("rm -r", "rm -r sub", gone("sub")),
    Row("mkdir", "mkdir made", there("made")),
    Row("mkdir -p", "mkdir -p a/b/c", there("a/b/c")),
    Row("touch", "touch -d 2001-01-01 f", lambda folder: (folder / "f").stat().st_mtime < 1e9),
    Row("touch a new file", "touch n", there("n")),
    Row("truncate", "truncate -s 1 f", says("f", "o")),
    Row("chmod", "chmod 600 f", lambda folder: (folder / "f").stat().st_mode & 0o777 == 0o600),
    Row(
        "chmod a directory", "chmod 700 sub", lambda d: (d / "sub").stat().st_mode & 0o777 == 0o700
    ),
    Row("chown", "chown 1:1 f", lambda folder: (folder / "f").stat().st_uid == 1, needs_root=True),
    Row("install", "install -m 755 g f", says("f", "gee\n")),
    Row("patch", "patch -s f {spare}/p", says("f", "new\n")),
    Row("git apply", "git apply {spare}/p", says("f", "new\n"), clear="unable to"),
    Row(
        "git checkout",
        "git checkout -q -- tracked",
        says("tracked", "committed\n"),
        moves_history=True,
    ),
    Row(
        "vim",
        "vim -es -u NONE -i NONE -c s/old/new/ -c wq! f && grep -q new f",
        says("f", "new\n"),
        clear="",
    ),
    Row(
        "vim with backup",
        "vim -es -u NONE -i NONE -c 'set backup writebackup backupcopy=no' -c s/old/new/ -c wq! f && grep -q new f",
        says("f", "new\n"),
        clear="",
    ),
    Row("nano", "{py} {nano} f", says("f", "newold\n"), clear=""),
    Row(
        "setfattr",
        "setfattr -n user.k -v 1 f",
        lambda folder: os.listxattr(folder / "f") == ["user.k"],
    ),
    Row("setfattr -x", "setfattr -x user.had g", lambda folder: os.listxattr(folder / "g") == []),
    Row("setfacl", "setfacl -m u:1:r f", lambda folder: bool(os.listxattr(folder / "f"))),
    Row("mkfifo", "mkfifo p", there("p")),
    Row("/proc/PID/fd", "exec 3<f; echo new > /proc/$$/fd/3", says("f", "new\n")),
    Row("/dev/fd", "exec 3<f; echo more >> /dev/fd/3", says("f", "old\nmore\n")),
    Row("through a symlink", "echo new > soft-before", says("f", "new\n")),
    Row("through a hard link made before", "echo new > hard-before", says("linked", "new\n")),
    Row("tar", "tar -xf {spare}/t.tar", there("packed"), clear="ermission denied"),
    Row("rsync-like save", "cp g .f.Xa12Bc && mv .f.Xa12Bc f", says("f", "gee\n")),
    python("mmap", MMAP, says("f", "new\n")),
    python("bind a socket", BIND, there("sock")),
    python("copy_file_range", COPY, says("f", "gee\n")),
    python("open O_RDONLY|O_TRUNC", "os.open('f', os.O_RDONLY | os.O_TRUNC)", says("f", "")),
    python(
        "open O_RDWR|O_CREAT|O_EXCL", "os.open('n', os.O_RDWR | os.O_CREAT | os.O_EXCL)", there("n")
    ),
    python("exchange-rename", EXCHANGE, says("f", "gee\n")),
    python("truncate(2)", "os.truncate('f', 0)", says("f", "")),
    python(
        "utime of a directory",
        "os.utime('sub', (1, 1))",
        lambda d: (d / "sub").stat().st_mtime == 1,
    ),
    python(
        "symlink's own times",
        "os.utime('soft-before', (1, 1), follow_symlinks=False)",
        lambda d: (d / "soft-before").lstat().st_mtime == 1,
    ),
]


def build(source: Path) -> None:
    """For each row a folder under `in` (leased) and one under `out` (not leased)."""
    for side in ("in", "out"):
        for at in range(len(ROWS)):
            folder = source / side / str(at)
            for name in ("empty", "sub/deep"):
                (folder / name).mkdir(parents=True)
            for name, content in {
                "f": "old\n",
                "g": "gee\n",
                "sub/f": "1\n",
                "sub/deep/f": "2\n",
            }.items():
                (folder / name).write_text(content)
            (folder / "linked").write_text("old\n")
            (folder / "tracked").write_text("committed\n")
            os.link(folder / "linked", folder / "hard-before")
            os.symlink("f", folder / "soft-before")
            os.setxattr(folder / "g", "user.had", b"1")
    git(source, "init", "-q")
    git(source, "add", ".")
    git(source, "commit", "-qm", "start")
    for tracked in source.glob("*/*/tracked"):
        tracked.write_text("edited\n")


@dataclass(frozen=True)
class Scene:
    """A mount and who uses it."""

    source: Path
    root: Path
    spare: Path
    uid: int

    def run(self, row: Row, side: str) -> subprocess.CompletedProcess[str]:
        """Run a row's tool as the user of this scene."""
        run = f"{side}-{ROWS.index(row)}-{self.uid}"
        (self.spare / "m").write_text("from outside\n")
        os.chown(self.spare / "m", self.uid, self.uid)
        command = row.command.format(
            py=PYTHON, nano=self.spare / "nano.py", spare=self.spare, run=run
        )
        ids = [f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"]
        # Not even root may enter a user's own mount: the shell goes there itself.
        folder = self.root / side / str(ROWS.index(row))
        return subprocess.run(
            ["setpriv", *ids, "--", "sh", "-c", f'cd "$0" || exit 1; {command}', str(folder)],
            cwd="/",
            env=environment(),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )


@pytest.fixture(
    scope="module",
    params=["root", "user through root's mount", "user's own mount", "in place"],
)
def scene(request: pytest.FixtureRequest, place: Path, fuse_for_all: None) -> Iterator[Scene]:
    kind: str = request.param
    uid = NOBODY if "user" in kind else 0
    base = place / kind.replace(" ", "-").replace("'", "")
    source, spare = base / "source", base / "spare"
    for folder in (source, spare):
        folder.mkdir(parents=True)
    build(source)
    (spare / "p").write_text(PATCH)
    (spare / "packed").write_text("x\n")
    subprocess.run(["tar", "-C", str(spare), "-cf", str(spare / "t.tar"), "packed"], check=True)
    (spare / "nano.py").write_text(Path(__file__).with_name("drive_nano.py").read_text())
    spare.chmod(0o777)
    give(base, uid)
    root = source
    if kind != "in place":
        root = base / "mount"
        root.mkdir()
        os.chown(root, uid, uid)
    below = os.open(source, os.O_RDONLY)  # the way to the tree beneath a mount in place
    user = NOBODY if kind == "user's own mount" else None
    try:
        with mounted(str(source), str(root), "--lease", "in/**", user=user):
            yield Scene(Path(f"/proc/self/fd/{below}/."), root, spare, uid)
    finally:
        os.close(below)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_inside_a_lease_the_tool_works(scene: Scene, row: Row) -> None:
    if row.needs_root and scene.uid:
        pytest.skip("only root may do this anywhere")
    done = scene.run(row, "in")
    assert done.returncode == 0, done.stderr
    assert row.effect(scene.source / "in" / str(ROWS.index(row)))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_outside_a_lease_the_tool_is_refused_and_nothing_changes(scene: Scene, row: Row) -> None:
    if row.needs_root and scene.uid:
        pytest.skip("only root may do this anywhere")
    before = snapshot(scene.source / "out")
    done = scene.run(row, "out")
    if row.moves_history:
        # In a tree of one's own that is not authoring (`git_guard`).
        assert done.returncode == 0, done.stderr
        assert row.effect(scene.source / "out" / str(ROWS.index(row)))
        return
    assert done.returncode != 0
    assert row.clear in done.stderr
    assert snapshot(scene.source / "out") == before
