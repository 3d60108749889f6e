"""Random damage to the file or its WAL: right events or a refusal, nothing third."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import pytest

from leasefs.store.errors import StoreFileError
from leasefs.store.port import Entry, Snapshot
from leasefs.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EVENTS, IN_WAL = 200, 20
FILES = ("", "-wal", ".head")


def event(seq: int) -> bytes:
    return b'{"seq":%d,"path":"%b"}' % (seq, b"p" * 280)


@pytest.fixture
def sound(tmp_path: Path) -> dict[str, bytes]:
    """What a kill -9 leaves of a ledger whose last 20 events are in the WAL alone."""
    path = tmp_path / "sound.db"
    store = SqliteStore(path)
    store.append(0, [event(seq) for seq in range(1, EVENTS - IN_WAL + 1)])
    store.save_snapshot(Snapshot(100, b"state at 100"))
    store.close()
    store = SqliteStore(path)
    for seq in range(EVENTS - IN_WAL, EVENTS):
        store.append(seq, [event(seq + 1)])
    files = {suffix: path.with_name(path.name + suffix).read_bytes() for suffix in FILES}
    store.close()
    return files


MUTATIONS: dict[str, Callable[[bytearray, random.Random], None]] = {
    "one byte": lambda raw, rng: raw.__setitem__(rng.randrange(len(raw)), rng.randrange(256)),
    "a sector zeroed": lambda raw, rng: overwrite(raw, rng, bytes(512)),
    "a page of noise": lambda raw, rng: overwrite(raw, rng, rng.randbytes(4096)),
    "cut": lambda raw, rng: raw.__delitem__(slice(rng.randrange(len(raw)), None)),
}


def overwrite(raw: bytearray, rng: random.Random, block: bytes) -> None:
    at = rng.randrange(len(raw) // len(block)) * len(block)
    raw[at : at + len(block)] = block


@pytest.mark.parametrize("damaged", ["", "-wal"], ids=["file", "wal"])
@pytest.mark.parametrize("kind", MUTATIONS)
def test_random_damage_never_yields_a_wrong_event_nor_loses_one(
    sound: dict[str, bytes], tmp_path: Path, kind: str, damaged: str
) -> None:
    rng = random.Random(kind + damaged)
    refusals = 0
    for round_ in range(40):
        directory = tmp_path / str(round_)
        directory.mkdir()
        files = {suffix: bytearray(content) for suffix, content in sound.items()}
        MUTATIONS[kind](files[damaged], rng)
        for suffix, content in files.items():
            (directory / f"ledger.db{suffix}").write_bytes(content)
        refusals += not opens_and_reads_whole(directory, files)
        shutil.rmtree(directory)
    assert refusals > 0


def opens_and_reads_whole(directory: Path, files: dict[str, bytearray]) -> bool:
    """False if refused, then with every file as it was."""
    try:
        store = SqliteStore(directory / "ledger.db")
    except StoreFileError:
        for suffix, content in files.items():
            assert (directory / f"ledger.db{suffix}").read_bytes() == content
        return False
    try:
        expected = [Entry(seq, event(seq)) for seq in range(1, EVENTS + 1)]
        assert store.head() == EVENTS
        assert store.read(0, EVENTS + 1) == expected
    except StoreFileError:
        assert store.verify().problems
        return False
    finally:
        store.close()
    return True
