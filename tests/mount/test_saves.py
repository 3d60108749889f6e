"""Editors, formatters and agents' tools save a file when that file alone is leased, and are refused cleanly.

One row per way of saving. Each runs in three folders of a git tree: where the file is leased and nothing
else (the outcome must be that of the same command on a plain directory: names, bytes and modes), where
only its neighbour is leased, and where nothing is. Refused, the file stays as it is and nothing is left.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.mount_trees import NOBODY, environment, git, give
from leasefs.testing.mounted import mounted

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mount, pytest.mark.root]

# Lives only until the tool ends, or holds a time of its own.
_VARIES = (".un~",)


@dataclass(frozen=True)
class Row:
    """`command` runs in bash in the folder, saves f.txt, whose content is `before`, and is from `needs`.

    `litters` is set for tools that leave their temporary file when the rename at the end fails, on a
    plain directory too; `quiet` for those whose exit code does not tell that they were refused;
    `moves_history` for what only brings back what is committed.
    """

    name: str
    command: str
    needs: str
    before: str = "old\n"
    litters: bool = False
    quiet: bool = False
    keeps: bool = False
    moves_history: bool = False


def typed(command: str, *steps: tuple[str, str]) -> str:
    """A full-screen program, driven: after each text is shown, the keys are typed."""
    return "python3 {tools}/drive_terminal.py " + shlex.quote(json.dumps(steps)) + f" {command}"


def vim(options: str) -> Row:
    command = f"vim -es -u NONE -i NONE -c 'set {options}' -c s/old/new/ -c wq! f.txt"
    return Row(f"vim: {options}", command, "vim")


def emacs(name: str, before: str, then: str = "", *, litters: bool = False) -> Row:
    # Under version control there are no backups otherwise.
    setup = f"(progn (setq vc-handled-backends nil) {before})"
    save = f'(progn (insert "new") {then} (save-buffer))'
    command = f"emacs --batch -Q --eval {shlex.quote(setup)} f.txt --eval {shlex.quote(save)}"
    return Row(f"emacs: {name}", command, "emacs", litters=litters)


AUTO_SAVE = """(auto-save-mode 1) (do-auto-save t)
(or (file-exists-p "#f.txt#") (kill-emacs 7)) (or (file-symlink-p ".#f.txt") (kill-emacs 8))"""

EDITORS = [
    vim("nobackup nowritebackup"),
    vim("writebackup backupcopy=auto"),
    vim("backup backupcopy=no"),
    vim("backup backupcopy=yes"),
    vim("backupcopy=auto,breakhardlink"),
    vim("backup backupext=.bak"),
    vim("patchmode=.orig"),
    vim("undofile undodir=."),
    vim("swapfile directory=. undofile undodir=. backup backupcopy=no fsync"),
    Row("vim in a terminal", typed("vim -u NONE -N f.txt", ("old", "inew\x1b:wq\r")), "vim"),
    emacs("backup by renaming", ""),
    emacs("backup by copying", "(setq backup-by-copying t)"),
    emacs("numbered backups", "(setq version-control t)"),
    emacs("auto-save and lock", "", AUTO_SAVE),
    emacs("file-precious-flag", "(setq file-precious-flag t)", litters=True),
    Row(
        "emacs in a terminal",
        typed("emacs -nw -Q f.txt", ("old", "new\x18\x13"), ("Wrote", "\x18\x03")),
        "emacs",
    ),
    Row(
        "nano with backup",
        typed(
            "nano -I -B -G f.txt",
            ("old", "new\x0f"),
            ("Name to Write", "\r"),
            ("Wrote", "\x18"),
        ),
        "nano",
    ),
    Row("mg", typed("mg f.txt", ("old", "new\x18\x13"), ("Wrote", "\x18\x03")), "mg"),
    Row("ed", "printf '1s/old/new/\\nw\\nq\\n' | ed -s f.txt", "ed"),
    Row(
        "neovim",
        "nvim --clean -es -c 'set backup backupdir=. undofile undodir=.' -c s/old/new/ -c wq! f.txt",
        "nvim",
    ),
    Row(
        "kakoune",
        "kak -n -ui dummy -e 'exec inew<esc>; try %{ write -method replace }; quit!' f.txt",
        "kak",
        quiet=True,
    ),
]

SHELL = [
    Row("sed -i", "sed -i s/old/new/ f.txt", "sed"),
    Row("sed -i.bak", "sed -i.bak s/old/new/ f.txt", "sed"),
    Row("perl -i", "perl -pi -e s/old/new/ f.txt", "perl", quiet=True),
    Row("perl -i.bak", "perl -pi.bak -e s/old/new/ f.txt", "perl", quiet=True),
    Row("patch", "patch -s f.txt {tools}/p", "patch"),
    Row("patch -b", "patch -s -b f.txt {tools}/p", "patch"),
    Row("patch -V numbered", "patch -s -b -V numbered f.txt {tools}/p", "patch"),
    Row(
        "patch that does not fit",
        "patch -s f.txt {tools}/wrong; test -s f.txt.rej",
        "patch",
        keeps=True,
    ),
    Row("git apply", "git apply {tools}/p", "git"),
    Row("rsync", "rsync -I {tools}/new f.txt", "rsync"),
    Row("rsync -b", "rsync -I -b {tools}/new f.txt", "rsync"),
    Row("install -b", "install -b -m 600 {tools}/new f.txt", "install"),
    Row("cp --backup", "cp --backup=numbered {tools}/new f.txt", "cp"),
    Row("ln -sf", "rm f.txt && ln -s x f.txt && ln -sf y f.txt", "ln"),
    Row("sort -o", "sort -o f.txt {tools}/new", "sort"),
    Row("mktemp NAME.XXXXXX, mv", "t=$(mktemp f.txt.XXXXXX) && echo new > $t && mv $t f.txt", "mv"),
    Row("mktemp, mv", "t=$(mktemp -p .) && echo new > $t && mv $t f.txt", "mv", litters=True),
    Row("dos2unix", "dos2unix -q f.txt", "dos2unix", "new\r\n", litters=True, quiet=True),
    Row("sponge", "sponge f.txt < {tools}/new", "sponge"),
]

GIT = [
    Row("git checkout -p", "printf 'y\\n' | git checkout -q -p -- f.txt", "git", quiet=True),
    Row("git restore -p", "printf 'y\\n' | git restore -q -p f.txt", "git", quiet=True),
    Row("git restore", "git restore -q f.txt", "git", moves_history=True),
    Row("git stash", "git stash push -q -- f.txt", "git"),
    Row("git stash and pop", "git stash push -q -- f.txt && git stash pop -q", "git"),
    Row("git mv", "git mv -f f.txt f.txt.orig", "git"),
    Row("git rm", "git rm -qf f.txt", "git"),
]

FORMATTERS = [
    Row("black", "black -q f.txt", "black", "x  =  1\n", quiet=True),
    Row("ruff format", "ruff format --isolated --no-cache -q f.txt", "ruff", "x  =  1\n"),
    Row("isort", "isort -q f.txt", "isort", "import sys,os\n", quiet=True),
    Row("yapf", "yapf -i f.txt", "yapf", "x  =  1\n"),
    Row("autopep8", "autopep8 -i f.txt", "autopep8", "x  =  1\n"),
    Row("shfmt", "shfmt -w f.txt", "shfmt", "if true;then  echo;fi\n"),
    Row("gofmt", "gofmt -w f.txt", "gofmt", "package  main\nfunc  main( ) {  }\n"),
    Row("clang-format", "clang-format -i f.txt", "clang-format", "int  main( ){return  0;}\n"),
    Row("rustfmt", "rustfmt f.txt", "rustfmt", "fn  main( ) {  }\n"),
    Row("prettier", "prettier --parser yaml --write f.txt", "prettier", "a:   1\n"),
]


def python(name: str, code: str, *, litters: bool = False) -> Row:
    """A way of saving that is some program's own, in its system calls."""
    return Row(
        name,
        "python3 -c " + shlex.quote("import os, tempfile\n" + code),
        "python3",
        litters=litters,
    )


def beside(name: str, temporary: str, *, cleans: bool = True) -> Row:
    """Write a temporary file beside, sync, take the mode over, rename; remove it if that fails."""
    clean = "os.unlink(t)" if cleans else "pass"
    code = f"""t = {temporary!r}
fd = os.open(t, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
try:
    os.write(fd, b'new'); os.fsync(fd); os.fchmod(fd, os.stat('f.txt').st_mode & 0o7777); os.close(fd)
    os.rename(t, 'f.txt')
except OSError:
    {clean}
    raise
os.fsync(os.open('.', os.O_RDONLY))"""
    return python(name, code)


IN_PLACE = """fd = os.open('f.txt', os.O_RDWR)
os.ftruncate(fd, 0); os.write(fd, b'new'); os.fdatasync(fd)"""
SAFE_WRITE = """open('f.txt___jb_tmp___', 'w').write('new')
try:
    os.rename('f.txt', 'f.txt___jb_old___')
except OSError:
    os.unlink('f.txt___jb_tmp___'); raise
os.rename('f.txt___jb_tmp___', 'f.txt'); os.unlink('f.txt___jb_old___')"""
NAMED = """with tempfile.NamedTemporaryFile('w', dir='.', delete=False) as t:
    t.write('new'); t.flush(); os.fsync(t.fileno())
try:
    os.chmod(t.name, 0o644); os.replace(t.name, 'f.txt')
except OSError:
    os.unlink(t.name); raise"""
SQLITE = """import sqlite3
os.truncate('f.txt', 0)
c = sqlite3.connect('f.txt'); c.execute('pragma journal_mode={mode}')
c.execute('create table t(x)'); c.commit(); c.close()"""
LOCKED = """open('.~lock.f.txt#', 'w').write('me')
try:
    open('lu12345ab.tmp', 'w').write('new'); os.rename('lu12345ab.tmp', 'f.txt')
finally:
    [os.unlink(n) for n in ('.~lock.f.txt#', 'lu12345ab.tmp') if os.path.exists(n)]"""
HELIX = """os.rename('f.txt', 'f.txtAb12Cd.bck')
open('f.txt', 'w').write('new'); os.unlink('f.txtAb12Cd.bck')"""
SWAPPED = """open('.f.txt.kate-swp', 'w').write('me')
try:
    open('f.txt.Ab12Cd', 'w').write('new'); os.rename('f.txt.Ab12Cd', 'f.txt')
finally:
    [os.unlink(n) for n in ('.f.txt.kate-swp', 'f.txt.Ab12Cd') if os.path.exists(n)]"""

PATTERNS = [
    python("VS Code", IN_PLACE),
    beside("VS Code, atomic", "f.txt.vsctmp"),
    python("JetBrains' safe write", SAFE_WRITE),
    beside("an agent: name.tmp.PID.TIME", "f.txt.tmp.4711.1790000000000"),
    beside("an agent: .name.tmp-RANDOM", ".f.txt.tmp-Xa12Bc"),
    beside("an agent: name.UUID.tmp", "f.txt.c56a4180-65aa-42ec-a945-5fd21dec0538.tmp"),
    python("Python's NamedTemporaryFile", NAMED),
    beside("write-file-atomic", "f.txt.3141592653"),
    beside("steno", ".f.txt.tmp"),
    beside("fast-write-atomic", ".4711.0"),
    beside("Rust's tempfile", ".tmpXa12Bc"),
    beside("cargo", "f.txtXa12Bc"),
    beside("Go's renameio", ".f.txt857501825"),
    beside("Go's os.CreateTemp", "f.txt1148348792"),
    beside("GLib", ".goutputstream-AB12CD"),
    beside("g_file_set_contents", "f.txt.AB12CD"),
    beside("Sublime Text", ".subl7f.tmp"),
    python("LibreOffice", LOCKED),
    python("Kate", SWAPPED),
    python("helix", HELIX),
    python("SQLite, rollback journal", SQLITE.format(mode="delete")),
    python("SQLite, write-ahead log", SQLITE.format(mode="wal")),
]

ROWS = [*EDITORS, *SHELL, *GIT, *FORMATTERS, *PATTERNS]


def fill(top: Path) -> None:
    for at, row in enumerate(ROWS):
        folder = top / str(at)
        folder.mkdir(parents=True)
        (folder / "f.txt").write_text("committed\n" if row in GIT else row.before)
        (folder / "g.txt").write_text("gee\n")


def commit(tree: Path, *tops: Path) -> None:
    git(tree, "init", "-q")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "start")
    for top in tops:
        for at, row in enumerate(ROWS):
            if row in GIT:
                (top / str(at) / "f.txt").write_text("edited\n")


def outcome(folder: Path) -> dict[str, tuple[str, bytes]]:
    """What is in a folder: modes and contents by name."""
    found = {}
    for path in folder.iterdir():
        mode = path.lstat().st_mode
        content = os.readlink(path).encode() if stat.S_ISLNK(mode) else path.read_bytes()
        found[path.name] = (oct(mode), b"" if path.name.endswith(_VARIES) else content)
    return found


@dataclass(frozen=True)
class Scene:
    """A mount, the same tree without one, and who uses them."""

    root: Path
    source: Path
    plain: Path
    tools: Path
    uid: int

    def run(self, row: Row, folder: Path) -> subprocess.CompletedProcess[str]:
        ids = [f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"]
        home = self.tools / "home"
        variables = {**environment(), "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
        command = row.command.replace("{tools}", str(self.tools))
        return subprocess.run(
            ["setpriv", *ids, "--", "bash", "-c", f"umask 022; {command}"],
            cwd=folder,
            env=variables,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )


@pytest.fixture(
    scope="module",
    params=[
        "in place",
        pytest.param("a user through root's mount", marks=pytest.mark.slow),
    ],
)
def scene(request: pytest.FixtureRequest, place: Path) -> Iterator[Scene]:
    kind: str = request.param
    uid = NOBODY if "user" in kind else 0
    base = place / kind.replace(" ", "-").replace("'", "")
    source, plain, tools = base / "source", base / "plain", base / "tools"
    for top in (source / "leased", source / "beside", source / "bare", plain / "leased"):
        fill(top)
    commit(source, *source.glob("[lb]*"))
    commit(plain, plain / "leased")
    equip(tools)
    give(base, uid)
    root = source
    if kind != "in place":
        root = base / "mount"
        root.mkdir()
        os.chown(root, uid, uid)
    globs = [f"leased/{at}/f.txt" for at in range(len(ROWS))]
    globs += [f"beside/{at}/g.txt" for at in range(len(ROWS))]
    below = os.open(source, os.O_RDONLY)  # the way to the tree beneath a mount in place
    try:
        with mounted(str(source), str(root), *(x for glob in globs for x in ("--lease", glob))):
            yield Scene(root, Path(f"/proc/self/fd/{below}/."), plain, tools, uid)
    finally:
        os.close(below)


def equip(tools: Path) -> None:
    (tools / "home").mkdir(parents=True)
    (tools / "new").write_text("new\n")
    for name, old in (("p", "old"), ("wrong", "other")):
        (tools / name).write_text(f"--- a/f.txt\n+++ b/f.txt\n@@ -1 +1 @@\n-{old}\n+new\n")
    driver = Path(__file__).with_name("drive_terminal.py")
    (tools / driver.name).write_text(driver.read_text())


def skip_if_missing(row: Row) -> None:
    if shutil.which(row.needs, path=environment()["PATH"]) is None:
        pytest.skip(f"{row.needs} is not installed")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_leased_alone_it_is_saved_as_on_a_plain_directory(scene: Scene, row: Row) -> None:
    skip_if_missing(row)
    at = str(ROWS.index(row))
    plain = scene.run(row, scene.plain / "leased" / at)
    assert plain.returncode == 0, plain.stderr
    done = scene.run(row, scene.root / "leased" / at)
    assert done.returncode == 0, done.stderr
    expected = outcome(scene.plain / "leased" / at)
    assert outcome(scene.source / "leased" / at) == expected
    assert row.keeps or expected.get("f.txt", ("", b""))[1] != row.before.encode()


@pytest.mark.parametrize("where", ["beside", "bare"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_not_leased_it_stays_and_nothing_is_left(scene: Scene, row: Row, where: str) -> None:
    skip_if_missing(row)
    at = str(ROWS.index(row))
    before = outcome(scene.source / where / at)
    done = scene.run(row, scene.root / where / at)
    after = outcome(scene.source / where / at)
    if row.moves_history:
        # In a tree of one's own that is not authoring (`git_guard`).
        assert done.returncode == 0, done.stderr
        assert after["f.txt"] != before["f.txt"]
        return
    assert row.quiet or done.returncode != 0
    assert after["f.txt"] == before["f.txt"]
    if not (row.litters and where == "beside"):
        assert after == before
