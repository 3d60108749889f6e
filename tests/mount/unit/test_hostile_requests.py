"""No request ends the mount, whatever it says: each is answered, by a value or by an errno.

Requests that no kernel sends: numbers and handles that were never given, odd flags, names, offsets, modes,
and everything in any order.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyfuse3
import pytest
import trio

from leasefs.mount.inodes import CONTROL_NUMBER
from leasefs.mount.operations import CHANGES, READS, Operations
from leasefs.testing.bare_operations import bare_operations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# `readdir` answers through libfuse's own buffer, `init` and `stacktrace` are no requests.
NOT_CALLED = {"readdir", "init", "stacktrace"}
SOON_S = 20.0
NAMES = [
    *(b"f", b"d", b"sub", b"fifo", b"link", b"alias", b"new", b"other", b".leasefs", b".git"),
    *(b"", b".", b"n" * 300, b"\xff\n", b"agent", b"user.k", b"system.x"),
]


@dataclass(frozen=True)
class Caller:
    uid: int
    gid: int
    pid: int
    umask: int


@pytest.fixture
def operations(tmp_path: Path) -> Iterator[Operations]:
    with bare_operations(tmp_path) as (operations, _):
        (tmp_path / "link").symlink_to("/nonexistent")
        os.mkfifo(tmp_path / "fifo")
        os.link(tmp_path / "f", tmp_path / "d/alias")
        yield operations


class Dice:
    """Arguments by the names that pyfuse3 gives them."""

    def __init__(self, operations: Operations, seed: int) -> None:
        self.dice = random.Random(seed)
        self.operations = operations
        self.handles = [0, 1, 2, 2**63]

    def argument(self, name: str) -> Any:
        if "inode" in name and name != "inode_list":
            return self.number()
        if name.startswith("name") or name == "new_name":
            return self.dice.choice(NAMES)
        return getattr(self, name)()

    def number(self) -> int:
        known = [node.number for node in self.operations.tree.inodes]
        odd = [0, 1, 2**40, CONTROL_NUMBER, CONTROL_NUMBER + 1, 2**64 - 1]
        return self.dice.choice([*known * 5, *odd])

    def fh(self) -> int | None:
        return self.dice.choice(self.handles)

    def ctx(self) -> Caller:
        pid = self.dice.choice([0, 1, os.getpid(), 2**31 - 1])
        return Caller(os.getuid(), os.getgid(), pid, self.dice.choice([0, 0o22, 0o777]))

    def flags(self) -> int:
        return self.dice.choice([0, 1, 2, 3, 4, 0o1000, 0o2001, 0o100, 0o200, 2**31 - 1])

    def mode(self) -> int:
        return self.dice.choice([0, 0o644, 0o7777, 0o100644, 0o40755, 0o10600, 0o140600, 2**32 - 1])

    def rdev(self) -> int:
        return self.dice.choice([0, 1, 2**32 - 1])

    def off(self) -> int:
        return self.dice.choice([0, 1, 2**31, 2**63 - 1, -1])

    def size(self) -> int:
        return self.dice.choice([0, 1, 4096, 2**20])

    def buf(self) -> bytes:
        return self.dice.randbytes(self.dice.choice([0, 1, 5000]))

    def value(self) -> bytes:
        return self.dice.randbytes(self.dice.choice([0, 1, 70_000]))

    def target(self) -> bytes:
        return self.dice.choice([b"", b"x", b"/" * 5000, b"\xff"])

    def datasync(self) -> bool:
        return self.dice.random() < 0.5

    def inode_list(self) -> list[tuple[int, int]]:
        return [(self.number(), self.dice.choice([0, 1, 2**40]))]

    def attr(self) -> pyfuse3.EntryAttributes:
        shown = pyfuse3.EntryAttributes()
        shown.st_mode = self.dice.choice([0, 0o100600, 0o7777])
        shown.st_size = self.dice.choice([0, 10, 2**62])
        shown.st_atime_ns = shown.st_mtime_ns = self.dice.choice([0, -(10**18), 2**62])
        return shown

    def fields(self) -> Any:
        wanted = self.dice.sample(["mode", "size", "atime", "mtime"], self.dice.randrange(4))

        class Fields:
            def __getattr__(self, name: str) -> bool:
                return name.removeprefix("update_") in wanted

        return Fields()


def names_of(handler: Any) -> list[str]:
    code = handler.__wrapped__.__code__ if hasattr(handler, "__wrapped__") else handler.__code__
    return list(code.co_varnames[1 : code.co_argcount])


@pytest.mark.trio
@pytest.mark.parametrize("seed", range(20))
async def test_every_request_is_answered(operations: Operations, seed: int) -> None:
    chance = Dice(operations, seed)
    handlers = sorted((READS | CHANGES) - NOT_CALLED)
    answered = refused = 0
    for _ in range(400):
        name = chance.dice.choice(handlers)
        handler = getattr(operations, name)
        if name not in vars(Operations):
            continue  # pyfuse3's own, which says that there is none
        arguments = [chance.argument(wanted) for wanted in names_of(getattr(Operations, name))]
        with trio.fail_after(SOON_S):
            try:
                answer = await handler(*arguments)
            except pyfuse3.FUSEError:
                refused += 1
                continue
        answered += 1
        if isinstance(answer, pyfuse3.FileInfo):
            chance.handles.append(answer.fh)
        elif name == "opendir":
            chance.handles.append(answer)
        elif name == "create":
            chance.handles.append(answer[0].fh)
    assert answered > 20
    assert refused > 20
