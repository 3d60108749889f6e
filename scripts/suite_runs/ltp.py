"""LTP's tests of the system calls that a file system answers, each in a temporary directory of its own."""

from __future__ import annotations

import glob
import os
import re
from typing import TYPE_CHECKING

from suite_runs.fetched import built
from suite_runs.outcome import OK, SKIPPED, Outcomes

if TYPE_CHECKING:
    from suite_runs.places import Place

_URL = "https://github.com/linux-test-project/ltp"
_CALLS = """
    access chdir chmod chown close_range copy_file_range creat dup dup2 execve execveat
    fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr
    flistxattr flock fremovexattr fsetxattr fstat fstatat fstatfs fsync ftruncate getcwd
    getdents getxattr inotify lchown lgetxattr link linkat listxattr llistxattr llseek lockf
    lremovexattr lseek lstat madvise mkdir mkdirat mknod mknodat mmap mremap msync open openat
    openat2 pread preadv preadv2 pwrite pwritev pwritev2 read readahead readdir readlink
    readlinkat readv removexattr rename renameat renameat2 rmdir sendfile setxattr splice stat
    statfs statvfs statx symlink symlinkat sync sync_file_range syncfs tee truncate umask
    unlink unlinkat utime utimensat utimes vmsplice write writev
""".split()  # noqa: SIM905 - a hundred lines of list say no more
_SYSCALLS = "testcases/kernel/syscalls"
_STEPS = [
    ["make", "autotools"],
    ["./configure"],
    ["make", "-C", "lib"],
    ["make", "-C", "libs"],
    # Some calls have no tests in some versions, and some tests need headers that are not here.
    ["sh", "-c", f"for call in {' '.join(_CALLS)}; do make -k -C {_SYSCALLS}/$call || true; done"],
]
# These make file systems of their own, on a loop device, and test those.
_ELSEWHERE = re.compile(r"all_filesystems|mount_device|needs_device|needs_rofs|format_device")
# include/tst_res_flags.h: TCONF
_NOT_HERE = 32


def run(place: Place) -> Outcomes:
    """Run every test that runs in the directory it is given."""
    suite = built("ltp", _URL, place.settings.work, f"{_SYSCALLS}/writev/writev01", _STEPS)
    found: Outcomes = {}
    for source in sorted(
        path for call in _CALLS for path in glob.glob(f"{suite}/{_SYSCALLS}/{call}/*.c")
    ):
        program = source.removesuffix(".c")
        name = os.path.basename(program)
        if not os.access(program, os.X_OK) or not re.search(place.settings.only, name):
            continue
        with open(source, encoding="utf-8", errors="replace") as text:
            if _ELSEWHERE.search(text.read()):
                continue
        found[name] = _outcome(place, program)
    return found


def _outcome(place: Place, program: str) -> str:
    directory = os.path.dirname(program)
    env = {
        "TMPDIR": place.path,
        "PATH": f"{directory}:{os.environ['PATH']}",
        "LTP_COLORIZE_OUTPUT": "0",
        # Races are tried for seconds, not for minutes.
        "LTP_RUNTIME_MUL": "0.05",
    }
    status, said = place.run([program], timeout_s=40, env=env)
    if status == 0:
        return OK
    if status == _NOT_HERE:
        return SKIPPED
    wrong = [line for line in said.splitlines() if re.search(r"TFAIL|TBROK", line)]
    return f"exit status {status}: {' | '.join(wrong[:3]) or said[-300:]}"
