"""What is open, and what has no name any more: as on the plain directory, and given back in the end."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.eventually import eventually
from leasefs.testing.mounted import Mounted, mounted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.mount, pytest.mark.root]

DROP_CACHES = Path("/proc/sys/vm/drop_caches")
# A request that others' work holds up; a second is what a busy machine may take for it.
ANSWERED_WITHIN_S = 1.0


@pytest.fixture(scope="module")
def mount(place: Path) -> Iterator[Mounted]:
    for name in ("source", "mount"):
        (place / name).mkdir()
    with mounted(str(place / "source"), str(place / "mount"), "--lease", "**") as child:
        yield child


@pytest.fixture
def here(mount: Mounted, request: pytest.FixtureRequest) -> Iterator[Path]:
    path = Path(mount.root, "".join(c if c.isalnum() else "-" for c in request.node.name))
    path.mkdir()
    yield path
    shutil.rmtree(path)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the errno is what matters
        call()
    return errno.errorcode[caught.value.errno or 0]


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """This process may have as many open as its hard limit allows."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


class TestGone:
    """Files that lost their names while somebody has them open."""

    def test_is_used_on(self, here: Path) -> None:
        path = here / "f"
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        os.write(fd, b"before")
        path.unlink()
        assert os.fstat(fd).st_nlink == 0
        os.write(fd, b" and after")
        os.ftruncate(fd, 20)
        os.fchmod(fd, 0o600)
        os.utime(fd, ns=(1, 2))
        os.fsync(fd)
        found = os.fstat(fd)
        assert (found.st_size, found.st_mode & 0o777, found.st_mtime_ns) == (20, 0o600, 2)
        assert os.pread(fd, 30, 0) == b"before and after" + bytes(4)
        with open(f"/proc/self/fd/{fd}", "rb") as again:
            assert again.read(6) == b"before"
        assert refusal(lambda: os.link(f"/proc/self/fd/{fd}", here / "g")) in {"ENOENT", "EXDEV"}
        os.close(fd)
        assert os.listdir(here) == []

    def test_a_file_that_another_was_renamed_over(self, here: Path) -> None:
        (here / "old").write_text("old")
        (here / "new").write_text("new")
        with open(here / "old", "r+", encoding="ascii") as held:
            (here / "new").rename(here / "old")
            assert held.read() == "old"
            held.write(" one")
            held.flush()
            assert os.fstat(held.fileno()).st_nlink == 0
            assert (here / "old").read_text() == "new"
            assert (here / "old").stat().st_ino != os.fstat(held.fileno()).st_ino

    def test_the_other_names_stay(self, here: Path) -> None:
        (here / "a").write_text("x")
        (here / "b").hardlink_to(here / "a")
        with open(here / "a", "r+", encoding="ascii") as held:
            (here / "a").unlink()
            held.write("through the first")
            held.flush()
            assert (here / "b").read_text() == "through the first"
            assert os.fstat(held.fileno()).st_nlink == 1
            (here / "b").unlink()
            assert os.fstat(held.fileno()).st_nlink == 0

    def test_each_keeps_its_own_bytes_though_numbers_come_again(self, here: Path) -> None:
        held = []
        for at in range(200):
            fd = os.open(here / "f", os.O_RDWR | os.O_CREAT | os.O_EXCL)
            os.write(fd, b"%d" % at)
            (here / "f").unlink()
            if at % 2:
                os.close(fd)
            else:
                held.append((at, fd))
        numbers = {os.fstat(fd).st_ino for _, fd in held}
        assert len(numbers) == len(held)
        for at, fd in held:
            assert os.pread(fd, 9, 0) == b"%d" % at
            os.close(fd)

    def test_a_directory_that_somebody_stands_in(self, here: Path) -> None:
        """What a plain directory answers to the same, each in turn."""
        program = (
            "import errno, os, sys\n"
            "def answer(call):\n"
            "    try: return repr(call())\n"
            "    except OSError as error: return errno.errorcode[error.errno]\n"
            "os.rmdir('../sub')\n"
            "for call in (os.getcwd, lambda: os.listdir('.'), lambda: os.stat('.').st_nlink,\n"
            "             lambda: os.open('f', os.O_CREAT), lambda: os.mkdir('d'), lambda: os.stat('f'),\n"
            "             lambda: os.stat('..').st_nlink > 0): print(answer(call))"
        )
        said = []
        for directory in (here, Path(mounted_beneath(here))):
            (directory / "sub").mkdir()
            command = ["python3", "-c", program]
            done = subprocess.run(
                command, cwd=directory / "sub", capture_output=True, text=True, check=True
            )
            said.append(done.stdout)
        assert said[0] == said[1]


def mounted_beneath(here: Path) -> str:
    """The same directory, seen past the mount; its names differ, so tests may make both."""
    beneath = here.parent.parent / "source" / (here.name + "-plain")
    beneath.mkdir()
    return str(beneath)


class TestNothingGrows:
    """What was forgotten by the kernel is forgotten by the mount."""

    @pytest.mark.parametrize(
        "count", [10_000, pytest.param(1_000_000, marks=pytest.mark.long)], ids=["few", "million"]
    )
    def test_over_creates_and_deletes(self, mount: Mounted, here: Path, count: int) -> None:
        churn(here, 2_000)
        before = settled(mount)
        churn(here, count)
        after = settled(mount)
        assert after["nodes"] <= before["nodes"] + 50
        assert after["descriptors"] <= before["descriptors"] + 10
        assert after["resident_kib"] <= before["resident_kib"] + 6_000

    def test_over_open_files(self, mount: Mounted, here: Path) -> None:
        before = settled(mount)
        for _ in range(3):
            held = [os.open(here / f"{at}", os.O_RDWR | os.O_CREAT) for at in range(300)]
            for at in range(300):
                (here / f"{at}").unlink()
            for fd in held:
                os.close(fd)
        # Closes are told after they have returned.
        most = before["descriptors"] + 10
        eventually(lambda: settled(mount)["descriptors"] <= most)
        assert mount.report()["users"] == before["users"]


def churn(here: Path, count: int) -> None:
    """Make and remove, in every way there is."""
    directory = os.open(here, os.O_RDONLY | os.O_DIRECTORY)
    for at in range(count // 5):
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=directory))
        if at % 8 == 0:
            os.link("f", "g", src_dir_fd=directory, dst_dir_fd=directory)
            os.unlink("g", dir_fd=directory)
        os.symlink("x", "l", dir_fd=directory)
        os.rename("l", "f", src_dir_fd=directory, dst_dir_fd=directory)
        os.unlink("f", dir_fd=directory)
        os.mkdir("d", dir_fd=directory)
        os.close(os.open("d/f", os.O_CREAT | os.O_WRONLY, dir_fd=directory))
        os.unlink("d/f", dir_fd=directory)
        os.rmdir("d", dir_fd=directory)
    os.close(directory)


def settled(mount: Mounted) -> dict[str, int]:
    """The report once the kernel has let go of all it does not need."""
    with contextlib.suppress(OSError):
        DROP_CACHES.write_text("2")
    os.listdir(mount.root)
    return mount.report()


class TestMany:
    def test_thousands_are_open_at_once(
        self, mount: Mounted, here: Path, many_descriptors: None
    ) -> None:
        """More than the usual soft limit of 1,024: the daemon raises its own."""
        held = [os.open(here / f"{at}", os.O_RDWR | os.O_CREAT) for at in range(3_000)]
        for at, fd in enumerate(held):
            os.pwrite(fd, b"%d" % at, 0)
        assert all(os.pread(fd, 9, 0) == b"%d" % at for at, fd in enumerate(held))
        for fd in held:
            os.close(fd)

    def test_at_the_hard_limit_all_but_opening_goes_on(
        self, place: Path, many_descriptors: None
    ) -> None:
        """Whoever opens one too many is told; looking and removing still work, and closing helps."""
        base = place / "limit"
        for name in ("source/d", "source/far", "mount"):
            (base / name).mkdir(parents=True)
        for at in range(600):
            (base / f"source/d/{at}").write_text(str(at))
            (base / f"source/far/{at}").mkdir()
        here = base / "mount/d"
        flags = ("--lease", "**", "--descriptors", "400")
        with mounted(str(base / "source"), str(base / "mount"), *flags) as mount:
            held: list[int] = []

            def open_all() -> None:
                for at in range(600):
                    held.append(os.open(here / str(at), os.O_RDWR))  # noqa: PERF401 - until one is refused

            assert refusal(open_all) == "ENFILE"
            assert len(held) > 200
            assert refusal(lambda: os.listdir(here)) == "ENFILE"
            assert refusal(lambda: os.open(here / "new", os.O_CREAT)) == "ENFILE"
            assert not (here / "new").exists()
            assert all((base / f"mount/far/{at}").is_dir() for at in range(600))
            assert all(not (base / f"mount/far/{at}/f").exists() for at in range(600))
            (here / "599").unlink()
            (here / "0").unlink()
            assert os.pread(held[0], 3, 0) == b"0"
            (here / "598").rename(here / "1")
            assert os.pread(held[1], 3, 0) == b"1"
            (here / "597").chmod(0o600)
            (here / "made").mkdir()
            os.fsync(held[2])
            assert (base / "mount/.leasefs/agent").read_text()
            for fd in held:
                os.close(fd)
            eventually(lambda: mount.report()["descriptors"] < 150)
            assert len(os.listdir(here)) == 598
            assert (here / "1").read_text() == "598"

    @pytest.mark.slow
    def test_a_directory_of_a_hundred_thousand(self, mount: Mounted, here: Path) -> None:
        """Listed, looked at and removed, while others are answered."""
        beneath = Path(mount.source, here.name)
        names = {f"{at:06}" for at in range(100_000)}
        for name in names:
            os.close(os.open(beneath / name, os.O_CREAT))
        (Path(mount.root) / "other").write_text("x")
        slowest = [0.0]
        over = threading.Event()

        def ask() -> None:
            while not over.is_set():
                before_s = time.monotonic()
                assert Path(mount.root, "other").read_text() == "x"
                slowest[0] = max(slowest[0], time.monotonic() - before_s)

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            eventually(lambda: set(os.listdir(here)) == names)
            assert set(os.listdir(here)) == names
            with os.scandir(here) as entries:
                assert sum(entry.stat().st_size == 0 for entry in entries) == len(names)
            subprocess.run(["find", here, "-name", "*7", "-delete"], check=True)
            assert len(os.listdir(here)) == len(names) * 9 // 10
            subprocess.run(["rm", "-r", here], check=True)
            here.mkdir()
        finally:
            over.set()
            asking.join()
            Path(mount.root, "other").unlink()
        assert slowest[0] < ANSWERED_WITHIN_S


@contextlib.contextmanager
def repository_mount(base: Path) -> Iterator[Path]:
    for name in ("source", "mount"):
        (base / name).mkdir(parents=True)
    subprocess.run(["git", "init", "-q", base / "source"], check=True)
    (base / "source/.gitignore").write_text("*.o\n")
    with mounted(str(base / "source"), str(base / "mount"), "--lease", "**"):
        yield base / "mount"


class TestNames:
    def test_longest_and_oddest(self, here: Path) -> None:
        names = [b"x" * 255, b"\xff\xfe\x80", b"\n\t ", b"\xc3\xa9" * 127, b"-rf", b"*", b"\\"]
        for name in names:
            path = os.fsencode(here) + b"/" + name
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
            os.rename(path, path + b"." if len(name) < 250 else path)
        listed = os.listdir(os.fsencode(here))
        assert sorted(listed) == sorted(n + b"." if len(n) < 250 else n for n in names)
        assert refusal(lambda: (here / ("x" * 256)).touch()) == "ENAMETOOLONG"
        assert refusal(lambda: os.stat(here / ("x" * 256))) == "ENAMETOOLONG"

    @pytest.mark.parametrize("repository", [False, True])
    def test_deeper_than_any_path_may_be_long(
        self, mount: Mounted, here: Path, repository: bool
    ) -> None:
        """By chdir(2) one gets anywhere, and so does `rm -r`. No glob is that long: directories stay."""
        script = (
            "set -e; n=$(printf %0200d 7); for i in $(seq 40); do mkdir $n; cd $n; done\n"
            "echo deep > f; echo more >> f; mv f g; ln g h; ln -s g l; chmod 600 g\n"
            "cat g; rm h l; mkdir d; mv d e 2>&1 | sed 's/.*: //'; rmdir d; ls"
        )
        command = ["bash", "-c", script]
        with contextlib.ExitStack() as stack:
            if repository:
                here = stack.enter_context(repository_mount(Path(mount.root).parent / "deep"))
            done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
            removed = subprocess.run(["rm", "-r", here / ("0" * 199 + "7")], check=False)
        assert (done.stderr, done.stdout) == ("", "deep\nmore\nFile name too long\ng\n")
        assert removed.returncode == 0

    def test_fifos_carry_and_sockets_connect(self, here: Path) -> None:
        os.mkfifo(here / "fifo")
        with subprocess.Popen(["cat", here / "fifo"], stdout=subprocess.PIPE) as reader:
            with open(here / "fifo", "wb") as writer:
                writer.write(b"through")
            assert reader.communicate()[0] == b"through"
        place = os.open(here, os.O_RDONLY | os.O_DIRECTORY)
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind(f"/proc/self/fd/{place}/socket")
            server.listen()
            assert stat.S_ISSOCK((here / "socket").lstat().st_mode)
            (here / "socket").rename(here / "moved")
            client.connect(f"/proc/self/fd/{place}/moved")
            other, _ = server.accept()
            with other:
                other.sendall(b"heard")
                assert client.recv(9) == b"heard"
        os.close(place)
        assert refusal(lambda: os.open(here / "moved", os.O_RDONLY)) == "ENXIO"


class TestStreams:
    """Positions in a directory stay where they are, whatever comes and goes."""

    def test_what_was_there_all_along_is_listed_once(self, here: Path) -> None:
        stay = {f"stay-{at:04}-{'x' * 60}" for at in range(400)}
        go = {f"go-{at:04}-{'x' * 60}" for at in range(400)}
        for name in stay | go:
            (here / name).touch()
        seen: list[str] = []
        with os.scandir(here) as entries:
            for at, entry in enumerate(entries):
                seen.append(entry.name)
                if at == 20:
                    for name in go:
                        (here / name).unlink()
                    for new in range(50):
                        (here / f"new-{new}").touch()
        assert len(seen) == len(set(seen))
        assert stay <= set(seen)

    def test_a_descriptor_that_is_read_twice(self, here: Path) -> None:
        for at in range(300):
            (here / str(at)).touch()
        directory = os.open(here, os.O_RDONLY | os.O_DIRECTORY)
        first = os.listdir(directory)
        (here / "0").unlink()
        (here / "new").touch()
        assert set(os.listdir(directory)) == set(first) - {"0"} | {"new"}
        os.close(directory)
