"""Processors are kept awake while requests come in a row, and not a moment longer."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
import trio
import trio.testing

from leasefs.core.settings import CPU_LATENCIES
from leasefs.mount import cpu_latency
from leasefs.mount.cpu_latency import CpuLatency, latency_of


@pytest.fixture
def device(tmp_path: Path) -> Path:
    path = tmp_path / "cpu_dma_latency"
    path.touch()
    return path


def _is_open(path: Path) -> bool:
    links = [Path("/proc/self/fd", fd) for fd in os.listdir("/proc/self/fd")]
    return any(os.path.samefile(link, path) for link in links if link.exists())


def _waits(latency: CpuLatency, count: int) -> None:
    for _ in range(count):
        latency.waited()


@pytest.mark.trio
async def test_it_is_asked_while_there_is_work_and_no_longer(
    device: Path, autojump_clock: trio.testing.MockClock
) -> None:
    latency = CpuLatency(str(device), trio.current_time)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(latency.run)
        for _ in range(2):  # the second time as the first
            assert not _is_open(device)
            for _ in range(5):
                _waits(latency, 100)
                await trio.sleep(0.02)
                assert latency.is_asked
                assert _is_open(device)
            await trio.sleep(0.1)
            assert not latency.is_asked
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_who_looks_around_keeps_nobody_awake(
    device: Path, autojump_clock: trio.testing.MockClock
) -> None:
    latency = CpuLatency(str(device), trio.current_time)
    for _ in range(50):
        _waits(latency, 3)
        await trio.sleep(0.02)
        assert not latency.is_asked


@pytest.mark.trio
async def test_nothing_is_asked_any_more_when_the_mount_ends(device: Path) -> None:
    latency = CpuLatency(str(device), trio.current_time)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(latency.run)
        await trio.testing.wait_all_tasks_blocked()
        _waits(latency, 100)
        assert _is_open(device)
        assert await trio.Path(device).read_bytes() == bytes(4)  # microseconds, 32 bits
        nursery.cancel_scope.cancel()
    assert not _is_open(device)


@pytest.mark.parametrize("device", ["/nonexistent/device", "/dev/full"])
def test_where_it_is_not_permitted_it_is_tried_once(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    latency = CpuLatency(device, lambda: 0.0)
    _waits(latency, 100)
    assert not latency.is_asked
    assert len(os.listdir("/proc/self/fd")) == before
    monkeypatch.setattr(os, "open", lambda *_: pytest.fail("tried again"))
    _waits(latency, 100)


@pytest.mark.parametrize(("word", "level"), [("auto", logging.INFO), ("low", logging.WARNING)])
def test_who_asks_for_it_by_name_is_told_that_it_is_not_permitted(
    word: str, level: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(cpu_latency, "_is_virtual", lambda: True)
    caplog.set_level(logging.INFO, cpu_latency.__name__)
    latency = latency_of(word)
    assert latency is not None
    monkeypatch.setattr(latency, "_device", "/nonexistent/device")
    _waits(latency, 100)
    assert [(one.levelno, "No such file" in one.getMessage()) for one in caplog.records] == [
        (level, True)
    ]


@pytest.mark.parametrize(
    ("processors", "flags", "wanted"),
    [
        (2, "fpu hypervisor sse", True),
        (4, "hypervisor", True),
        (5, "fpu hypervisor sse", False),  # that many would be kept from halting for two at work
        (2, "fpu sse", False),
        (2, "fpu nohypervisor", False),
        (None, "hypervisor", True),
    ],
)
def test_by_itself_it_is_wanted_on_small_virtual_machines(
    monkeypatch: pytest.MonkeyPatch, processors: int | None, flags: str, wanted: bool
) -> None:
    told = f"processor\t: 0\nmodel name\t: hypervisor\nflags\t\t: {flags}\n\nprocessor\t: 1\n"
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: told)
    assert [latency_of(word) is not None for word in CPU_LATENCIES] == [wanted, True, False]


@pytest.mark.parametrize("told", ["", "Processor\t: ARMv8\nFeatures\t: fp\n"])
def test_a_machine_that_does_not_tell_is_none(monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: told)
    assert latency_of("auto") is None
    monkeypatch.undo()
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(cpu_latency, "_CPUINFO", "/nonexistent")
    assert latency_of("auto") is None
