"""What loses its last name through the mount while somebody beneath puts something else at that name."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest
from pyfuse3 import FUSEError

from leasefs.testing.bare_operations import bare_operations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from leasefs.mount.operations import Operations

ROOT = 1
MAKES: dict[str, Callable[[Path], object]] = {
    "file": lambda at: at.write_text("another"),
    "fifo": os.mkfifo,
    "symlink": lambda at: at.symlink_to("nowhere"),
}
TAKES: dict[str, Callable[[Operations], Any]] = {
    "unlink": lambda ops: ops.unlink(ROOT, b"f", Caller()),
    "rename": lambda ops: ops.rename(ROOT, b"other", ROOT, b"f", 0, Caller()),
}


class Caller:
    """Duck-typed RequestContext."""

    uid, gid, pid, umask = os.getuid(), os.getgid(), os.getpid(), 0o022


@pytest.fixture
def operations(tmp_path: Path) -> Iterator[Operations]:
    with bare_operations(tmp_path) as (operations, _):
        (tmp_path / "other").write_text("other")
        yield operations


@pytest.mark.trio
@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("take", TAKES)
async def test_a_file_is_never_told_as_what_took_its_name_at_that_moment(
    operations: Operations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, take: str, make: str
) -> None:
    """Of another kind, the kernel would answer EIO to whoever is on the way to the file (fuse_make_bad)."""
    number = (await operations.lookup(ROOT, b"f", Caller())).st_ino
    gate = operations.tree.gate
    admit = gate.admit

    def replaced_meanwhile(*args: Any) -> Any:
        allowed = admit(*args)
        MAKES[make](tmp_path / "new")
        (tmp_path / "new").rename(tmp_path / "f")
        return allowed

    monkeypatch.setattr(gate, "admit", replaced_meanwhile)
    await TAKES[take](operations)
    monkeypatch.undo()
    for ask in operations.getattr(number, Caller()), operations.open(number, 0, Caller()):
        with pytest.raises(FUSEError) as stale:
            await ask
        assert stale.value.errno == errno.ESTALE


@pytest.mark.trio
@pytest.mark.parametrize("take", TAKES)
async def test_what_lost_its_last_name_is_reached_until_it_is_forgotten(
    operations: Operations, take: str
) -> None:
    number = (await operations.lookup(ROOT, b"f", Caller())).st_ino
    await TAKES[take](operations)
    assert (await operations.getattr(number, Caller())).st_nlink == 0
    handle = (await operations.open(number, 0, Caller())).fh
    assert await operations.read(handle, 0, 9) == b"f"
    await operations.release(handle)
    await operations.forget([(number, 1)])
