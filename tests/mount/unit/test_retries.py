"""Second tries after ESTALE: the requests that the kernel makes, with somebody replacing what is there in between."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyfuse3
import pytest

from leasefs.mount import opening
from leasefs.mount.inodes import Node
from leasefs.mount.retries import Retries
from leasefs.testing.bare_operations import Caller, bare_operations
from leasefs.testing.static_holdings import StaticHoldings, held

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from leasefs.mount.gate import Unsettled
    from leasefs.mount.operations import Operations

ROOT = 1


def thread(number: int) -> Any:
    return Caller(pid=number)


OURS, OTHER = thread(7), thread(8)


@dataclass
class Bench:
    """Operations over a directory in which `f`, `link` and `tree` are replaced beneath."""

    operations: Operations
    holdings: StaticHoldings
    source: Path
    versions: int = 0

    def replace(self) -> None:
        self.versions += 1
        new = self.source / "new"
        new.write_text(f"version {self.versions}")
        os.setxattr(new, "user.version", b"%d" % self.versions)
        new.rename(self.source / "f")
        new.symlink_to(f"version {self.versions}")
        new.rename(self.source / "link")
        new.mkdir()
        (new / "below").write_text(f"version {self.versions}")
        if (self.source / "tree").exists():
            (self.source / "tree").rename(self.source / f"old-{self.versions}")
        new.rename(self.source / "tree")

    async def look(self, name: str, ctx: Any = OURS, above: int = ROOT) -> int:
        return (await self.operations.lookup(above, name.encode(), ctx)).st_ino

    async def look_again(self, name: str = "f") -> int:
        """As the kernel does after a first ESTALE: version 2, of which the number is returned."""
        number = await self.look("f")
        self.replace()
        assert await refused(self.operations.open(number, os.O_RDONLY, OURS)) == errno.ESTALE
        return await self.look(name)


async def refused(call: Awaitable[object]) -> int:
    with pytest.raises(pyfuse3.FUSEError) as caught:
        await call
    return caught.value.errno


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with bare_operations(tmp_path) as (operations, holdings):
        bench = Bench(operations, holdings, tmp_path)
        bench.replace()
        yield bench


async def read(bench: Bench, number: int) -> bytes:
    return await content(bench, (await bench.operations.open(number, os.O_RDONLY, OURS)).fh)


async def content(bench: Bench, handle: int) -> bytes:
    return await bench.operations.read(handle, 0, 99)


async def read_for_writing(bench: Bench, number: int) -> bytes:
    return await content(bench, (await bench.operations.open(number, os.O_RDWR, OURS)).fh)


async def empty_it(bench: Bench, number: int) -> bytes:
    handle = (await bench.operations.open(number, os.O_RDONLY | os.O_TRUNC, OURS)).fh
    assert await content(bench, handle) == b""
    assert (bench.source / "f").read_text() == "version 3"
    return b"version 2"


async def attributes(bench: Bench, number: int) -> bytes:
    assert (await bench.operations.getattr(number, OURS)).st_size == len("version 2")
    return b"version 2"


async def xattr(bench: Bench, number: int) -> bytes:
    assert b"user.version" in await bench.operations.listxattr(number, OURS)
    return b"version " + await bench.operations.getxattr(number, b"user.version", OURS)


async def set_xattr(bench: Bench, number: int) -> bytes:
    await bench.operations.setxattr(number, b"user.version", b"two", OURS)
    assert os.getxattr(bench.source / "f", "user.version") == b"3"
    return b"version 2"


async def link_text(bench: Bench, number: int) -> bytes:
    return bytes(await bench.operations.readlink(number, OURS))


async def below(bench: Bench, number: int) -> bytes:
    return await read(bench, await bench.look("below", above=number))


async def list_it(bench: Bench, number: int) -> bytes:
    handle = await bench.operations.opendir(number, OURS)
    assert (await bench.operations.getattr(number, OURS)).st_nlink
    assert os.listdir(bench.operations.tree.handles.get(handle).fd) == ["below"]  # type: ignore[union-attr]
    return b"version 2"


FILE = (read, read_for_writing, empty_it, attributes, xattr, set_xattr)
CASES = [("f", use) for use in FILE] + [("link", link_text), ("tree", below), ("tree", list_it)]


@pytest.mark.trio
@pytest.mark.parametrize(("name", "use"), CASES)
async def test_what_was_looked_up_again_is_there_for_the_request_that_follows(
    bench: Bench, name: str, use: Callable[[Bench, int], Awaitable[bytes]]
) -> None:
    number = await bench.look_again(name)
    bench.replace()
    assert await use(bench, number) == b"version 2"


@pytest.mark.trio
async def test_whoever_did_not_look_again_gets_what_is_there_now(bench: Bench) -> None:
    """What the kernel remembers may be old; close-to-open consistency is for everybody."""
    number = await bench.look_again()
    bench.replace()
    assert await refused(bench.operations.open(number, os.O_RDONLY, OTHER)) == errno.ESTALE
    assert await read(bench, number) == b"version 2"
    assert await refused(bench.operations.open(number, os.O_RDONLY, OURS)) == errno.ESTALE


@pytest.mark.trio
async def test_the_kernel_takes_nobody_else_there(bench: Bench) -> None:
    first = await bench.operations.lookup(ROOT, b"f", OURS)
    bench.replace()
    await refused(bench.operations.open(first.st_ino, os.O_RDONLY, OURS))
    again = await bench.operations.lookup(ROOT, b"f", OURS)
    other = await bench.operations.lookup(ROOT, b"f", OTHER)
    assert first.entry_timeout > 0
    assert again.entry_timeout == 0
    assert other.entry_timeout > 0


@pytest.mark.trio
async def test_a_lease_is_needed_for_the_name_that_it_had(bench: Bench) -> None:
    bench.holdings.hold([held(1, "d/**")])
    number = await bench.look_again()
    bench.replace()
    assert await refused(bench.operations.open(number, os.O_RDWR, OURS)) == errno.EACCES
    assert await refused(bench.operations.open(number, os.O_TRUNC, OURS)) == errno.EACCES
    assert [record.path for record in bench.holdings.refusals] == [b"f", b"f"]


@pytest.mark.parametrize(("leased", "passes"), [("f", False), ("moved", True)])
@pytest.mark.trio
async def test_what_others_moved_is_judged_where_it_is(
    bench: Bench, leased: str, passes: bool
) -> None:
    bench.holdings.hold([held(1, leased)])
    number = await bench.look_again()
    (bench.source / "f").rename(bench.source / "moved")
    bench.replace()
    opening_it = bench.operations.open(number, os.O_RDWR, OURS)
    if passes:
        await bench.operations.write((await opening_it).fh, 0, b"VERSION")
        assert (bench.source / "moved").read_text() == "VERSION 2"
    else:
        assert await refused(opening_it) == errno.EACCES
        assert (bench.source / "moved").read_text() == "version 2"
    assert (bench.source / "f").read_text() == "version 3"


@pytest.mark.trio
async def test_what_others_moved_stays_one_inode(bench: Bench) -> None:
    """Its number is not in use again while it is held."""
    number = await bench.look_again()
    (bench.source / "f").rename(bench.source / "moved")
    bench.replace()
    assert await bench.look("moved", OTHER) == number
    assert await read(bench, number) == b"version 2"


@pytest.mark.trio
async def test_descriptors_are_few_and_go_with_the_nodes(bench: Bench) -> None:
    retries = Retries(most=16)
    bench.operations.tree.lower.retries = retries
    before = len(os.listdir("/proc/self/fd"))
    numbers = []
    for at in range(100):
        retries.told_stale(at)
        numbers.append(await bench.look("f", thread(at)))
        bench.replace()
    assert len(os.listdir("/proc/self/fd")) == before + 16
    await bench.operations.forget([(number, 100) for number in numbers])
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.trio
async def test_a_file_that_came_and_went_while_it_was_made_is_made(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, times = opening._create, iter(range(9))

    def too_late(*args: Any) -> Any:
        if not next(times):
            raise FileExistsError
        return make(*args)

    monkeypatch.setattr(opening, "_create", too_late)
    info, _ = await bench.operations.create(ROOT, b"made", 0o644, os.O_RDWR, OURS)
    await bench.operations.write(info.fh, 0, b"x")
    assert (bench.source / "made").read_text() == "x"


def node(number: int) -> Node:
    return Node(number, number, 0o100000)


def test_a_second_try_has_its_time_and_its_look_ups() -> None:
    now = [0.0]
    retries = Retries(most=16, now_s=lambda: now[0])
    assert not retries.looks_again(7)
    retries.told_stale(7)
    assert all(retries.looks_again(7) for _ in range(100))
    assert not retries.looks_again(7)
    retries.told_stale(7)
    assert not retries.looks_again(8)
    now[0] += 11
    assert not retries.looks_again(7)
    assert not retries.told


def test_what_nobody_came_for_is_let_go() -> None:
    now = [0.0]
    retries = Retries(most=16, now_s=lambda: now[0])
    old, new = node(2), node(3)
    retries.hold(7, old, os.open("/", os.O_PATH), (node(1), b"f"))
    retries.hold(8, old, os.open("/", os.O_PATH), (node(1), b"f"))
    now[0] += 11
    retries.hold(7, new, os.open("/", os.O_PATH), (node(1), b"g"))
    assert (retries.is_held(old), retries.is_held(new)) == (False, True)
    assert not retries.found_by(8, old)
    retries.served(7, new)
    assert not retries.is_held(new)


def test_two_that_wait_for_one_inode_both_get_it() -> None:
    retries = Retries(most=16)
    wanted = node(2)
    for at in (7, 8):
        retries.hold(at, wanted, os.open("/", os.O_PATH), (node(1), b"f"))
    retries.served(7, wanted)
    assert not retries.found_by(7, wanted)
    assert retries.found_by(8, wanted)
    retries.close()


def test_threads_that_never_come_back_are_forgotten() -> None:
    retries = Retries(most=16)
    for at in range(5_000):
        retries.told_stale(at)
    assert len(retries.told) <= 1024


@pytest.mark.parametrize(("leased", "passes"), [("tree/**", False), ("aside/**", True)])
@pytest.mark.trio
async def test_what_is_made_below_a_directory_that_others_moved_is_judged_where_it_is(
    bench: Bench, leased: str, passes: bool
) -> None:
    bench.holdings.hold([held(1, leased)])
    number = await bench.look_again("tree")
    (bench.source / "tree").rename(bench.source / "aside")
    bench.replace()
    making = bench.operations.mkdir(number, b"made", 0o755, OURS)
    if passes:
        await making
    else:
        assert await refused(making) == errno.EACCES
    assert (bench.source / "aside/made").exists() == passes
    assert not (bench.source / "tree/made").exists()


@pytest.mark.trio
async def test_what_others_move_between_the_check_and_the_open_is_judged_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.holdings.hold([held(1, "f")])
    number = await bench.look_again()
    gate = bench.operations.tree.gate
    admit, times = gate.admit, iter(range(9))

    def too_early(*args: Any) -> Any:
        allowed = admit(*args)
        if not next(times):
            (bench.source / "f").rename(bench.source / "moved")
            bench.replace()
        return allowed

    monkeypatch.setattr(gate, "admit", too_early)
    assert (
        await refused(bench.operations.open(number, os.O_RDWR | os.O_TRUNC, OURS)) == errno.EACCES
    )
    assert (bench.source / "moved").read_text() == "version 2"


class Claiming:
    """A policy that claims: grants what is wanted while somebody else replaces it (`Obtainer`, `Obtaining`)."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.kept: list[int] = []

    def begin(self, pid: int) -> Claiming:
        self.thread = pid
        return self

    async def obtain(self, unsettled: Unsettled) -> None:
        assert unsettled.refused.path == b"f"
        self.bench.replace()
        self.bench.holdings.hold([held(1, "f")])

    def over(self, *, again: bool) -> None:
        if again:
            self.kept.append(self.thread)

    def came_back(self, pid: int) -> None:
        if pid in self.kept:
            self.kept.remove(pid)


@pytest.mark.trio
async def test_a_lease_that_a_write_claimed_is_kept_until_its_thread_has_what_is_there_now(
    bench: Bench,
) -> None:
    number = await bench.look("f")
    bench.replace()
    bench.holdings.hold([])
    claiming = bench.operations.tree.gate.obtainer = Claiming(bench)  # type: ignore[assignment]
    assert await refused(bench.operations.open(number, os.O_RDWR, OURS)) == errno.ESTALE
    assert claiming.kept == [OURS.pid]
    assert await read_for_writing(bench, await bench.look("f")) == b"version 3"
    assert claiming.kept == []


@pytest.mark.trio
@pytest.mark.parametrize("flags", [os.O_RDWR, os.O_WRONLY, os.O_RDONLY | os.O_TRUNC])
async def test_who_claims_by_writing_does_not_write_where_nobody_would_ever_see_it(
    bench: Bench, flags: int
) -> None:
    """What was replaced while the lease was waited for is somebody's older version."""
    bench.operations.tree.gate.obtainer = Claiming(bench)  # type: ignore[assignment]
    number = await bench.look_again()
    bench.replace()
    assert await refused(bench.operations.open(number, flags, OURS)) == errno.ESTALE
    assert (bench.source / "f").read_text() == "version 3"
    assert await read(bench, number) == b"version 2"
