"""mmap(2): what is written through a mapping is read by read(2), and the other way round, in every process."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import signal

from suite_runs.checking import errno_of, in_child, main, well

_PAGE = mmap.PAGESIZE


def _file(directory: str, content: bytes = b"") -> int:
    fd = os.open(f"{directory}/f", os.O_RDWR | os.O_CREAT, 0o666)
    os.write(fd, content)
    return fd


def mapped_writes_are_read(directory: str) -> None:
    fd = _file(directory, b"a" * 3 * _PAGE)
    with mmap.mmap(fd, 0) as mapped:
        mapped[10:15] = b"12345"
        assert os.pread(fd, 5, 10) == b"12345"
        with open(f"{directory}/f", "rb") as other:
            assert other.read()[10:15] == b"12345"
        mapped[2 * _PAGE] = ord("z")
    os.close(fd)
    with open(f"{directory}/f", "rb") as other:
        found = other.read()
    assert found[10:15] == b"12345"
    assert found[2 * _PAGE : 2 * _PAGE + 1] == b"z"


def writes_are_seen_in_the_mapping(directory: str) -> None:
    fd = _file(directory, b"a" * _PAGE)
    with mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapped:
        assert mapped[0] == ord("a")
        os.pwrite(fd, b"hello", 0)
        assert mapped[:5] == b"hello"
        other = os.open(f"{directory}/f", os.O_WRONLY)
        os.pwrite(other, b"there", 100)
        os.close(other)
        assert mapped[100:105] == b"there"


def processes_share_a_mapping(directory: str) -> None:
    fd = _file(directory, b"\0" * _PAGE)
    with mmap.mmap(fd, 0) as mapped:

        def write() -> None:
            mine = os.open(f"{directory}/f", os.O_RDWR)
            with mmap.mmap(mine, 0) as theirs:
                theirs[0:4] = b"mine"

        assert well(in_child(write))
        assert mapped[0:4] == b"mine"


def private_changes_stay_private(directory: str) -> None:
    fd = _file(directory, b"a" * _PAGE)
    with mmap.mmap(fd, 0, access=mmap.ACCESS_COPY) as mapped:
        mapped[0:3] = b"xyz"
        assert os.pread(fd, 3, 0) == b"aaa"
    with open(f"{directory}/f", "rb") as other:
        assert other.read(3) == b"aaa"


def a_mapping_outlives_descriptor_and_name(directory: str) -> None:
    fd = _file(directory, b"a" * _PAGE)
    mapped = mmap.mmap(fd, 0)
    os.close(fd)
    mapped[0:4] = b"1234"
    mapped.flush()
    with open(f"{directory}/f", "rb") as other:
        assert other.read(4) == b"1234"
    os.unlink(f"{directory}/f")
    mapped[4:8] = b"5678"
    mapped.flush()
    assert mapped[0:8] == b"12345678"
    mapped.close()


def a_mapping_grows_with_its_file(directory: str) -> None:
    fd = _file(directory, b"a")
    os.ftruncate(fd, 4 * _PAGE)
    with mmap.mmap(fd, 0) as mapped:
        assert mapped[1:_PAGE] == b"\0" * (_PAGE - 1)
        mapped[3 * _PAGE :] = b"e" * _PAGE
        mapped.flush()
    assert os.pread(fd, 2 * _PAGE, 3 * _PAGE) == b"e" * _PAGE


def bytes_past_the_end_are_not_kept(directory: str) -> None:
    """What a mapping writes between the end and the end of the page never becomes part of the file."""
    fd = _file(directory, b"abc")
    with mmap.mmap(fd, 3) as mapped:
        libc = ctypes.CDLL(None)
        address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
        libc.memset(ctypes.c_void_p(address + 3), ord("x"), 100)
        mapped_flush = libc.msync(ctypes.c_void_p(address), 3, 4)
        assert mapped_flush == 0
        os.ftruncate(fd, 200)
        assert os.pread(fd, 200, 0) == b"abc" + b"\0" * 197
        os._exit(0)  # the exported buffer cannot be closed


def touching_what_was_cut_off_is_sigbus(directory: str) -> None:
    fd = _file(directory, b"a" * 2 * _PAGE)

    def touch() -> None:
        mapped = mmap.mmap(fd, 0)
        os.ftruncate(fd, 1)
        signal.signal(signal.SIGBUS, signal.SIG_DFL)
        mapped[_PAGE + 1]

    assert os.waitstatus_to_exitcode(os.waitpid(in_child(touch), 0)[1]) == -signal.SIGBUS


def cut_and_grown_again_is_zero(directory: str) -> None:
    fd = _file(directory, b"a" * 2 * _PAGE)
    with mmap.mmap(fd, 0) as mapped:
        mapped[100] = ord("b")
        os.ftruncate(fd, 50)
        os.ftruncate(fd, 2 * _PAGE)
        assert mapped[49:52] == b"a\0\0"
        assert mapped[_PAGE:] == b"\0" * _PAGE


def writable_mappings_need_a_writable_descriptor(directory: str) -> None:
    os.close(_file(directory, b"a"))
    reading = os.open(f"{directory}/f", os.O_RDONLY)
    mmap.mmap(reading, 0, mmap.MAP_SHARED, mmap.PROT_READ).close()
    mmap.mmap(reading, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE).close()
    both = mmap.PROT_READ | mmap.PROT_WRITE
    assert errno_of(lambda: mmap.mmap(reading, 0, mmap.MAP_SHARED, both)) == errno.EACCES


def code_is_mapped_and_run(directory: str) -> None:
    with open("/bin/true", "rb") as program, open(f"{directory}/program", "wb") as copy:
        copy.write(program.read())
    os.chmod(f"{directory}/program", 0o755)
    assert os.spawnl(os.P_WAIT, f"{directory}/program", "program") == 0


def a_running_program_is_not_written(directory: str) -> None:
    with open("/bin/sleep", "rb") as program, open(f"{directory}/program", "wb") as copy:
        copy.write(program.read())
    os.chmod(f"{directory}/program", 0o755)
    child = os.spawnl(os.P_NOWAIT, f"{directory}/program", "program", "100")
    try:
        while os.readlink(f"/proc/{child}/exe") != f"{directory}/program":
            pass
        assert errno_of(lambda: os.open(f"{directory}/program", os.O_WRONLY)) == errno.ETXTBSY
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def synchronized_pages_are_in_the_file(directory: str) -> None:
    """Many pages, written in random order through a mapping, are all there after msync(2)."""
    pages = 200
    fd = _file(directory, b"\0" * pages * _PAGE)
    with mmap.mmap(fd, 0) as mapped:
        for step in range(pages):
            page = step * 77 % pages
            mapped[page * _PAGE : page * _PAGE + 4] = b"%04d" % page
        mapped.flush()
    direct = os.open(f"{directory}/f", os.O_RDONLY)
    for page in range(pages):
        assert os.pread(direct, 4, page * _PAGE) == b"%04d" % page


def mapped_writes_change_the_times(directory: str) -> None:
    fd = _file(directory, b"a" * _PAGE)
    os.utime(fd, ns=(10**18, 10**18))
    with mmap.mmap(fd, 0) as mapped:
        mapped[0] = ord("b")
        mapped.flush()
    assert os.fstat(fd).st_mtime_ns != 10**18


if __name__ == "__main__":
    main(
        [
            mapped_writes_are_read,
            writes_are_seen_in_the_mapping,
            processes_share_a_mapping,
            private_changes_stay_private,
            a_mapping_outlives_descriptor_and_name,
            a_mapping_grows_with_its_file,
            bytes_past_the_end_are_not_kept,
            touching_what_was_cut_off_is_sigbus,
            cut_and_grown_again_is_zero,
            writable_mappings_need_a_writable_descriptor,
            code_is_mapped_and_run,
            a_running_program_is_not_written,
            synchronized_pages_are_in_the_file,
            mapped_writes_change_the_times,
        ]
    )
