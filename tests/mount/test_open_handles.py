"""What happens to open files when their lease lapses, is lost, or moves (P2, P4, P5)."""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.mounted import Mounted, mounted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.mount, pytest.mark.root]


@pytest.fixture
def mount(place: Path, request: pytest.FixtureRequest) -> Iterator[Mounted]:
    base = place / f"{request.node.name}"
    for name in ("source/in", "source/out", "mount"):
        (base / name).mkdir(parents=True)
    for name in ("in/f", "in/g", "out/f"):
        (base / "source" / name).write_text("old\n")
    with mounted(str(base / "source"), str(base / "mount"), "--lease", "in/**") as child:
        yield child


def refusal(call: Callable[[], object]) -> str:
    """The name of the errno that the call fails with."""
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the errno is what matters
        call()
    return errno.errorcode[caught.value.errno or 0]


def lease(token: int, *globs: str, **more: object) -> dict[str, object]:
    return {"token": token, "globs": globs, **more}


def test_lapsed_lease_refuses_writes_until_it_is_confirmed(mount: Mounted) -> None:
    """P5: a lapsed lease that nobody else has taken is given back with the same token."""
    fd = os.open(f"{mount.root}/in/f", os.O_WRONLY)
    os.write(fd, b"one\n")
    mount.hold(lease(1, "in/**", trusted_for_s=-1))
    assert refusal(lambda: os.write(fd, b"two\n")) == "EACCES"
    assert refusal(lambda: os.ftruncate(fd, 0)) == "EACCES"
    assert refusal(lambda: os.open(f"{mount.root}/in/g", os.O_WRONLY)) == "EACCES"
    assert mount.report()["refusals"][-1]["reason"] == "LAPSED"
    mount.hold(lease(1, "in/**"))
    os.write(fd, b"three\n")
    os.close(fd)
    assert Path(mount.source, "in/f").read_text() == "one\nthree\n"


def test_lapsed_lease_is_confirmed_by_asking_once(mount: Mounted) -> None:
    """P5, after SIGSTOP or suspend: the first write asks the ledger before it is refused."""
    fd = os.open(f"{mount.root}/in/f", os.O_WRONLY)
    mount.tell("confirm", leases=[lease(1, "in/**")])
    mount.hold(lease(1, "in/**", trusted_for_s=-1))
    os.write(fd, b"new\n")
    Path(mount.root, "in/made").write_text("x")
    os.close(fd)
    report = mount.report()
    assert report["asked"] == 1
    assert report["refusals"] == []


def test_trust_ends_by_the_clock_alone(mount: Mounted) -> None:
    """P3: nothing is told to the mount, its own clock ends the trust."""
    mount.hold(lease(1, "in/**", trusted_for_s=60))
    fd = os.open(f"{mount.root}/in/f", os.O_WRONLY)
    os.write(fd, b"one\n")
    mount.tell("ahead", ahead_s=61)
    assert refusal(lambda: os.write(fd, b"two\n")) == "EACCES"
    os.close(fd)


def test_lost_lease_kills_its_handles_for_good(mount: Mounted) -> None:
    """P5: once taken, the old holder is fenced: its open handles get ESTALE."""
    fd = os.open(f"{mount.root}/in/f", os.O_RDWR)
    mount.hold()
    assert refusal(lambda: os.write(fd, b"two\n")) == "ESTALE"
    assert refusal(lambda: os.ftruncate(fd, 0)) == "ESTALE"
    assert os.pread(fd, 10, 0) == b"old\n"
    mount.hold(lease(7, "in/**"))
    assert refusal(lambda: os.write(fd, b"two\n")) == "ESTALE"
    os.close(fd)
    Path(mount.root, "in/f").write_text("anew\n")
    assert [entry["reason"] for entry in mount.report()["refusals"]] == ["LOST"] * 3


def test_inherited_descriptor_dies_with_the_lease(mount: Mounted) -> None:
    fd = os.open(f"{mount.root}/in/f", os.O_WRONLY | os.O_APPEND)
    command = ["bash", "-c", f"read go; echo more >&{fd}"]
    with subprocess.Popen(
        command, pass_fds=[fd], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        mount.hold()
        _, said = child.communicate(b"go\n")
    os.close(fd)
    assert child.returncode != 0
    assert b"tale" in said
    assert Path(mount.source, "in/f").read_text() == "old\n"


def test_proc_fd_of_another_process_is_checked_anew(mount: Mounted) -> None:
    with (
        open(f"{mount.root}/in/f") as file,
        subprocess.Popen(["sleep", "60"], stdin=file) as holder,
    ):
        mount.hold()
        path = f"/proc/{holder.pid}/fd/0"
        assert refusal(lambda: os.open(path, os.O_WRONLY)) == "EACCES"
        holder.kill()


def test_mapped_pages_are_not_written_after_the_loss(mount: Mounted) -> None:
    fd = os.open(f"{mount.root}/in/f", os.O_RDWR)
    view = mmap.mmap(fd, 4)
    view[0:3] = b"one"
    view.flush()
    mount.hold()
    view[0:3] = b"two"
    assert refusal(view.flush) in {"ESTALE", "EIO"}
    view.close()
    os.close(fd)
    assert Path(mount.source, "in/f").read_text() == "one\n"


def test_unlinked_file_stays_usable_and_stays_fenced(mount: Mounted) -> None:
    fd = os.open(f"{mount.root}/in/f", os.O_RDWR)
    os.unlink(f"{mount.root}/in/f")
    os.write(fd, b"still")
    os.ftruncate(fd, 2)
    os.fchmod(fd, 0o600)
    os.utime(fd, ns=(1, 2))
    os.fsync(fd)
    found = os.fstat(fd)
    assert (found.st_nlink, found.st_size, found.st_mode & 0o777, found.st_mtime_ns) == (
        0,
        2,
        0o600,
        2,
    )
    mount.hold()
    assert refusal(lambda: os.write(fd, b"x")) == "ESTALE"
    os.close(fd)


def test_a_renamed_file_follows_the_lease_of_its_new_name(mount: Mounted) -> None:
    """A handle must not outlive the lease over the name that its file has now."""
    mount.hold(lease(1, "in/**"), lease(2, "out/**"))
    fd = os.open(f"{mount.root}/in/f", os.O_WRONLY)
    os.rename(f"{mount.root}/in/f", f"{mount.root}/out/moved")
    os.write(fd, b"one\n")
    assert mount.report()["users"] == [[2, "out/moved", os.getpid()]]
    mount.hold(lease(1, "in/**"))
    assert refusal(lambda: os.write(fd, b"two\n")) == "ESTALE"
    os.close(fd)
    assert Path(mount.source, "out/moved").read_text() == "one\n"


def test_a_file_in_a_renamed_directory_follows_as_well(mount: Mounted) -> None:
    mount.hold(lease(1, "in", "in/**"), lease(2, "other", "other/**"))
    fd = os.open(f"{mount.root}/in/f", os.O_WRONLY)
    os.rename(f"{mount.root}/in", f"{mount.root}/other")
    os.write(fd, b"one\n")
    mount.hold(lease(1, "in", "in/**"))
    assert refusal(lambda: os.write(fd, b"two\n")) == "ESTALE"
    os.close(fd)
    assert Path(mount.source, "other/f").read_text() == "one\n"


def test_open_write_handles_keep_the_lease_and_readers_do_not(mount: Mounted) -> None:
    """P4: a lease lives as long as it is used; a file merely open for reading does not count."""
    reader = os.open(f"{mount.root}/in/f", os.O_RDONLY)
    assert mount.report()["users"] == []
    writer = os.open(f"{mount.root}/in/f", os.O_WRONLY)
    assert mount.report()["users"] == [[1, "in/f", os.getpid()]]
    os.close(writer)
    wait_until(lambda: mount.report()["users"] == [])
    os.close(reader)


def wait_until(condition: Callable[[], bool]) -> None:
    """RELEASE comes after close(2) returned: poll for it."""
    for _ in range(1000):
        if condition():
            return
        os.sched_yield()
    raise AssertionError("did not happen")


def test_shared_leases_let_nobody_write(mount: Mounted) -> None:
    mount.hold(lease(1, "in/**", mode="shared"))
    assert refusal(lambda: os.open(f"{mount.root}/in/f", os.O_WRONLY)) == "EACCES"


def test_every_denied_way_is_recorded_once(mount: Mounted) -> None:
    """P10, P11: a refusal names path, operation, process and reason."""
    for call in (
        lambda: os.open(f"{mount.root}/out/f", os.O_WRONLY),
        lambda: os.unlink(f"{mount.root}/out/f"),
        lambda: os.chmod(f"{mount.root}/out/f", 0o600),
    ):
        assert refusal(call) == "EACCES"
    told = [(r["op"], r["path"], r["reason"], r["pid"]) for r in mount.report()["refusals"]]
    me = os.getpid()
    assert told == [
        ("open for writing", "out/f", "NOT_LEASED", me),
        ("unlink", "out/f", "NOT_LEASED", me),
        ("chmod", "out/f", "NOT_LEASED", me),
    ]


def test_a_file_whose_leased_name_was_removed_is_judged_by_the_names_it_has_left(
    mount: Mounted,
) -> None:
    """The kernel never looked up the other name, and goes on telling the removed one."""
    os.link(f"{mount.source}/out/f", f"{mount.source}/in/alias")
    mount.hold(lease(1, "in/**"), lease(2, "out/**"))
    fd = os.open(f"{mount.root}/in/alias", os.O_WRONLY)
    os.unlink(f"{mount.root}/in/alias")
    os.pwrite(fd, b"new\n", 0)
    mount.hold(lease(1, "in/**"), lease(3, "**/* (deleted)"))
    for call in (
        lambda: os.pwrite(fd, b"bad\n", 0),
        lambda: os.ftruncate(fd, 0),
        lambda: os.fchmod(fd, 0o600),
        lambda: os.utime(fd),
    ):
        assert refusal(call) in {"EACCES", "ESTALE"}
    os.close(fd)
    assert Path(mount.source, "out/f").read_text() == "new\n"


def test_a_write_that_does_not_fit_tells_how_much_did(place: Path) -> None:
    """As on a plain directory: a short count first, ENOSPC next (write(2))."""
    base = place / "full"
    for name in ("source", "mount"):
        (base / name).mkdir(parents=True)
    small = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(base / "source")]
    subprocess.run(small, check=True)
    try:
        with mounted(str(base / "source"), str(base / "mount"), "--lease", "**") as child:
            fd = os.open(f"{child.root}/f", os.O_CREAT | os.O_WRONLY)
            done = os.write(fd, b"x" * 1_000_000)
            assert 0 < done < 1_000_000
            assert refusal(lambda: os.write(fd, b"x" * 1_000_000)) == "ENOSPC"
            os.close(fd)
            assert os.stat(f"{child.source}/f").st_size == done
    finally:
        subprocess.run(["umount", str(base / "source")], check=True)
