"""Opening files, without a kernel in between: what is judged, and what is kept open for it."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyfuse3
import pytest

from leasefs.testing.bare_operations import Caller, bare_operations
from leasefs.testing.static_holdings import StaticHoldings, held

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from leasefs.mount.operations import Operations

pytestmark = pytest.mark.trio

ROOT = 1
TRUNCATING = os.O_WRONLY | os.O_TRUNC


CALLER: Any = Caller()


@dataclass
class Bench:
    """Operations over a directory."""

    operations: Operations
    holdings: StaticHoldings
    source: Path

    async def look(self, path: str) -> int:
        number = ROOT
        for name in path.split("/"):
            number = (await self.operations.lookup(number, name.encode(), CALLER)).st_ino
        return number

    async def errno_of_open(self, number: int, flags: int) -> int:
        with pytest.raises(pyfuse3.FUSEError) as caught:
            await self.operations.open(number, flags, CALLER)
        return int(caught.value.errno)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with bare_operations(tmp_path) as (operations, holdings):
        yield Bench(operations, holdings, tmp_path)


@pytest.mark.parametrize("flags", [TRUNCATING, os.O_WRONLY, os.O_RDONLY | os.O_TRUNC])
async def test_a_name_that_was_given_beneath_counts_before_anything_changes(
    bench: Bench, flags: int
) -> None:
    """P2: "writing through an alias of an unleased file is refused wherever the alias lies"."""
    bench.holdings.hold([held(1, "d/**")])
    number = await bench.look("d/f")
    os.link(bench.source / "d/f", bench.source / "alias")
    assert await bench.errno_of_open(number, flags) == errno.EACCES
    assert (bench.source / "alias").read_text() == "d/f"
    # All of its names are leased.
    bench.holdings.hold([held(1, "**")])
    opened = await bench.operations.open(number, flags, CALLER)
    await bench.operations.release(opened.fh)


async def test_a_file_that_is_gone_is_looked_up_again_and_nobody_is_refused(bench: Bench) -> None:
    number = await bench.look("d/f")
    bench.holdings.hold([])
    (bench.source / "d/f").unlink()
    assert await bench.errno_of_open(number, os.O_WRONLY) == errno.ESTALE
    assert not bench.holdings.refusals


async def test_a_file_that_moved_beneath_is_not_written_by_its_old_name(bench: Bench) -> None:
    bench.holdings.hold([held(1, "d/**")])
    number = await bench.look("d/f")
    (bench.source / "d/f").rename(bench.source / "theirs")
    assert await bench.errno_of_open(number, TRUNCATING) == errno.ESTALE
    assert (bench.source / "theirs").read_text() == "d/f"


async def test_a_created_file_is_noted_again_in_the_next_epoch(bench: Bench) -> None:
    """The first write after a create has nothing to note; one after somebody asked what changed has."""
    changes = bench.operations.tree.changes
    changes.cover()
    file, _ = await bench.operations.create(ROOT, b"n", 0o100644, os.O_WRONLY, CALLER)
    weak = changes.number_of(changes.answer(0).partition(b"\0")[0])
    asked = changes.number_of(changes.answer(weak, []).partition(b"\0")[0])
    await bench.operations.write(file.fh, 0, b"x")
    assert changes.answer(asked).split(b"\0")[1:-1] == [b"n"]


async def test_what_is_given_up_is_not_what_is_on_the_way(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without room for another descriptor the oldest directory goes, unless the next is opened through it."""
    tree = bench.operations.tree
    (bench.source / "other").mkdir()
    wanted = await bench.look("d/sub")
    for path in ("d", "other"):
        tree.lower.directory(tree.node(await bench.look(path)))
    open_ = os.open

    def once_without_room(path: Any, flags: int, mode: int = 0o777, **at: Any) -> int:
        if path == b"sub":
            monkeypatch.setattr(os, "open", open_)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return open_(path, flags, mode, **at)

    monkeypatch.setattr(os, "open", once_without_room)
    found = os.fstat(tree.lower.directory(tree.node(wanted)))
    assert found.st_ino == (bench.source / "d/sub").stat().st_ino
