"""flock(2), fcntl(2) record locks and open file description locks, between processes of one mount."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
from functools import partial
from typing import TYPE_CHECKING

from suite_runs.checking import all_well, errno_of, in_child, main, well

if TYPE_CHECKING:
    from collections.abc import Callable

_FLOCK = "hhqqi4x"  # struct flock on 64-bit Linux
_OFD_GETLK, _OFD_SETLK, _OFD_SETLKW = (
    36,
    37,
    38,
)  # fcntl.h; Python names them from 3.9 on Linux only
_ROUNDS = 60


def _file(directory: str) -> int:
    return os.open(f"{directory}/f", os.O_RDWR | os.O_CREAT, 0o666)


def _record(fd: int, command: int, kind: int, start: int, length: int) -> tuple[int, ...]:
    given = struct.pack(_FLOCK, kind, os.SEEK_SET, start, length, 0)
    told = fcntl.fcntl(fd, command, given)
    assert isinstance(told, bytes)
    return struct.unpack(_FLOCK, told)


def _refused(call: Callable[[], object]) -> bool:
    said = errno_of(call)
    assert said in {0, errno.EAGAIN, errno.EACCES}, said
    return bool(said)


def _elsewhere(directory: str, call: Callable[[int], object]) -> bool:
    """Whether another process, with a descriptor of its own, may do this."""

    def work() -> None:
        fd = os.open(f"{directory}/f", os.O_RDWR)
        if _refused(lambda: call(fd)):
            os._exit(1)

    return well(in_child(work))


def flock_excludes_another_process(directory: str) -> None:
    fd = _file(directory)
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert not _elsewhere(
        directory, lambda other: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    )
    assert not _elsewhere(
        directory, lambda other: fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    )
    fcntl.flock(fd, fcntl.LOCK_UN)
    assert _elsewhere(directory, lambda other: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB))


def flock_is_shared_and_upgraded(directory: str) -> None:
    fd = _file(directory)
    fcntl.flock(fd, fcntl.LOCK_SH)
    assert _elsewhere(directory, lambda other: fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB))
    assert not _elsewhere(
        directory, lambda other: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    )
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not _elsewhere(
        directory, lambda other: fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    )


def flock_belongs_to_the_open_file(directory: str) -> None:
    fd = _file(directory)
    other = os.open(f"{directory}/f", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert _refused(lambda: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB))
    copy = os.dup(fd)
    os.close(fd)
    assert _refused(lambda: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB))
    os.close(copy)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def flock_of_a_directory(directory: str) -> None:
    fd, other = os.open(directory, os.O_RDONLY), os.open(directory, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert _refused(lambda: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB))


def locks_end_with_their_process(directory: str) -> None:
    fd = _file(directory)
    for take in (
        lambda: fcntl.flock(_file(directory), fcntl.LOCK_EX),
        lambda: fcntl.lockf(_file(directory), fcntl.LOCK_EX),
    ):
        ready, told = os.pipe()

        def hold(take: Callable[[], None] = take, told: int = told) -> None:
            take()
            os.write(told, b"x")
            signal.pause()

        child = in_child(hold)
        os.read(ready, 1)
        os.kill(child, signal.SIGKILL)
        assert not well(child)
        fcntl.flock(fd, fcntl.LOCK_EX)
        fcntl.flock(fd, fcntl.LOCK_UN)
        fcntl.lockf(fd, fcntl.LOCK_EX)
        fcntl.lockf(fd, fcntl.LOCK_UN)


def _lock_anew(directory: str, lock: Callable[[int, int], None]) -> None:
    lock(os.open(f"{directory}/f", os.O_RDWR), fcntl.LOCK_EX)


def _waits(pid: int) -> bool:
    """Whether this process waits for a lock (proc(5), /proc/locks)."""
    with open("/proc/locks", encoding="ascii") as lines:
        return any("->" in line and f" {pid} " in line for line in lines)


def a_waiting_lock_is_woken(directory: str) -> None:
    fd = _file(directory)
    for lock in (fcntl.flock, fcntl.lockf):
        lock(fd, fcntl.LOCK_EX)
        child = in_child(partial(_lock_anew, directory, lock))
        while not _waits(child):
            assert os.waitpid(child, os.WNOHANG) == (0, 0)
        lock(fd, fcntl.LOCK_UN)
        assert well(child)


def a_waiting_lock_is_interrupted(directory: str) -> None:
    fd = _file(directory)

    def interrupted(*_: object) -> None:
        raise InterruptedError

    for lock in (fcntl.flock, fcntl.lockf):
        lock(fd, fcntl.LOCK_EX)

        def wait(lock: Callable[[int, int], None] = lock) -> None:
            signal.signal(signal.SIGALRM, interrupted)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            try:
                lock(os.open(f"{directory}/f", os.O_RDWR), fcntl.LOCK_EX)
            except InterruptedError:
                return
            raise AssertionError("got a lock that is held")

        assert well(in_child(wait))
        lock(fd, fcntl.LOCK_UN)


def record_locks_are_of_ranges(directory: str) -> None:
    fd = _file(directory)
    _record(fd, fcntl.F_SETLK, fcntl.F_WRLCK, 100, 50)
    assert _elsewhere(directory, lambda other: _record(other, fcntl.F_SETLK, fcntl.F_WRLCK, 0, 100))
    assert _elsewhere(directory, lambda other: _record(other, fcntl.F_SETLK, fcntl.F_WRLCK, 150, 0))
    assert not _elsewhere(
        directory, lambda other: _record(other, fcntl.F_SETLK, fcntl.F_RDLCK, 149, 1)
    )
    _record(fd, fcntl.F_SETLK, fcntl.F_UNLCK, 120, 10)
    assert _elsewhere(
        directory, lambda other: _record(other, fcntl.F_SETLK, fcntl.F_WRLCK, 120, 10)
    )
    assert not _elsewhere(
        directory, lambda other: _record(other, fcntl.F_SETLK, fcntl.F_WRLCK, 119, 1)
    )


def the_holder_of_a_record_is_told(directory: str) -> None:
    fd, holder = _file(directory), os.getpid()
    _record(fd, fcntl.F_SETLK, fcntl.F_WRLCK, 7, 5)

    def ask() -> None:
        other = os.open(f"{directory}/f", os.O_RDWR)
        kind, _, start, length, pid = _record(other, fcntl.F_GETLK, fcntl.F_RDLCK, 0, 0)
        assert (kind, start, length, pid) == (fcntl.F_WRLCK, 7, 5, holder)
        assert _record(other, fcntl.F_GETLK, fcntl.F_RDLCK, 20, 0)[0] == fcntl.F_UNLCK

    assert well(in_child(ask))


def any_close_ends_the_records_of_a_process(directory: str) -> None:
    fd = _file(directory)
    fcntl.lockf(fd, fcntl.LOCK_EX)
    os.close(os.open(f"{directory}/f", os.O_RDONLY))
    assert _elsewhere(directory, lambda other: fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB))


def records_are_not_inherited(directory: str) -> None:
    fd = _file(directory)
    fcntl.lockf(fd, fcntl.LOCK_EX)

    def child() -> None:
        assert _refused(lambda: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB))

    assert well(in_child(child))


def a_deadlock_of_records_is_found(directory: str) -> None:
    fd = _file(directory)
    _record(fd, fcntl.F_SETLK, fcntl.F_WRLCK, 0, 1)
    ready, told = os.pipe()

    def other() -> None:
        mine = os.open(f"{directory}/f", os.O_RDWR)
        _record(mine, fcntl.F_SETLK, fcntl.F_WRLCK, 1, 1)
        os.write(told, b"x")
        if errno_of(lambda: _record(mine, fcntl.F_SETLKW, fcntl.F_WRLCK, 0, 1)) == errno.EDEADLK:
            os._exit(7)

    child = in_child(other)
    os.read(ready, 1)
    found_here = errno_of(lambda: _record(fd, fcntl.F_SETLKW, fcntl.F_WRLCK, 1, 1)) == errno.EDEADLK
    _record(fd, fcntl.F_SETLK, fcntl.F_UNLCK, 0, 1)
    found_there = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert found_here != found_there


def records_need_the_right_access(directory: str) -> None:
    os.close(_file(directory))
    reading, writing = (
        os.open(f"{directory}/f", os.O_RDONLY),
        os.open(f"{directory}/f", os.O_WRONLY),
    )
    for fd, kind in ((reading, fcntl.F_WRLCK), (writing, fcntl.F_RDLCK)):
        call = partial(_record, fd, fcntl.F_SETLK, kind, 0, 0)
        assert errno_of(call) == errno.EBADF


def open_file_description_locks(directory: str) -> None:
    fd, other = _file(directory), os.open(f"{directory}/f", os.O_RDWR)
    _record(fd, _OFD_SETLK, fcntl.F_WRLCK, 0, 10)
    assert _refused(lambda: _record(other, _OFD_SETLK, fcntl.F_WRLCK, 9, 1))
    assert _record(other, _OFD_GETLK, fcntl.F_WRLCK, 0, 0)[4] == -1
    os.close(os.open(f"{directory}/f", os.O_RDONLY))
    assert _refused(lambda: _record(other, _OFD_SETLK, fcntl.F_WRLCK, 9, 1))
    os.close(fd)
    _record(other, _OFD_SETLKW, fcntl.F_WRLCK, 0, 10)


def flock_and_records_do_not_meet(directory: str) -> None:
    fd = _file(directory)
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert _elsewhere(directory, lambda other: fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB))


def _counted(directory: str, lock: Callable[[int], None], unlock: Callable[[int], None]) -> None:
    """Four processes count in one file: without exclusion counts get lost."""
    fd = _file(directory)
    os.pwrite(fd, b"%08d" % 0, 0)

    def count() -> None:
        mine = os.open(f"{directory}/f", os.O_RDWR)
        for _ in range(_ROUNDS):
            lock(mine)
            os.pwrite(mine, b"%08d" % (int(os.pread(mine, 8, 0)) + 1), 0)
            unlock(mine)

    children = [in_child(count) for _ in range(4)]
    assert all_well(children)
    assert int(os.pread(fd, 8, 0)) == 4 * _ROUNDS


def counting_under_flock(directory: str) -> None:
    _counted(
        directory,
        lambda fd: fcntl.flock(fd, fcntl.LOCK_EX),
        lambda fd: fcntl.flock(fd, fcntl.LOCK_UN),
    )


def counting_under_records(directory: str) -> None:
    _counted(
        directory,
        lambda fd: fcntl.lockf(fd, fcntl.LOCK_EX),
        lambda fd: fcntl.lockf(fd, fcntl.LOCK_UN),
    )


def counting_under_lock_files(directory: str) -> None:
    """O_EXCL, and link(2) with a look at the count of links, as mail programs do."""
    lock = f"{directory}/lock"

    def take_exclusive(_: int) -> None:
        while True:
            try:
                os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            except FileExistsError:
                continue
            return

    def take_link(_: int) -> None:
        mine = f"{lock}.{os.getpid()}"
        os.close(os.open(mine, os.O_CREAT | os.O_WRONLY))
        while True:
            try:
                os.link(mine, lock)
            except FileExistsError:
                continue
            break
        assert os.stat(mine).st_nlink == 2
        os.unlink(mine)

    _counted(directory, take_exclusive, lambda _: os.unlink(lock))
    _counted(directory, take_link, lambda _: os.unlink(lock))


if __name__ == "__main__":
    main(
        [
            flock_excludes_another_process,
            flock_is_shared_and_upgraded,
            flock_belongs_to_the_open_file,
            flock_of_a_directory,
            locks_end_with_their_process,
            a_waiting_lock_is_woken,
            a_waiting_lock_is_interrupted,
            record_locks_are_of_ranges,
            the_holder_of_a_record_is_told,
            any_close_ends_the_records_of_a_process,
            records_are_not_inherited,
            a_deadlock_of_records_is_found,
            records_need_the_right_access,
            open_file_description_locks,
            flock_and_records_do_not_meet,
            counting_under_flock,
            counting_under_records,
            counting_under_lock_files,
        ]
    )
