"""What programs rely on, checked on a mount under `**` and, with the same body, on a plain directory."""

from __future__ import annotations

import errno
import mmap
import os
import socket
import stat
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.mount_trees import NOBODY, environment
from leasefs.testing.mounted import mounted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.mount, pytest.mark.root]


@pytest.fixture(scope="module", params=["plain directory", "mount"])
def root(request: pytest.FixtureRequest, place: Path) -> Iterator[Path]:
    base = place / request.param.replace(" ", "-")
    for name in ("source", "mount"):
        (base / name).mkdir(parents=True)
    if request.param != "mount":
        yield base / "source"
        return
    with mounted(str(base / "source"), str(base / "mount"), "--lease", "**"):
        yield base / "mount"


@pytest.fixture
def here(root: Path, request: pytest.FixtureRequest) -> Path:
    """An empty directory for one test, which anybody may write."""
    here = root / str(abs(hash(request.node.name)))
    here.mkdir()
    here.chmod(0o777)
    return here


def shell(here: Path, script: str, *, groups: str = "", uid: int = NOBODY) -> str:
    """Run a script as another user."""
    extra = f"--groups={groups}" if groups else "--clear-groups"
    done = subprocess.run(
        ["setpriv", f"--reuid={uid}", f"--regid={uid}", extra, "--", "sh", "-ec", script],
        cwd=here,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the errno is what matters
        call()
    return errno.errorcode[caught.value.errno or 0]


class TestOwnership:
    def test_what_is_made_belongs_to_its_maker(self, here: Path) -> None:
        shell(here, "echo x > f; mkdir d; mkfifo p; ln -s f l")
        for name in ("f", "d", "p", "l"):
            found = (here / name).lstat()
            assert (found.st_uid, found.st_gid) == (NOBODY, NOBODY)

    def test_the_callers_umask_counts_once(self, here: Path) -> None:
        made = shell(here, "umask 027; touch f; mkdir d; mkfifo p; stat -c %a f d p")
        assert made.split() == ["640", "750", "640"]
        made = shell(here, "umask 0; touch f0; mkdir d0; stat -c %a f0 d0")
        assert made.split() == ["666", "777"]

    def test_set_id_bits_survive_creation(self, here: Path) -> None:
        before = os.umask(0)
        try:
            os.close(os.open(here / "f", os.O_CREAT | os.O_WRONLY, 0o4755))
        finally:
            os.umask(before)
        assert stat.S_IMODE((here / "f").stat().st_mode) == 0o4755

    def test_a_setgid_directory_hands_its_group_on(self, here: Path) -> None:
        os.chown(here, 0, 50)
        here.chmod(0o2777)
        shell(here, "umask 022; touch f; mkdir d")
        assert (here / "f").stat().st_gid == 50
        assert ((here / "d").stat().st_gid, stat.S_IMODE((here / "d").stat().st_mode)) == (
            50,
            0o2755,
        )

    def test_supplementary_groups_let_in(self, here: Path) -> None:
        os.chown(here, 0, 60)
        here.chmod(0o770)
        shell(here, "echo x > f; rm f; touch g", groups="60")
        found = (here / "g").stat()
        assert (found.st_uid, found.st_gid) == (NOBODY, NOBODY)

    def test_a_chown_that_changes_nothing_is_still_a_change(self, here: Path) -> None:
        (here / "f").touch()
        before = (here / "f").stat().st_ctime_ns
        for _ in range(2000):  # the clock of a file system may stand still for some milliseconds
            os.chown(here / "f", -1, -1)
        assert (here / "f").stat().st_ctime_ns != before

    def test_permissions_hold_for_others(self, here: Path) -> None:
        (here / "secret").write_text("x")
        (here / "secret").chmod(0o600)
        shell(here, "! cat secret 2>/dev/null; ! echo x 2>/dev/null > secret")

    def test_a_write_by_another_user_takes_the_set_id_bits(self, here: Path) -> None:
        (here / "f").write_text("x")
        (here / "f").chmod(0o6777)
        shell(here, "echo y >> f")
        assert stat.S_IMODE((here / "f").stat().st_mode) == 0o777

    @pytest.mark.parametrize(("groups", "left"), [("", "767"), ("60", "2767")])
    @pytest.mark.parametrize("change", ["echo y >> f", ": > f", "truncate -s 1 f"])
    def test_the_set_group_bit_of_what_its_group_may_not_run_stays_for_members(
        self, here: Path, groups: str, left: str, change: str
    ) -> None:
        (here / "f").write_text("x")
        os.chown(here / "f", 0, 60)
        (here / "f").chmod(0o2767)
        assert shell(here, f"{change}; stat -c %a f", groups=groups).strip() == left

    def test_default_acls_beat_the_umask(self, here: Path) -> None:
        subprocess.run(["setfacl", "-d", "-m", "u::rwx,g::rwx,o::r-x", here], check=True)
        assert shell(here, "umask 077; touch f; stat -c %a f").strip() == "664"

    def test_access_acls_are_enforced(self, here: Path) -> None:
        (here / "f").write_text("x")
        (here / "f").chmod(0o660)
        subprocess.run(["setfacl", "-m", f"u:{NOBODY}:r", here / "f"], check=True)
        assert shell(here, "cat f; ! echo y 2>/dev/null > f") == "x"

    def test_taking_a_permission_away_works_at_once(self, here: Path) -> None:
        (here / "d").mkdir()
        (here / "d/f").write_text("x")
        shell(here, "cat d/f")
        (here / "d").chmod(0)
        shell(here, "! cat d/f 2>/dev/null")


class TestOpenFiles:
    def test_a_read_only_file_is_writable_to_its_creator(self, here: Path) -> None:
        script = "import os; fd = os.open('f', os.O_CREAT|os.O_EXCL|os.O_RDWR, 0); os.write(fd, b'x'); os.ftruncate(fd, 0)"
        shell(here, f'/usr/bin/python3 -c "{script}"')
        assert stat.S_IMODE((here / "f").stat().st_mode) == 0

    def test_appends_and_positional_writes_side_by_side(self, here: Path) -> None:
        a = os.open(here / "f", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(a, b"aaaa")
        b = os.open(here / "f", os.O_RDWR)
        os.pwrite(b, b"B", 0)
        os.write(a, b"c")
        assert os.pread(b, 9, 0) == b"Baaac"
        os.close(a)
        os.close(b)

    def test_a_mapping_through_an_append_descriptor_lands_where_it_belongs(
        self, here: Path
    ) -> None:
        fd = os.open(here / "f", os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.write(fd, b"0123456789")
        with mmap.mmap(fd, 10) as view:
            view[2:4] = b"XX"
        os.fsync(fd)
        os.write(fd, b"!")
        os.close(fd)
        assert (here / "f").read_bytes() == b"01XX456789!"

    def test_every_descriptor_has_its_own_access(self, here: Path) -> None:
        (here / "f").write_bytes(b"abc")
        reader, writer = os.open(here / "f", os.O_RDONLY), os.open(here / "f", os.O_WRONLY)
        os.pwrite(writer, b"Z", 1)
        assert os.pread(reader, 3, 0) == b"aZc"
        assert refusal(lambda: os.write(reader, b"x")) == "EBADF"
        assert refusal(lambda: os.read(writer, 1)) == "EBADF"
        os.close(reader)
        os.close(writer)

    def test_the_old_descriptor_and_a_new_file_of_the_same_name(self, here: Path) -> None:
        old = os.open(here / "f", os.O_RDWR | os.O_CREAT)
        os.write(old, b"old")
        os.unlink(here / "f")
        (here / "f").write_bytes(b"new-data")
        os.ftruncate(old, 0)
        os.pwrite(old, b"XX", 0)
        assert (here / "f").read_bytes() == b"new-data"
        assert os.fstat(old).st_size == 2
        os.close(old)

    def test_replacing_a_file_that_others_open(self, here: Path) -> None:
        (here / "v").write_text("0" * 1000)
        done = threading.Event()

        def replace() -> None:
            for at in range(300):
                (here / f"t{at % 3}").write_text(str(at % 10) * 1000)
                os.rename(here / f"t{at % 3}", here / "v")
            done.set()

        writer = threading.Thread(target=replace)
        writer.start()
        while not done.is_set():
            content = (here / "v").read_text()
            assert len(content) == 1000
            assert len(set(content)) == 1
        writer.join()

    def test_flags_that_are_not_for_the_lower_file(self, here: Path) -> None:
        fd = os.open(here / "f", os.O_RDWR | os.O_CREAT | os.O_DIRECT | os.O_SYNC | os.O_NOATIME)
        with mmap.mmap(-1, 4096) as page:
            page[:3] = b"abc"
            assert os.write(fd, page) == 4096
            assert os.preadv(fd, [page], 0) == 4096
        os.close(fd)

    def test_times_set_before_the_close_stay(self, here: Path) -> None:
        fd = os.open(here / "f", os.O_RDWR | os.O_CREAT)
        os.write(fd, b"x" * 300_000)
        os.utime(fd, ns=(1, 10**18 + 2))
        os.close(fd)
        assert (here / "f").stat().st_mtime_ns == 10**18 + 2

    def test_big_offsets_and_big_writes(self, here: Path) -> None:
        fd = os.open(here / "f", os.O_RDWR | os.O_CREAT)
        os.pwrite(fd, b"END", 5 * 2**30)
        assert (os.fstat(fd).st_size, os.pread(fd, 9, 5 * 2**30)) == (5 * 2**30 + 3, b"END")
        os.ftruncate(fd, 0)
        data = os.urandom(1 << 22)
        assert os.write(fd, data) == len(data)
        assert os.pread(fd, len(data), 0) == data
        os.close(fd)

    def test_many_open_at_once(self, here: Path) -> None:
        fds = [os.open(here / f"f{at}", os.O_WRONLY | os.O_CREAT) for at in range(500)]
        for fd in fds:
            os.write(fd, b"1")
            os.close(fd)
        assert all((here / f"f{at}").stat().st_size == 1 for at in range(500))


class TestListing:
    def test_each_name_once_however_many(self, here: Path) -> None:
        names = {f"some-longer-file-name-{at:05d}" for at in range(3000)}
        for name in names:
            (here / name).touch()
        listed = os.listdir(here)
        assert len(listed) == len(names)
        assert set(listed) == names

    def test_names_taken_while_listing(self, here: Path) -> None:
        for at in range(1000):
            (here / f"f{at}").touch()
        with os.scandir(here) as entries:
            for entry in entries:
                os.unlink(entry.path)
        assert os.listdir(here) == []

    def test_listing_and_stat_agree(self, here: Path) -> None:
        (here / "f").touch()
        (here / "d").mkdir()
        (here / "l").symlink_to("nowhere")
        os.mkfifo(here / "p")
        with socket.socket(socket.AF_UNIX) as unix:
            os.chdir(here)  # the path would be too long for a socket
            try:
                unix.bind("s")
            finally:
                os.chdir("/")
        for entry in os.scandir(here):
            found = os.lstat(entry.path)
            assert entry.inode() == found.st_ino
            assert entry.is_dir(follow_symlinks=False) == stat.S_ISDIR(found.st_mode)
            assert entry.is_symlink() == stat.S_ISLNK(found.st_mode)

    def test_positions_survive_changes(self, here: Path) -> None:
        """Telldir and seekdir, by way of the C library."""
        script = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.opendir.restype = ctypes.c_void_p
libc.readdir64.restype = ctypes.c_void_p
for f in (libc.readdir64, libc.telldir, libc.seekdir, libc.rewinddir, libc.closedir): f.argtypes = [ctypes.c_void_p]
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
libc.telldir.restype = ctypes.c_long
def name(d):
    p = libc.readdir64(d)
    return ctypes.string_at(p + 19).decode() if p else None
for i in range(200): open(f'f{i}', 'w').close()
d = libc.opendir(b'.')
first = [name(d) for _ in range(50)]
at = libc.telldir(d)
rest = []
while (n := name(d)): rest.append(n)
assert sorted(set(first + rest) - {'.', '..'}) == sorted(os.listdir('.'))
for n in first[:20]:
    if n not in ('.', '..'): os.unlink(n)
libc.seekdir(d, at)
again = []
while (n := name(d)): again.append(n)
assert again == rest, (len(again), len(rest))
libc.rewinddir(d)
anew = []
while (n := name(d)): anew.append(n)
assert sorted(set(anew) - {'.', '..'}) == sorted(os.listdir('.'))
assert '.' in anew and '..' in anew
"""
        (here / "script.py").write_text(script)
        shell(here, "/usr/bin/python3 script.py")

    def test_names_that_are_no_text(self, here: Path) -> None:
        raw = os.fsencode(here)
        for name in (
            b"d\xe9j\xe0",
            b"\xff\xfe",
            b"new\nline",
            b"*?[x]",
            b" lead and trail ",
            b"n" * 255,
        ):
            path = raw + b"/" + name
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
            assert name in os.listdir(raw)
            os.unlink(path)
        assert refusal(lambda: os.stat(raw + b"/" + b"n" * 256)) == "ENAMETOOLONG"


class TestNames:
    def test_rename_errors_keep_their_meaning(self, here: Path) -> None:
        for name in ("a/k", "b/k"):
            (here / name).mkdir(parents=True)
        (here / "f").touch()
        assert refusal(lambda: os.rename(here / "a", here / "b")) in {"ENOTEMPTY", "EEXIST"}
        assert refusal(lambda: os.rename(here / "a", here / "a/k/z")) == "EINVAL"
        assert refusal(lambda: os.rename(here / "f", here / "a")) == "EISDIR"
        assert refusal(lambda: os.rename(here / "a", here / "f")) == "ENOTDIR"

    def test_two_names_of_one_file_renamed_onto_each_other(self, here: Path) -> None:
        (here / "p").touch()
        os.link(here / "p", here / "q")
        os.rename(here / "p", here / "q")
        assert sorted(os.listdir(here)) == ["p", "q"]

    def test_a_directory_that_was_removed_while_open(self, here: Path) -> None:
        (here / "d").mkdir()
        fd = os.open(here / "d", os.O_RDONLY)
        os.rmdir(here / "d")
        assert os.fstat(fd).st_nlink == 0
        assert refusal(lambda: os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=fd)) == "ENOENT"
        os.close(fd)

    def test_symlinks_are_kept_as_they_are(self, here: Path) -> None:
        (here / "t").touch()
        os.utime(here / "t", (1, 1))
        os.symlink("/nonexistent/../x", here / "l")
        os.utime(here / "l", (5, 5), follow_symlinks=False)
        os.chown(here / "l", 1, 1, follow_symlinks=False)
        assert os.readlink(here / "l") == "/nonexistent/../x"
        assert ((here / "l").lstat().st_uid, (here / "l").lstat().st_mtime) == (1, 5)

    def test_sparse_files_stay_sparse(self, here: Path) -> None:
        fd = os.open(here / "hole", os.O_CREAT | os.O_RDWR)
        os.ftruncate(fd, 1 << 30)
        assert os.fstat(fd).st_blocks < 100
        os.close(fd)

    def test_an_unnamed_file_is_made_or_refused_so_that_programs_fall_back(
        self, here: Path
    ) -> None:
        answers = {"ENOTSUP", "EISDIR", "made"}
        assert answer(lambda: os.close(os.open(here, os.O_TMPFILE | os.O_RDWR))) in answers
        assert os.listdir(here) == []

    def test_space_is_reserved_or_refused_without_touching_the_data(self, here: Path) -> None:
        (here / "f").write_bytes(b"data")
        fd = os.open(here / "f", os.O_RDWR)
        assert answer(lambda: os.posix_fallocate(fd, 0, 100)) in {"ENOTSUP", "made"}
        assert os.pread(fd, 4, 0) == b"data"
        os.close(fd)


def answer(call: Callable[[], object]) -> str:
    """`made`, or the name of the errno."""
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "made"
