"""The differences that are known, each with the reason that docs/SEMANTICS.md gives for it."""

from __future__ import annotations

import re

# (suite, regular expression over the test's name, reason)
_KNOWN = [
    ("ltp", r"^(fallocate0\d|mremap06)$", "fallocate(2): EOPNOTSUPP"),
    ("ltp", r"^lseek11$", "SEEK_HOLE: the end of the file"),
    ("ltp", r"^openat03$", "O_TMPFILE: EOPNOTSUPP"),
    ("ltp", r"^setxattr03$", "inode flags are set by an ioctl: ENOTTY"),
    ("ltp", r"^linkat02$", "makes 65,000 links: takes longer than its time"),
    ("ltp", r"^(creat05|fcntl12|open04)$", "ENFILE: the daemon's own limit of files"),
]


def known_reason(suite: str, test: str) -> str:
    """Why this test may fail through a mount; empty if it may not."""
    for of_suite, pattern, reason in _KNOWN:
        if of_suite == suite and re.search(pattern, test):
            return reason
    return ""
